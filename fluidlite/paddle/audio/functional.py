"""`paddle.audio.functional`: windows, mel scales and decibels.

All but decibels follow from numbers of the program: they are computed in float64 while it is built, and
become constants of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, DTypeLike, to_numpy, to_vartype
from fluidlite.ir.variable import Variable
from fluidlite.paddle.audio.windows import NEEDS_PARAMETERS, WINDOWS
from fluidlite.paddle.tensor.creation import full_like, to_tensor
from fluidlite.paddle.tensor.math import log10, maximum
from fluidlite.paddle.tensor.reduction import max as largest

__all__ = [
    "compute_fbank_matrix",
    "create_dct",
    "fft_frequencies",
    "get_window",
    "hz_to_mel",
    "mel_frequencies",
    "mel_to_hz",
    "power_to_db",
]

# the scale of Slaney (1998): linear below 1000 Hz, logarithmic above
_LINEAR_STEP = 200.0 / 3
_KNEE = 1000.0
_LOG_STEP = math.log(6.4) / 27.0


def _constant(values: Any, dtype: DTypeLike) -> Variable:
    return to_tensor(np.asarray(values).astype(to_numpy(to_vartype(dtype))))


# ---------------------------------------------------------------------- windows
def get_window(window: Any, win_length: int, fftbins: bool = True, dtype: DTypeLike = "float64") -> Variable:
    """The window of that name, or of a tuple of a name and parameters, of `win_length` samples; one for
    transforms (`fftbins`) is a symmetric one that is longer by a sample, without the last.
    """
    if isinstance(window, tuple):
        name, *given = window
    elif isinstance(window, str):
        name = window
        given = []
        if name in NEEDS_PARAMETERS:
            raise ValueError(f"The '{name}' window needs one or more parameters -- pass a tuple.")
    else:
        raise ValueError(f"{type(window)} as window type is not supported.")
    if name not in WINDOWS:
        raise ValueError(f"Unknown window type {name!r}; known are {', '.join(sorted(WINDOWS))}")
    if int(win_length) != win_length or win_length < 0:
        raise ValueError(f"Window length must be a non-negative integer, but it is {win_length}")
    if name == "exponential" and not fftbins and given and given[0] is not None:
        raise ValueError(f"exponential: a symmetric window has its center in the middle, not at {given[0]}")
    if win_length <= 1:
        return _constant(np.ones(win_length), dtype)
    values = WINDOWS[name](win_length + 1, *given)[:-1] if fftbins else WINDOWS[name](win_length, *given)
    return _constant(values, dtype)


# ---------------------------------------------------------------------- mel scales
def _mel(hz: Array, htk: bool) -> Array:
    if htk:
        return 2595.0 * np.log10(1.0 + hz / 700.0)
    above = _KNEE / _LINEAR_STEP + np.log(np.maximum(hz, 1e-10) / _KNEE) / _LOG_STEP
    return np.where(hz >= _KNEE, above, hz / _LINEAR_STEP)


def _hz(mel: Array, htk: bool) -> Array:
    if htk:
        return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    knee = _KNEE / _LINEAR_STEP
    return np.where(mel >= knee, _KNEE * np.exp(_LOG_STEP * (mel - knee)), mel * _LINEAR_STEP)


def _number(value: Any, function: str) -> Any:
    if not isinstance(value, (int, float)):
        raise TypeError(f"{function}: must be real number, not {type(value).__name__}")
    return np.float64(value)


def hz_to_mel(freq: float, htk: bool = False) -> float:
    """A frequency in mel, by Slaney's scale or by that of HTK; TypeError unless it is a number."""
    return float(_mel(_number(freq, "hz_to_mel"), htk))


def mel_to_hz(mel: float, htk: bool = False) -> float:
    """A frequency in Hz; the inverse of `hz_to_mel`."""
    return float(_hz(_number(mel, "mel_to_hz"), htk))


def _mel_points(count: int, low: float, high: float, htk: bool) -> Array:
    """`count` frequencies in Hz at equal distances in mel."""
    ends = _mel(np.array([low, high], np.float64), htk)
    return _hz(np.linspace(ends[0], ends[1], count), htk)


def mel_frequencies(
    n_mels: int = 64,
    f_min: float = 0.0,
    f_max: float = 11025.0,
    htk: bool = False,
    dtype: DTypeLike = "float32",
) -> Variable:
    """`n_mels` frequencies in Hz from `f_min` to `f_max`, at equal distances in mel."""
    return _constant(_mel_points(n_mels, f_min, f_max, htk), dtype)


def fft_frequencies(sr: int, n_fft: int, dtype: DTypeLike = "float32") -> Variable:
    """The frequencies [1 + n_fft // 2] in Hz of a transform of `n_fft` samples, `sr` of them a second."""
    return _constant(np.linspace(0, float(sr) / 2, int(1 + n_fft // 2)), dtype)


def compute_fbank_matrix(
    sr: int,
    n_fft: int,
    n_mels: int = 64,
    f_min: float = 0.0,
    f_max: float | None = None,
    htk: bool = False,
    norm: str | float | None = "slaney",
    dtype: DTypeLike = "float32",
) -> Variable:
    """Weights [n_mels, 1 + n_fft // 2] of triangles around frequencies at equal distances in mel, by which
    spectra become mel spectra.

    norm: "slaney" for triangles of area 1, a number p for rows whose p-norm is 1, None for heights of 1.
    """
    points = _mel_points(n_mels + 2, f_min, float(sr) / 2 if f_max is None else f_max, htk)
    bins = np.linspace(0, float(sr) / 2, int(1 + n_fft // 2))
    apart = points[:, None] - bins
    widths = np.diff(points)[:, None]
    found = np.maximum(0, np.minimum(-apart[:-2] / widths[:-1], apart[2:] / widths[1:]))
    if norm == "slaney":
        found *= 2.0 / (points[2:] - points[:-2])[:, None]
    elif isinstance(norm, (int, float)):
        lengths = (np.abs(found) ** norm).sum(-1, keepdims=True) ** (1.0 / norm)
        found /= np.maximum(lengths, 1e-12)
    return _constant(found, dtype)


def create_dct(
    n_mfcc: int, n_mels: int, norm: str | None = "ortho", dtype: DTypeLike = "float32"
) -> Variable:
    """The matrix [n_mels, n_mfcc] of the discrete cosine transform; with `norm` "ortho" its columns have the
    length 1.
    """
    if norm not in (None, "ortho"):
        raise AssertionError(f"create_dct: norm must be 'ortho' or None, but it is {norm!r}")
    places = np.arange(n_mels)[:, None] + 0.5
    found = np.cos(np.pi / float(n_mels) * places * np.arange(n_mfcc))
    if norm is None:
        return _constant(2.0 * found, dtype)
    found[:, :1] *= math.sqrt(0.5)
    return _constant(math.sqrt(2.0 / n_mels) * found, dtype)


# ---------------------------------------------------------------------- decibels
def power_to_db(
    spect: Variable, ref_value: float = 1.0, amin: float = 1e-10, top_db: float | None = 80.0
) -> Variable:
    """10 * log10(spect / ref_value), of values that are at least `amin`; the result is at most `top_db` below
    its maximum.
    """
    if amin <= 0:
        raise ValueError(f"amin must be strictly positive, but it is {amin}")
    if ref_value <= 0:
        raise ValueError(f"ref_value must be strictly positive, but it is {ref_value}")
    if top_db is not None and top_db < 0:
        raise ValueError(f"top_db must be non-negative, but it is {top_db}")
    ones = full_like(spect, 1.0)
    level = 10.0 * log10(maximum(ones * amin, spect))
    level = level - 10.0 * math.log10(max(ref_value, amin))
    return level if top_db is None else maximum(level, ones * (largest(level) - top_db))
