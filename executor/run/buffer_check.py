"""The check that steps of a plan leave the arrays that the plan promises (FLAGS_check_buffers)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from fluidlite.executor.plan.objects import BindContext, PlanObject
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.executor.plan.verify import PlanError
from fluidlite.executor.run.buffers import Buffers

__all__ = ["BufferCheck"]


class BufferCheck(PlanObject):
    """`check(number, arrays and shapes)` behind a step: PlanError where an array that it wrote has another
    shape, data type or order in memory than the rules of later ops count on, or lies outside of its place in
    the pool.

    `number` is that of the step, for which `add` notes what it writes. An array is None where a branch or a
    loop left its value out.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[Step, tuple[Value, ...]]] = []
        self.buffers: Buffers | None = None

    def add(self, step: Step) -> tuple[int, tuple[Value, ...]]:
        """The number of a step, and what it writes of which the plan knows the shape."""
        values = tuple(dict.fromkeys(value for value in step.all_writes() if _is_promised(value)))
        self.steps.append((step, values))
        return len(self.steps) - 1, values

    def bind(self, context: BindContext) -> BufferCheck:
        """The check of a binding, with its pool."""
        bound = copy.copy(self)
        bound.buffers = context.buffers
        return bound

    def __call__(self, number: int, found: Sequence[tuple[Any, tuple[int, ...]]]) -> None:
        step, values = self.steps[number]
        for value, (array, shape) in zip(values, found, strict=True):
            # the other branch fills it, or nobody reads it
            if array is None and value.storage is Storage.LOCAL:
                continue
            wrong = self._wrong(value, array, shape)
            if wrong:
                raise PlanError(_described(step, value, wrong, shape))

    def _wrong(self, value: Value, array: Any, shape: tuple[int, ...]) -> str:
        """The property of an array that is not as promised; empty where all are."""
        if tuple(array.shape) != tuple(shape) or array.dtype != value.dtype:
            return f"is {array.dtype}{list(array.shape)}"
        if value.lies_in_order and not array.flags.c_contiguous:
            return f"has strides of {array.strides} bytes"
        if value.root.storage is Storage.BUFFER and array.size and not self._is_in_place(value, array):
            return "lies outside of its range in the pool"
        return ""

    def _is_in_place(self, value: Value, array: Any) -> bool:
        buffers = self.buffers
        # of an array on a device NumPy does not know the address
        if buffers is None or not buffers.on_host:
            return True
        first, last = buffers.place_of(value.root)
        start = array.__array_interface__["data"][0]
        span = sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
        return bool(first <= start and start + span + array.itemsize <= last)


def _is_promised(value: Value) -> bool:
    # lists of a loop's steps have entries of known shape, and none themselves
    return value.shape is not None and value.dtype is not None and value.entry is None


def _described(step: Step, value: Value, wrong: str, shape: tuple[int, ...]) -> str:
    ops = ", ".join(dict.fromkeys(repr(op.type) for op in step.ops)) or "the plan"
    where = f"\n  built at {step.ops[0].where}" if step.ops else ""
    order = " in C order" if value.lies_in_order else ""
    return (
        f"op {ops}: {value.name or 'a temporary'} {wrong}, but later steps expect "
        f"{value.dtype}{list(shape)}{order}{where}"
    )
