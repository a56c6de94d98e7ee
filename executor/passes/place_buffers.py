"""The place of each buffer in the plan's pool: by liveness, in place where that is safe."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fluidlite.executor.plan.plan import BufferLayout, Plan
from fluidlite.executor.plan.steps import Step, flat
from fluidlite.executor.plan.values import Storage, Value

__all__ = ["layout_of", "place_buffers"]

ALIGN = 64  # bytes: a line of the cache, which two threads' buffers should not share


def place_buffers(plan: Plan) -> Plan:
    """Place every buffer in one pool."""
    return replace(plan, layout=layout_of(plan.steps, plan.fetches))


class _Pool:
    """First-fit allocation in an address space that grows as needed."""

    def __init__(self) -> None:
        self.live: list[tuple[int, int]] = []  # (offset, size), ascending
        self.peak = 0

    def take(self, nbytes: int) -> int:
        # an empty buffer gets a place, too: `free` tells places apart by their offsets
        size = -(-max(nbytes, 1) // ALIGN) * ALIGN
        offset = 0
        for index, (start, length) in enumerate(self.live):
            if start - offset >= size:
                self.live.insert(index, (offset, size))
                return offset
            offset = start + length
        self.live.append((offset, size))
        self.peak = max(self.peak, offset + size)
        return offset

    def free(self, offset: int) -> None:
        # (offset,) sorts right before (offset, size)
        index = bisect.bisect_left(self.live, (offset,))
        assert self.live[index][0] == offset
        del self.live[index]


def _touched(step: Step) -> set[Value]:
    """Buffers that a step reads or writes."""
    roots = {value.root for value in (*step.all_reads(), *step.all_writes())}
    return {root for root in roots if root.storage is Storage.BUFFER}


def _last_use(touched: Sequence[set[Value]], kept: Iterable[Value]) -> dict[Value, int]:
    last: dict[Value, int] = {}
    for index, found in enumerate(touched):
        last.update(dict.fromkeys(found, index))
    last.update({value.root: len(touched) for value in kept if value.root.storage is Storage.BUFFER})
    return last


def _reusable(
    step: Step, out: Value, index: int, last: dict[Value, int], placed: dict[Value, int]
) -> Value | None:
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
        is_alike = value.shape == out.shape and value.dtype == out.dtype
        is_whole = value.nbytes == value.root.nbytes
        if is_alike and is_whole and _is_only_view(value, action.operands):
            return value.root
    return None


def _is_only_view(value: Value, operands: Iterable[Any]) -> bool:
    """True if no operand shows the memory of `value` in another way."""
    # through a transposed view an element would be read after another one has been written over it
    same_memory = [item for item in operands if isinstance(item, Value) and item.root is value.root]
    return all(item is value for item in same_memory)


def layout_of(steps: Sequence[Step], kept: Iterable[Value]) -> BufferLayout:
    """Place every buffer; `kept` are the values that the fetches read after the last step."""
    pool = _Pool()
    offsets: dict[Value, int] = {}
    _place(steps, kept, pool, offsets)
    temps = [temp for step in flat(steps) for temp in step.temps]
    return BufferLayout(offsets, pool.peak, sum(value.nbytes for value in {*offsets, *temps}))


def _place(steps: Sequence[Step], kept: Iterable[Value], pool: _Pool, offsets: dict[Value, int]) -> None:
    """Place the buffers of a list of steps. Those of a body live within one run of it, beside all that is
    live around it.
    """
    touched = [_touched(step) for step in steps]
    last = _last_use(touched, kept)
    placed: dict[Value, int] = {}
    for index, step in enumerate(steps):
        for value in (*step.writes, *step.reads):
            root = value.root
            if root.storage is not Storage.BUFFER or root in offsets:
                continue
            # in place saves memory and the traffic of one more array
            donor = _reusable(step, root, index, last, placed) if value in step.writes else None
            offset = pool.take(root.nbytes) if donor is None else placed.pop(donor)
            placed[root] = offset
            offsets[root] = offset
        if step.body is not None:
            _place(step.body, (), pool, offsets)
        # all of them first: the scratch buffers of one step are used side by side
        for temp in step.temps:
            offsets[temp] = pool.take(temp.nbytes)
        for temp in step.temps:
            pool.free(offsets[temp])
        for root in touched[index]:
            if last.get(root) == index and root in placed:
                pool.free(placed.pop(root))
