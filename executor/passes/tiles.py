"""A run of element-wise steps as one blocked loop: its blocks, and the scratch for its inner values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.executor.plan.actions import BlockSum, Bound, Elementwise, TiledLoop, Walk
from fluidlite.executor.plan.objects import Plain
from fluidlite.executor.plan.sizes import about, same_shape
from fluidlite.executor.plan.steps import Step, is_limit, least_of, total_of
from fluidlite.executor.plan.values import Storage, Value, ValueFactory
from fluidlite.executor.run.team import team_of

__all__ = ["Chain"]

BLOCK = 1 << 15  # elements in a block: 128 KB, so that a handful of operands stay in a 1 MB cache
FEW_STEPS = 1 << 14  # element operations from which a kernel of few steps is called, not their functions
ENOUGH_STEPS = 4
SHARED = 1 << 20  # element operations from which waking a second thread pays


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


class Chain:
    """A run of element-wise steps of the same shape, and sums of what they compute, as a blocked loop."""

    def __init__(
        self,
        run: Sequence[Step],
        reads_left: dict[Value, int],
        values: ValueFactory,
        threads: int,
        is_compiled: bool = False,
    ) -> None:
        self.is_compiled = is_compiled
        self.run = _read_earlier(run)
        self.values = values
        self.inner = self._inner(run, reads_left)
        out = run[0].writes[0]
        self.shape = out.shape or ()
        self.threads = threads if about(out.size) * len(run) >= SHARED else 1
        self.walk = self._walk(out.size)

    def _inner(self, given: Sequence[Step], reads_left: dict[Value, int]) -> set[Value]:
        """The values that nobody outside of the chain reads."""
        reads: dict[Value, int] = {}
        for step in given:
            for value in step.reads:
                reads[value.root] = reads.get(value.root, 0) + 1
        outs = [step.writes[0] for step in self.run if step.elementwise is not None]
        return {
            out
            for out in outs
            if out.storage is Storage.BUFFER and reads.get(out, 0) == reads_left.get(out, 0)
        }

    def _walk(self, size: int) -> Walk:
        steps = [step for step in self.run if step.elementwise is not None]
        operands = [item for step in steps for item in (*step.reads, *step.writes)]
        if all(same_shape(value.shape, self.shape) or value.size == 1 for value in operands):
            # nothing is broadcast along a dimension, so elements can be counted through, whatever the shape
            return Walk(True, size, BLOCK, self.shape)
        # whole rows: an operand that is broadcast along the rows is used as it is at every block
        rows = self.shape[0]
        chunk = BLOCK * rows // size
        # rounded up, it is at least one row of whatever size, which nobody has to ask
        chunk = max(1, chunk) if isinstance(chunk, int) else -(-BLOCK * rows // size)
        return Walk(False, rows, chunk, self.shape)

    def steps(self) -> list[Step]:
        """The loop as one step; the steps themselves where blocking would win nothing."""
        # beside a number `maximum` takes three times as long as beside a block of them in the cache
        action = self.run[0].elementwise
        is_single = len(self.run) == 1 and self.threads == 1 and not (action and is_limit(action))
        is_small = about(self.walk.chunk) * 2 > about(self.walk.extent)
        # a loop of fewer than two blocks costs its own slicing and saves no trip to memory
        if (is_single or is_small) and not self._pays_compiled():
            return self.run
        if is_small:
            self.walk = replace(self.walk, chunk=self.walk.extent)
        reads = [value for step in self.run for value in step.reads if value.root not in self.inner]
        writes = [step.writes[0] for step in self.run if step.writes[0] not in self.inner]
        registers = self._registers()
        computed = [(step.action, step.writes[0]) for step in self.run]
        sums = self._sums()
        made = {value for step in self.run for value in step.writes}
        loop = TiledLoop(
            tuple((action, out) for action, out in computed if isinstance(action, Elementwise)),
            tuple(sums),
            self.walk,
            tuple(registers.made),
            registers.held_in,
            # what the loop writes it does not read from outside
            tuple(value for value in dict.fromkeys(reads) if value.root not in made),
            tuple(dict.fromkeys(writes)),
            self.threads,
            Bound("team", Plain(team_of(self.threads))) if self.threads > 1 else None,
        )
        ops = tuple(dict.fromkeys(op for step in self.run for op in step.ops))
        effect = any(step.effect for step in self.run)
        return [Step(self.run[0].op, loop, temps=loop.temps, effect=effect, fused=ops)]

    def _pays_compiled(self) -> bool:
        """True if one call of a kernel takes less time than the array calls: it costs as much as two."""
        count = len(self.run)
        work = count * about(self.run[0].writes[0].size)
        op = self.run[0].op
        # one call updates all parameters
        is_shared = op is not None and op._is_optimize_op()
        return self.is_compiled and (is_shared or work >= (FEW_STEPS if count < ENOUGH_STEPS else 1))

    def _sums(self) -> list[BlockSum]:
        """The sums of all elements: a partial one for each block, whoever computes it, so that the result
        does not depend on the number of threads.
        """
        blocks = -(-self.walk.extent // self.walk.chunk)
        found = [total for step in self.run if (total := total_of(step)) is not None]
        return [
            BlockSum(
                total.source.root, self.values.make((blocks,), total.out.dtype, Storage.BUFFER), total.out
            )
            for total in found
        ]

    def _registers(self) -> _Registers:
        """Registers for the inner values, in place where an operand dies."""
        last = {value.root: index for index, step in enumerate(self.run) for value in step.reads}
        block = self.walk.block
        registers = _Registers(self.values, block if self.walk.is_whole else (self.threads, *block))
        # sums are taken at the end of a block
        end = len(self.run)
        last.update((total.source.root, end) for step in self.run if (total := total_of(step)) is not None)
        for index, step in enumerate(self.run):
            if step.elementwise is None:
                continue
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


def _read_earlier(run: Sequence[Step]) -> list[Step]:
    """The steps, with comparisons that read x instead of maximum(x, a) where x is read later anyway.

    max(x, a) > b is x > b for b >= a, for NaN too. So the output of a relu dies at once where its gradient
    and that of what it was made of both follow in the same loop: 40 arrays fewer in a chain of 40.
    """
    clipped: dict[Value, tuple[Value, float]] = {}
    last = {value: index for index, step in enumerate(run) for value in step.reads}
    result = []
    for index, step in enumerate(run):
        action = step.elementwise
        limited = None if action is None else least_of(action)
        if limited is not None:
            clipped[step.writes[0]] = limited
        elif action is not None and action.function == "gt" and action.operands[0] in clipped:
            source, bound = clipped[action.operands[0]]
            is_above = isinstance(action.operands[1], (int, float)) and action.operands[1] >= bound
            if is_above and last[source] > index and source.shape == step.writes[0].shape:
                changed = replace(action, operands=(source, action.operands[1]))
                step = replace(step, action=changed, reads=())
        result.append(step)
    return result


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
