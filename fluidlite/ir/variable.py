"""Variables and parameters: the declarations of values that exist only while a program runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.errors import ArgumentError, EnforceNotMet, UnsupportedError
from fluidlite.base.registry import Spec
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir import no_values, views
from fluidlite.ir.printing import variable_text
from fluidlite.ir.warned import warn_near_miss

if TYPE_CHECKING:
    from fluidlite.ir.block import Block
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.where import Where

__all__ = ["PARAMETER_FIELDS", "Parameter", "Variable", "check_switches", "is_part", "refuse_part"]


PARAMETER_FIELDS = (
    "trainable",
    "optimize_attr",
    "regularizer",
    "gradient_clip_attr",
    "do_model_average",
    "need_clip",
    "is_distributed",
)
"""What a parameter knows beyond what a variable does."""
_TENSORS = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY)


def _dygraph(method: str) -> Callable[..., Any]:
    """A method that only values have, not their declarations."""

    def refuse(self: Variable, *unused: Any) -> Any:
        raise AssertionError(
            f"{method!r} of variable {self.name!r}: a program declares variables, and only dygraph mode has "
            f"their values; "
            "fetch the variable with Executor.run"
        )

    refuse.__name__ = method
    refuse.__doc__ = "AssertionError: there is no value while a program is built."
    return short_tracebacks(refuse)


def check_switches(**switches: Any) -> None:
    """AssertionError unless all are True or False."""
    for name, value in switches.items():
        assert isinstance(value, bool), (
            f"The type of {name} parameter is wrong, expected bool, but received {type(value)}."
        )


def declared_dtype(dtype: DTypeLike) -> VarType:
    """An element type; ArgumentError for the number of one, which fluid takes in attributes of ops alone."""
    if type(dtype) is int:
        raise ArgumentError(f"a dtype is a name, a NumPy type or a VarType, not {dtype!r}")
    return to_vartype(dtype)


def _as_name(name: Any) -> str:
    """The name of a variable as text; ArgumentError for what is neither text nor bytes."""
    if isinstance(name, str):
        return name
    if isinstance(name, bytes):
        return name.decode()
    raise ArgumentError(f"the name of a variable must be text, but is {name!r} of type {type(name).__name__}")


def _as_truth(persistable: Any) -> bool:
    """`persistable` as True or False; ArgumentError for text, lists and Variables, which 1.8.5 refuses."""
    if persistable is None or isinstance(persistable, (bool, int, float, np.bool_, np.number)):
        return bool(persistable)
    raise ArgumentError(f"persistable must be True or False, but is of type {type(persistable).__name__}")


VARIABLE_NAMES: set[str] = set()
"""Attributes that a Variable or a Parameter has; filled where programs are declared."""


def _first_dtype(kind: VarType) -> VarType | None:
    """Paddle's first dtype is BOOL, until an op says otherwise."""
    return VarType.BOOL if kind in _TENSORS else None


class Variable:
    """A named value of a block: shape (-1 where unknown), dtype, level of detail, and whether it outlives a
    run.

    Made by `Block.create_var`; arithmetic on Variables appends ops (see `fluidlite.layers.math_op_patch`).
    """

    is_parameter = False
    block: Block
    type: VarType
    name: str
    _shape: tuple[int, ...]
    _dtype: VarType | None
    _lod_level: int
    _persistable: bool
    error_clip: Any
    _stop_gradient: bool
    is_data: bool
    need_check_feed: bool
    belong_to_optimizer: bool
    _info: dict[str, Any]
    declared_at: Where | None = None
    """The user's line that declared it, of a variable that is fed."""
    reader_specs: tuple[Spec, ...]
    """Of a READER: what it reads, tensor by tensor."""
    op: Operator | None

    def __init__(
        self,
        block: Block,
        type: VarType = VarType.LOD_TENSOR,
        name: str | None = None,
        shape: Iterable[int] | None = None,
        dtype: DTypeLike | None = None,
        lod_level: int | None = None,
        capacity: int | None = None,
        persistable: bool | None = None,
        error_clip: Any = None,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool = False,
        belong_to_optimizer: bool = False,
        reader_specs: Iterable[Spec] = (),
        **unused: Any,
    ) -> None:
        kind = VarType(type)
        # past `__setattr__`, whose check of names would take as long as all the rest
        self.__dict__.update(
            block=block,
            type=kind,
            name=unique_name.generate("_generated_var") if name is None else _as_name(name),
            _shape=() if shape is None else tuple(operator.index(dim) for dim in shape),
            _dtype=_first_dtype(kind) if dtype is None else declared_dtype(dtype),
            _lod_level=lod_level or 0,
            _persistable=_as_truth(persistable),
            error_clip=error_clip,
            _stop_gradient=stop_gradient,
            is_data=is_data,
            need_check_feed=need_check_feed,
            belong_to_optimizer=belong_to_optimizer,
            _info={},
            reader_specs=tuple(reader_specs),
            op=None,
        )
        block.vars[self.name] = self

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions, -1 for one that is known only when the program runs."""
        return self._shape

    @shape.setter
    def shape(self, value: Iterable[int]) -> None:
        self._shape = tuple(int(dim) for dim in value)
        self.block.program.bump_version()

    @property
    def dtype(self) -> VarType:
        """The element type; EnforceNotMet for a kind of variable that has none."""
        if self._dtype is None:
            raise EnforceNotMet(f"variable {self.name} of kind {self.type} has no element type")
        return self._dtype

    @dtype.setter
    def dtype(self, value: DTypeLike) -> None:
        self._dtype = to_vartype(value)
        self.block.program.bump_version()

    @property
    def lod_level(self) -> int:
        """The number of nested sequence levels; 0 for a plain tensor."""
        return self._lod_level

    @lod_level.setter
    def lod_level(self, value: int) -> None:
        self._lod_level = value
        self.block.program.bump_version()

    @property
    def persistable(self) -> bool:
        """True if the value stays in the scope after a run."""
        return self._persistable

    @persistable.setter
    def persistable(self, value: bool) -> None:
        self._persistable = bool(value)
        self.block.program.bump_version()

    @property
    def stop_gradient(self) -> bool:
        """True if `append_backward` stops here."""
        return self._stop_gradient

    @stop_gradient.setter
    def stop_gradient(self, value: bool) -> None:
        self._stop_gradient = bool(value)

    @property
    def desc(self) -> Any:
        """A view with the methods of Paddle's VarDesc."""
        return views.description(self)

    @property
    def grad_name(self) -> str:
        """The name that this variable's gradient has."""
        return self.name + "@GRAD"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def spec(self) -> Spec:
        """Shape, dtype, level of detail and kind in one value."""
        return Spec(
            self._shape, VarType.BOOL if self._dtype is None else self._dtype, self._lod_level, self.type
        )

    def set_spec(self, spec: Spec) -> None:
        """Set shape, dtype, level of detail and kind to those that a shape rule found."""
        self._shape = tuple(spec.shape)
        self._dtype = spec.dtype
        if spec.lod_level is not None:
            self._lod_level = spec.lod_level
        # a variable that was declared as rows or as an array stays one: rules describe the dense form
        if self.type == VarType.LOD_TENSOR:
            self.type = spec.kind

    def _set_error_clip(self, error_clip: Any) -> None:
        self.error_clip = error_clip

    def _set_info(self, key: str, value: Any) -> None:
        self._info[key] = value

    def _get_info(self, key: str) -> Any:
        return self._info.get(key)

    numpy = _dygraph("numpy")
    set_value = _dygraph("set_value")
    detach = _dygraph("detach")
    backward = _dygraph("backward")
    gradient = _dygraph("gradient")
    clear_gradient = _dygraph("clear_gradient")

    def to_string(self, throw_on_error: bool, with_details: bool = False) -> str:
        """This variable's declaration, as it stands in the text of a program."""
        check_switches(throw_on_error=throw_on_error, with_details=with_details)
        return repr(self)

    def __repr__(self) -> str:
        return variable_text(self)

    def __str__(self) -> str:
        return repr(self)

    def __setattr__(self, name: str, value: Any) -> None:
        # 1.8.5 keeps any attribute: one that is nearly `stop_gradient` changes nothing
        if name not in VARIABLE_NAMES and VARIABLE_NAMES:
            warn_near_miss(f"Variable {self.name!r}", name, VARIABLE_NAMES)
        object.__setattr__(self, name, value)

    @short_tracebacks
    def __bool__(self) -> bool:
        return no_values.truth(self)

    @short_tracebacks
    def __float__(self) -> float:
        return no_values.number_of(self)

    @short_tracebacks
    def __int__(self) -> int:
        return no_values.number_of(self)

    @short_tracebacks
    def __format__(self, form: str) -> str:
        return no_values.formatted(self, form)

    @short_tracebacks
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return no_values.array_of(self, dtype)

    @short_tracebacks
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return no_values.function_on(function)

    @short_tracebacks
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return no_values.ufunc_on(ufunc, method, inputs, options)

    # Comparison operators build ops (fluidlite.layers.math_op_patch), so identity must stay usable for
    # hashing.
    __hash__ = object.__hash__

    if TYPE_CHECKING:  # fluidlite.layers.math_op_patch gives these; the IR knows no layers

        def __neg__(self) -> Variable: ...
        def __add__(self, other: Any) -> Variable: ...
        def __radd__(self, other: Any) -> Variable: ...
        def __sub__(self, other: Any) -> Variable: ...
        def __rsub__(self, other: Any) -> Variable: ...
        def __mul__(self, other: Any) -> Variable: ...
        def __rmul__(self, other: Any) -> Variable: ...
        def __truediv__(self, other: Any) -> Variable: ...
        def __rtruediv__(self, other: Any) -> Variable: ...
        def __pow__(self, other: Any) -> Variable: ...
        def __rpow__(self, other: Any) -> Variable: ...
        def __floordiv__(self, other: Any) -> Variable: ...
        def __mod__(self, other: Any) -> Variable: ...
        def __lt__(self, other: Any) -> Variable: ...
        def __le__(self, other: Any) -> Variable: ...
        def __gt__(self, other: Any) -> Variable: ...
        def __ge__(self, other: Any) -> Variable: ...
        def __getitem__(self, item: Any) -> Variable: ...
        def astype(self, dtype: Any) -> Variable: ...


class Parameter(Variable):
    """A persistable variable that training updates.

    `optimize_attr` holds {"learning_rate": factor}; `regularizer`, `gradient_clip_attr` and
    `do_model_average` come from the `ParamAttr` that made it.
    """

    is_parameter = True
    may_be_number: ClassVar[bool] = False
    """True where a parameter may have the shape [], as in programs of 2.x."""

    def __init__(
        self,
        block: Block,
        shape: Iterable[int],
        dtype: DTypeLike,
        type: VarType = VarType.LOD_TENSOR,
        **attrs: Any,
    ) -> None:
        dims = None if shape is None else tuple(shape)
        # the messages of 1.8.5, which programs match
        if dims is None or dtype is None:
            raise ValueError("Parameter must set shape and dtype")
        if not dims and not self.may_be_number:
            raise ValueError("The dimensions of shape for Parameter must be greater than 0")
        for dim in dims:
            if dim < 0:
                raise ValueError(
                    f"Each dimension of shape for Parameter must be greater than 0, but received {list(dims)}"
                )
        self.trainable = bool(attrs.pop("trainable", True))
        self.optimize_attr = attrs.pop("optimize_attr", None) or {"learning_rate": 1.0}
        self.regularizer = attrs.pop("regularizer", None)
        self.gradient_clip_attr = attrs.pop("gradient_clip_attr", None)
        self.do_model_average = attrs.pop("do_model_average", None)
        self.need_clip = attrs.pop("need_clip", True)
        self.is_distributed = bool(attrs.pop("is_distributed", False))
        attrs["persistable"] = True
        super().__init__(block, type=type, shape=dims, dtype=dtype, **attrs)


def is_part(param: Any) -> bool:
    """True for the part that a rank holds of a parameter which the ranks share (`dist.split`)."""
    return isinstance(param, Parameter) and param.is_distributed


def refuse_part(param: Any, what: str, hint: str = "") -> None:
    """UnsupportedError where `param` is one rank's part: `what` reads, or writes, the whole."""
    if is_part(param):
        raise UnsupportedError(
            f"{what} needs complete parameters, but {param.name!r} {list(param.shape)} is one "
            f"rank's part of a parameter that is split among the ranks{hint}"
        )
