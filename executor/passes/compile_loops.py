"""Compiled kernels in place of loops over arrays, with the extra `fluidlite[fast]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fluidlite.executor.fast.loops.arithmetic import can_hold
from fluidlite.executor.fast.loops.compiled import CompiledLoops, NestSizes
from fluidlite.executor.fast.loops.compiler import LoopCode, known_loop, widths
from fluidlite.executor.fast.loops.nest import MOST_DIMENSIONS, Nest, operands_of
from fluidlite.executor.fast.loops.rows import KINDS, CompiledRows
from fluidlite.executor.plan.actions import Bound, Call, CompiledRun, Fresh, TiledLoop
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.steps import Step, in_bodies
from fluidlite.executor.plan.values import Value
from fluidlite.ir.operator import OpRole

__all__ = ["compile_loops"]

SHARED = 1 << 22  # element operations from which waking a second thread pays
APART = 16  # steps that may stand between two updates that are run together


def compile_loops(plan: Plan) -> Plan:
    """Let compiled kernels run the loops of array calls, those of one kind in the update together."""
    if plan.target.loops == "off":
        return plan

    def changed(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
        return _compiled(steps, plan.target.threads, plan.target.loops == "wait")

    return replace(plan, steps=in_bodies(plan.steps, plan.fetches, changed))


@dataclass(frozen=True)
class _Candidate:
    """The loop of some steps, what it is called with, and its sizes."""

    loop: LoopCode
    steps: tuple[Step, ...]
    arrays: tuple[Value, ...]
    parts: tuple[NestSizes, ...]

    @property
    def work(self) -> int:
        """Element operations."""
        loops = [step.action for step in self.steps]
        return sum(len(loop.run) * loop.run[0][1].size for loop in loops if isinstance(loop, TiledLoop))

    def together(self, other: _Candidate) -> _Candidate:
        """Both as one call."""
        return _Candidate(
            self.loop, self.steps + other.steps, self.arrays + other.arrays, self.parts + other.parts
        )

    def step(self, threads: int, wait: bool) -> Step:
        """The step that calls it."""
        if wait:
            self.loop.compile()
        dtypes = tuple(value.dtype for value in self.arrays)
        varying = tuple(number for number, value in enumerate(self.arrays) if not value.fixed)
        size = threads if self.work >= SHARED else 1
        made = Fresh(CompiledLoops, (self.loop, self.parts, dtypes, varying, size))
        first = self.steps[0]
        loops = tuple(step.action for step in self.steps if isinstance(step.action, TiledLoop))
        return Step(
            first.op,
            CompiledRun(loops, Bound("loops", made), self.arrays),
            temps=tuple(temp for step in self.steps for temp in step.temps),
            effect=any(step.effect for step in self.steps),
            fused=tuple(dict.fromkeys(op for step in self.steps for op in step.ops)),
        )


def _compiled(steps: Sequence[Step], threads: int, wait: bool) -> list[Step]:
    result: list[Step | _Candidate] = []
    for step in steps:
        kernel = _kernel_of(step)
        if kernel is None:
            result.append(_with_rows(step, wait))
            continue
        place = _place_of(kernel, result) if _is_update(step) else None
        if place is None:
            result.append(kernel)
        else:
            earlier = result[place]
            assert isinstance(earlier, _Candidate)
            result[place] = earlier.together(kernel)
    return [item.step(threads, wait) if isinstance(item, _Candidate) else item for item in result]


def _with_rows(step: Step, wait: bool) -> Step:
    """A step that calls a kernel over float32 rows, with the compiled one in front; any other as it is."""
    action = step.action
    thing = action.callee.thing if isinstance(action, Call) and isinstance(action.callee, Bound) else None
    if not isinstance(thing, Fresh) or thing.factory not in KINDS or thing.arguments[2] != np.float32:
        return step
    assert isinstance(action, Call) and isinstance(action.callee, Bound)
    made = Fresh(CompiledRows, (thing.factory, thing.arguments, wait))
    return replace(step, action=replace(action, callee=Bound(action.callee.hint, made)))


def _kernel_of(step: Step) -> _Candidate | None:
    """The kernel of a loop; None for other steps, and for loops that no kernel can hold."""
    loop = step.action
    if not isinstance(loop, TiledLoop) or not all(can_hold(*item) for item in loop.run):
        return None
    values = list(dict.fromkeys((*loop.reads, *loop.writes)))
    totals = [item.total for item in loop.sums]
    plain = [value for value in values if value not in totals]
    if not all(value.contiguous for value in plain):
        return None
    operands, sizes = operands_of(plain, loop.walk.shape)
    if len(sizes) > MOST_DIMENSIONS:
        return None
    nest = Nest(loop.run, loop.writes, [item.source for item in loop.sums], operands, len(sizes))
    part = NestSizes(sizes, len(operands) + len(totals), len(totals))
    arrays = (*(operand.value for operand in operands), *totals)
    code = known_loop(nest.key(), lambda: nest.text("LOOP", widths()))
    return _Candidate(code, (step,), arrays, (part,))


def _is_update(step: Step) -> bool:
    return step.op is not None and bool(step.op.role & OpRole.Optimize)


def _place_of(kernel: _Candidate, result: Sequence[Step | _Candidate]) -> int | None:
    """The place of an update by the same loop that this one can be run together with."""
    (step,) = kernel.steps
    reads = {value.memory for value in step.reads}
    writes = {value.memory for value in step.writes}
    for place in range(len(result) - 1, max(len(result) - APART, 0) - 1, -1):
        other = result[place]
        # a view is only a name
        if isinstance(other, Step) and other.is_view:
            continue
        others = other.steps if isinstance(other, _Candidate) else (other,)
        for one in others:
            written = {value.memory for value in one.all_writes()}
            seen = {value.memory for value in one.all_reads()}
            if written & (reads | writes) or seen & writes or one.body is not None:
                return None
        if isinstance(other, _Candidate) and other.loop is kernel.loop and _is_update(other.steps[0]):
            return place
    return None
