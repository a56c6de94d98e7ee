"""Multiplications and additions of ops, by the shapes of their variables."""

from __future__ import annotations

from collections.abc import Callable
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
    root = None if op.definition is None else op.definition.root
    if root is None or root.flops_rule is None:
        return 0
    made = 1
    if root is not op.definition:
        made = sum(
            bool(names) and names != [EMPTY_VAR]
            for slot, names in op.outputs.items()
            if slot.removesuffix(GRAD_SUFFIX) in ("X", "Y", "Input", "Filter", "Weight")
        )
    return made * root.count_flops(lambda slot: _shape(op, slot, shape), op.attrs)


def _shape(op: Operator, slot: str, shape: Shape) -> tuple[int, ...]:
    # a gradient op may have the variable as an output, or only its gradient
    names = op.inputs.get(slot) or op.outputs.get(slot) or op.inputs.get(slot + GRAD_SUFFIX)
    var = op.block._find_var_recursive(names[0]) if names else None
    return () if var is None else shape(var)
