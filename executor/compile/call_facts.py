"""Facts of a portable kernel's call that only the whole program tells."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.kernels import CallFacts
from fluidlite.ir.operator import Operator

if TYPE_CHECKING:
    from fluidlite.executor.compile.builder import PlanBuilder

__all__ = ["facts_of"]


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
    """X where the op right before made it, a product in memory of its own, and no other op reads more of it
    than the shape.
    """
    level = builder.level
    before = level.sequence[level.index - 1] if level.index else None
    names = op.inputs.get("X")
    if not names or before is None or before.outputs.get("Out") != names:
        return frozenset()
    if before.definition is None or not before.definition.fresh:
        return frozenset()
    (name,) = names
    readers = builder.later_readers(name)
    is_spare = (
        readers is not None
        and all(_reads_shape(reader, name) for reader in readers)
        and op.input_arg_names.count(name) == 1
        and inputs[name].root in made
    )
    return frozenset(["X"]) if is_spare else frozenset()


def _reads_shape(op: Operator, name: str) -> bool:
    """True if an op reads no more than the shape of a variable."""
    slots = [slot for slot, names in op.inputs.items() if name in names]
    return op.definition is not None and not any(map(op.definition.reads, slots))
