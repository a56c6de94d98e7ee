"""Compiled kernels in place of loops over arrays, with the extra `fluidlite[fast]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.arithmetic import can_hold, common_dtype
from fluidlite.executor.fast.loops.compiled import CompiledLoops, NestSizes
from fluidlite.executor.fast.loops.compiler import LoopCode, RunCount, known_loop, widths
from fluidlite.executor.fast.loops.nest import MOST_DIMENSIONS, Nest, operands_of
from fluidlite.executor.fast.loops.rows import CompiledRows
from fluidlite.executor.plan.actions import Bound, Call, CompiledRun, Elementwise, TiledLoop, recipe_of
from fluidlite.executor.plan.objects import Fresh, FreshTable
from fluidlite.executor.plan.plan import Plan
from fluidlite.executor.plan.sizes import Made, Size, about, resolver, sizes_in
from fluidlite.executor.plan.steps import Step, in_bodies
from fluidlite.executor.plan.uses import Footprint
from fluidlite.executor.plan.values import Slices, Storage, Value, ValueFactory
from fluidlite.executor.run.rows import LabelledRows, block_rows

__all__ = ["compile_loops"]

SHARED = 1 << 22  # element operations from which waking a second thread pays
LITTLE = 16  # elements that may be in memory for longer
APART = 16  # steps that may stand between two updates that are run together
_ROW_KERNELS = (block_rows, LabelledRows)


def compile_loops(plan: Plan) -> Plan:
    """Let compiled kernels run the loops of array calls, those of one kind in the update together."""
    if plan.target.loops == "off":
        return plan

    def changed(steps: Sequence[Step], kept: Sequence[Value]) -> list[Step]:
        return _compiled(steps, plan.values, plan.target.threads, plan.target.loops == "wait")

    return replace(plan, steps=in_bodies(plan.steps, plan.fetches, changed))


@dataclass(eq=False)
class _Candidate:
    """The loop of some steps, what it is called with, and its sizes."""

    loop: LoopCode
    steps: list[Step]
    arrays: list[Value]
    numbers: list[Value]
    """Of the arrays those of one number, which follows from the sizes of the feeds."""
    parts: list[NestSizes]

    @property
    def work(self) -> int:
        """Element operations."""
        loops = [step.action for step in self.steps]
        return sum(len(loop.run) * loop.run[0][1].size for loop in loops if isinstance(loop, TiledLoop))

    def take(self, other: _Candidate) -> None:
        """Do what another one does in the same call."""
        self.steps += other.steps
        self.arrays += other.arrays
        self.numbers += other.numbers
        self.parts += other.parts

    def step(self, threads: int, wait: bool) -> Step:
        """The step that calls it."""
        if wait:
            self.loop.compile()
        dtypes = tuple(value.dtype for value in self.arrays)
        numbers = set(self.numbers)
        passing = [value.root.storage is Storage.LOCAL for value in self.arrays]
        varying = tuple(
            position
            for position, value in enumerate(self.arrays)
            if not passing[position] and (not value.fixed or value in numbers)
        )
        passed = tuple(
            (position, self.arrays[position].size) for position, is_so in enumerate(passing) if is_so
        )
        size = threads if about(self.work) >= SHARED else 1
        moving = tuple(
            position for position, value in enumerate(self.arrays) if value.fixed and _moves(value)
        )
        arguments = (self.loop, tuple(self.parts), dtypes, varying, size, RunCount(), passed, moving)
        made = FreshTable(CompiledLoops, arguments)
        first = self.steps[0]
        loops = tuple(step.action for step in self.steps if isinstance(step.action, TiledLoop))
        return Step(
            first.op,
            CompiledRun(loops, Bound("loops", made), tuple(self.arrays), tuple(self.numbers)),
            temps=tuple(temp for step in self.steps for temp in step.temps),
            effect=any(step.effect for step in self.steps),
            fused=tuple(dict.fromkeys(op for step in self.steps for op in step.ops)),
        )


_Kind: TypeAlias = "tuple[LoopCode, tuple[Value, ...], NestSizes]"
"""The code, the arrays and the sizes of the first of some loops that are alike."""


def _compiled(steps: Sequence[Step], made: ValueFactory, threads: int, wait: bool) -> list[Step]:
    result = _Result()
    known: dict[TiledLoop, _Kind] = {}
    for step in steps:
        kernel = _known_kernel_of(step, made, known)
        if kernel is None:
            result.add(_with_rows(step, wait))
        else:
            result.add_kernel(kernel)
    found = [item for item in result.items if item is not None]
    return [item.step(threads, wait) if isinstance(item, _Candidate) else item for item in found]


class _Result:
    """The steps so far."""

    def __init__(self) -> None:
        self.items: list[Step | _Candidate | None] = []
        """None where an update stood that has moved."""
        self.touched: dict[int, Footprint] = {}
        """The memory that the item at a place uses, of those that were asked for."""

    def add(self, step: Step) -> None:
        """Append a step."""
        self.items.append(step)

    def add_kernel(self, kernel: _Candidate) -> None:
        """Append a kernel; an update joins the last one by the same loop, where that one stands or here."""
        (step,) = kernel.steps
        self.touched[len(self.items)] = Footprint(step)
        self.items.append(kernel)
        here = len(self.items) - 1
        place = self._last_by(kernel) if _is_update(step) else None
        if place is None:
            return
        between = range(place + 1, here)
        if all(self._may_pass(here, other) for other in (place, *between)):
            self._join(place, here)
            self.items.pop()
            del self.touched[here]
        elif self._may_pass(place, here) and all(
            self._may_pass(place, other) and self._writes_little(other) for other in between
        ):
            self._join(place, here)
            self.items[here], self.items[place] = self.items[place], None
            self.touched[here] = self.touched.pop(place)

    def _last_by(self, kernel: _Candidate) -> int | None:
        """The place of the last update by the same loop, if that is not far away."""
        passed = 0
        for place in range(len(self.items) - 2, -1, -1):
            item = self.items[place]
            if isinstance(item, _Candidate) and item.loop is kernel.loop and _is_update(item.steps[0]):
                return place
            # a view is only a name
            passed += item is not None and not (isinstance(item, Step) and item.is_view)
            if passed > APART:
                return None
        return None

    def _may_pass(self, one: int, other: int) -> bool:
        """True if two items may change places."""
        item = self.items[other]
        if item is None or (isinstance(item, Step) and item.is_view):
            return True
        if isinstance(item, Step) and item.body is not None:
            return False
        return self._memory_at(one).is_apart(self._memory_at(other))

    def _writes_little(self, place: int) -> bool:
        """True if an item writes some numbers only, such as a rate: what waits for one that makes a gradient
        would keep two of them in memory.
        """
        item = self.items[place]
        if item is None or (isinstance(item, Step) and item.is_view):
            return True
        return isinstance(item, Step) and all(
            value.known and about(value.size) <= LITTLE for value in item.all_writes()
        )

    def _memory_at(self, place: int) -> Footprint:
        """The memory that the item at a place uses."""
        if place not in self.touched:
            item = self.items[place]
            assert isinstance(item, Step)
            self.touched[place] = Footprint(item)
        return self.touched[place]

    def _join(self, first: int, second: int) -> None:
        """Let the first of two places have both updates."""
        one, other = self.items[first], self.items[second]
        assert isinstance(one, _Candidate) and isinstance(other, _Candidate)
        one.take(other)
        self.touched[first].add(self.touched[second])


def _with_rows(step: Step, wait: bool) -> Step:
    """A step that calls a kernel over float32 rows, with the compiled one in front; any other as it is."""
    action = step.action
    recipe = recipe_of(action, *_ROW_KERNELS)
    if recipe is None or recipe.arguments[2] != np.float32:
        return step
    assert isinstance(action, Call) and isinstance(action.callee, Bound)
    made = Fresh(CompiledRows, (recipe.factory, recipe.arguments, wait, RunCount()))
    return replace(step, action=replace(action, callee=Bound(action.callee.hint, made)))


def _known_kernel_of(step: Step, made: ValueFactory, known: dict[TiledLoop, _Kind]) -> _Candidate | None:
    """The kernel of a loop (of a loop like it on other arrays, if there is one); None for other steps."""
    loop = step.action
    if not isinstance(loop, TiledLoop):
        return None
    if loop.like in known:
        code, arrays, part = known[loop.like]
        at = dict(zip((*loop.like.reads, *loop.like.writes), (*loop.reads, *loop.writes), strict=True))
        return _Candidate(code, [step], [at[value] for value in arrays], [], [part])
    kernel = _kernel_of(step, loop, made)
    if kernel is not None and not kernel.numbers:
        known[loop] = kernel.loop, tuple(kernel.arrays), kernel.parts[0]
    return kernel


def _kernel_of(step: Step, loop: TiledLoop, made: ValueFactory) -> _Candidate | None:
    """The kernel of a loop; None for loops that no kernel can hold."""
    if not all(can_hold(*item) for item in loop.run):
        return None
    values = list(dict.fromkeys((*loop.reads, *loop.writes)))
    totals = [item.total for item in loop.sums]
    plain = [value for value in values if value not in totals]
    if not all(value.contiguous for value in plain):
        return None
    if any(len(value.shape or ()) > len(loop.walk.shape) for value in plain):
        # a wrong operand, which NumPy's call refuses
        return None
    numbers: dict[Value, None] = {}
    run = [(_with_arguments(action, out, made, numbers), out) for action, out in loop.run]
    operands, sizes = operands_of([*plain, *numbers], loop.walk.shape)
    if len(sizes) > MOST_DIMENSIONS:
        return None
    nest = Nest(run, loop.writes, [item.source for item in loop.sums], operands, len(sizes))
    part = NestSizes(sizes, len(operands) + len(totals), len(totals))
    arrays = [*(operand.value for operand in operands), *totals]
    code = known_loop(nest.key(), lambda: nest.text("LOOP", widths()))
    return _Candidate(code, [step], arrays, list(numbers), [part])


def _with_arguments(
    action: Elementwise, out: Value, made: ValueFactory, numbers: dict[Value, None]
) -> Elementwise:
    """An action whose numbers that follow from sizes are arrays of one number, which `numbers` receives: in
    the text of a loop they would have it serve one size.
    """
    if not any(isinstance(item, Size) for item in action.operands):
        return action
    assert out.dtype is not None
    dtypes = [item.dtype for item in action.operands if isinstance(item, Value) and item.dtype is not None]
    dtype = common_dtype(action.function, dtypes, out.dtype)

    def argument(item: Any) -> Any:
        if not isinstance(item, Size):
            return item
        found = made.make((), dtype, Storage.CONST, constant=Made(np.array, (item, dtype)))
        numbers[found] = None
        return found

    return replace(action, operands=tuple(map(argument, action.operands)))


def _moves(value: Value) -> bool:
    """True if the array of a value is another one for other sizes, or lies elsewhere in its memory."""
    while value.base is not None:
        view, base = value.view, value.base
        if isinstance(view, Slices) and (resolver(view.ranges) or sizes_in(base.shape or ())):
            return True
        value = base
    return isinstance(value.constant, Made)


def _is_update(step: Step) -> bool:
    return step.op is not None and step.op._is_optimize_op()
