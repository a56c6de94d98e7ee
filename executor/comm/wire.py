"""Messages as bytes: a header that says everything about the value, then the value as it lies in memory.
Nothing is unpickled.

The header has a fixed part, then the shape (8 bytes a dimension) and the name; the value follows: row
numbers, then elements. `Incoming` is a message whose header is here: it checks every size before memory is
allocated for the value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.values.recycling import RecycledArrays
from fluidlite.values.tensor import SelectedRows, host

__all__ = ["HEAD_SIZE", "Incoming", "decode", "encode", "pack", "receive_buffer", "unpack"]

# magic, what it is with the kind of a request, kind of value, trainer, dtype, dimensions, height, bytes of
# the name
_HEAD = struct.Struct("<4sBBiBBqH")
HEAD_SIZE = _HEAD.size
_MAGIC = b"FLT2"
_REQUEST, _REPLY, _ERROR = range(3)
_NOTHING, _DENSE, _ROWS = range(3)
_DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
# `dtype.name` takes 8 us, as long as a small message, and an array is asked for it in each
_CODES = {np.dtype(name): code for code, name in enumerate(_DTYPES)}
_OF_CODE = list(_CODES)
_KINDS = frozenset(int(kind) for kind in Kind if kind is not Kind.LOST)
_MOST_DIMS = 16
MOST_BYTES = 1 << 34  # of one value; what a server expects of a name is checked more closely
MOST_ROWS = 1 << 28  # of one sparse gradient
MOST_NAME = 1 << 13  # bytes of a name; that of a folder is the longest


def encode(item: Message | Error | Any) -> list[Any]:
    """A message, an error, or the value of an answer, as frames: the header, and the memory of the value
    without a copy.
    """
    if isinstance(item, Message):
        return _frames(_REQUEST, item.trainer, item.name, item.value, int(item.kind))
    if isinstance(item, Error):
        return _frames(_ERROR, 0, "", np.frombuffer(item.text.encode()[:65536], np.uint8), 0)
    return _frames(_REPLY, 0, "", item, 0)


def _frames(what: int, trainer: int, name: str, value: Any, kind: int) -> list[Any]:
    code = what * 16 + kind
    name_bytes = name.encode()
    if value is None:
        return [_HEAD.pack(_MAGIC, code, _NOTHING, trainer, 0, 0, 0, len(name_bytes)) + name_bytes]
    is_rows = isinstance(value, SelectedRows)
    array = host(value.array if is_rows else value)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    code_of_dtype = _CODES.get(array.dtype)
    if code_of_dtype is None:
        raise FormatError(f"{name or 'a value'} is of {array.dtype}, which cannot be sent")
    head = _HEAD.pack(
        _MAGIC,
        code,
        _ROWS if is_rows else _DENSE,
        trainer,
        code_of_dtype,
        array.ndim,
        value.height() if is_rows else 0,
        len(name_bytes),
    )
    head += struct.pack(f"<{array.ndim}q", *array.shape) + name_bytes
    ids = [np.ascontiguousarray(host(value.ids), dtype=np.int64).data] if is_rows else []
    return [head, *ids, array.data if array.size else b""]


class Incoming:
    """A message whose header is here; `describe` takes the rest of the header, `arrays` gives the memory that
    the value is to be read into, and `item` makes the message of these.

    Attributes
    ----------
    rest: bytes of the header after its fixed part.
    kind, trainer: of a request.
    shape, dtype: of the elements; no shape before `describe`, and where the message has no value.
    nbytes, ids_bytes: of the elements and of the row numbers.
    is_request: True for a question or what a trainer sends, False for an answer.
    is_dense, is_rows: the kind of value; neither: there is none.
    """

    def __init__(self, head: bytes | memoryview) -> None:
        magic, code, self._value, self.trainer, dtype, self._ndim, self.height, length = _HEAD.unpack(head)
        self._what, self.kind = divmod(code, 16)
        if magic != _MAGIC:
            raise FormatError(f"bytes that begin with {bytes(magic)!r} are not a message of a job")
        is_known = self._what <= _ERROR and self._value <= _ROWS and dtype < len(_DTYPES)
        if self._what == _REQUEST and self.kind not in _KINDS:
            is_known = False
        if not is_known or self._ndim > _MOST_DIMS:
            raise FormatError("a message of a job has a broken header")
        if length > MOST_NAME:
            raise FormatError(f"a message has a name of {length} bytes, more than {MOST_NAME}")
        self.dtype = _OF_CODE[dtype]
        self.rest = 8 * self._ndim + length
        self.shape: tuple[int, ...] = ()
        self.name = ""
        self.nbytes = self.ids_bytes = 0
        self.frames = 1 + self._value  # the header, row numbers and elements
        self.is_request = self._what == _REQUEST
        self.is_dense = self._value == _DENSE
        self.is_rows = self._value == _ROWS

    def describe(self, rest: bytes | memoryview) -> None:
        """Read the rest of the header: shape and name; FormatError where they make no sense."""
        self.shape = struct.unpack_from(f"<{self._ndim}q", rest)
        self.name = bytes(rest[8 * self._ndim :]).decode(errors="replace")
        if self._value == _NOTHING:
            return
        # as if no dimension were 0: NumPy makes no array of 2 ** 62 rows, be they empty or not. Python's
        # integers do not overflow
        most = self.dtype.itemsize * math.prod(max(dim, 1) for dim in self.shape)
        if most > MOST_BYTES or min(self.shape, default=0) < 0 or self.height < 0:
            raise FormatError(f"a message claims to hold a value of {self.dtype}{list(self.shape)}")
        size = 0 if 0 in self.shape else most
        if self._value == _ROWS and (not self.shape or 8 * self.shape[0] > MOST_BYTES):
            raise FormatError(f"a message claims to hold rows of {self.dtype}{list(self.shape)}")
        self.nbytes = size
        self.ids_bytes = 8 * self.shape[0] if self._value == _ROWS else 0

    def fits_declared(self, shape: Sequence[int]) -> bool:
        """True if a variable of this shape can have the value: rows are of a table as high as it, and there
        are not more than a batch can have.
        """
        if self._value != _ROWS:
            return bool(self._value == _DENSE)
        if not shape or shape[0] < 0:
            return True
        return bool(self.height == shape[0] and self.shape[0] <= MOST_ROWS)

    def declared_shape(self) -> tuple[int, ...]:
        """The shape that the variable should have; -1 for a dimension that does not say."""
        return self.shape if self._value == _DENSE else (-1, *self.shape[1:])

    def text(self) -> str:
        """The form of the value, for error messages."""
        if self._value == _NOTHING:
            return "nothing"
        return f"{self.dtype}{list(self.shape)}" + (
            f", rows of {self.height}" if self._value == _ROWS else ""
        )

    def arrays(self, into: Any, empty: Callable[[tuple[int, ...], Any], Any]) -> tuple[Any, Any]:
        """Memory for the row numbers and for the elements; None for what the message does not have.

        Elements get `into` where it fits, else the array that `empty` gives for a shape and a dtype.
        """
        ids = np.empty(self.shape[0], np.int64) if self._value == _ROWS else None
        if self._value == _NOTHING:
            return ids, None
        if self.fits(into):
            return ids, into
        return ids, empty(self.shape, self.dtype)

    def fits(self, into: Any) -> bool:
        """True if the elements can be read straight into an array."""
        return (
            self._value == _DENSE
            and self._what == _REPLY
            and isinstance(into, np.ndarray)
            and into.shape == self.shape
            and into.dtype == self.dtype
            and into.flags.c_contiguous
            and into.flags.writeable
        )

    def item(self, ids: Any, array: Any) -> Message | Error | Any:
        """The message or answer, once `arrays` have been filled; FormatError for row numbers outside of the
        table.
        """
        value = array
        if self._value == _ROWS:
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < self.height:
                raise FormatError(f"a message names rows outside of the {self.height} existing ones")
            value = SelectedRows(ids, self.height, array)
        if self._what == _REQUEST:
            return Message(Kind(self.kind), self.trainer, self.name, value)
        if self._what == _ERROR:
            return Error("" if array is None else array.tobytes().decode(errors="replace"))
        return value


def decode(frames: Sequence[Any]) -> Message | Error | Any:
    """The inverse of `encode`, in the memory of the frames; FormatError for everything else, before anything
    is allocated.
    """
    head = bytes(frames[0]) if frames else b""
    if len(head) < HEAD_SIZE:
        raise FormatError(f"these {len(head)} bytes are not a message of a job")
    found = Incoming(head[:HEAD_SIZE])
    if len(head) != HEAD_SIZE + found.rest or len(frames) != found.frames:
        raise FormatError("a message of a job has a broken header")
    found.describe(head[HEAD_SIZE:])
    if found.frames == 1:
        return found.item(None, None)
    has_ids = found.frames == 3
    if len(frames[-1]) != found.nbytes or (has_ids and len(frames[1]) != found.ids_bytes):
        raise FormatError(
            f"a message holds {len(frames[-1])} bytes for a value of {found.dtype}{list(found.shape)}"
        )
    array = np.frombuffer(frames[-1], found.dtype).reshape(found.shape)
    return found.item(np.frombuffer(frames[1], np.int64) if has_ids else None, array)


# ---------------------------------------------------------------------- memory for what comes
_RECYCLED = 1 << 16  # bytes from which memory is used again
_SHAPES = 256  # shapes whose memory is kept
_recycled: dict[tuple[tuple[int, ...], Any], RecycledArrays] = {}


def receive_buffer(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array for a value that is read. To map new memory page by page takes as long as to receive the
    value: a large one gets the memory of an earlier one that is free again.
    """
    if math.prod(shape) * dtype.itemsize < _RECYCLED:
        return np.empty(shape, dtype)
    if len(_recycled) >= _SHAPES and (shape, dtype) not in _recycled:
        _recycled.clear()
    return _recycled.setdefault((shape, dtype), RecycledArrays(np, shape, dtype))()


# ---------------------------------------------------------------------- several values in one
_SIZE = struct.Struct("<Q")


def pack(items: Sequence[Any]) -> Any:
    """Arrays of bytes in one: the size of each (8 bytes) before its bytes."""
    parts = []
    for item in items:
        parts += [np.frombuffer(_SIZE.pack(item.size), np.uint8), item]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint8)


def unpack(packed: Any) -> list[Any]:
    """The inverse of `pack`; FormatError for other bytes."""
    found = []
    place = 0
    while place < packed.size:
        # a size of which bytes are missing becomes larger than everything
        (size,) = _SIZE.unpack(packed[place : place + 8].tobytes().ljust(8, b"\xff"))
        place += 8
        if size > packed.size - place:
            raise FormatError("packed values are truncated")
        found.append(packed[place : place + size])
        place += size
    return found
