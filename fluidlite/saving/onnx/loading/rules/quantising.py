"""ONNX ops that quantise: whole numbers are steps of a scale from a zero point, halves go to the even one."""

from __future__ import annotations

import numpy as np

from fluidlite.ir.variable import Variable
from fluidlite.saving.onnx.loading.graph import NodeView, reads
from fluidlite.saving.onnx.loading.rules.elementwise import rounded


def _along(op: NodeView, value: Variable, scale: Variable) -> Variable:
    """A scale or zero point as it goes with x: one number, or one for each index of an axis."""
    if len(scale.shape) != 1 or scale.shape == (1,):
        return value
    axis = op.axis(op.attr("axis"))
    return op.reshaped(value, [-1, *[1] * (op.rank() - 1 - axis)])


def _check(op: NodeView) -> None:
    op.idle("axis", "saturate")
    if len(op.shape(1)) > 1 or op.attr("block_size"):
        raise op.error("it has scales of blocks")


@reads("QuantizeLinear")
def _quantize(op: NodeView) -> None:
    _check(op)
    second = op.x(1)
    x = op.x()
    scale = second
    number = op.attr("output_dtype")
    dtype = op.graph.file.dtype(number, "its result") if number else np.dtype(np.uint8)
    dtype = op.dtype(2) if op.has(2) else dtype
    limits = np.iinfo(dtype)
    result = _along(op, scale, scale)
    steps = op.two("elementwise_div", x, result)
    made = rounded(op, steps)
    if op.has(2):
        third = op.x(2)
        zero = op.cast(third, op.dtype())
        found = _along(op, zero, scale)
        made = op.two("elementwise_add", made, found)
    constant = op.fixed(limits.min, op.dtype())
    made = op.two("elementwise_max", made, constant)
    fixed = op.fixed(limits.max, op.dtype())
    made = op.two("elementwise_min", made, fixed)
    cast = op.cast(made, dtype)
    op.put(cast)


@reads("DequantizeLinear")
def _dequantize(op: NodeView) -> None:
    _check(op)
    scale = op.x(1)
    x = op.x()
    dtype = op.dtype(1)
    made = op.cast(x, dtype)
    if op.has(2):
        third = op.x(2)
        zero = op.cast(third, op.dtype(1))
        result = _along(op, zero, scale)
        made = op.two("elementwise_sub", made, result)
    found = _along(op, scale, scale)
    product = op.two("elementwise_mul", made, found)
    op.put(product)
