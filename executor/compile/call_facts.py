"""Facts of a portable kernel's call that only the whole program tells."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.calls import CallFacts
from fluidlite.ir.operator import Operator

if TYPE_CHECKING:
    from fluidlite.executor.compile.builder import PlanBuilder

__all__ = ["facts_of"]

_PRODUCTS = ("mul", "matmul")  # ops whose kernels never hand on the memory of what they read
_SHAPE_READERS = ("elementwise_add_grad", "elementwise_sub_grad")


def facts_of(builder: PlanBuilder, op: Operator, inputs: Mapping[str, Value], made: Set[Value]) -> CallFacts:
    """The facts of the call for `op`; `made` are the arrays of kernels' own."""
    fixed = _fixed(builder, op)
    # in the body of a loop the next step may read any output, and kernels may write over their inputs
    if builder.depth:
        return CallFacts(fixed=fixed)
    lasting = frozenset(number for number, value in enumerate(inputs.values()) if value.root in made)
    return CallFacts(_unread(builder, op), fixed, lasting, _spare(builder, op, inputs, made))


def _unread(builder: PlanBuilder, op: Operator) -> frozenset[str]:
    slots = op.outputs.items()
    return frozenset(slot for slot, names in slots if not any(builder.is_needed(name, op) for name in names))


def _fixed(builder: PlanBuilder, op: Operator) -> frozenset[str]:
    def stays(name: str) -> bool:
        return builder.is_persistable(name) and not builder.changes(name)

    return frozenset(slot for slot, names in op.inputs.items() if names and all(map(stays, names)))


def _spare(
    builder: PlanBuilder, op: Operator, inputs: Mapping[str, Value], made: Set[Value]
) -> frozenset[str]:
    """X where that is the product right before, of which no other op reads more than the shape."""
    level = builder.level
    before = level.sequence[level.index - 1] if level.index else None
    names = op.inputs.get("X")
    if not names or before is None or before.type not in _PRODUCTS or before.outputs.get("Out") != names:
        return frozenset()
    (name,) = names
    readers = builder.later_readers(name)
    is_spare = (
        readers is not None
        and all(reader.type in _SHAPE_READERS and reader.inputs.get("X") == names for reader in readers)
        and op.input_arg_names.count(name) == 1
        and inputs[name].root in made
    )
    return frozenset(["X"]) if is_spare else frozenset()
