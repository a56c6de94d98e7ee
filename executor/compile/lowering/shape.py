"""Ops that only rename memory, and copies between shapes."""

from __future__ import annotations

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering, lowering_of_gradients
from fluidlite.executor.compile.lowering.device_rows import kept_rows
from fluidlite.executor.compile.lowering.strided import copied, reshaped_view, source_of
from fluidlite.executor.plan.values import Value


def _no_tensors(e: Emitter) -> None:
    for slot in ("Shape", "ShapeTensor", "AxesTensor", "AxesTensorList", "AxisTensor"):
        if e.op.inputs.get(slot):
            raise CannotLower(slot)


@lowering("flatten", "flatten2", "flatten_contiguous_range", "reshape", "reshape2")
@lowering("squeeze", "squeeze2", "unsqueeze", "unsqueeze2")
def _reshape(e: Emitter) -> None:
    _no_tensors(e)
    x = e.need("X")
    shape = e.inferred_shape("Out")
    out = e.reshape(x, shape)
    reshaped_view(e, x, out)
    e.alias("Out", out)
    _remember_shape(e, x)


def _remember_shape(e: Emitter, x: Value) -> None:
    """XShape is an array without elements whose shape, behind the leading 0, is that of X: all that the
    gradient needs.
    """
    if e.op.outputs.get("XShape"):
        assert x.shape is not None
        e.alias("XShape", e.made((0, *x.shape), np.empty, (0, *x.shape), x.dtype))


def _forward_shape(e: Emitter) -> tuple[int, ...]:
    remembered = e.x("XShape") if e.op.inputs.get("XShape") else None
    if remembered is not None and remembered.shape is not None:
        return remembered.shape[1:]
    # reshape and its kin without a 2 keep X itself
    shape = e.need("X").shape
    assert shape is not None
    return shape


@lowering_of_gradients(_reshape)
def _(e: Emitter) -> None:
    d = e.need("Out@GRAD")
    out = e.reshape(d, _forward_shape(e))
    reshaped_view(e, d, out)
    e.alias("X@GRAD", out)


@lowering("transpose", "transpose2")
def _(e: Emitter) -> None:
    x = e.need("X")
    assert x.shape is not None
    axis = e.attr("axis")
    # a copy: ops that follow reshape what they get, and a reshape of a transposed view would be no view of it
    shape = tuple(x.shape[i] for i in axis)
    out = e.out("Out", shape, x.dtype)
    copied(e, e.transpose(source_of(e, x), axis), out)
    _remember_shape(e, x)


@lowering("transpose_grad", "transpose2_grad")
def _(e: Emitter) -> None:
    d = e.need("Out@GRAD")
    assert d.shape is not None
    axis = e.attr("axis")
    back = tuple(int(i) for i in np.argsort([i % len(axis) for i in axis]))
    shape = tuple(d.shape[i] for i in back)
    out = e.out("X@GRAD", shape, d.dtype)
    copied(e, e.transpose(source_of(e, d), back), out)


@lowering("assign")
def _(e: Emitter) -> None:
    rows = e.any("X")
    if kept_rows(e, rows) and not e.persistable("Out"):
        e.alias("Out", rows)
        return
    x = e.need("X")
    # values are never written twice, so no copy is needed
    if not e.persistable("Out") or x.name == e.op.outputs["Out"][0]:
        e.alias("Out", x)
        return
    out = e.out("Out", x.shape, x.dtype)
    e.elementwise("x", out, x=x)


def _concat_images(e: Emitter) -> bool:
    """True if the parts lie in one order of dimensions, in which they are joined."""
    parts = [e.laid_need("X", index) for index in range(len(e.op.inputs["X"]))]
    order = parts[0].order
    if order is None or e.persistable("Out") or any(part.order != order for part in parts):
        return False
    assert parts[0].shape is not None
    axis = e.attr("axis") % len(order)
    bases = [e.base_in(part, order) for part in parts]
    out = e.published("Out", e.inferred_shape("Out"), parts[0].dtype, order)
    e.call("concatenate", tuple(bases), axis=order.index(axis), out=out)
    return True


@lowering("concat")
def _(e: Emitter) -> None:
    if e.op.inputs.get("AxisTensor"):
        raise CannotLower("AxisTensor")
    whole = e.recall(("pieces", *e.op.inputs["X"]))
    # `recv` has read the pieces where they belong
    if whole is not None:
        e.finals.append((whole.name, whole))
        return
    if _concat_images(e):
        return
    parts = e.many("X")
    shapes = [part.shape for part in parts]
    first = shapes[0]
    assert first is not None
    axis = e.attr("axis") % len(first)
    if any(_differs(shape, first, axis) for shape in shapes[1:]):
        e.builder.inferred(e.op)  # says which
    total = sum(shape[axis] for shape in shapes if shape is not None)
    shape = (*first[:axis], total, *first[axis + 1 :])
    out = e.out("Out", shape, parts[0].dtype)
    if not e.on_host or any(part.shape is None or len(part.shape) != len(shape) for part in parts):
        e.call("concatenate", tuple(parts), axis=axis, out=out)
        return
    start = 0
    for part in parts:
        assert part.shape is not None
        stop = start + part.shape[axis]
        e.copy(source_of(e, part), e.piece(out, start, stop, axis))
        start = stop


def _differs(shape: tuple[int, ...] | None, first: tuple[int, ...], axis: int) -> bool:
    """True if two arrays of as many dimensions differ in one beside `axis`."""
    if shape is None or len(shape) != len(first):
        return False
    return shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]


@lowering("concat_grad")
def _(e: Emitter) -> None:
    if e.op.inputs.get("AxisTensor"):
        raise CannotLower("AxisTensor")
    parts = [e.laid_need("X", index) for index in range(len(e.op.inputs["X"]))]
    d = e.laid_need("Out@GRAD")
    assert d.shape is not None
    order = d.order or tuple(range(len(d.shape)))
    source = e.base_in(d, order) if d.order else d
    axis = e.attr("axis") % len(d.shape)
    start = 0
    for index, part in enumerate(parts):
        assert part.shape is not None
        stop = start + part.shape[axis]
        if e.wants("X@GRAD", index):
            # a copy, since a piece along an inner axis cannot be reshaped without one
            if d.order:
                out = e.published("X@GRAD", part.shape, part.dtype, order, index)
            else:
                out = e.out("X@GRAD", part.shape, part.dtype, index=index)
            copied(e, e.piece(source, start, stop, order.index(axis)), out)
        start = stop
