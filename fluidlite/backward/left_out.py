"""Refusal of gradients that would leave terms out: those through gradient ops that have none themselves.

PaddlePaddle 1.8.5 takes such an op for a constant silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluidlite.backward.paths import names_in
from fluidlite.backward.rules import has_gradient
from fluidlite.base.dtypes import REAL_PARTS, is_float
from fluidlite.base.errors import UnsupportedError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable

__all__ = ["refuse_left_out"]


def refuse_left_out(
    block: Block, targets: Sequence[Variable], inputs: Iterable[str], no_grad: Iterable[str]
) -> None:
    """UnsupportedError where `targets` depend on variables called `inputs` by way of a gradient op without a
    gradient of its own. Nothing goes through the variables in `no_grad`.
    """
    if not any(map(_is_opaque, block.ops)):
        return
    stops = frozenset(no_grad)
    reached = set(inputs)
    through: list[Operator] = []
    for op in block.ops:
        if (has_gradient(op) or _is_opaque(op)) and any(name in reached for name in _read(op)):
            reached.update(name for name in op.output_arg_names if name not in stops)
            through.append(op)
    needed = names_in(block, targets) - stops
    for op in reversed(through):
        if not needed.isdisjoint(op.output_arg_names):
            if _is_opaque(op):
                _refuse(op, [name for name in _read(op) if name in reached])
            needed.update(name for name in _read(op) if name not in stops)


def _is_opaque(op: Operator) -> bool:
    return bool(_reason(op))


def _reason(op: Operator) -> str:
    """Why a gradient op has no gradient; nothing for one that has, and for other ops."""
    if op.definition is None or (has_gradient(op) and not op.definition.is_gradient):
        return ""
    variables = map(op.block._find_var_recursive, op.input_arg_names)
    if op.definition.is_gradient and any(var is not None and var._dtype in REAL_PARTS for var in variables):
        return "its values are complex"
    return op.definition.opaque


def _read(op: Operator) -> list[str]:
    """The real numbers that an op reads, but for those that it does not depend on smoothly."""
    constants = op.definition.constants if op.definition is not None else ()
    names = [name for slot, found in op.inputs.items() if slot not in constants for name in found]
    found = ((name, op.block._find_var_recursive(name)) for name in names)
    # a list of arrays has the type of what is in it
    return [name for name, var in found if var is not None and _is_number(var)]


def _is_number(var: Variable) -> bool:
    return var._dtype is None or is_float(var._dtype) or var._dtype in REAL_PARTS


def _refuse(op: Operator, names: Sequence[str]) -> None:
    asked = ", ".join(map(repr, dict.fromkeys(names)))
    raise UnsupportedError(
        f"op {op.type!r} has no gradient ({_reason(op)}), but the requested gradient has to pass "
        f"through it, via {asked}\n  {op.call_text()}\n  built at {op.where}"
    )
