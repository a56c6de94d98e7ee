"""Fourier transforms, frames of signals, and complex numbers made of real ones and taken apart, of 2.x."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.attr_types import LONGS
from fluidlite.base.dtypes import REAL_PARTS, Array, VarType
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.kernels.numbers import summed_to
from fluidlite.ops.math.elementwise import broadcast

_COMPLEX = {VarType.FP32: VarType.COMPLEX64, VarType.FP64: VarType.COMPLEX128}
# the factor of a transform is that of its adjoint, which goes the other way
_OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
_ATTRS = {"axes": LONGS(), "normalization": "backward", "forward": True}


def _kind(op_type: str, X: Spec, kinds: dict[VarType, VarType], what: str) -> VarType:
    if X.dtype not in kinds:
        raise ShapeError(f"op {op_type!r}: X must hold {what} numbers, but has the dtype {X.dtype}")
    return kinds[X.dtype]


def _transformed(xp: Any, x: Array, axes: list[int], norm: str, forward: bool) -> Any:
    """The sums over e^(-i t) (`forward`), or e^(i t)."""
    return (xp.fft.fftn if forward else xp.fft.ifftn)(x, axes=axes, norm=norm)


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """A shape with another size in one dimension."""
    axis %= len(shape)
    return (*shape[:axis], size, *shape[axis + 1 :])


def _fitted(xp: Any, x: Array, axis: int, size: int) -> Array:
    """x with `size` elements along `axis`: the first ones, or zeros behind."""
    if x.shape[axis] == size:
        return x
    out = xp.zeros(_resized(x.shape, axis, size), x.dtype)
    kept = (*(slice(None),) * (axis % x.ndim), slice(min(size, x.shape[axis])))
    out[kept] = x[kept]
    return out


# ---------------------------------------------------------------------- transforms
fft_c2c = Op("fft_c2c", "X -> Out", attrs=_ATTRS)


@fft_c2c.shape
def _(X: Spec) -> Spec:
    _kind("fft_c2c", X, REAL_PARTS, "complex")
    return Spec(X.shape, X.dtype)


@fft_c2c.kernel
def _(xp: Any, X: Array, axes: list[int], normalization: str, forward: bool) -> Array:
    return _transformed(xp, X, axes, normalization, forward).astype(X.dtype)


@fft_c2c.grad("X", of_complex=True)
def _(xp: Any, dOut: Array, axes: list[int], normalization: str, forward: bool) -> Array:
    return _transformed(xp, dOut, axes, _OTHER_WAY[normalization], not forward).astype(dOut.dtype)


fft_r2c = Op("fft_r2c", "X -> Out", attrs={**_ATTRS, "onesided": True}, lod=None)


@fft_r2c.shape
def _(X: Spec, axes: list[int], onesided: bool) -> Spec:
    kind = _kind("fft_r2c", X, _COMPLEX, "real")
    last = X.shape[axes[-1]]
    size = last // 2 + 1 if onesided and last >= 0 else last
    return Spec(_resized(X.shape, axes[-1], size), kind)


@fft_r2c.kernel
def _(xp: Any, X: Array, axes: list[int], normalization: str, forward: bool, onesided: bool) -> Array:
    norm = normalization if forward else _OTHER_WAY[normalization]
    found = (xp.fft.rfftn if onesided else xp.fft.fftn)(X, axes=axes, norm=norm)
    # of real numbers, the other way gives the conjugates
    return (found if forward else xp.conj(found)).astype(xp.result_type(X.dtype, "complex64"))


@fft_r2c.grad("X", shape=lambda X: X, of_complex=True)
def _(xp: Any, X: Array, dOut: Array, axes: list[int], normalization: str, forward: bool) -> Array:
    whole = _fitted(xp, dOut, axes[-1], X.shape[axes[-1]])
    return _transformed(xp, whole, axes, _OTHER_WAY[normalization], not forward).real.astype(X.dtype)


fft_c2r = Op("fft_c2r", "X -> Out", attrs={**_ATTRS, "last_dim_size": 0}, lod=None)


def _length(size: int, last_dim_size: int) -> int:
    """The number of real results; without one given, an even number."""
    return last_dim_size or (2 * (size - 1) if size >= 0 else -1)


@fft_c2r.shape
def _(X: Spec, axes: list[int], last_dim_size: int) -> Spec:
    kind = _kind("fft_c2r", X, REAL_PARTS, "complex")
    return Spec(_resized(X.shape, axes[-1], _length(X.shape[axes[-1]], last_dim_size)), kind)


@fft_c2r.kernel
def _(xp: Any, X: Array, axes: list[int], normalization: str, forward: bool, last_dim_size: int) -> Array:
    x = X
    norm = normalization
    if forward:
        x = xp.conj(X)
        norm = _OTHER_WAY[normalization]
    sizes = [x.shape[axis] for axis in axes[:-1]]
    sizes.append(_length(x.shape[axes[-1]], last_dim_size))
    found: Array = xp.fft.irfftn(x, s=sizes, axes=axes, norm=norm)
    return found.astype(X.real.dtype)


@fft_c2r.grad("X", shape=lambda X: X, of_complex=True)
def _(xp: Any, X: Array, dOut: Array, axes: list[int], normalization: str, forward: bool) -> Array:
    norm = normalization if forward else _OTHER_WAY[normalization]
    found = xp.fft.rfftn(dOut, axes=axes, norm=norm)
    # all but the first element, and the middle one of an even number, stand for their conjugates as well
    counts = xp.full(found.shape[axes[-1]], 2, dOut.dtype)
    counts[0] = 1
    if dOut.shape[axes[-1]] % 2 == 0:
        counts[-1] = 1
    found = xp.moveaxis(xp.moveaxis(found, axes[-1], -1) * counts, -1, axes[-1])
    fitted = _fitted(xp, found, axes[-1], X.shape[axes[-1]])
    return (xp.conj(fitted) if forward else fitted).astype(X.dtype)


# ---------------------------------------------------------------------- complex numbers
of_parts = Op("complex", "X Y -> Out", lod=None)


@of_parts.shape
def _(X: Spec, Y: Spec) -> Spec:
    kind = _kind("complex", X, _COMPLEX, "real")
    return Spec(broadcast("complex", X, Y, -1), kind)


@of_parts.kernel
def _(xp: Any, X: Array, Y: Array) -> Array:
    return _of_parts(xp, X, Y)


def _of_parts(xp: Any, real: Array, imaginary: Array) -> Array:
    """Complex numbers of these parts: i times infinity would have NaN as its real part."""
    shape = np.broadcast_shapes(real.shape, imaginary.shape)
    out: Array = xp.empty(shape, xp.result_type(real.dtype, "complex64"))
    out.real, out.imag = real, imaginary
    return out


@of_parts.grad("X Y", shape=lambda X, Y: (X, Y), of_complex=True)
def _(X: Array, Y: Array, dOut: Array) -> tuple[Array, Array]:
    # copies: the parts are views of dOut
    d_real = dOut.real.copy()
    d_imaginary = dOut.imag.copy()
    return summed_to(d_real, X.shape), summed_to(d_imaginary, Y.shape)


as_complex = Op("as_complex", "X -> Out")


@as_complex.shape
def _(X: Spec) -> Spec:
    if not X.shape or X.shape[-1] not in (2, -1):
        raise ShapeError(f"op 'as_complex': the last dimension of X{list(X.shape)} must hold pairs")
    return Spec(X.shape[:-1], _kind("as_complex", X, _COMPLEX, "real"))


def _paired(xp: Any, x: Array) -> Array:
    return _of_parts(xp, x[..., 0], x[..., 1])


def _parted(xp: Any, x: Array) -> Array:
    return xp.stack([x.real, x.imag], axis=-1)


@as_complex.kernel
def _(xp: Any, X: Array) -> Array:
    return _paired(xp, X)


@as_complex.grad("X", shape=lambda X: X, of_complex=True)
def _(xp: Any, X: Array, dOut: Array) -> Array:
    return _parted(xp, dOut)


as_real = Op("as_real", "X -> Out")


@as_real.shape
def _(X: Spec) -> Spec:
    return Spec((*X.shape, 2), _kind("as_real", X, REAL_PARTS, "complex"))


@as_real.kernel
def _(xp: Any, X: Array) -> Array:
    return _parted(xp, X)


@as_real.grad("X", shape=lambda X: X, of_complex=True)
def _(xp: Any, X: Array, dOut: Array) -> Array:
    return _paired(xp, dOut)


# ---------------------------------------------------------------------- frames of signals
_FRAMES = {"hop_length": 1, "axis": -1}
frame = Op("frame", "X -> Out", attrs={"frame_length": 1, **_FRAMES}, lod=None)
overlap_add = Op("overlap_add", "X -> Out", attrs=_FRAMES, lod=None)


def _check_axis(op_type: str, axis: int) -> None:
    if axis not in (0, -1):
        raise ShapeError(f"op {op_type!r}: axis is {axis}, wanted 0 or -1")


@frame.shape
def _(X: Spec, frame_length: int, hop_length: int, axis: int) -> Spec:
    _check_axis("frame", axis)
    length = X.shape[axis]
    if 0 <= length < frame_length or frame_length < 1 or hop_length < 1:
        raise ShapeError(
            f"op 'frame': frames of {frame_length} elements, every {hop_length}, do not fit into "
            f"X{list(X.shape)}"
        )
    if length < 0:
        count = -1
    else:
        count = 1 + (length - frame_length) // hop_length
    if axis == 0:
        return X.with_shape((count, frame_length, *X.shape[1:]))
    return X.with_shape((*X.shape[:-1], frame_length, count))


def _framed(xp: Any, x: Array, length: int, hop: int, axis: int) -> Array:
    windows = xp.lib.stride_tricks.sliding_window_view(x, length, axis=axis)
    if axis == 0:  # [places, ..., length]
        result = xp.moveaxis(windows[::hop], -1, 1)
        return xp.ascontiguousarray(result)
    found = windows[..., ::hop, :].swapaxes(-1, -2)
    return xp.ascontiguousarray(found)


def _added_up(xp: Any, x: Array, hop: int, axis: int, length: int | None = None) -> Array:
    """Frames, laid over each other `hop` elements apart and added."""
    frames = x  # [..., frame, number]
    if axis == 0:
        frames = xp.moveaxis(x, (0, 1), (-1, -2))
    size, count = frames.shape[-2:]
    out = xp.zeros((*frames.shape[:-2], length or (count - 1) * hop + size), x.dtype)
    for number in range(count):
        out[..., number * hop : number * hop + size] += frames[..., number]
    if axis == 0:
        found = xp.moveaxis(out, -1, 0)
        return xp.ascontiguousarray(found)
    return out


@frame.kernel
def _(xp: Any, X: Array, frame_length: int, hop_length: int, axis: int) -> Array:
    return _framed(xp, X, frame_length, hop_length, axis)


@frame.grad("X", shape=lambda X: X)
def _(xp: Any, X: Array, dOut: Array, hop_length: int, axis: int) -> Array:
    return _added_up(xp, dOut, hop_length, axis, X.shape[axis])


@overlap_add.shape
def _(X: Spec, hop_length: int, axis: int) -> Spec:
    _check_axis("overlap_add", axis)
    if len(X.shape) < 2:
        raise ShapeError(f"op 'overlap_add': X must have 2 dimensions or more, but has shape {list(X.shape)}")
    count, size = X.shape[:2] if axis == 0 else X.shape[:-3:-1]
    if -1 in (count, size):
        length = -1
    else:
        length = (count - 1) * hop_length + size
    return X.with_shape((length, *X.shape[2:]) if axis == 0 else (*X.shape[:-2], length))


@overlap_add.kernel
def _(xp: Any, X: Array, hop_length: int, axis: int) -> Array:
    return _added_up(xp, X, hop_length, axis)


@overlap_add.grad("X", shape=lambda X: X)
def _(xp: Any, X: Array, dOut: Array, hop_length: int, axis: int) -> Array:
    return _framed(xp, dOut, X.shape[1 if axis == 0 else -2], hop_length, axis)
