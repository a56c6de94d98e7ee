"""Messages as bytes: a header that says everything about the values, then the values as they lie in memory. Nothing is unpickled."""
from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.errors import FormatError
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.tensor import SelectedRows, host

__all__ = ["decode", "encode"]

_HEAD = struct.Struct("<4sBBiBBqH")              # magic, what, kind of value, trainer, dtype, dimensions, height, length of the name
_MAGIC = b"FLT1"
_REQUEST, _REPLY, _ERROR = range(3)
_NOTHING, _DENSE, _ROWS = range(3)
_DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
_MOST_DIMS = 16


def encode(item: Message | Error | Any) -> list[Any]:
    """A message, an error, or the value of an answer, as frames: the header, and the memory of the value without a copy."""
    if isinstance(item, Message):
        return _frames(_REQUEST, item.trainer, item.name, item.value, int(item.kind))
    if isinstance(item, Error):
        return _frames(_ERROR, 0, "", np.frombuffer(item.text.encode()[:65536], np.uint8), 0)
    return _frames(_REPLY, 0, "", item, 0)


def _frames(what: int, trainer: int, name: str, value: Any, kind: int) -> list[Any]:
    spelled = name.encode()
    if value is None:
        return [_HEAD.pack(_MAGIC, what * 16 + kind, _NOTHING, trainer, 0, 0, 0, len(spelled)) + spelled]
    rows = isinstance(value, SelectedRows)
    array = np.require(host(value.array if rows else value), requirements="C")
    if array.dtype.name not in _DTYPES:
        raise FormatError(f"{name or 'a value'} is of {array.dtype}, which cannot be sent")
    head = _HEAD.pack(_MAGIC, what * 16 + kind, _ROWS if rows else _DENSE, trainer, _DTYPES.index(array.dtype.name), array.ndim,
                      value.height() if rows else 0, len(spelled))
    head += struct.pack(f"<{array.ndim}q", *array.shape) + spelled
    ids = [np.ascontiguousarray(host(value.ids), dtype=np.int64).data] if rows else []
    return [head, *ids, array.data if array.size else b""]


def decode(frames: Sequence[Any]) -> Message | Error | Any:
    """What `encode` was given; FormatError for everything else, before anything is allocated."""
    head = bytes(frames[0]) if frames else b""
    if len(head) < _HEAD.size or head[:4] != _MAGIC:
        raise FormatError(f"these {len(head)} bytes are no message of a job")
    _, code, held, trainer, dtype, ndim, height, spelled = _HEAD.unpack_from(head)
    what, kind = divmod(code, 16)
    if what > _ERROR or held > _ROWS or dtype >= len(_DTYPES) or ndim > _MOST_DIMS or (what == _REQUEST and kind > max(Kind)) or (
            len(head) != _HEAD.size + 8 * ndim + spelled or len(frames) != 1 + held):
        raise FormatError("a message of a job has a broken header")
    shape = struct.unpack_from(f"<{ndim}q", head, _HEAD.size)
    value = _value(held, np.dtype(_DTYPES[dtype]), shape, height, frames[1:])
    if what == _REQUEST:
        return Message(Kind(kind), trainer, head[_HEAD.size + 8 * ndim:].decode(errors="replace"), value)
    return Error(value.tobytes().decode(errors="replace")) if what == _ERROR else value


def _value(held: int, dtype: np.dtype[Any], shape: tuple[int, ...], height: int, frames: Sequence[Any]) -> Any:
    if held == _NOTHING:
        return None
    size = dtype.itemsize
    for dim in shape:
        size *= max(dim, -1)                         # Python's integers do not overflow
    if size < 0 or min(shape, default=0) < 0 or len(frames[-1]) != size:
        raise FormatError(f"a message holds {len(frames[-1])} bytes for a value of {dtype}{list(shape)}")
    array = np.frombuffer(frames[-1], dtype).reshape(shape)
    if held == _DENSE:
        return array
    if not shape or len(frames[0]) != 8 * shape[0]:
        raise FormatError(f"a message holds {len(frames[0])} bytes of row numbers for {list(shape)}")
    ids = np.frombuffer(frames[0], np.int64)
    if height < 0 or (ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < height):
        raise FormatError(f"a message names rows outside of the {height} that there are")
    return SelectedRows(ids, height, array)
