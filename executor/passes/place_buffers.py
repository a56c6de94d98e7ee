"""The place of each buffer in the plan's pool: by liveness, in place where that is safe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fluidlite.executor.plan.actions import CompiledRun
from fluidlite.executor.plan.plan import BufferLayout, Move, Plan
from fluidlite.executor.plan.pool import laid_out
from fluidlite.executor.plan.sizes import plain, same_shape
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["layout_of", "place_buffers"]


def place_buffers(plan: Plan) -> Plan:
    """Place every buffer in one pool."""
    return replace(plan, layout=layout_of(plan.steps, plan.fetches))


def layout_of(steps: Sequence[Step], kept: Iterable[Value]) -> BufferLayout:
    """Place every buffer; `kept` are the values that the fetches read after the last step."""
    moves = tuple(_moves(steps, kept, set()))
    # for the run at hand; `Buffers` makes the same moves for the sizes of others
    return laid_out(moves, lambda value: plain(value.nbytes))


def _touched(step: Step) -> set[Value]:
    """Buffers that a step reads or writes."""
    values = (*step.all_reads(), *step.all_writes())
    return {root for value in values if (root := value.root).storage is Storage.BUFFER}


def _last_use(touched: Sequence[set[Value]], kept: Iterable[Value]) -> dict[Value, int]:
    last: dict[Value, int] = {}
    for index, found in enumerate(touched):
        last.update(dict.fromkeys(found, index))
    last.update({value.root: len(touched) for value in kept if value.root.storage is Storage.BUFFER})
    return last


def _scratch(step: Step) -> Iterator[tuple[Value, ...]]:
    """The temporaries of a step that are in use together."""
    if isinstance(step.action, CompiledRun):
        # its loops run one after the other
        yield from (loop.temps for loop in step.action.loops)
    else:
        yield step.temps


def _reusable(step: Step, out: Value, index: int, last: dict[Value, int], placed: set[Value]) -> Value | None:
    """An input that dies in this element-wise step and whose memory the output can take over."""
    action = step.elementwise
    # only element-wise functions read an element before they write the one in its place
    if action is None:
        return None
    # `where` is written as two copies, the last operand first: the others are still read after that
    operands = action.operands[2:] if action.function == "where" else action.operands
    for value in operands:
        if not isinstance(value, Value) or value.root not in placed or last.get(value.root) != index:
            continue
        is_alike = same_shape(value.shape, out.shape) and value.dtype == out.dtype
        is_whole = value.nbytes == value.root.nbytes
        if is_alike and is_whole and _is_only_view(value, action.operands):
            return value.root
    return None


def _is_only_view(value: Value, operands: Iterable[Any]) -> bool:
    """True if no operand shows the memory of `value` in another way."""
    # through a transposed view an element would be read after another one has been written over it
    same_memory = [item for item in operands if isinstance(item, Value) and item.root is value.root]
    return all(item is value for item in same_memory)


def _moves(steps: Sequence[Step], kept: Iterable[Value], seen: set[Value]) -> Iterator[Move]:
    """The order in which the buffers of some steps come and go. Those of a body live within one run of it,
    beside all that is live around it.
    """
    touched = [_touched(step) for step in steps]
    last = _last_use(touched, kept)
    placed: set[Value] = set()
    for index, step in enumerate(steps):
        for value in (*step.writes, *step.reads):
            root = value.root
            if root.storage is not Storage.BUFFER or root in seen:
                continue
            # in place saves memory and the traffic of one more array
            donor = _reusable(step, root, index, last, placed) if value in step.writes else None
            if donor is not None:
                placed.remove(donor)
            yield Move(root, donor)
            placed.add(root)
            seen.add(root)
        if step.body is not None:
            yield from _moves(step.body, (), seen)
        for temps in _scratch(step):
            # all of them first: the scratch buffers of one loop are used side by side
            yield from (Move(temp) for temp in temps)
            yield from (Move(None, temp) for temp in temps)
        for root in touched[index]:
            if last.get(root) == index and root in placed:
                placed.remove(root)
                yield Move(None, root)
