"""Values that a loop or branch saves for its backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from fluidlite.base.records import dataclass
from fluidlite.executor.compile.emitter import Lowered
from fluidlite.executor.plan.actions import Copy, Operand
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.ir.operator import Operator

__all__ = ["SavedForBackward", "keep"]


def keep(builder: Lowered, value: Value) -> Operand:
    """A value that outlives its step: the array of a parameter that the program changes is copied, and a view
    of another order, since what a symbol holds lies in C order.
    """
    root = value.root
    if value.base is not None and not value.lies_in_order:
        return Copy(value)
    # every other value is written once, so a reference to it is as good as a copy
    if root.storage is Storage.PARAM and builder.changes(root.name):
        return Copy(value)
    return value


@dataclass
class SavedForBackward:
    """The values of a loop or branch that its gradient reads, by variable.

    For a loop each is a list with an entry for each step, and `count` is the number of steps. A branch runs
    once or not at all: its values are no lists, and `count` says whether it ran. `nested` are those of ops in
    its block.
    """

    op: Operator
    count: Value
    values: dict[str, Value] = field(default_factory=dict)
    nested: dict[str, SavedForBackward] = field(default_factory=dict)

    def map(self, change: Callable[[Value], Value]) -> SavedForBackward:
        """The same with each symbol replaced by what `change` makes of it."""
        return SavedForBackward(
            self.op,
            change(self.count),
            {name: change(symbol) for name, symbol in self.values.items()},
            {name: saved.map(change) for name, saved in self.nested.items()},
        )
