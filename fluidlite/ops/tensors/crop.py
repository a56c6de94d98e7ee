"""Parts of a given shape cut out of a tensor: crop and crop_tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import INTS, Op, Spec
from fluidlite.ops.kernels.numbers import contiguous, given_ints


def _window(
    type: str, shape: Sequence[int], offsets: Sequence[int], size: Sequence[int]
) -> tuple[slice, ...]:
    """A slice for each dimension of a tensor of `shape`; ShapeError where the part reaches beyond it."""
    if not len(shape) == len(offsets) == len(size):
        raise ShapeError(
            f"op {type!r}: X{list(shape)}, offsets {list(offsets)} and shape {list(size)} must have the same "
            f"length"
        )
    for axis, (dim, start, count) in enumerate(zip(shape, offsets, size, strict=True)):
        if start < 0 or start + count > dim:
            raise ShapeError(
                f"op {type!r}: {count} elements from {start} on do not lie inside dimension {axis} of "
                f"X{list(shape)}"
            )
    return tuple(slice(start, start + count) for start, count in zip(offsets, size, strict=True))


def _put_back(xp: Any, type: str, x: Array, d: Array, offsets: Sequence[int]) -> Array:
    """Zeros like `x` with `d` where it was cut out."""
    out = xp.zeros(x.shape, d.dtype)
    out[_window(type, x.shape, offsets, d.shape)] = d
    return out


crop = Op("crop", "X Y? Offsets? -> Out", attrs={"offsets": INTS(), "shape": INTS()}, lod=None)


@crop.shape
def _(X: Spec, Y: Spec | None, shape: list[int]) -> Spec:
    wanted = shape if Y is None else Y.shape
    if len(wanted) != len(X.shape):
        raise ShapeError(f"op 'crop': shape {list(wanted)} must have as many dimensions as X{list(X.shape)}")
    return X.with_shape(shape if Y is None else Y.shape)


def _offsets(tensor: Any, offsets: list[int], rank: int) -> list[int]:
    return given_ints(tensor, (), offsets or [0] * rank)


@crop.kernel
def _(xp: Any, X: Array, Y: Array | None, Offsets: Any, offsets: list[int], shape: list[int]) -> Array:
    if Y is not None:
        size = list(Y.shape)
    else:
        size = [dim if want < 0 else want for dim, want in zip(X.shape, shape, strict=True)]
    return contiguous(xp, X[_window("crop", X.shape, _offsets(Offsets, offsets, X.ndim), size)])


@crop.grad("X")
def _(xp: Any, X: Array, Offsets: Any, dOut: Array, offsets: list[int]) -> Array:
    return _put_back(xp, "crop", X, dOut, _offsets(Offsets, offsets, X.ndim))


crop_tensor = Op(
    "crop_tensor",
    "X Shape? Offsets? ShapeTensor*? OffsetsTensor*? -> Out",
    lod=None,
    lod_of_2x="X",
    attrs={"offsets": INTS(), "shape": INTS()},
)


@crop_tensor.shape
def _(X: Spec, Shape: Spec | None, ShapeTensor: list[Spec], offsets: list[int], shape: list[int]) -> Spec:
    if Shape is not None:
        if len(Shape.shape) != 1 or not fits(Shape.shape, (len(X.shape),)):
            raise ShapeError(
                f"op 'crop_tensor': Shape{list(Shape.shape)} must have one element for each "
                f"dimension of X{list(X.shape)}"
            )
        return Spec((-1,) * len(X.shape), X.dtype, 0)
    if len(shape) != len(X.shape):
        raise ShapeError(
            f"op 'crop_tensor': shape {shape} must have one number for each dimension of X{list(X.shape)}"
        )
    dims = []
    for i, (have, want) in enumerate(zip(X.shape, shape, strict=True)):
        known = have >= 0 and i < len(offsets) and offsets[i] >= 0
        if want < 0:
            dims.append(have - offsets[i] if known else -1)
        else:
            dims.append(want or -1)  # 0 stands for a tensor
    return Spec(tuple(dims), X.dtype, 0)


def _tensor_offsets(X: Array, Offsets: Any, OffsetsTensor: Sequence[Any], offsets: list[int]) -> list[int]:
    found = given_ints(None, OffsetsTensor, _offsets(Offsets, offsets, X.ndim))
    # tensors for the first dimensions alone: the others start at 0, whatever the attribute says
    return [*found, *[0] * (X.ndim - len(found))] if OffsetsTensor else found


@crop_tensor.kernel
def _(
    xp: Any,
    X: Array,
    Shape: Any,
    Offsets: Any,
    ShapeTensor: list[Any],
    OffsetsTensor: list[Any],
    offsets: list[int],
    shape: list[int],
) -> Array:
    start = _tensor_offsets(X, Offsets, OffsetsTensor, offsets)
    wanted = given_ints(None, ShapeTensor, given_ints(Shape, (), shape))
    size = [dim - at if want < 0 else want for dim, at, want in zip(X.shape, start, wanted, strict=True)]
    return contiguous(xp, X[_window("crop_tensor", X.shape, start, size)])


@crop_tensor.grad("X")
def _(xp: Any, X: Array, Offsets: Any, OffsetsTensor: list[Any], dOut: Array, offsets: list[int]) -> Array:
    return _put_back(xp, "crop_tensor", X, dOut, _tensor_offsets(X, Offsets, OffsetsTensor, offsets))
