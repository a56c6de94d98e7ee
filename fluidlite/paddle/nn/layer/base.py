"""`Layer`: a part of a model that owns parameters and other layers, and appends its ops when it is called."""

from __future__ import annotations

import functools
import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, is_float, to_vartype
from fluidlite.ir.guarded import guard, guard_start
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layer_helper_base import LayerHelperBase
from fluidlite.paddle import defaults
from fluidlite.paddle.nn.parameters import declared_here, remember_startup
from fluidlite.paddle.programs import begin
from fluidlite.values.scope import global_scope

__all__ = ["Function", "HookRemoveHelper", "Layer", "snake_case"]


def snake_case(name: str) -> str:
    """BatchNorm2D -> batch_norm2d."""
    apart = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", apart).lower()


class HookRemoveHelper:
    """A hook that has been registered; `remove` takes it away."""

    _numbers = itertools.count()  # the id of a helper that nobody holds would come back

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._key = next(self._numbers)
        hooks[self._key] = hook

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        self._hooks.pop(self._key, None)


class Layer:
    """Base of the layers. A subclass makes parameters and sublayers in `__init__`, as attributes, and says in
    `forward` what it computes.

    name_scope: what the names of its parameters begin with; by default the class's, in snake case.
    A layer that is called twice uses the same parameters, also in another program: they are declared there,
    and initialised by the startup program at hand.
    """

    training: bool
    _parameters: dict[str, Any]
    _sub_layers: dict[str, Layer | None]
    _buffers: dict[str, Variable | None]

    def __init__(self, name_scope: str | None = None, dtype: DTypeLike = "float32") -> None:
        begin()
        name = snake_case(type(self).__name__) if name_scope is None else name_scope
        fields = self.__dict__
        # past __setattr__, which looks into these
        fields["_parameters"], fields["_sub_layers"], fields["_buffers"] = {}, {}, {}
        self._number = unique_name.generator.ids[name]
        self._full_name = unique_name.generate(name)
        self._dtype = to_vartype(dtype)
        self._not_saved: set[str] = set()
        # names of weights that are computed from parameters, as a normalised one is
        self._computed: set[str] = set()
        self._pre_hooks: dict[int, Callable[..., Any]] = OrderedDict()
        self._post_hooks: dict[int, Callable[..., Any]] = OrderedDict()
        self.training = True

    # ------------------------------------------------------------------ calls
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The outputs for `inputs`; TypeError unless a subclass defines it."""
        raise TypeError(f"{type(self).__name__} must implement the forward function")

    def __init_subclass__(cls, **others: Any) -> None:
        """Guard the constructor of a layer of this library; those of users' layers are theirs."""
        super().__init_subclass__(**others)
        if cls.__module__.startswith("fluidlite."):
            guard_start(cls)

    @functools.partial(guard, door=__name__, owner="Layer")
    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        begin()
        self._declare()
        for hook in list(self._pre_hooks.values()):
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        outputs = self.forward(*inputs, **kwargs)
        for hook in list(self._post_hooks.values()):
            changed = hook(self, inputs, outputs)
            if changed is not None:
                outputs = changed
        return outputs

    def _declare(self) -> None:
        """Let all parameters and buffers be those of the program at hand."""
        for layer in self.sublayers(include_self=True):
            for held in (layer._parameters, layer._buffers):
                for name, var in held.items():
                    if var is not None:
                        held[name] = declared_here(var)
            for name, value in layer.__dict__.items():
                if isinstance(value, Variable) and value.name in layer._computed:
                    layer.__dict__[name] = declared_here(value)

    def register_forward_pre_hook(self, hook: Callable[[Layer, Any], Any]) -> HookRemoveHelper:
        """Call hook(layer, inputs) before `forward`; what it returns, unless None, are the inputs then."""
        return HookRemoveHelper(self._pre_hooks, hook)

    def register_forward_post_hook(self, hook: Callable[[Layer, Any, Any], Any]) -> HookRemoveHelper:
        """Call hook(layer, inputs, outputs) after `forward`; what it returns, unless None, are the outputs
        then.
        """
        return HookRemoveHelper(self._post_hooks, hook)

    def train(self) -> None:
        """Append the ops of training, in this layer and those inside."""
        self._set_training(True)

    def eval(self) -> None:
        """Append the ops of inference, in this layer and those inside."""
        self._set_training(False)

    def _set_training(self, training: bool) -> None:
        for layer in self.sublayers(include_self=True):
            layer.training = training

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Call fn(layer) for the layers inside and for this one, from the inside out."""
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def full_name(self) -> str:
        """The name that those of its parameters begin with: linear_0."""
        return self._full_name

    # ------------------------------------------------------------------ making and adding
    def create_parameter(
        self,
        shape: Any,
        attr: Any = None,
        dtype: DTypeLike | None = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Any:
        """A parameter named <full name>.w_N (a bias .b_N); None when `attr` is False. It belongs to the layer
        once it is an attribute. Its dtype is the default one (`paddle.set_default_dtype`) if none is given.
        """
        begin()
        helper = LayerHelperBase(self._full_name, snake_case(type(self).__name__))
        kind = defaults.dtype_or_default(dtype)
        made = helper.create_parameter(attr, list(shape), kind, is_bias, default_initializer)
        remember_startup()
        if made is not None and not made.is_parameter:
            self._computed.add(made.name)
        return made

    def create_variable(
        self, name: str | None = None, persistable: bool | None = None, dtype: DTypeLike | None = None
    ) -> Variable:
        """A variable of the program at hand, which an op must fill."""
        begin()
        helper = LayerHelperBase(self._full_name, snake_case(type(self).__name__))
        given = unique_name.generate(f"{self._full_name}._generated_var") if name is None else name
        kind = self._dtype if dtype is None else dtype
        return helper.create_variable(name=given, persistable=bool(persistable), dtype=kind)

    create_tensor = create_variable

    def add_parameter(self, name: str, parameter: Parameter | None) -> Parameter | None:
        """Let `parameter` be the layer's attribute `name`."""
        self._check_new(name, "parameter", self._parameters)
        if parameter is not None and not isinstance(parameter, Variable):
            raise TypeError(
                f"The parameter to be added should be a Parameter, but received {type(parameter).__name__}."
            )
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Layer) -> Layer:
        """Let `sublayer` be the layer's attribute `name`."""
        if not isinstance(sublayer, Layer):
            raise TypeError(
                f"The sublayer to be added should be a Layer, but received {type(sublayer).__name__}."
            )
        self._sub_layers[name] = sublayer
        return sublayer

    def register_buffer(self, name: str, tensor: Variable | None, persistable: bool = True) -> None:
        """Let `tensor`, which is no parameter, be the layer's attribute `name`; a `persistable` one is in the
        state.
        """
        self._check_new(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Variable):
            raise TypeError(
                f"The registered buffer should be a Paddle.Tensor, but received {type(tensor).__name__}."
            )
        self._buffers[name] = tensor
        if not persistable:
            self._not_saved.add(name)

    def _check_new(self, name: Any, what: str, held: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"The name of {what} should be a string, but received {type(name).__name__}.")
        if "." in name:
            raise KeyError(f"The name of {what} can not contain `.`: {name!r}")
        if name == "":
            raise KeyError(f"The name of {what} can not be empty.")
        if name not in held and (name in dir(type(self)) or name in dir(self)):
            raise KeyError(f"The {what} '{name}' already exists.")

    # ------------------------------------------------------------------ attributes
    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_sub_layers", "_buffers"):
            held = self.__dict__.get(kind, {})
            if name in held:
                return held[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        home = _home_of(value)
        if home is None:
            home = next((kind for kind in _HOMES if name in fields.get(kind, ())), None)
            if home is None:
                object.__setattr__(self, name, value)
                return
            if value is not None and not (home == "_buffers" and isinstance(value, Variable)):
                raise TypeError(
                    f"'{name}' of {type(self).__name__} can only be set to a value of the same "
                    f"kind or None, but got {type(value).__name__}"
                )
        if home not in fields:
            raise ValueError(f"super().__init__() should be called first: {type(self).__name__}.{name}")
        for other in (fields, *(fields[kind] for kind in _HOMES if kind != home)):
            other.pop(name, None)
        fields[home][name] = value

    def __delattr__(self, name: str) -> None:
        for kind in _HOMES:
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        held = [name for kind in _HOMES for name in self.__dict__[kind]]
        return [*super().__dir__(), *held]

    # ------------------------------------------------------------------ what is inside
    def children(self) -> Iterator[Layer]:
        """The layers that are attributes of this one."""
        for _, layer in self.named_children():
            yield layer

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """Names and layers that are attributes of this one, each layer once."""
        seen: set[int] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """The layers inside, at any depth."""
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_sublayers(
        self, prefix: str = "", include_self: bool = False, layers_set: set[Layer] | None = None
    ) -> Iterator[tuple[str, Layer]]:
        """Dotted names and layers inside, at any depth, each layer once."""
        seen = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                inside = f"{prefix}.{name}" if prefix else name
                yield from layer.named_sublayers(inside, True, seen)

    def parameters(self, include_sublayers: bool = True) -> list[Any]:
        """The parameters of this layer, and of those inside."""
        return [param for _, param in self.named_parameters(include_sublayers=include_sublayers)]

    def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Any]]:
        """Dotted names and parameters, each parameter once."""
        return self._named("_parameters", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Variable]:
        """The buffers of this layer, and of those inside."""
        return [buffer for _, buffer in self.named_buffers(include_sublayers=include_sublayers)]

    def named_buffers(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Variable]]:
        """Dotted names and buffers, each buffer once."""
        return self._named("_buffers", prefix, include_sublayers)

    def _named(self, kind: str, prefix: str, inside: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        layers = self.named_sublayers(prefix, include_self=True) if inside else iter([(prefix, self)])
        for path, layer in layers:
            for name, var in layer.__dict__[kind].items():
                if var is not None and id(var) not in seen:
                    seen.add(id(var))
                    yield (f"{path}.{name}" if path else name), var

    def __repr__(self) -> str:
        inside = [f"({name}): {layer!r}" for name, layer in self._sub_layers.items()]
        extra = self.extra_repr()
        if not inside:
            return f"{type(self).__name__}({extra})"
        lines = "\n".join(inside).replace("\n", "\n  ")
        return f"{type(self).__name__}({extra}\n  {lines}\n)"

    def extra_repr(self) -> str:
        """The text between the brackets when the layer is printed."""
        return ""

    # ------------------------------------------------------------------ state
    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Any]:
        """Dotted names and variables: parameters, and buffers that are saved. Their values lie in a scope,
        where `paddle.static.save` finds them.
        """
        found: dict[str, Any] = OrderedDict() if destination is None else destination
        prefix = structured_name_prefix.rstrip(".")
        layers = self.named_sublayers(prefix, True) if include_sublayers else iter([(prefix, self)])
        for path, layer in layers:
            start = f"{path}." if path else ""
            for name, param in layer._parameters.items():
                if param is not None:
                    found[start + name] = param
            for name, buffer in layer._buffers.items():
                if buffer is not None and name not in layer._not_saved:
                    found[start + name] = buffer
        return found

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Write values into the global scope; (names that `state_dict` lacks, names that the layer lacks).

        `use_structured_name`: keys are dotted names, else names of parameters. A value of another shape is
        left out, with a warning.
        """
        missing, known = [], set()
        for structured, var in self.state_dict().items():
            key = structured if use_structured_name else var.name
            known.add(key)
            if key not in state_dict:
                missing.append(key)
                continue
            value = _value_of(state_dict[key])
            if tuple(value.shape) != tuple(var.shape):
                warn_user(
                    f"Skip loading for {key}. {key} receives a shape {list(value.shape)}, but the expected "
                    f"shape is {list(var.shape)}.",
                    category=UserWarning,
                )
                continue
            global_scope().var(var.name).get_tensor().set(value)
        return missing, [key for key in state_dict if key not in known]

    set_dict = load_dict = set_state_dict

    def to(self, device: Any = None, dtype: DTypeLike | None = None, blocking: bool | None = None) -> Layer:
        """This layer: where a program runs, its executor says. ValueError for another `dtype` than that of
        its parameters, which programs have declared.
        """
        for name, param in self.named_parameters():
            if dtype is not None and is_float(param.dtype) and param.dtype != to_vartype(dtype):
                raise ValueError(
                    f"{type(self).__name__}.to(dtype={dtype!r}): parameter {name!r} is declared as "
                    f"{param.dtype} in a program; create the layer after paddle.set_default_dtype"
                )
        return self

    def astype(self, dtype: DTypeLike | None = None) -> Layer:
        """As `to`."""
        return self.to(dtype=dtype)

    def float(self, excluded_layers: Any = None) -> Layer:
        """As `to`, with float32."""
        return self.to(dtype="float32")

    def clear_gradients(self) -> None:
        """Do nothing: each run of a program computes its gradients anew."""


_HOMES = ("_parameters", "_sub_layers", "_buffers")


def _home_of(value: Any) -> str | None:
    """The dict in which a layer keeps the attribute `value`; None for ordinary ones."""
    if isinstance(value, Parameter):
        return "_parameters"
    return "_sub_layers" if isinstance(value, Layer) else None


def _value_of(value: Any) -> Any:
    """A value of a state as an array: that of a variable is in the global scope."""
    if isinstance(value, Variable):
        return np.array(global_scope().var(value.name).get_tensor())
    return np.array(value)


class Function(Layer):
    """A layer without parameters: a function with its settings; a class says with `takes` how its inputs are
    called.
    """

    _takes: tuple[str, ...] = ("x",)

    def __init_subclass__(cls, takes: str = "", **others: Any) -> None:
        super().__init_subclass__(**others)
        if takes:
            cls._takes = tuple(takes.split())

    def __init__(self, function: Callable[..., Any], name: str | None = None, **settings: Any) -> None:
        super().__init__()
        self._function, self._name, self._settings = function, name, settings

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The function of its inputs, in order or by their names."""
        late = self._takes[len(inputs) :]
        if not named.keys() <= set(late):
            unknown = sorted(named.keys() - set(late))
            raise TypeError(
                f"{type(self).__name__} takes {', '.join(self._takes)}, but {', '.join(unknown)} is "
                "unknown or given twice"
            )
        inputs += tuple(named[name] for name in late if name in named)
        return self._function(*inputs, **self._settings, name=self._name)

    def extra_repr(self) -> str:
        """The settings."""
        named = {} if self._name is None else {"name": self._name}
        return ", ".join(f"{key}={value}" for key, value in {**self._settings, **named}.items())
