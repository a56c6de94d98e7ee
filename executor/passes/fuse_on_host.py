"""Fusion of element-wise steps on the host.

Chains over large arrays run block by block, so that only what leaves the chain touches memory, and blocks
are shared by a team of threads. A sum of all elements is added up block by block in the same loop; other
small steps between the chain's own wait behind it where nothing in it needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fluidlite.executor.fast.loops.arithmetic import can_hold
from fluidlite.executor.passes.tiles import Chain
from fluidlite.executor.plan.actions import Call, Chained, Elementwise, Function, TiledLoop, on_values
from fluidlite.executor.plan.plan import Plan, Remark
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.steps import Step, flat, in_bodies, total_of
from fluidlite.executor.plan.uses import Footprint
from fluidlite.executor.plan.values import Storage, Value, ValueFactory

__all__ = ["fuse_on_host"]

LARGE = 1 << 16  # elements from which an array no longer fits a core's cache beside its neighbours
SMALL = 1 << 12  # elements of a result that may be computed later than it was asked for
COMPILED = 512  # steps of a compiled loop
WAITING = 64  # steps that may wait behind a chain: each step that joins it is compared with all of them


def fuse_on_host(plan: Plan) -> Plan:
    """Replace runs of large element-wise steps by one blocked loop each."""
    if not plan.target.on_host:
        return plan

    def fused(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
        is_compiled = plan.target.loops != "off"
        return _Grouping(steps, kept, plan.values, plan.target.threads, is_compiled).steps()

    steps = in_bodies(plan.steps, plan.fetches, fused)
    return replace(plan, steps=steps, remarks=(*plan.remarks, *remarks_of(steps)))


def remarks_of(steps: Sequence[Step]) -> list[Remark]:
    """A line for each fused step: how many element-wise steps it took in, and of which ops."""
    found = []
    for step in flat(steps):
        if step.fused:
            kinds = ", ".join(dict.fromkeys(op.type for op in step.fused))
            count = len(step.action.run) if isinstance(step.action, TiledLoop) else len(step.fused)
            found.append(Remark("fused", f"{count} element-wise steps over large arrays ({kinds})"))
    return found


class _Waiting:
    """Steps that wait behind a chain."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.roots: set[Value] = set()
        """The values that they write."""
        self.footprint = Footprint()
        """The memory that they use, but for views."""

    def add(self, step: Step) -> None:
        """One step more."""
        self.steps.append(step)
        self.roots.update(value.root for value in step.writes)
        if not step.is_view:
            self.footprint.add(Footprint(step))

    def holds_up(self, step: Step) -> bool:
        """True if a step must run after one that waits."""
        return bool(self.steps) and not self.footprint.is_apart(Footprint(step))


class _Grouping:
    """One walk over the steps: the chain that is being collected, and the steps that wait behind it."""

    def __init__(
        self,
        steps: Sequence[Step],
        kept: Sequence[Value],
        values: ValueFactory,
        threads: int,
        is_compiled: bool,
    ) -> None:
        self.is_compiled = is_compiled
        self.source = steps
        self.values = values
        self.threads = threads
        self.reads_left = _read_counts(steps, kept)
        self.result: list[Step] = []
        self.run: list[Step] = []
        self.late = _Waiting()
        self.made: set[Value] = set()
        """The values that the chain writes."""
        self.can_compile = False
        """True if a compiled loop can hold the step at hand."""
        self.leads = False
        """True if it may be part of a loop."""
        self.is_chain_compiled = False
        """True if compiled loops can hold the steps of the chain."""
        self.known: dict[Any, tuple[Chained, TiledLoop] | None] = {}
        """The loops of chains that lowering has made, by their forms; None where they are no loop."""

    def steps(self) -> list[Step]:
        """The steps, with loops in place of chains."""
        for step in self.source:
            self.add(step)
        self.close()
        return self.result

    def add(self, step: Step) -> None:
        """Take the next step into the chain, ahead of it or behind it; or end the chain."""
        if isinstance(step.action, Chained):
            self._add_chained(step, step.action)
            return
        self.can_compile = self.is_compiled and _can_compile(step)
        self.leads = _is_over_blocks(step, 2 if self.can_compile else LARGE)
        if step.is_view and not self._shows_new(step):
            self.result.append(step)  # a view of something older: it is only a name
        elif self.run and self._joins(step):
            self._take(step)
        elif self.run and self._can_wait(step):
            self.late.add(step)
        else:
            self.close()
            if self.leads:
                self._take(step)
            else:
                self.result.append(step)

    def close(self) -> None:
        """End the chain: its loop, then what waited behind it."""
        if self.run:
            chain = Chain(self.run, self.reads_left, self.values, self.threads, self.is_chain_compiled)
            self.result.extend(chain.steps())
            self.result.extend(self.late.steps)
            self.run = []
            self.made = set()
        if self.late.steps:
            self.late = _Waiting()

    def _add_chained(self, step: Step, action: Chained) -> None:
        """Take a chain that lowering has made: as a loop of its own, as one of its form had, unless it goes
        on with what the chain at hand leaves.
        """
        loop = None
        if not any(value.root in self.made for value in step.reads):
            loop = self._loop_of(step, action)
        if loop is None:
            for each in self._single(step, action):
                self.add(each)
            return
        self.close()
        ops = step.ops
        self.result.append(Step(step.op, loop, temps=loop.temps, fused=ops))

    def _loop_of(self, step: Step, action: Chained) -> TiledLoop | None:
        """The loop of a chain by itself; None where it is none."""
        # what a loop follows from, beside the form
        kinds = (
            (value.shape, value.dtype, value.contiguous, value.root.storage is Storage.LOCAL)
            for value in action.values
        )
        key = (action.form, *kinds)
        if key not in self.known:
            steps = self._single(step, action)
            # what follows may read any of its results
            kept = [value for value in action.outputs() if value is not None]
            alone = _Grouping(steps, kept, self.values, self.threads, self.is_compiled).steps()
            loop = alone[0].action if len(alone) == 1 else None
            self.known[key] = (action, loop) if isinstance(loop, TiledLoop) else None
            return loop if isinstance(loop, TiledLoop) else None
        found = self.known[key]
        return None if found is None else _on_values(found[1], found[0].values, action.values, self.values)

    def _single(self, step: Step, action: Chained) -> list[Step]:
        """The steps of a chain one by one."""
        inner = [self.values.make(value.shape, value.dtype, value.storage) for value in action.form.inner]
        steps = [Step(step.op, each, (out,)) for each, out in action.run(inner)]
        _count(step.reads, self.reads_left, -1)
        for each in steps:
            _count(each.reads, self.reads_left)
        return steps

    def _take(self, step: Step) -> None:
        if not self.run:
            self.is_chain_compiled = self.can_compile
        self.run.append(step)
        self.made.update(value.root for value in step.writes)

    def _shows_new(self, step: Step) -> bool:
        """True if a view shows what the chain or a step behind it writes."""
        root = step.reads[0].root
        return root in self.made or root in self.late.roots

    def _joins(self, step: Step) -> bool:
        """True if a step can run in the chain's loop."""
        if self.late.holds_up(step):
            return False
        total = None if self.leads else total_of(step)
        if total is not None:
            return total.source.root in self.made and total.source.size == self.run[0].writes[0].size
        if not self.leads:
            return False
        # of what the chain writes only the blocks at hand are there, so no other view of it can be read
        has_view = any(value.base is not None and value.root in self.made for value in step.reads)
        first = self.run[0]
        if has_view or step.writes[0].shape != first.writes[0].shape:
            return False
        # the compiler takes 0.5 s of CPU for 500 steps with 60 tanh, and 3.8 s for four times as many
        if self.is_compiled and len(self.run) >= COMPILED:
            return False
        # a step that cannot be compiled would keep all others from it
        is_alike = self.can_compile == self.is_chain_compiled
        return not self.is_compiled or (is_alike and self._belongs(step))

    def _belongs(self, step: Step) -> bool:
        """True but for updates of other parameters: each has a loop of its own, so that all are alike."""
        if step.op is None or not step.op._is_optimize_op() or self.run[-1].op is step.op:
            return True
        return any(value.root in self.made for value in step.reads)

    def _can_wait(self, step: Step) -> bool:
        """True if a step may run behind the chain: its result is small, and nothing else depends on when."""
        # what could begin a loop of its own does not wait behind another one
        if len(self.late.steps) == WAITING or self.leads:
            return False
        if step.is_view:
            return True
        action = step.action
        is_plain = isinstance(action, Elementwise) or (
            isinstance(action, Call) and isinstance(action.callee, Function)
        )
        if not is_plain or step.effect or step.holds or step.starts is not None:
            return False
        return all(
            value.root.storage is Storage.BUFFER and value.known and about(value.root.size) <= SMALL
            for value in step.writes
        )


def _read_counts(steps: Sequence[Step], kept: Sequence[Value]) -> dict[Value, int]:
    """The number of reads of each value's memory, fetches included."""
    counts: dict[Value, int] = {}
    for step in steps:
        # a view reads nothing: what is read through it counts
        if not step.is_view:
            _count(step.all_reads(), counts)
    _count(kept, counts)
    return counts


def _count(values: Iterable[Value], counts: dict[Value, int], by: int = 1) -> None:
    for value in values:
        root = value.root
        counts[root] = counts.get(root, 0) + by


def _on_values(
    loop: TiledLoop, before: Sequence[Value], now: Sequence[Value], values: ValueFactory
) -> TiledLoop:
    """A loop on other arrays, with scratch of its own."""
    at = dict(zip(before, now, strict=True))
    inner = {value: value for value in loop.held_in}
    return replace(
        loop,
        run=on_values(loop.run, {**at, **inner}),
        registers=tuple(values.make(value.shape, value.dtype, value.storage) for value in loop.registers),
        reads=tuple(at[value] for value in loop.reads),
        writes=tuple(at[value] for value in loop.writes),
        like=loop.like or loop,
    )


def _can_compile(step: Step) -> bool:
    """True if a compiled loop can hold an element-wise step."""
    action = step.elementwise
    if action is None or not can_hold(action, step.writes[0]):
        return False
    return all(value.contiguous for value in step.reads)


def _is_over_blocks(step: Step, least: int) -> bool:
    """True if a step is an element-wise one over at least so many elements, which blocks can be cut from."""
    if step.elementwise is None:
        return False
    out = step.writes[0]
    if not out.shape or about(out.size) < least:
        return False
    if out.storage not in (Storage.BUFFER, Storage.PARAM, Storage.FRESH):
        return False
    # blocks are cut from arrays of known shape alone
    return all(value.root.storage is not Storage.LOCAL or value.contiguous for value in step.reads)
