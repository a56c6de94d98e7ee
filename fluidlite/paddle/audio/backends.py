"""`paddle.audio.backends`: sound in WAV files of 16 bits, by Python's own library."""

from __future__ import annotations

import os
import struct
import wave
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError, MissingFileError, UnsupportedError
from fluidlite.base.records import dataclass
from fluidlite.ir.variable import Variable
from fluidlite.paddle.tensor.creation import to_tensor

__all__ = [
    "AudioInfo",
    "get_current_backend",
    "info",
    "list_available_backends",
    "load",
    "save",
    "set_backend",
]

_BACKEND = "wave_backend"
_SCALE = 1 << 15  # of 16 bits


@dataclass
class AudioInfo:
    """The facts of a file: samples a second, samples, channels, bits of a sample and their encoding."""

    sample_rate: int
    num_samples: int
    num_channels: int
    bits_per_sample: int
    encoding: str


def get_current_backend() -> str:
    """The library that files are read with."""
    return _BACKEND


def list_available_backends() -> list[str]:
    """The libraries that files can be read with: Python's own."""
    return [_BACKEND]


def set_backend(backend_name: str) -> None:
    """Choose the library; UnsupportedError for another one than Python's own."""
    if backend_name not in list_available_backends():
        raise UnsupportedError(
            f"audio.set_backend: {backend_name!r} is not one of {', '.join(list_available_backends())}"
        )


def _opened(filepath: Any) -> wave.Wave_read:
    """The file of a path, or a file that is open already; callers close it."""
    source = filepath if hasattr(filepath, "read") else os.fspath(filepath)
    try:
        return wave.open(source, "rb")
    except FileNotFoundError:
        raise MissingFileError(f"file {filepath} not found") from None
    except (wave.Error, EOFError, struct.error) as error:
        raise FormatError(f"{filepath} is not a WAV file: {error}") from error


def info(filepath: Any) -> AudioInfo:
    """The facts that stand at the beginning of a file."""
    with _opened(filepath) as file:
        bits = 8 * file.getsampwidth()
        return AudioInfo(file.getframerate(), file.getnframes(), file.getnchannels(), bits, "PCM_S")


def read_samples(filepath: Any, frame_offset: int, num_frames: int) -> tuple[Any, int]:
    """Samples [frames, channels] and how many come a second."""
    with _opened(filepath) as file:
        if file.getsampwidth() != 2:
            bits = 8 * file.getsampwidth()
            raise UnsupportedError(f"{filepath} has samples of {bits} bits, and files of 16 bits are read")
        count = file.getnframes()
        start = min(max(frame_offset, 0), count)
        file.setpos(start)
        wanted = count - start if num_frames < 0 else min(num_frames, count - start)
        data = file.readframes(wanted)
        return np.frombuffer(data, "<i2").reshape(-1, file.getnchannels()), file.getframerate()


def load(
    filepath: Any,
    frame_offset: int = 0,
    num_frames: int = -1,
    normalize: bool = True,
    channels_first: bool = True,
) -> tuple[Variable, int]:
    """(The samples of a file as a constant of the program: [channels, frames], or [frames, channels]; how
    many come a second.) With `normalize` they lie in [-1, 1), else they are whole numbers.
    """
    found, rate = read_samples(filepath, frame_offset, num_frames)
    values = found.astype(np.float32) / _SCALE if normalize else found.astype(np.float32)
    return to_tensor(np.ascontiguousarray(values.T if channels_first else values)), rate


def save(
    filepath: str,
    src: Any,
    sample_rate: int,
    channels_first: bool = True,
    encoding: str | None = None,
    bits_per_sample: int | None = 16,
) -> None:
    """Write samples, an array [channels, frames] or [frames, channels], to a file of 16 bits: fractions of
    [-1, 1), or whole numbers as they are.
    """
    if bits_per_sample not in (None, 16):
        raise ValueError(f"Invalid bits_per_sample: {bits_per_sample}, only support 16 bit")
    if isinstance(src, Variable):
        raise TypeError("audio.save: the samples of a Variable exist when the program runs; fetch it before")
    values = np.asarray(src)
    if values.ndim != 2:
        raise AssertionError(f"Expected 2D tensor, but received the shape {list(values.shape)}")
    rows = values.T if channels_first else values
    if rows.dtype.kind == "f":
        rows = np.clip(rows * _SCALE, -_SCALE, _SCALE - 1)
    with wave.open(filepath, "wb") as file:
        file.setnchannels(rows.shape[1])
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(np.ascontiguousarray(rows.astype("<i2")).tobytes())
