"""Parameters with their initialisers, and variables, as layers make them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.param_attr import ParamAttr, WeightNormParamAttr

__all__ = ["LayerHelperBase", "set_global_initializers"]

# of weights (False) and of biases (True), in the place of the layers' own; programs of 2.x set them
_global_initializers: dict[bool, Any] = {False: None, True: None}


def set_global_initializers(weight: Any, bias: Any) -> None:
    """Fill parameters whose attributes say nothing by these from now on; None for what their layers say."""
    _global_initializers.update({False: weight, True: bias})


class LayerHelperBase:
    """Makes parameters and variables under the name of a layer."""

    def __init__(self, name: str, layer_type: str) -> None:
        self.name, self.layer_type = name, layer_type

    @property
    def main_program(self) -> Program:
        """The program that ops are appended to."""
        return default_main_program()

    @property
    def startup_program(self) -> Program:
        """The program that initialisers are appended to."""
        return default_startup_program()

    @property
    def block(self) -> Block:
        """The block that is being written."""
        return self.main_program.current_block()

    # ------------------------------------------------------------------ parameters and variables
    def create_parameter(
        self,
        attr: Any,
        shape: Sequence[int],
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
        stop_gradient: bool = False,
        type: VarType = VarType.LOD_TENSOR,
    ) -> Any:
        """A parameter of the main program, initialised in the startup program; None when `attr` is False."""
        attr = copy.deepcopy(attr)
        attr = ParamAttr._to_attr(attr)
        if not attr:
            return None
        if not isinstance(attr, ParamAttr):
            raise ArgumentError(f"{self.layer_type}: a parameter has one ParamAttr, not {attr!r}")
        suffix = "b" if is_bias else "w"
        if attr.name is None:
            attr.name = unique_name.generate(".".join([self.name, suffix]))
        _check_shape(self.layer_type, attr.name, shape)
        before = self.startup_program.global_block().vars.get(attr.name)
        asked = attr.initializer
        default_initializer = _global_initializers[is_bias] or default_initializer
        if default_initializer is None and attr.initializer is None:
            attr._set_default_bias_initializer() if is_bias else attr._set_default_param_initializer()
        else:
            attr._set_default_initializer(default_initializer)
        if isinstance(attr, WeightNormParamAttr):
            return _weight_normalized(self, attr, shape, dtype)
        initialised = self.startup_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs(with_initializer=True)
        )
        _keep_first_initializer(before, initialised, asked or attr.initializer, warns=asked is not None)
        param = self.main_program.global_block().create_parameter(
            dtype=dtype, shape=shape, type=type, **attr._to_kwargs()
        )
        param.stop_gradient = stop_gradient
        return param

    def create_variable_for_type_inference(
        self, dtype: Any, stop_gradient: bool = False, shape: Sequence[int] | None = None
    ) -> Variable:
        """A temporary `<layer>.tmp_N`, whose shape the op that writes it will set."""
        return self.block.create_var(
            name=unique_name.generate(".".join([self.name, "tmp"])),
            dtype=dtype,
            shape=shape,
            type=VarType.LOD_TENSOR,
            persistable=False,
            stop_gradient=stop_gradient,
        )

    create_tmp_variable = create_variable_for_type_inference

    def create_variable(self, *args: Any, **kwargs: Any) -> Variable:
        """A variable of the block that is being written."""
        return self.block.create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, *args: Any, **kwargs: Any) -> Variable:
        """A variable of the global block."""
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def create_or_get_global_variable(self, name: str, *args: Any, **kwargs: Any) -> tuple[Variable, bool]:
        """The global variable `name`, and whether it is new."""
        block = self.main_program.global_block()
        if block.has_var(name):
            return block.var(name), False
        return self.create_global_variable(*args, name=name, **kwargs), True

    def set_variable_initializer(self, var: Variable, initializer: Any) -> Variable:
        """Initialise `var` in the startup program; returns the startup program's variable."""
        return self.startup_program.global_block().create_var(
            type=var.type,
            name=var.name,
            dtype=var.dtype,
            shape=var.shape,
            persistable=True,
            initializer=initializer,
        )


def _check_shape(layer: str, name: str, shape: Sequence[int]) -> None:
    """ArgumentError for a dimension that is not an integer."""
    for dim in shape or ():
        if dim is not None and not hasattr(dim, "__index__"):
            raise ArgumentError(
                f"{layer}: parameter {name!r} would have the shape {list(shape)}, of which {dim!r} "
                "is not an integer"
            )


_INITIALIZER = "initializer"


def _keep_first_initializer(before: Variable | None, param: Variable, given: Any, warns: bool) -> None:
    """Remember what fills a parameter, and warn where a layer that shares it asks for something else."""
    first = given if before is None else before._get_info(_INITIALIZER)
    param._set_info(_INITIALIZER, first)
    if warns and before is not None and first is not None and _settings(first) != _settings(given):
        warn_user(
            f"parameter {param.name!r} is already initialised by {type(first).__name__}, which the "
            f"layer that declared it first has set: this {type(given).__name__} has no effect"
        )


def _settings(initializer: Any) -> tuple[type, str]:
    # the seed is filled in when the initialiser writes its op, which the second one never does
    own = {key: value for key, value in vars(initializer).items() if key != "_seed"}
    return type(initializer), repr(own)


# ---------------------------------------------------------------------- weight normalisation
def _weight_normalized(
    helper: LayerHelperBase, attr: WeightNormParamAttr, shape: Sequence[int], dtype: Any
) -> Variable:
    """w of `shape` with parameters `<name>_v`, initialised as w would be, and `<name>_g`, which begins as
    |v|.

    The norm is taken over all dimensions but `attr.dim`, or over all of them where it is None.
    """
    g_shape = [1] * len(shape)
    if attr.dim is not None:
        g_shape[attr.dim] = shape[attr.dim]
    g_attr, v_attr = copy.deepcopy(attr), copy.deepcopy(attr)
    assert attr.name is not None
    g_attr.name, v_attr.name = attr.name + "_g", attr.name + "_v"
    startup, main = helper.startup_program.global_block(), helper.main_program.global_block()
    g = startup.create_parameter(dtype=dtype, shape=g_shape, **g_attr._to_kwargs())
    v = startup.create_parameter(dtype=dtype, shape=shape, **v_attr._to_kwargs(with_initializer=True))
    steps = _NormOps(helper, startup, dtype)
    steps.norm(v, attr.dim, g)
    steps.step("reshape", g, g, shape=g_shape)
    g = main.create_parameter(dtype=dtype, shape=g_shape, **g_attr._to_kwargs())
    v = main.create_parameter(dtype=dtype, shape=shape, **v_attr._to_kwargs())
    w = _normalized(helper, g, v, attr.dim, dtype)
    WeightNormParamAttr.params_with_weight_norm.append(w)
    return w


def _normalized(helper: LayerHelperBase, g: Variable, v: Variable, dim: int | None, dtype: Any) -> Variable:
    steps = _NormOps(helper, helper.block, dtype)
    norm = steps.norm(v, dim, steps.variable("norm"))
    scale = _of_layer("elementwise_div", {"X": g, "Y": norm}, {"axis": -1, "use_mkldnn": False})
    if dim is None:
        return _of_layer("elementwise_mul", {"X": v, "Y": scale}, {"axis": -1, "use_mkldnn": False})
    column = _of_layer("reshape2", {"X": scale}, {"shape": [v.shape[dim]]}, extra="XShape")
    return _of_layer("elementwise_mul", {"X": v, "Y": column}, {"axis": dim, "use_mkldnn": False})


def _of_layer(type: str, inputs: dict[str, Variable], attrs: dict[str, Any], extra: str = "") -> Variable:
    """The result of the op that the layer of that name would append, under the name that it would give it.

    The layers themselves stand above this module.
    """
    helper = LayerHelperBase(unique_name.generate(type), type)
    dtype = inputs["X"].dtype
    out = helper.create_variable_for_type_inference(dtype)
    outputs = {"Out": out}
    if extra:
        outputs[extra] = helper.create_variable_for_type_inference(dtype)
    helper.block.append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)
    return out


class _NormOps:
    """Appends ops to one block; their results are named `<layer>.weight_norm_<op>_N`."""

    def __init__(self, helper: LayerHelperBase, block: Block, dtype: Any) -> None:
        self.helper, self.block, self.dtype = helper, block, dtype

    def variable(self, what: str) -> Variable:
        """A new temporary."""
        name = unique_name.generate(".".join([self.helper.name, f"weight_norm_{what}"]))
        return self.block.create_var(name=name, dtype=self.dtype, persistable=False)

    def step(
        self, type: str, x: Variable, out: Variable | None = None, what: str = "", **attrs: Any
    ) -> Variable:
        """`type` applied to x."""
        out = self.variable(what or type) if out is None else out
        self.block.append_op(type=type, inputs={"X": x}, outputs={"Out": out}, attrs=attrs)
        return out

    def norm(self, x: Variable, dim: int | None, out: Variable) -> Variable:
        """Write |x|, over all dimensions but `dim`, to `out`, in as many dimensions as x has."""
        if dim is None:
            return self._root_of_squares(x, out, [0], reduce_all=True)
        last = len(x.shape) - 1
        shape = [x.shape[dim], *[1] * last]
        if dim == 0:
            return self._reshaped(self.step("reshape", x, shape=[x.shape[0], -1]), [1], shape, out)
        if dim == last:
            return self._reshaped(self.step("reshape", x, shape=[-1, x.shape[-1]]), [0], shape[::-1], out)
        swapped = list(range(len(x.shape)))
        swapped[0], swapped[dim] = dim, 0
        rows = self.step("reshape", self.step("transpose", x, axis=swapped), shape=[x.shape[dim], -1])
        return self.step("transpose", self._reshaped(rows, [1], shape, None), out, axis=swapped)

    def _reshaped(self, rows: Variable, axes: list[int], shape: list[int], out: Variable | None) -> Variable:
        return self.step(
            "reshape",
            self._root_of_squares(rows, self.variable("norm"), axes, reduce_all=False),
            out,
            shape=shape,
        )

    def _root_of_squares(self, x: Variable, out: Variable, axes: list[int], reduce_all: bool) -> Variable:
        squares = self.step("pow", self.step("abs", x), factor=2.0)
        total = self.step("reduce_sum", squares, what="sum", dim=axes, keep_dim=False, reduce_all=reduce_all)
        return self.step("pow", total, out, factor=0.5)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
