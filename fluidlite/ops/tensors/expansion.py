"""Repetition: expand and expand_as of 1.x; tile, expand_v2 and expand_as_v2 of 2.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, Lod, Op, Spec, get, handed_on
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.kernels.numbers import given_ints
from fluidlite.ops.tensors.shaping import same_rows

Shape = tuple[int, ...]

expand = Op(
    "expand",
    "X ExpandTimes? expand_times_tensor*? -> Out",
    attrs={"expand_times": INTS()},
    lod=None,
    tells_lod=True,
    booleans=True,
    moves=True,
)


@expand.shape
def _(X: Spec, ExpandTimes: Spec | None, expand_times_tensor: list[Spec], expand_times: list[int]) -> Spec:
    if ExpandTimes is not None or (expand_times_tensor and not expand_times):
        shape = (-1,) * len(X.shape)
        return Spec(shape, X.dtype, X.lod_level if same_rows(X.shape, shape) else 0)
    if len(expand_times) != len(X.shape):
        raise ShapeError(
            f"op 'expand': expand_times {expand_times} must have one number for each dimension of "
            f"X{list(X.shape)}"
        )
    shape = tuple(
        -1 if dim < 0 or times < 0 else dim * times for dim, times in zip(X.shape, expand_times, strict=True)
    )
    return Spec(shape, X.dtype, X.lod_level if same_rows(X.shape, shape) else 0)


@expand.kernel
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    ExpandTimes: Array | None,
    expand_times_tensor: list[Array],
    expand_times: list[int],
) -> Any:
    out = xp.tile(X, given_ints(ExpandTimes, expand_times_tensor, expand_times))
    # 1.8.5 does not ask for levels where it reads the times only as it runs
    keeps = ExpandTimes is None and same_rows(X.shape, out.shape)
    return handed_on(out, X_lod if keeps else ())


def untiled(xp: Any, d: Array, shape: Shape, times: Sequence[int]) -> Array:
    """The sum over the copies that `tile` made."""
    split_shape = [n for pair in zip(times, shape, strict=True) for n in pair]
    return d.reshape(split_shape).sum(axis=tuple(range(0, 2 * len(shape), 2)), dtype=d.dtype)


@expand.grad("X", moves=False)
def _(
    xp: Any,
    X: Array,
    ExpandTimes: Array | None,
    expand_times_tensor: list[Array],
    dOut: Array,
    expand_times: list[int],
) -> Array:
    return untiled(xp, dOut, X.shape, given_ints(ExpandTimes, expand_times_tensor, expand_times))


emits_once_more(
    get("expand_grad"),
    reads={"ExpandTimes": "ExpandTimes", "expand_times_tensor": "expand_times_tensor"},
    incoming={"X": "X@GRAD"},
    writes={"Out": "Out@GRAD"},
    type="expand",
)

expand_as = Op("expand_as", "X target_tensor -> Out", lod=None, booleans=True)


@expand_as.shape
def _(X: Spec, target_tensor: Spec) -> Spec:
    if len(X.shape) != len(target_tensor.shape):
        raise ShapeError(
            f"op 'expand_as': X{list(X.shape)} and target_tensor{list(target_tensor.shape)} differ in rank"
        )
    for size, wanted in zip(X.shape, target_tensor.shape, strict=True):
        if size > 0 and wanted > 0 and wanted % size:
            raise ShapeError(
                f"op 'expand_as': target_tensor{list(target_tensor.shape)} is not a multiple of "
                f"X{list(X.shape)}: {wanted} of {size}"
            )
    return X.with_shape(target_tensor.shape)


@expand_as.kernel
def _(xp: Any, X: Array, target_tensor: Array) -> Array:
    return xp.tile(X, [b // a for a, b in zip(X.shape, target_tensor.shape, strict=True)])


@expand_as.grad("X")
def _(xp: Any, X: Array, target_tensor: Array, dOut: Array) -> Array:
    return untiled(xp, dOut, X.shape, [b // a for a, b in zip(X.shape, dOut.shape, strict=True)])


# ---------------------------------------------------------------------- as programs of 2.x have it
tile = Op("tile", "X RepeatTimes? repeat_times_tensor*? -> Out", attrs={"repeat_times": INTS()}, lod=None)


def _aligned(shape: Sequence[int], times: Sequence[int]) -> tuple[Shape, Shape]:
    """A tensor's shape and the repetitions, ones in front of the shorter."""
    rank = max(len(shape), len(times))
    return (1,) * (rank - len(shape)) + tuple(shape), (1,) * (rank - len(times)) + tuple(times)


@tile.shape
def _(X: Spec, RepeatTimes: Spec | None, repeat_times_tensor: list[Spec], repeat_times: list[int]) -> Spec:
    count = RepeatTimes.shape[0] if RepeatTimes is not None else len(repeat_times_tensor)
    # a tensor may hold more numbers than the attribute beside it
    given = [-1] * max(count, 1) if RepeatTimes is not None else repeat_times or [-1] * count
    shape, times = _aligned(X.shape, given)
    sizes = [-1 if dim < 0 or time < 0 else dim * time for dim, time in zip(shape, times, strict=True)]
    level = X.lod_level if same_rows(X.shape, sizes) else 0
    return X.with_shape(sizes)._replace(lod_level=level)


@tile.kernel
def _(
    xp: Any, X: Array, X_lod: Lod, RepeatTimes: Any, repeat_times_tensor: list[Any], repeat_times: list[int]
) -> Any:
    out = xp.tile(X, given_ints(RepeatTimes, repeat_times_tensor, repeat_times))
    return _with_rows_of(X, X_lod, out)


def _with_rows_of(X: Array, X_lod: Lod, out: Array) -> Any:
    """The result, whose rows fall into sequences as those of X where they are as many."""
    return handed_on(out, X_lod if out.shape[:1] == X.shape[:1] else ())


@tile.grad("X")
def _(
    xp: Any, X: Array, RepeatTimes: Any, repeat_times_tensor: list[Any], dOut: Array, repeat_times: list[int]
) -> Array:
    return untiled(
        xp, dOut, *_aligned(X.shape, given_ints(RepeatTimes, repeat_times_tensor, repeat_times))
    ).reshape(X.shape)


expand_v2 = Op("expand_v2", "X Shape? expand_shapes_tensor*? -> Out", attrs={"shape": INTS()}, lod=None)


def _target(type: str, old: Sequence[int], shape: Sequence[int]) -> Shape:
    """The shape after an expansion to `shape`, in which -1 keeps a dimension."""
    if len(shape) < len(old):
        raise ShapeError(f"op {type!r}: X{list(old)} has more dimensions than shape {list(shape)}")
    padded = (1,) * (len(shape) - len(old)) + tuple(old)
    for have, want in zip(padded, shape, strict=True):
        if have not in (1, -1, want) and want != -1:
            raise ShapeError(f"op {type!r}: X{list(old)} cannot be repeated to shape {list(shape)}")
    return tuple(have if want == -1 else want for have, want in zip(padded, shape, strict=True))


def _summed(xp: Any, d: Array, shape: Shape) -> Array:
    """`d` added up over the copies of a tensor of `shape`."""
    padded = (1,) * (d.ndim - len(shape)) + shape
    axes = tuple(axis for axis, (have, want) in enumerate(zip(d.shape, padded, strict=True)) if have != want)
    return (xp.sum(d, axis=axes, dtype=d.dtype) if axes else d).reshape(shape)


@expand_v2.shape
def _(X: Spec, Shape: Spec | None, expand_shapes_tensor: list[Spec], shape: list[int]) -> Spec:
    if expand_shapes_tensor and shape:  # -2 where a tensor holds the number
        kept = _target("expand_v2", X.shape, [max(dim, -1) for dim in shape])
        sizes = tuple(-1 if dim == -2 else size for dim, size in zip(shape, kept, strict=True))
    else:
        count = Shape.shape[0] if Shape is not None else len(expand_shapes_tensor)
        sizes = (-1,) * max(count, len(X.shape)) if count else _target("expand_v2", X.shape, shape)
    # rows whose number is open may be as many: then their sequences are kept
    is_kept = Shape is not None or X.shape[:1] == (-1,) or same_rows(X.shape, sizes)
    level = X.lod_level if is_kept else 0
    return X.with_shape(sizes)._replace(lod_level=level)


@expand_v2.kernel
def _(xp: Any, X: Array, X_lod: Lod, Shape: Any, expand_shapes_tensor: list[Any], shape: list[int]) -> Any:
    target = _target("expand_v2", X.shape, given_ints(Shape, expand_shapes_tensor, shape))
    return _with_rows_of(X, X_lod, xp.broadcast_to(X, target).copy())


@expand_v2.grad("X")
def _(xp: Any, X: Array, dOut: Array) -> Array:
    return _summed(xp, dOut, X.shape)


for _type, _attr in (("expand_v2", "shape"), ("tile", "")):
    emits_once_more(
        get(f"{_type}_grad"),
        reads={slot: slot for slot in get(_type).inputs if slot != "X"},
        incoming={"X": "X@GRAD"},
        writes={"Out": "Out@GRAD"},
        type=_type,
        attr=_attr,
    )

expand_as_v2 = Op("expand_as_v2", "X Y? -> Out", attrs={"target_shape": INTS()}, lod=None, version=1)


@expand_as_v2.shape
def _(X: Spec, Y: Spec | None, target_shape: list[int]) -> Spec:
    if Y is None:
        return X.with_shape(_target("expand_as_v2", X.shape, target_shape))
    found = _target("expand_as_v2", X.shape, Y.shape)
    return X.with_shape([-1 if want < 0 else have for have, want in zip(found, Y.shape, strict=True)])


@expand_as_v2.kernel
def _(xp: Any, X: Array, Y: Array | None, target_shape: list[int]) -> Array:
    target = Y.shape if Y is not None else _target("expand_as_v2", X.shape, target_shape)
    return xp.broadcast_to(X, target).copy()


@expand_as_v2.grad("X")
def _(xp: Any, X: Array, dOut: Array) -> Array:
    return _summed(xp, dOut, X.shape)


broadcast_tensors = Op("broadcast_tensors", "X* -> Out*")


@broadcast_tensors.shape
def _(X: list[Spec]) -> tuple[list[Spec]]:
    rank = max(len(spec.shape) for spec in X)
    padded = [(1,) * (rank - len(spec.shape)) + spec.shape for spec in X]
    shape = tuple(_common(dims, padded) for dims in zip(*padded, strict=True))
    return ([Spec(shape, spec.dtype, spec.lod_level) for spec in X],)


def _common(dims: Sequence[int], shapes: Sequence[Shape]) -> int:
    """The dimension that ones, unknown ones and equal ones are laid over."""
    known = {dim for dim in dims if dim > 1}
    if len(known) > 1:
        raise ShapeError(
            f"op 'broadcast_tensors': X have shapes {[list(s) for s in shapes]}, which cannot be "
            "broadcast together"
        )
    return next(iter(known), -1 if -1 in dims else dims[0])


@broadcast_tensors.kernel
def _(xp: Any, X: list[Array]) -> tuple[list[Array]]:
    return ([each.copy() for each in xp.broadcast_arrays(*X)],)


@broadcast_tensors.grad("X")
def _(xp: Any, X: list[Array], dOut: list[Array | None]) -> tuple[list[Array | None]]:
    return ([None if d is None else _summed(xp, d, x.shape) for x, d in zip(X, dOut, strict=True)],)
