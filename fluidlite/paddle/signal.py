"""`paddle.signal`: spectra of short frames of a signal, and signals from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.open_sizes import fits
from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append
from fluidlite.paddle.fft import fft, ifft, irfft, rfft
from fluidlite.paddle.nn.functional.padding import pad
from fluidlite.paddle.tensor.creation import ones, zeros
from fluidlite.paddle.tensor.manipulation import concat, expand, slice, squeeze, transpose, unsqueeze
from fluidlite.paddle.tensor.math import multiply

__all__ = ["frame", "istft", "overlap_add", "stft"]


def frame(
    x: Variable, frame_length: int, hop_length: int, axis: int = -1, name: str | None = None
) -> Variable:
    """Frames of `frame_length` elements, every `hop_length`: [..., frame_length, frames], or
    [frames, frame_length, ...] with axis 0.
    """
    attrs = {"frame_length": frame_length, "hop_length": hop_length, "axis": axis}
    return append("frame", {"X": [x]}, attrs, dtype=x.dtype)


def overlap_add(x: Variable, hop_length: int, axis: int = -1, name: str | None = None) -> Variable:
    """Frames laid over each other, `hop_length` elements apart, and added."""
    return append("overlap_add", {"X": [x]}, {"hop_length": hop_length, "axis": axis}, dtype=x.dtype)


def _window(window: Variable | None, length: int, n_fft: int, kind: VarType) -> Variable:
    """The weights of a frame: `length` of them in the middle of zeros."""
    if window is None:
        window = ones([length], kind)
    if tuple(window.shape) != (length,):
        raise ValueError(f"the window must have the shape [{length}], but has {list(window.shape)}")
    if length == n_fft:
        return window
    left = (n_fft - length) // 2
    return concat([zeros([left], kind), window, zeros([n_fft - length - left], kind)])


def _lengths(n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    if hop < 1 or not 0 < length <= n_fft:
        raise ValueError(
            f"hop_length {hop} must be positive, and win_length {length} between 1 and n_fft {n_fft}"
        )
    return hop, length


_REAL = {VarType.COMPLEX64: VarType.FP32, VarType.COMPLEX128: VarType.FP64}


def stft(
    x: Variable,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Variable | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
    name: str | None = None,
) -> Variable:
    """The transform of each frame of signals [batch, samples] or [samples]: [batch, n_fft // 2 + 1, frames],
    or n_fft frequencies unless `onesided`.

    Frames have n_fft samples, every `hop_length` (a quarter of them), weighted by `window`. `center`: the
    first one has the first sample in its middle, and the signal goes on at both ends by `pad_mode`.
    """
    if len(x.shape) not in (1, 2):
        raise ValueError(f"stft: x must have 1 or 2 dimensions, but has shape {list(x.shape)}")
    hop, length = _lengths(n_fft, hop_length, win_length)
    if onesided and x.dtype in _REAL:
        raise ValueError("stft: onesided should be False where the input is complex")
    weights = _window(window, length, n_fft, _REAL.get(x.dtype, x.dtype))
    signal = unsqueeze(x, 0) if len(x.shape) == 1 else x
    if center:
        if pad_mode not in ("constant", "reflect"):
            raise ValueError(f"pad_mode should be 'reflect' or 'constant', but received {pad_mode}")
        sides = [n_fft // 2, n_fft // 2]
        signal = squeeze(pad(unsqueeze(signal, -1), sides, pad_mode, data_format="NLC"), [-1])
    frames = multiply(transpose(frame(signal, n_fft, hop), [0, 2, 1]), weights)
    norm = "ortho" if normalized else "backward"
    found = transpose((rfft if onesided else fft)(frames, norm=norm), [0, 2, 1])
    return squeeze(found, [0]) if len(x.shape) == 1 else found


def _check_spectra(x: Variable, n_fft: int, onesided: bool) -> None:
    """ValueError for what are no spectra of windows of `n_fft` samples."""
    if len(x.shape) not in (2, 3):
        raise ValueError(f"istft: x must have 2 or 3 dimensions, but has shape {list(x.shape)}")
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if not fits(x.shape[-2], wanted):
        raise ValueError(
            f"'n_fft' in istft is {n_fft}, so that x must have {wanted} frequencies, but {x.name} has "
            f"the shape {list(x.shape)}"
        )


def istft(
    x: Variable,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Variable | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool = True,
    length: int | None = None,
    return_complex: bool = False,
    name: str | None = None,
) -> Variable:
    """The signals [batch, samples] or [samples] whose `stft` is nearest to x in squares; `length` of their
    samples, by default as many as the frames reach.
    """
    _check_spectra(x, n_fft, onesided)
    hop, reach = _lengths(n_fft, hop_length, win_length)
    if return_complex and onesided:
        raise ValueError("istft: onesided should be False where the output is complex")
    kind = _REAL[x.dtype]
    spectra = transpose(unsqueeze(x, 0) if len(x.shape) == 2 else x, [0, 2, 1])
    norm = "ortho" if normalized else "backward"
    frames: Any
    if return_complex:
        frames = ifft(spectra, norm=norm)
    else:
        # of the spectra of real signals, one half tells the other
        half = spectra
        if not onesided:
            half = slice(spectra, [2], [0], [n_fft // 2 + 1])
        frames = irfft(half, n_fft, norm=norm)
    weights = _window(window, reach, n_fft, kind)
    summed = overlap_add(transpose(frames * weights, [0, 2, 1]), hop)
    columns = expand(unsqueeze(weights * weights, 1), [n_fft, spectra.shape[1]])
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else summed.shape[-1] - start
    shares = slice(overlap_add(columns, hop), [0], [start], [stop])
    found = slice(summed, [1], [start], [stop]) / shares
    return squeeze(found, [0]) if len(x.shape) == 2 else found


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
