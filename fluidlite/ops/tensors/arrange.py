"""The same elements in another order, or one for each combination: flip, roll, meshgrid, unbind,
partial_concat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.kept_attrs import ONEDNN
from fluidlite.base.registry import INTS, LONGS, GradContext, Op, Spec, later
from fluidlite.ops.kernels.numbers import check_axes, check_rows, ints

flip = Op("flip", "X -> Out", attrs={"dims": INTS(), "axis": later(INTS())}, booleans=True, version=1)


@flip.shape
def _(X: Spec, dims: list[int], axis: list[int] | None) -> Spec:
    check_axes("flip", X.shape, [*dims, *(axis or ())])
    return Spec(X.shape, X.dtype)


@flip.kernel
def _(xp: Any, X: Array, dims: list[int], axis: list[int]) -> Array:
    return xp.flip(X, tuple(dims or axis)).copy()


@flip.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "flip",
        {"X": context.out_grad("Out")},
        {"Out": context.in_grad("X")},
        {name: context.op.attr(name) for name in ("dims", "axis") if context.op.has_attr(name)},
    )


roll = Op(
    "roll",
    "X ShiftsTensor? -> Out",
    attrs={"shifts": LONGS(), "dims": LONGS(), "axis": later(LONGS())},
    later=("ShiftsTensor",),
    version=2,
)


@roll.shape
def _(X: Spec, ShiftsTensor: Spec | None, shifts: list[int], dims: list[int], axis: list[int]) -> Spec:
    axes = dims or axis
    if ShiftsTensor is None and len(axes) != len(shifts) and (axes or len(shifts) > 1):
        raise ShapeError(f"op 'roll': shifts {shifts} and dims {axes} must have the same length")
    return Spec(X.shape, X.dtype)


def _rolled(xp: Any, x: Array, shifts: list[int], axes: list[int]) -> Array:
    """x with its elements moved on; without axes all of them in one row."""
    if not axes:
        return xp.roll(x.reshape(-1), shifts[0]).reshape(x.shape)
    return xp.roll(x, tuple(shifts), tuple(axes))


@roll.refuses
def _(shifts: list[int], dims: list[int]) -> str:
    return "" if len(shifts) == len(dims) else f"shifts {shifts} and dims {dims} must have the same length"


@roll.kernel
def _(
    xp: Any, X: Array, ShiftsTensor: Array | None, shifts: list[int], dims: list[int], axis: list[int]
) -> Array:
    by = shifts if ShiftsTensor is None else ints(ShiftsTensor)
    return _rolled(xp, X, by, dims or axis)


@roll.grad("X")
def _(
    xp: Any,
    X: Array,
    ShiftsTensor: Array | None,
    dOut: Array,
    shifts: list[int],
    dims: list[int],
    axis: list[int],
) -> Array:
    by = shifts if ShiftsTensor is None else ints(ShiftsTensor)
    return _rolled(xp, dOut, [-shift for shift in by], dims or axis)


meshgrid = Op("meshgrid", "X* -> Out*", lod=None)


@meshgrid.shape
def _(X: list[Spec]) -> tuple[list[Spec]]:
    for spec in X:
        if len(spec.shape) > 1:
            raise ShapeError(
                f"op 'meshgrid': each X must have one dimension, but one has shape {list(spec.shape)}"
            )
    shape = [spec.shape[0] if spec.shape else 1 for spec in X]
    return ([spec.with_shape(shape) for spec in X],)


@meshgrid.kernel
def _(xp: Any, X: list[Array]) -> tuple[list[Array]]:
    return ([xp.ascontiguousarray(grid) for grid in xp.meshgrid(*X, indexing="ij")],)


@meshgrid.grad_rule("X")
def _(context: GradContext) -> None:
    slot = "outputs@GRAD" if context.op.block.program.is_of_2x else "Out@GRAD"
    inputs = {"X": context.input("X"), slot: context.out_grad("Out")}
    context.emit("meshgrid_grad", inputs, {"X@GRAD": context.in_grad("X")})


# 2.x has another name for the gradients that come in
meshgrid_grad = Op("meshgrid_grad", "X* Out@GRAD*? outputs@GRAD*? -> X@GRAD*?", lod=None).derive()


@meshgrid_grad.kernel
def _(X: list[Array], dOut: list[Array | None], doutputs: list[Array | None]) -> tuple[list[Array | None]]:
    def along(axis: int, d: Array | None) -> Array | None:
        if d is None:
            return None
        others = tuple(i for i in range(d.ndim) if i != axis)
        return d.sum(axis=others, dtype=d.dtype).reshape(X[axis].shape)

    return ([along(axis, d) for axis, d in enumerate(dOut or doutputs)],)


_MOST = 256
"""The number of outputs of an op that get a shape where the number of pieces is not known."""

unbind = Op("unbind", "X -> Out*", attrs={"axis": 0})


@unbind.shape
def _(X: Spec, axis: int) -> tuple[list[Spec]]:
    axis %= len(X.shape)
    # as many as there are outputs, where the program does not say how long the dimension is
    count = X.shape[axis] if X.shape[axis] >= 0 else _MOST
    return ([Spec(X.shape[:axis] + X.shape[axis + 1 :], X.dtype, X.lod_level)] * count,)


@unbind.kernel
def _(xp: Any, X: Array, axis: int) -> tuple[list[Array]]:
    # a copy, because `ascontiguousarray` would make a single number an array of one element
    return ([xp.asarray(part).copy() for part in xp.moveaxis(X, axis, 0)],)


@unbind.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit(
        "stack",
        {"X": context.out_grad("Out")},
        {"Y": context.in_grad("X")},
        {"axis": context.op.attr("axis")},
    )


# ---------------------------------------------------------------------- columns of several matrices
_COLUMNS = {"start_index": 0, "length": -1}


def _columns(type: str, shapes: Sequence[Sequence[int]], start_index: int, length: int) -> slice:
    """The columns that are taken of each matrix."""
    first = shapes[0]
    if any(len(shape) != 2 for shape in shapes) or any(shape[1] != first[1] for shape in shapes):
        raise ShapeError(
            f"op {type!r}: X must be matrices of the same width, but have shapes "
            f"{[list(shape) for shape in shapes]}"
        )
    start = start_index + first[1] if start_index < 0 else start_index
    stop = first[1] if length < 0 else start + length
    if first[1] >= 0 and not 0 <= start <= stop <= first[1]:
        raise ShapeError(f"op {type!r}: columns {start} to {stop} do not lie inside X{list(first)}")
    return slice(start, stop)


def _columns_back(
    xp: Any, type: str, X: list[Array], parts: Sequence[Array], start_index: int, length: int
) -> tuple[list[Array]]:
    """Zeros like each X, with its part of the gradient in the columns that were taken."""
    where = _columns(type, [x.shape for x in X], start_index, length)
    outs = [xp.zeros(x.shape, part.dtype) for x, part in zip(X, parts, strict=True)]
    for out, part in zip(outs, parts, strict=True):
        out[:, where] = part
    return (outs,)


partial_concat = Op("partial_concat", "X* -> Out", attrs=_COLUMNS, alike=("X",))
partial_sum = Op("partial_sum", "X* -> Out", attrs=_COLUMNS, kept=ONEDNN, alike=("X",))


@partial_concat.shape
def _(X: list[Spec], start_index: int, length: int) -> Spec:
    where = _columns("partial_concat", [spec.shape for spec in X], start_index, length)
    return X[0].with_shape((X[0].shape[0], (where.stop - where.start) * len(X)))


@partial_concat.kernel
def _(xp: Any, X: list[Array], start_index: int, length: int) -> Array:
    where = _columns("partial_concat", [x.shape for x in X], start_index, length)
    return xp.concatenate([x[:, where] for x in X], axis=1)


@partial_concat.grad("X")
def _(xp: Any, X: list[Array], dOut: Array, start_index: int, length: int) -> tuple[list[Array]]:
    return _columns_back(xp, "partial_concat", X, xp.split(dOut, len(X), axis=1), start_index, length)


@partial_sum.shape
def _(X: list[Spec], start_index: int, length: int) -> Spec:
    where = _columns("partial_sum", [spec.shape for spec in X], start_index, length)
    check_rows("partial_sum", **{f"X[{at}]": spec for at, spec in enumerate(X)})
    return X[0].with_shape((X[0].shape[0], where.stop - where.start))


@partial_sum.kernel
def _(X: list[Array], start_index: int, length: int) -> Array:
    where = _columns("partial_sum", [x.shape for x in X], start_index, length)
    return sum((x[:, where] for x in X[1:]), X[0][:, where].copy())


@partial_sum.grad("X")
def _(xp: Any, X: list[Array], dOut: Array, start_index: int, length: int) -> tuple[list[Array]]:
    return _columns_back(xp, "partial_sum", X, [dOut] * len(X), start_index, length)
