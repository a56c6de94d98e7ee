"""`paddle.audio.features`: spectra of sound as layers"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_NAMES = LazyNames(
    __name__,
    {"fluidlite.paddle.audio.features.layers": "LogMelSpectrogram MFCC MelSpectrogram Spectrogram"},
    "layers",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
