"""The profiler's clock in a timed plan."""

from __future__ import annotations

import time

from fluidlite.executor.plan.objects import PlanObject
from fluidlite.executor.plan.steps import Step
from fluidlite.ir.operator import Operator
from fluidlite.profiler import recorder

__all__ = ["OpTimer"]


class OpTimer(PlanObject):
    """Called with a number after each group of steps; records an op once, whatever number of groups it
    became.

    Ops that were fused into one group share its time. In the body of a loop an op is recorded at each step.
    """

    def __init__(self) -> None:
        self.groups: list[tuple[Operator, ...]] = []
        self.last_group: dict[Operator, int] = {}
        self.spent: dict[Operator, float] = {}
        self.before = 0.0
        self.overhead = 0.0
        self.recorded = 0.0

    def number(self, step: Step) -> int:
        """The number of the group that ends with `step`."""
        self.groups.append(step.ops)
        self.last_group.update(dict.fromkeys(step.ops, len(self.groups) - 1))
        return len(self.groups) - 1

    def start(self) -> None:
        """A run begins."""
        self.spent.clear()
        self.overhead = 0.0
        self.recorded = recorder.recorded
        self.before = time.perf_counter()

    def stop(self) -> None:
        """The run has ended: the time that the clock took is a part of it, too."""
        now = time.perf_counter()
        recorder.part("profiler", now - self.overhead, now)

    def __call__(self, number: int) -> None:
        now = time.perf_counter()
        ops = self.groups[number]
        # what an op's own body has recorded is not its own
        nested = recorder.recorded - self.recorded
        share = max(now - self.before - nested, 0.0) / max(len(ops), 1)
        for op in ops:
            spent = self.spent.get(op, 0.0) + share
            # passes may move steps of one op apart: it counts when its last group is done
            if self.last_group[op] == number:
                recorder.record(op.type, str(op.where), now - spent, now)
                spent = 0.0
            self.spent[op] = spent
        if not ops:
            recorder.record("plan", "", self.before, now, self.recorded)
        self.recorded = recorder.recorded
        self.before = time.perf_counter()
        self.overhead += self.before - now
