"""A block on its way into a plan: what is known of its variables while its ops are lowered one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.executor.compile.saved import SavedForBackward
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Value
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.prune import reads

__all__ = ["Level"]


@dataclass
class Level:
    """One block on its way into the plan: the outermost, or one that is written into a loop or branch."""

    block: Block
    steps: list[Step] = field(default_factory=list)
    env: dict[str, Value] = field(default_factory=dict)
    """Variable -> its newest value."""
    needed: set[str] = field(default_factory=set)
    """Variables that something outside the block reads."""
    detached: frozenset[str] = frozenset()
    """Persistable variables whose arrays the block leaves alone: it may run although it is not taken."""
    saved: dict[str, SavedForBackward] = field(default_factory=dict)
    """By the variable of a loop's or branch's frames: what its gradient reads."""
    memory: dict[Any, Any] = field(default_factory=dict)
    """Notes that lowering rules leave for the rules of later ops."""
    in_gradient: bool = False
    """True if one of the blocks around is a gradient's."""
    last_read: dict[str, int] = field(default_factory=dict)
    sequence: Sequence[Operator] = ()
    index: int = 0
    """The op that is being lowered."""
    instead: Callable[[Operator], Operator | None] | None = None
    """The op that is lowered in place of another; None if none is."""

    def enter(self, outer: Level, env: dict[str, Value], needed: set[str], gradient: bool) -> None:
        """Take over what a sub-block sees of the level around it."""
        self.env.update(env)
        self.saved = {**outer.saved, **self.saved}
        self.memory.update(outer.memory)
        self.in_gradient = gradient or outer.in_gradient
        self.needed |= needed

    def begin(self, ops: Sequence[Operator]) -> None:
        """Note which of the ops reads each variable last."""
        self.sequence = ops
        for index, op in enumerate(ops):
            self.last_read.update(dict.fromkeys(reads(op), index))

    def is_needed(self, name: str) -> bool:
        """True if a later op, or something outside the block, reads a variable."""
        return name in self.needed or self.last_read.get(name, -1) > self.index

    def is_read(self, value: Value) -> bool:
        """True if a step so far reads a value, or no step of this block has written it."""
        for step in reversed(self.steps):
            if not step.is_view and value in (written.root for written in step.writes):
                return False
            if value in (read.root for read in step.all_reads()):
                return True
        return True
