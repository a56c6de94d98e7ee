"""The shape that most functions of the 2.x door have: one op, and its first output."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.errors import ArgumentError
from fluidlite.base.registry import ZERO_DIM_ATTR
from fluidlite.data_feeder import convert_dtype
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.paddle.programs import begin
from fluidlite.paddle.promotion import promoted

__all__ = [
    "WHOLE",
    "append",
    "append_several",
    "cast",
    "check_axis",
    "dimension",
    "named",
    "need_count",
    "need_dims",
    "need_float",
    "need_numbers",
    "need_summable",
    "need_variable",
]


def append(
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    dtype: DTypeLike,
    layer: str | None = None,
    name: str | None = None,
    slot: str = "Out",
    scalar: bool = False,
    extra: Mapping[str, DTypeLike] | None = None,
    out: Variable | None = None,
    stop_gradient: bool = False,
    written: Mapping[str, Variable] | None = None,
) -> Variable:
    """Append `op_type` and return its output in `slot`: a temporary of the layer (`layer`, by default called
    like the op), or `out`. Operands that the op takes in one dtype are cast to the one they have in common.

    `scalar` says that the output has the shape [], where the same op of fluid gives [1]. `extra` are further
    output slots that the op needs, with their dtypes; `written` are those that write over variables.
    """
    begin()
    helper = LayerHelper(layer or op_type, name=name)
    result = out if out is not None else helper.create_variable_for_type_inference(dtype)
    outputs = {slot: [result]}
    for other, kind in (extra or {}).items():
        outputs[other] = [helper.create_variable_for_type_inference(kind)]
    outputs |= {slot: [var] for slot, var in (written or {}).items()}
    marks = {ZERO_DIM_ATTR: [slot]} if scalar else {}
    helper.append_op(
        type=op_type,
        inputs=promoted(op_type, inputs, cast),
        outputs=outputs,
        attrs={**(attrs or {}), **marks},
    )
    if stop_gradient:
        result.stop_gradient = True
    return result


def append_several(
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any],
    outs: Mapping[str, DTypeLike],
    layer: str | None = None,
) -> list[Variable]:
    """Append `op_type` and return its outputs, one of each of these slots and dtypes."""
    begin()
    helper = LayerHelper(layer or op_type)
    made = {slot: helper.create_variable_for_type_inference(kind) for slot, kind in outs.items()}
    slots = {slot: [var] for slot, var in made.items()}
    helper.append_op(type=op_type, inputs=inputs, outputs=slots, attrs=attrs)
    return list(made.values())


def cast(x: Variable, dtype: DTypeLike) -> Variable:
    """x in another dtype."""
    kind = to_vartype(dtype)
    out = append("cast", {"X": [x]}, {"in_dtype": x.dtype, "out_dtype": kind}, dtype=kind)
    out.stop_gradient = x.stop_gradient
    return out


def named(key: str, var: Variable, dtype: DTypeLike) -> Variable:
    """A variable `key_N` of the block that `var` is used in: operators of Variables name their results so."""
    block = var.block.program.current_block()
    return block.create_var(name=unique_name.generate(key), dtype=dtype)


WHOLE = frozenset([VarType.BOOL, VarType.INT8, VarType.UINT8, VarType.INT16, VarType.INT32, VarType.INT64])


def need_float(x: Variable, function: str) -> None:
    """TypeError for a Variable of integers or booleans."""
    if x.dtype in WHOLE:
        raise TypeError(
            f"The data type of 'x' in {function} must be ['float16', 'uint16', 'float32', 'float64'], but "
            f"received {convert_dtype(x.dtype)}."
        )


def need_numbers(x: Variable, function: str) -> None:
    """TypeError for a Variable of booleans."""
    if x.dtype == VarType.BOOL:
        raise TypeError(f"The data type of 'x' in {function} must be that of numbers, but received bool.")


_SHORT = frozenset([VarType.BOOL, VarType.INT8, VarType.UINT8, VarType.INT16])


def need_summable(x: Variable, function: str) -> None:
    """TypeError for a Variable of booleans or of short integers, whose sums these do not hold."""
    if x.dtype in _SHORT:
        raise TypeError(
            f"The data type of 'x' in {function} must be ['float16', 'uint16', 'float32', 'float64', "
            f"'int32', 'int64'], but received {convert_dtype(x.dtype)}."
        )


def need_variable(value: Any, what: str, function: str) -> None:
    """TypeError unless `value` is a Variable."""
    if not isinstance(value, Variable):
        raise TypeError(f"The type of '{what}' in {function} must be Variable, but received {type(value)}")


def need_dims(value: Any, what: str, function: str, wanted: int) -> None:
    """ValueError for a Variable that has more than `wanted` dimensions: it stands for numbers."""
    if isinstance(value, Variable) and len(value.shape) > wanted:
        raise ValueError(
            f"'{what}' in {function} must have {'one dimension' if wanted else 'no dimension'}, but "
            f"{value.name} has the shape {list(value.shape)}"
        )


def need_count(value: Any, what: str, function: str, wanted: int) -> None:
    """ValueError for a Variable of more or less than `wanted` elements, as far as its sizes are known."""
    if isinstance(value, Variable) and -1 not in value.shape and math.prod(value.shape) != wanted:
        raise ValueError(
            f"'{what}' in {function} must have {wanted} elements, but {value.name} has the shape "
            f"{list(value.shape)}"
        )


def check_axis(function: str, axis: int, x: Variable) -> None:
    """An IndexError, which is a ValueError, too, unless `axis` is a dimension of x; a number has one."""
    rank = max(len(x.shape), 1)
    if not -rank <= axis < rank:
        text = f"{function}: axis {axis} is outside of the {len(x.shape)} dimensions of {x.name!r}"
        raise ArgumentError.of(IndexError(), text)


def dimension(function: str, axis: int, x: Variable) -> int:
    """The number of the dimension `axis` from the front; the error of `check_axis` where there is none."""
    check_axis(function, axis, x)
    return axis % max(len(x.shape), 1)
