"""`fluid.contrib.model_stat`: parameters and multiplications of a program's ops, as a table."""

from __future__ import annotations

import math
from typing import NamedTuple

from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program

__all__ = ["summary"]

_ACTIVATIONS = ("sigmoid", "tanh", "relu", "leaky_relu", "prelu")
_HEADINGS = ("No.", "TYPE", "INPUT", "OUTPUT", "PARAMs", "FLOPs")


class OpCost(NamedTuple):
    """One row: shapes without the batch, numbers of parameters, operations for one sample."""

    type: str
    input: tuple[int, ...]
    output: tuple[int, ...]
    params: int
    flops: int


def summary(main_prog: Program) -> None:
    """Print a table of the convolutions, fully connected layers, normalisations, poolings and activations of
    a program, and their sums.

    Counted per sample: a convolution's multiplications and additions are two operations, those of a fully
    connected layer one, as in fluid.
    """
    rows = [row for block in main_prog.blocks for op in block.ops if (row := op_cost(block, op)) is not None]
    params, flops = sum(row.params for row in rows), sum(row.flops for row in rows)
    activations = f"Activation({', '.join(_ACTIVATIONS)})"
    lines = [
        _table([(str(number), *map(str, row)) for number, row in enumerate(rows)]),
        f"Total PARAMs: {params}({params / 1e6:.4f}M)",
        f"Total FLOPs: {flops}({flops / 1e9:.2f}G)",
        "Notice: ",
        f" now supported ops include [Conv, DepthwiseConv, FC(mul), BatchNorm, Pool, {activations}]",
    ]
    print("\n".join(lines))  # noqa: T201 - printing is what it is for


def op_cost(block: Block, op: Operator) -> OpCost | None:
    """The row of an op; None for one of another kind."""
    if op.type in ("conv2d", "depthwise_conv2d"):
        data, weight, out = _shapes(block, op, "Input", "Filter", "Output")
        each = math.prod(weight[1:])
        flops = 2 * each * math.prod(out[1:])
        return OpCost(op.type, data[1:], out[1:], weight[0] * each, flops)
    if op.type == "pool2d":
        data, out = _shapes(block, op, "X", "Out")
        size = data[2:] if op.attr("global_pooling") else op.attr("ksize")
        flops = math.prod(out[1:]) * math.prod(size)
        return OpCost(op.type, data[1:], out[1:], 0, flops)
    if op.type == "mul":
        data, weight, out = _shapes(block, op, "X", "Y", "Out")
        numbers = math.prod(weight)
        return OpCost(op.type, data[1:], out[1:], numbers + 1, numbers)  # one for the bias, as fluid counts
    if op.type == "batch_norm":
        data, out = _shapes(block, op, "X", "Y")
        flops = 2 * math.prod(data[1:])
        return OpCost(op.type, data[1:], out[1:], 2 * data[1], flops)
    if op.type in _ACTIVATIONS:
        data, out = _shapes(block, op, "X", "Out")
        params = math.prod(_shapes(block, op, "Alpha")[0]) if op.type == "prelu" else 0
        return OpCost(op.type, data[1:], out[1:], params, math.prod(data[1:]))
    return None


def _shapes(block: Block, op: Operator, *slots: str) -> list[tuple[int, ...]]:
    """The shape of the variable in each slot."""
    return [block._var_recursive((op.inputs.get(slot) or op.outputs[slot])[0]).shape for slot in slots]


def _table(rows: list[tuple[str, ...]]) -> str:
    """Rows under their headings, to the right in columns with lines around them."""
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    line = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    shown = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (_HEADINGS, *rows)
    ]
    return "\n".join([line, shown[0], line, *shown[1:], line])
