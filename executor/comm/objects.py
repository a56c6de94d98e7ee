"""Python objects as bytes, for messages between processes: what JSON can say, tuples, arrays and bytes.

The bytes are the length of a JSON text (8 bytes, little endian), the text, and then the contents of arrays
and bytes one after the other. A value is itself in the text where it is None, a truth, a number or a text;
all others are lists that begin with a letter: ["l", ...], ["t", ...], ["d", [key, value], ...], ["b", size],
["a", dtype, shape].
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.base.errors import ArgumentError, FormatError

__all__ = ["decode", "encode"]

_LENGTH = 8
_KINDS = "biufc"  # of arrays that are their bytes


def encode(value: Any) -> bytes:
    """The bytes of a value. ArgumentError where it holds anything else; it says what, and where."""
    frames: list[bytes] = []
    text = json.dumps(_told(value, "the object", frames)).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *frames])


def _told(value: Any, where: str, frames: list[bytes]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        frames.append(bytes(value))
        return ["b", len(value)]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _KINDS:
        frames.append(np.ascontiguousarray(value).tobytes())
        return ["a", value.dtype.str, list(value.shape)]
    if type(value) in (list, tuple):
        parts = [_told(part, f"{where}[{index}]", frames) for index, part in enumerate(value)]
        return ["l" if type(value) is list else "t", *parts]
    if isinstance(value, Mapping):
        return [
            "d",
            *([_key(key, where), _told(part, f"{where}[{key!r}]", frames)] for key, part in value.items()),
        ]
    raise ArgumentError(
        f"{where} is of type {type(value).__name__}, which cannot be sent to other processes: only "
        "None, bool, numbers, str, bytes, arrays of numbers, and lists, tuples and dicts of these "
        "can (nothing is pickled)"
    )


def _key(key: Any, where: str) -> Any:
    if key is None or type(key) in (bool, int, float, str):
        return key
    raise ArgumentError(
        f"{where} has a key of type {type(key).__name__}: keys must be str, numbers, bool or None"
    )


def decode(data: bytes) -> Any:
    """The value that was encoded. FormatError where the bytes are not those of one."""
    size = int.from_bytes(data[:_LENGTH], "little")
    if len(data) < _LENGTH or size > len(data) - _LENGTH:
        raise FormatError(f"an object of {len(data)} bytes claims that its text has {size}")
    start = _LENGTH + size
    reader = _Frames(data, start)
    try:
        value = _heard(json.loads(data[_LENGTH:start]), reader)
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise FormatError(f"the text of an object cannot be read: {error}") from error
    if reader.position != len(data):
        raise FormatError(f"an object has {len(data) - reader.position} bytes too many")
    return value


class _Frames:
    """The contents of arrays and bytes, taken one after the other."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position

    def take(self, size: int) -> bytes:
        """The next `size` bytes; ValueError where there are not so many."""
        if size < 0 or size > len(self.data) - self.position:
            raise ValueError(f"{size} bytes are announced, but {len(self.data) - self.position} are left")
        found = self.data[self.position : self.position + size]
        self.position += size
        return found


def _heard(told: Any, frames: _Frames) -> Any:
    if not isinstance(told, list):
        return told
    kind, *rest = told
    if kind in ("l", "t"):
        parts = [_heard(part, frames) for part in rest]
        return parts if kind == "l" else tuple(parts)
    if kind == "d":
        return {key: _heard(part, frames) for key, part in rest}
    if kind == "b":
        return frames.take(int(rest[0]))
    if kind != "a":
        raise ValueError(f"unknown kind of value: {kind!r}")
    dtype, shape = np.dtype(str(rest[0])), tuple(int(size) for size in rest[1])
    if dtype.kind not in _KINDS or any(size < 0 for size in shape):
        raise ValueError(f"there is no array of type {rest[0]!r} with the shape {shape}")
    data = frames.take(dtype.itemsize * math.prod(shape))
    return np.frombuffer(data, dtype).reshape(shape).copy()
