"""`paddle.fft`: discrete Fourier transforms.

`n` or `s` say how many elements take part: the first ones, or zeros behind. `norm` says which way is divided
by their number: "backward", "forward", or each by its root ("ortho").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.dtypes import DTypeLike, VarType, is_integer
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append
from fluidlite.paddle.defaults import dtype_or_default
from fluidlite.paddle.tensor.creation import arange
from fluidlite.paddle.tensor.manipulation import roll, slice
from fluidlite.paddle.tensor.math import cast, scale

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_COMPLEX = {VarType.FP32: VarType.COMPLEX64, VarType.FP64: VarType.COMPLEX128}
_REAL = {VarType.COMPLEX64: VarType.FP32, VarType.COMPLEX128: VarType.FP64}


def _checked(name: str, x: Variable, norm: str) -> Variable:
    """x with fractions; errors for an unknown `norm`, and for what holds no numbers."""
    if norm not in ("forward", "backward", "ortho"):
        raise ValueError(f"Unexpected norm: {norm}. Norm should be forward, backward or ortho")
    if not isinstance(x, Variable):
        raise TypeError(f"The type of 'x' in {name} must be Variable, but received {type(x)}")
    if not x.shape:
        raise ValueError(f"{name}: x[] is a single number, but a transform needs a dimension")
    if is_integer(x.dtype) or x.dtype == VarType.BOOL:
        return cast(x, dtype_or_default(None))
    return x


def _fitted(name: str, x: Variable, sizes: Sequence[int], axes: Sequence[int]) -> Variable:
    """x with `sizes` elements along `axes`."""
    before, after, sides = [], [], [0] * (2 * len(x.shape))
    for axis, size in zip(axes, sizes, strict=True):
        if size < 1:
            raise ValueError(f"{name}: invalid number of points {size}, wanted 1 or more")
        if x.shape[axis] < 0:
            # of unknown size: as many zeros as could be missing, and the first ones of all
            sides[2 * axis + 1] = size
            after.append((axis, size))
            continue
        if x.shape[axis] > size:
            before.append((axis, size))
        sides[2 * axis + 1] = max(size - x.shape[axis], 0)
    x = _first_ones(x, before)
    if any(sides):
        attrs = {"paddings": sides, "pad_value": 0.0}
        x = append("pad", {"X": [x]}, attrs, dtype=x.dtype)
    return _first_ones(x, after)


def _first_ones(x: Variable, cut: Sequence[tuple[int, int]]) -> Variable:
    """x with the first elements, so many, of dimensions."""
    if not cut:
        return x
    return slice(x, [axis for axis, _ in cut], [0] * len(cut), [size for _, size in cut])


def _axes_of(name: str, x: Variable, s: Any, axes: Any) -> list[int]:
    """The dimensions that are transformed, counted from the front."""
    rank = len(x.shape)
    if axes is None:
        chosen = list(range(rank)) if s is None else list(range(rank - len(s), rank))
    else:
        chosen = list(axes)
    if any(not -rank <= axis < rank for axis in chosen):
        raise ValueError(f"{name}: axes {chosen} are not all dimensions of x{list(x.shape)}")
    chosen = [axis % rank for axis in chosen]
    if len(set(chosen)) != len(chosen) or not chosen:
        raise ValueError(f"{name}: axes must be different dimensions, at least one, but are {chosen}")
    if s is not None and len(s) != len(chosen):
        raise ValueError(f"{name}: s has {len(s)} sizes for {len(chosen)} axes")
    return chosen


def _complex_out(name: str, x: Any, s: Any, axes: Any, norm: str, forward: bool, onesided: bool) -> Variable:
    """A transform with complex results."""
    x = _checked(name, x, norm)
    places = _axes_of(name, x, s, axes)
    if s is not None:
        x = _fitted(name, x, s, places)
    attrs: dict[str, Any] = {"axes": places, "normalization": norm, "forward": forward}
    if x.dtype in _REAL:
        if onesided:
            raise TypeError(f"{name}: x must hold real numbers, but has the dtype {x.dtype}")
        return append("fft_c2c", {"X": [x]}, attrs, dtype=x.dtype)
    return append("fft_r2c", {"X": [x]}, {**attrs, "onesided": onesided}, dtype=_COMPLEX[x.dtype])


def _real_out(name: str, x: Any, s: Any, axes: Any, norm: str, forward: bool) -> Variable:
    """A transform of half of what real results come from."""
    x = _checked(name, x, norm)
    if x.dtype in _COMPLEX:
        x = cast(x, _COMPLEX[x.dtype])
    places = _axes_of(name, x, s, axes)
    if s is not None:
        x = _fitted(name, x, [*s[:-1], s[-1] // 2 + 1], places)
    last = 0 if s is None else int(s[-1])
    attrs = {"axes": places, "normalization": norm, "forward": forward, "last_dim_size": last}
    return append("fft_c2r", {"X": [x]}, attrs, dtype=_REAL[x.dtype])


_KINDS: dict[str, tuple[Callable[..., Variable], dict[str, bool], str]] = {
    "fft": (_complex_out, {"forward": True, "onesided": False}, "The transform"),
    "ifft": (_complex_out, {"forward": False, "onesided": False}, "The inverse transform"),
    "rfft": (
        _complex_out,
        {"forward": True, "onesided": True},
        "The first half of the transform of real numbers",
    ),
    "ihfft": (
        _complex_out,
        {"forward": False, "onesided": True},
        "The first half of the inverse transform of real numbers",
    ),
    "irfft": (_real_out, {"forward": False}, "The real numbers whose transform begins with x"),
    "hfft": (_real_out, {"forward": True}, "The real transform of what begins with x"),
}


def _line(name: str) -> Callable[..., Variable]:
    apply, kind, what = _KINDS[name]

    def function(
        x: Variable, n: int | None = None, axis: int = -1, norm: str = "backward", name: str | None = None
    ) -> Variable:
        return apply(called, x, None if n is None else [n], [axis], norm, **kind)

    called = function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what}, along `axis`."
    return function


def _several(name: str, axes_by_default: tuple[int, ...] | None) -> Callable[..., Variable]:
    apply, kind, what = _KINDS[name]

    def function(
        x: Variable,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = axes_by_default,
        norm: str = "backward",
        name: str | None = None,
    ) -> Variable:
        return apply(called, x, s, axes, norm, **kind)

    called = function.__name__ = function.__qualname__ = name + ("n" if axes_by_default is None else "2")
    function.__doc__ = f"{what}, along `axes`."
    return function


fft, fft2, fftn = _line("fft"), _several("fft", (-2, -1)), _several("fft", None)
ifft, ifft2, ifftn = _line("ifft"), _several("ifft", (-2, -1)), _several("ifft", None)
rfft, rfft2, rfftn = _line("rfft"), _several("rfft", (-2, -1)), _several("rfft", None)
irfft, irfft2, irfftn = _line("irfft"), _several("irfft", (-2, -1)), _several("irfft", None)
hfft, hfft2, hfftn = _line("hfft"), _several("hfft", (-2, -1)), _several("hfft", None)
ihfft, ihfft2, ihfftn = _line("ihfft"), _several("ihfft", (-2, -1)), _several("ihfft", None)


def fftfreq(n: int, d: float = 1.0, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """The frequencies that the elements of a transform of n numbers, `d` apart, stand for."""
    return ifftshift(scale(arange(-(n // 2), n - n // 2, dtype=dtype_or_default(dtype)), 1 / (n * d)))


def rfftfreq(n: int, d: float = 1.0, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """The frequencies that the elements of `rfft` of n numbers, `d` apart, stand for."""
    found: Variable = arange(0, n // 2 + 1, dtype=dtype_or_default(dtype)) * (1 / (n * d))
    return found


def _shifted(x: Variable, axes: Any, way: int) -> Variable:
    places = list(range(len(x.shape))) if axes is None else np.atleast_1d(axes).tolist()
    sizes = [x.shape[axis] for axis in places]
    if min(sizes, default=0) < 0:
        raise ValueError(f"shifts by half need known sizes, but {x.name!r} has the shape {list(x.shape)}")
    return roll(x, [size // 2 if way > 0 else -(size // 2) for size in sizes], places)


def fftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """The frequency 0 moved from the first place to the middle, along `axes` (all)."""
    return _shifted(x, axes, 1)


def ifftshift(x: Variable, axes: Any = None, name: str | None = None) -> Variable:
    """The frequency 0 moved from the middle back to the first place, along `axes` (all)."""
    return _shifted(x, axes, -1)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
