"""Ops over rows by the row kernels that they declare: blocks of rows on the host, kernels on a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.gradient_names import GRAD_SUFFIX
from fluidlite.executor.compile.emitter import CannotLower, Emitter
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.cuda.rows import DeviceRowKernel
from fluidlite.executor.plan.actions import Call, Out, SetItem, When
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.rows import LabelledRows, Labels, block_rows
from fluidlite.ops.kernels.row_kernels import NUMBER, RowArray, RowUse

__all__ = ["lower_rows"]


def lower_rows(e: Emitter, use: RowUse) -> None:
    """Call the row kernel of an op; CannotLower where the op is not what the kernel computes."""
    if any(e.attr(name) != wanted for name, wanted in use.only.items()):
        raise CannotLower("attributes")
    call = _RowCall(e, use)
    operands = call.inputs()
    outputs = call.outputs()
    form = use.kernel.form(**call.given)
    numbers = tuple(call.number(name) for name in form.numbers)
    arguments: tuple[Any, ...] = (form, call.sizes, call.dtype, numbers)
    if not e.on_host:
        kernel = e.bind_fresh(use.kernel.name, DeviceRowKernel, *arguments)
    elif not form.labels:
        kernel = e.bind_fresh(use.kernel.name, block_rows, *arguments, e.threads)
    elif e.compiles(call.like):
        kernel = e.bind_fresh(use.kernel.name, LabelledRows, *arguments, e.threads)
    else:
        _run_at_labels(e, use, arguments, operands, outputs)
        return
    e.run(kernel, *operands, *map(Out, outputs))


def _run_at_labels(
    e: Emitter, use: RowUse, arguments: tuple[Any, ...], operands: Sequence[Value], outputs: Sequence[Value]
) -> None:
    """Call a kernel with the indices of labels, which forward and backward share."""
    form, sizes, _, numbers = arguments
    (label,) = form.labels
    position = form.inputs.index(label.name)
    ignored = numbers[form.numbers.index(label.ignored)]
    key = ("labelled", e.need(use.slots[label.name]), sizes, ignored)
    found = e.recall(key)
    if found is None:
        found = e.temp((sizes[0],), np.int64), e.unknown()
        find = e.bind_fresh("labels", Labels, form, sizes, ignored)
        e.assign(found[1], Call(find, (operands[position], Out(found[0]))))
        e.remember(key, found)
    index, left_out = found
    operands = [*operands[:position], e.reshape(index, (sizes[0], 1)), *operands[position + 1 :]]
    e.run(e.bind_fresh(form.kernel.name, block_rows, *arguments, e.threads), *operands, *map(Out, outputs))
    for name, output in zip(form.outputs, outputs, strict=True):
        if name in form.cleared:
            e.step(When(left_out, SetItem(output, left_out, 0)))


class _RowCall:
    """The arrays and numbers that a kernel is called with."""

    def __init__(self, e: Emitter, use: RowUse) -> None:
        self.e = e
        self.use = use
        kernel = use.kernel
        like = e.need(use.slots[next(array.name for array in kernel.reads if array.axes == kernel.axes)])
        sizes = use.sizes(like.shape or (), e.attr)
        if sizes is None or not takes(e, like.dtype) or (e.on_host and kernel.axes != "rc"):
            raise CannotLower("rows of another kind")
        self.like = like
        self.dtype = like.dtype
        self.sizes = tuple(sizes)
        self.size_of = dict(zip(kernel.axes, sizes, strict=True))
        if not math.prod(self.size_of[axis] for axis in kernel.columns):
            raise CannotLower("rows without elements")
        self.given: dict[str, str | None] = {}
        """The arrays that are given otherwise than declared."""
        self.uniform: dict[str, Any] = {}
        """Those that are given as a number."""

    def number(self, name: str) -> Any:
        """A number of the kernel: what an array is everywhere, a constant, or an attribute."""
        if name in self.uniform:
            return self.uniform[name]
        return self.use.constants[name] if name in self.use.constants else self.e.attr(name)

    def inputs(self) -> list[Value]:
        """The arrays that are read."""
        found = []
        for array in self.use.kernel.reads:
            slot = self.use.slots.get(array.name, "")
            value = self.e.x(slot) if self.e.op.inputs.get(slot) else None
            if value is None and array.default is None:
                raise CannotLower(slot)
            value = None if value is None else self._input(array, value)
            if value is not None:
                found.append(value)
            elif array.name not in self.uniform:
                self.given[array.name] = None
        return found

    def _input(self, array: RowArray, value: Value) -> Value | None:
        """An array as kernels take it; None where it is a number."""
        e = self.e
        dtype = np.dtype(np.int64) if array.ignored else self.dtype
        # the portable kernel says what is wrong
        if value.dtype != dtype or value.size != math.prod(self._shape(array)):
            raise CannotLower("another type or size")
        # the gradient of a mean is one number for all rows; compiled code reads it, and so serves all numbers
        is_number = value.uniform is not None and not set(array.axes) & set(self.use.kernel.columns)
        # labels are looked up one by one, also where all are the same
        if is_number and not array.ignored:
            self.given[array.name] = "" if e.on_host else NUMBER
            if e.on_host:
                return e.number(value.uniform, value)
            self.uniform[array.name] = value.uniform
            return None
        given = for_kernel(e, value, dtype)
        return e.reshape(given, self._laid(array)) if e.on_host else given

    def _shape(self, array: RowArray) -> list[int]:
        return [self.size_of[axis] for axis in array.axes]

    def _laid(self, array: RowArray) -> list[int]:
        """The shape in which the host's kernels take an array: a number of each row is one column."""
        shape = self._shape(array)
        return [*shape, 1] if array.axes == self.use.kernel.rows and not array.ignored else shape

    def outputs(self) -> list[Value]:
        """The arrays that are written: those that the op names, of gradients those that somebody reads."""
        e = self.e
        found = []
        for array in self.use.kernel.writes:
            slot = self.use.slots[array.name]
            is_gradient = slot.endswith(GRAD_SUFFIX)
            if e.op.outputs.get(slot) and (e.wants(slot) or not is_gradient):
                value = e.out(slot, e.inferred_shape(slot), self.dtype)
                found.append(e.reshape(value, self._laid(array)) if e.on_host else value)
            elif array.name in self.use.kernel.labelled:
                found.append(e.temp(self._laid(array), self.dtype))
            else:
                self.given[array.name] = None
        if not found:
            raise CannotLower("nothing is wanted")
        return found
