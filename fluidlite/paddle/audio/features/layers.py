"""Spectra of sound [batch, samples]: their windows and scales are constants of the program."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import DTypeLike
from fluidlite.paddle.audio.functional import compute_fbank_matrix, create_dct, get_window, power_to_db
from fluidlite.paddle.nn.layer.base import Layer
from fluidlite.paddle.signal import stft
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.manipulation import transpose
from fluidlite.paddle.tensor.math import abs, pow

__all__ = ["MFCC", "LogMelSpectrogram", "MelSpectrogram", "Spectrogram"]


class Spectrogram(Layer):
    """|spectrum| to the power `power`, [batch, n_fft // 2 + 1, frames]; see `paddle.signal.stft`."""

    def __init__(
        self,
        n_fft: int = 512,
        hop_length: int | None = 512,
        win_length: int | None = None,
        window: Any = "hann",
        power: float = 1.0,
        center: bool = True,
        pad_mode: str = "reflect",
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__()
        assert power > 0, "Power of spectrogram must be > 0."
        self.power = power
        self._window = (window, win_length or n_fft, dtype)
        self._frames: dict[str, Any] = {
            "n_fft": n_fft,
            "hop_length": hop_length,
            "win_length": win_length or n_fft,
        }
        self._frames |= {"center": center, "pad_mode": pad_mode}

    def forward(self, x: Any) -> Any:
        """The spectrum of each frame."""
        window, length, dtype = self._window
        found = stft(x, window=get_window(window, length, True, dtype), **self._frames)
        return pow(abs(found), self.power)


class MelSpectrogram(Layer):
    """Spectra whose frequencies are gathered in `n_mels` bands of the mel scale, [batch, n_mels, frames]."""

    def __init__(
        self,
        sr: int = 22050,
        n_fft: int = 2048,
        hop_length: int | None = 512,
        win_length: int | None = None,
        window: Any = "hann",
        power: float = 2.0,
        center: bool = True,
        pad_mode: str = "reflect",
        n_mels: int = 64,
        f_min: float = 50.0,
        f_max: float | None = None,
        htk: bool = False,
        norm: str | float = "slaney",
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__()
        frames = (n_fft, hop_length, win_length, window, power, center, pad_mode, dtype)
        self._spectrogram = Spectrogram(*frames)
        self._bands = (sr, n_fft, n_mels, f_min, f_max, htk, norm, dtype)

    def forward(self, x: Any) -> Any:
        """The bands of each frame."""
        return matmul(compute_fbank_matrix(*self._bands), self._spectrogram(x))


class LogMelSpectrogram(Layer):
    """Bands of the mel scale in decibels beside `ref_value`; see `paddle.audio.functional.power_to_db`."""

    def __init__(
        self,
        sr: int = 22050,
        n_fft: int = 512,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = "hann",
        power: float = 2.0,
        center: bool = True,
        pad_mode: str = "reflect",
        n_mels: int = 64,
        f_min: float = 50.0,
        f_max: float | None = None,
        htk: bool = False,
        norm: str | float = "slaney",
        ref_value: float = 1.0,
        amin: float = 1e-10,
        top_db: float | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__()
        frames = (n_fft, hop_length, win_length, window, power, center, pad_mode)
        self._melspectrogram = MelSpectrogram(sr, *frames, n_mels, f_min, f_max, htk, norm, dtype)
        self._levels = (ref_value, amin, top_db)
        self.n_mels, self.dtype = n_mels, dtype

    def forward(self, x: Any) -> Any:
        """The decibels of each frame."""
        return power_to_db(self._melspectrogram(x), *self._levels)


class MFCC(Layer):
    """The first `n_mfcc` coefficients of the cosine transform of decibels, [batch, n_mfcc, frames].

    `args` and `kwargs` are those of `LogMelSpectrogram` behind `sr`.
    """

    def __init__(self, sr: int = 22050, n_mfcc: int = 40, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self._log_melspectrogram = LogMelSpectrogram(sr, *args, **kwargs)
        bands = self._log_melspectrogram.n_mels
        assert n_mfcc <= bands, f"n_mfcc cannot be larger than n_mels: {n_mfcc} vs {bands}"
        self.n_mfcc = n_mfcc

    def forward(self, x: Any) -> Any:
        """The coefficients of each frame."""
        levels = self._log_melspectrogram
        found = transpose(levels(x), [0, 2, 1])
        scale = create_dct(self.n_mfcc, levels.n_mels, dtype=levels.dtype)
        return transpose(matmul(found, scale), [0, 2, 1])
