"""Fusion of element-wise steps on the host.

Chains over large arrays run block by block, so that only what leaves the chain touches memory, and the blocks
are shared by a team of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fluidlite.executor.plan.actions import Bound, Elementwise, TiledLoop, Walk
from fluidlite.executor.plan.plan import Plan, Remark
from fluidlite.executor.plan.steps import Step, flat, in_bodies
from fluidlite.executor.plan.values import Storage, Value, ValueFactory
from fluidlite.executor.run.team import team_of

__all__ = ["fuse_on_host"]

LARGE = 1 << 16  # elements from which an array no longer fits a core's cache beside its neighbours
BLOCK = 1 << 15  # elements in a block: 128 KB, so that a handful of operands stay in a 1 MB cache
SHARED = 1 << 20  # element operations from which waking a second thread pays


def fuse_on_host(plan: Plan) -> Plan:
    """Replace runs of large element-wise steps by one blocked loop each."""
    if not plan.target.on_host:
        return plan

    def fused(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
        return _fused(steps, kept, plan.values, plan.target.threads)

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


def _fused(steps: Sequence[Step], kept: Sequence[Value], values: ValueFactory, threads: int) -> list[Step]:
    result: list[Step] = []
    run: list[Step] = []
    reads_left = _read_counts(steps, kept)

    def close() -> None:
        if run:
            result.extend(_Chain(list(run), reads_left, values, threads).steps())
            run.clear()

    for step in steps:
        if run and _joins(step, run[0]):
            run.append(step)
        elif step.is_view and not any(step.reads[0].root is other.writes[0].root for other in run):
            result.append(step)  # a view of something older: it is only a name
        else:
            close()
            run.extend([step] if _joins(step, step) else [])
            result.extend([] if run else [step])
    close()
    return result


def _read_counts(steps: Sequence[Step], kept: Sequence[Value]) -> dict[Value, int]:
    """The number of reads of each value's memory, fetches included."""
    counts: dict[Value, int] = {}
    for step in steps:
        for value in step.all_reads():
            counts[value.root] = counts.get(value.root, 0) + 1
    for value in kept:
        counts[value.root] = counts.get(value.root, 0) + 1
    return counts


def _joins(step: Step, first: Step) -> bool:
    """True if a step can run in the same loop as `first`."""
    if step.elementwise is None:
        return False
    out = step.writes[0]
    like = first.writes[0]
    if out.shape != like.shape or not out.shape or out.size < LARGE:
        return False
    if out.storage not in (Storage.BUFFER, Storage.PARAM):
        return False
    # what a kernel returned may have any strides: blocks of it could not be cut from a flat view
    return all(value.root.storage is not Storage.LOCAL for value in step.reads)


@dataclass
class _Registers:
    """Block-sized scratch for the inner values of a chain, reused as they die."""

    values: ValueFactory
    shape: tuple[int, ...]
    free: dict[Any, list[int]] = field(default_factory=dict)
    made: list[Value] = field(default_factory=list)
    held_in: dict[Value, int] = field(default_factory=dict)

    def take(self, value: Value) -> None:
        """Find a register for a value."""
        # by dtype: a register is an array, so float32 values cannot take over one of int64
        pool = self.free.setdefault(value.dtype, [])
        if not pool:
            pool.append(len(self.made))
            self.made.append(self.values.make(self.shape, value.dtype, Storage.BUFFER))
        self.held_in[value] = pool.pop()

    def take_over(self, value: Value, donor: Value) -> None:
        """Let a value have the register of one that dies."""
        self.held_in[value] = self.held_in[donor]

    def give_back(self, value: Value) -> None:
        """Free the register of a value."""
        self.free.setdefault(value.dtype, []).append(self.held_in[value])


class _Chain:
    """A run of element-wise steps of the same shape, as a blocked loop."""

    def __init__(
        self, run: list[Step], reads_left: dict[Value, int], values: ValueFactory, threads: int
    ) -> None:
        self.run = run
        self.values = values
        self.inner = self._inner(reads_left)
        out = run[0].writes[0]
        self.shape = out.shape or ()
        self.threads = threads if out.size * len(run) >= SHARED else 1
        self.walk = self._walk(out.size)

    def _inner(self, reads_left: dict[Value, int]) -> set[Value]:
        """The values that nobody outside of the chain reads."""
        reads: dict[Value, int] = {}
        for step in self.run:
            for value in step.reads:
                reads[value.root] = reads.get(value.root, 0) + 1
        outs = [step.writes[0] for step in self.run]
        return {
            out
            for out in outs
            if out.storage is Storage.BUFFER and reads.get(out, 0) == reads_left.get(out, 0)
        }

    def _walk(self, size: int) -> Walk:
        operands = [item for step in self.run for item in (*step.reads, *step.writes)]
        if all(value.shape == self.shape or value.size == 1 for value in operands):
            # nothing is broadcast along a dimension, so elements can be counted through, whatever the shape
            return Walk(True, size, BLOCK, self.shape)
        # whole rows: an operand that is broadcast along the rows is used as it is at every block
        rows = self.shape[0]
        return Walk(False, rows, max(1, BLOCK * rows // size), self.shape)

    def steps(self) -> list[Step]:
        """The loop as one step; the steps themselves where blocking would win nothing."""
        is_single = len(self.run) == 1 and self.threads == 1
        # a loop of fewer than two blocks costs its own slicing and saves no trip to memory
        if is_single or self.walk.chunk * 2 > self.walk.extent:
            return self.run
        reads = [value for step in self.run for value in step.reads if value.root not in self.inner]
        writes = [step.writes[0] for step in self.run if step.writes[0] not in self.inner]
        registers = self._registers()
        computed = [(step.action, step.writes[0]) for step in self.run]
        loop = TiledLoop(
            tuple((action, out) for action, out in computed if isinstance(action, Elementwise)),
            self.walk,
            tuple(registers.made),
            registers.held_in,
            tuple(dict.fromkeys(reads)),
            tuple(dict.fromkeys(writes)),
            self.threads,
            Bound("team", team_of(self.threads)) if self.threads > 1 else None,
        )
        ops = tuple(dict.fromkeys(op for step in self.run for op in step.ops))
        effect = any(step.effect for step in self.run)
        return [Step(self.run[0].op, loop, temps=loop.registers, effect=effect, fused=ops)]

    def _registers(self) -> _Registers:
        """Registers for the inner values, in place where an operand dies."""
        last = {value.root: index for index, step in enumerate(self.run) for value in step.reads}
        block: tuple[int, ...] = (self.walk.chunk,)
        if not self.walk.flat:
            block = (self.walk.chunk, *self.shape[1:])
        registers = _Registers(self.values, (self.threads, *block))
        for index, step in enumerate(self.run):
            roots = dict.fromkeys(item.root for item in step.reads)
            dying = [value for value in roots if value in registers.held_in and last[value] == index]
            out = step.writes[0]
            if out in self.inner:
                donor = _donor(step, dying)
                if donor is not None and donor.dtype == out.dtype:
                    registers.take_over(out, donor)
                    dying.remove(donor)
                else:
                    registers.take(out)
            for value in dying:
                registers.give_back(value)
        return registers


def _donor(step: Step, dying: list[Value]) -> Value | None:
    """An operand that dies in this step and whose register its result can take over."""
    assert step.elementwise is not None
    operands = step.elementwise.operands
    # `where` is written as two copies: the condition and the first choice are read by the second
    blocked = operands[:2] if step.elementwise.function == "where" else ()
    for value in operands[len(blocked) :]:
        if isinstance(value, Value) and value in dying and not any(value is other for other in blocked):
            return value
    return None
