"""Multiplications and additions of ops, by the shapes of their variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from fluidlite.base.gradient_names import GRAD_SUFFIX
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable

__all__ = ["flops_of"]

Shape: TypeAlias = Callable[[Variable], tuple[int, ...]]


def flops_of(op: Operator, shape: Shape) -> int:
    """Multiplications and additions of a matrix product, convolution or recurrence; 0 for the rest, which
    memory bounds. `shape` gives the sizes of a variable.

    A gradient op costs as much as its forward op for each gradient that it makes.
    """
    forward = op.type.removesuffix("_grad")
    rule = _FLOPS.get(forward)
    if rule is None:
        return 0
    made = 1
    if forward != op.type:
        made = sum(
            bool(names) and names != [EMPTY_VAR]
            for slot, names in op.outputs.items()
            if slot.removesuffix(GRAD_SUFFIX) in ("X", "Y", "Input", "Filter", "Weight")
        )
    return made * rule(op, shape)


def _shape(op: Operator, slot: str, shape: Shape) -> tuple[int, ...]:
    # a gradient op may have the variable as an output, or only its gradient
    names = op.inputs.get(slot) or op.outputs.get(slot) or op.inputs.get(slot + GRAD_SUFFIX)
    var = op.block._find_var_recursive(names[0]) if names else None
    return () if var is None else shape(var)


def _mul(op: Operator, shape: Shape) -> int:
    """2 x rows x depth x columns of the matrices that X and Y are flattened to."""
    x = _shape(op, "X", shape)
    y = _shape(op, "Y", shape)
    columns = math.prod(y[int(op.attrs.get("y_num_col_dims", 1)) :])
    return 2 * math.prod(x) * columns


def _matmul(op: Operator, shape: Shape) -> int:
    """2 x elements of X x columns of Y, once for each matrix of the larger stack."""
    x = _shape(op, "X", shape)
    y = _shape(op, "Y", shape)
    if len(x) < 2 or len(y) < 2:
        return 2 * max(math.prod(x), math.prod(y))
    # matmul_v2 has other names for the same attributes
    turns_y = op.attrs.get("transpose_Y", op.attrs.get("trans_y"))
    columns = y[-2] if turns_y else y[-1]
    stack = max(math.prod(x[:-2]), math.prod(y[:-2]))
    rows_and_depth = x[-2] * x[-1]
    return 2 * stack * rows_and_depth * columns


def _conv(op: Operator, shape: Shape) -> int:
    """2 x elements of the output x elements of the filter that each needs (input channels of its group x
    window).
    """
    places = math.prod(_shape(op, "Output", shape))
    return 2 * places * math.prod(_shape(op, "Filter", shape)[1:])


def _conv_transpose(op: Operator, shape: Shape) -> int:
    """2 x elements of the input x elements of the filter that each meets."""
    places = math.prod(_shape(op, "Input", shape))
    return 2 * places * math.prod(_shape(op, "Filter", shape)[1:])


def _recurrence(op: Operator, shape: Shape) -> int:
    """2 x steps x elements of the recurrent weight."""
    steps = math.prod(_shape(op, "Input", shape)[:1])
    return 2 * steps * math.prod(_shape(op, "Weight", shape))


_FLOPS: Mapping[str, Callable[[Operator, Shape], int]] = {
    "mul": _mul,
    "matmul": _matmul,
    "matmul_v2": _matmul,
    "conv2d": _conv,
    "depthwise_conv2d": _conv,
    "conv3d": _conv,
    "conv2d_transpose": _conv_transpose,
    "conv3d_transpose": _conv_transpose,
    "lstm": _recurrence,
    "gru": _recurrence,
}
