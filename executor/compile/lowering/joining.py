"""Arrays joined and cut: split, stack, unstack, slice."""

from __future__ import annotations

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.strided import copied
from fluidlite.executor.plan.values import Slices, Value
from fluidlite.ops.tensors.slicing import bound


@lowering("split")
def _(e: Emitter) -> None:
    if e.op.inputs.get("AxisTensor") or e.op.inputs.get("SectionsTensorList"):
        raise CannotLower("sections that are computed")
    x = e.need("X")
    assert x.shape is not None
    axis = e.attr("axis") % len(x.shape)
    start = 0
    for index, size in enumerate(_widths(e, axis)):
        if e.wants("Out", index):
            part = e.piece(x, start, start + size, axis)
            copied(e, part, e.out("Out", part.shape, x.dtype, index=index))
        start = start + size


def _widths(e: Emitter, axis: int) -> list[int]:
    """The widths of the parts along an axis."""
    specs = e.builder.inferred(e.op).get("Out") or []
    if not specs or not all(spec.static for spec in specs):
        raise CannotLower("parts of unknown widths")
    return [spec.shape[axis] for spec in specs]


@lowering("stack")
def _(e: Emitter) -> None:
    _stack(e, e.many("X"), "Y")


@lowering("unstack_grad")
def _(e: Emitter) -> None:
    _stack(e, e.many("Y@GRAD"), "X@GRAD")


def _stack(e: Emitter, parts: list[Value], slot: str) -> None:
    """Parts side by side along a new dimension."""
    first = parts[0]
    if any(part.shape != first.shape or part.dtype != first.dtype for part in parts):
        raise CannotLower("parts differ")
    assert first.shape is not None
    axis = e.attr("axis") % (len(first.shape) + 1)
    out = e.out(slot, (*first.shape[:axis], len(parts), *first.shape[axis:]), first.dtype)
    wide = (*first.shape[:axis], 1, *first.shape[axis:])
    for index, part in enumerate(parts):
        e.copy(e.reshape(part, wide), e.piece(out, index, index + 1, axis))


@lowering("unstack")
def _(e: Emitter) -> None:
    _unstack(e, e.need("X"), "Y")


@lowering("stack_grad")
def _(e: Emitter) -> None:
    _unstack(e, e.need("Y@GRAD"), "X@GRAD")


def _unstack(e: Emitter, x: Value, slot: str) -> None:
    """The parts along one dimension, which goes away."""
    assert x.shape is not None
    axis = e.attr("axis") % len(x.shape)
    if slot == "Y" and x.shape[axis] != e.attr("num"):
        raise CannotLower("num")
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    for index in range(len(e.op.outputs.get(slot, ()))):
        if e.wants(slot, index):
            out = e.out(slot, shape, x.dtype, index=index)
            part = e.piece(x, index, index + 1, axis)
            e.copy(part, e.reshape(out, part.shape or ()))


_COMPUTED = ("StartsTensor", "EndsTensor", "StartsTensorList", "EndsTensorList")


def _ranges(e: Emitter, shape: tuple[int, ...]) -> tuple[tuple[int, int] | None, ...]:
    """[start, stop) along each dimension of a sliced array; None where it is whole."""
    if any(e.op.inputs.get(slot) for slot in _COMPUTED):
        raise CannotLower("limits that are computed")
    ranges: list[tuple[int, int] | None] = [None] * len(shape)
    for axis, start, end in zip(e.attr("axes"), e.attr("starts"), e.attr("ends"), strict=True):
        part = bound(shape[axis], start, end)
        ranges[axis] = (part.start, part.stop)
    return tuple(ranges)


@lowering("slice")
def _(e: Emitter) -> None:
    x = e.need("Input")
    assert x.shape is not None
    shape = e.inferred_shape("Out")
    ranges = _ranges(e, x.shape)
    sizes = [size if cut is None else cut[1] - cut[0] for size, cut in zip(x.shape, ranges, strict=True)]
    part = e.view(x, Slices(ranges), sizes)
    out = e.out("Out", shape, x.dtype)
    # as the kernel counts: a dimension of one that goes away, and limits that its attributes mean otherwise
    if part.size != out.size:
        raise CannotLower("limits with a meaning of their own")
    if part.shape == out.shape:
        copied(e, part, out)
    else:
        e.copy(part, e.reshape(out, sizes))


@lowering("slice_grad")
def _(e: Emitter) -> None:
    x = e.need("Input")
    d = e.need("Out@GRAD")
    assert x.shape is not None
    ranges = _ranges(e, x.shape)
    sizes = [size if cut is None else cut[1] - cut[0] for size, cut in zip(x.shape, ranges, strict=True)]
    out = e.out("Input@GRAD", x.shape, d.dtype)
    part = e.view(out, Slices(ranges), sizes)
    if part.size != d.size:
        raise CannotLower("limits with a meaning of their own")
    if part.size != out.size:
        e.copy(e.number(0, d), out)
    e.copy(e.reshape(d, sizes), part)
