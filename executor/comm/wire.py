"""Messages as bytes: a header that says everything about the values, then the values as they lie in memory.
Nothing is unpickled.

The header has a fixed part, then the shape (8 bytes a dimension) and the name; the values follow: row
numbers, then elements. `Incoming` is a message of which the header has come: it checks every size before it
allocates what the values are read into.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.values.tensor import SelectedRows, host

__all__ = ["HEAD_SIZE", "Incoming", "decode", "encode"]

_HEAD = struct.Struct(
    "<4sBBiBBqH"
)  # magic, what, kind of value, trainer, dtype, dimensions, height, length of the name
HEAD_SIZE = _HEAD.size
_MAGIC = b"FLT2"
_REQUEST, _REPLY, _ERROR = range(3)
_NOTHING, _DENSE, _ROWS = range(3)
_DTYPES = ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
_KINDS = frozenset(int(kind) for kind in Kind if kind is not Kind.LOST)
_MOST_DIMS = 16
MOST_BYTES = 1 << 34  # of one value; what a server expects of a name is checked more closely
MOST_ROWS = 1 << 28  # of one sparse gradient


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
    spelled = name.encode()
    if value is None:
        return [_HEAD.pack(_MAGIC, what * 16 + kind, _NOTHING, trainer, 0, 0, 0, len(spelled)) + spelled]
    rows = isinstance(value, SelectedRows)
    array = np.require(host(value.array if rows else value), requirements="C")
    if array.dtype.name not in _DTYPES:
        raise FormatError(f"{name or 'a value'} is of {array.dtype}, which cannot be sent")
    head = _HEAD.pack(
        _MAGIC,
        what * 16 + kind,
        _ROWS if rows else _DENSE,
        trainer,
        _DTYPES.index(array.dtype.name),
        array.ndim,
        value.height() if rows else 0,
        len(spelled),
    )
    head += struct.pack(f"<{array.ndim}q", *array.shape) + spelled
    ids = [np.ascontiguousarray(host(value.ids), dtype=np.int64).data] if rows else []
    return [head, *ids, array.data if array.size else b""]


class Incoming:
    """A message whose header is here.

    Attributes
    ----------
    rest: bytes of the header behind its fixed part, to be given to `describe`.
    shape, dtype: of the elements; None before `describe`, and where the message has no value.
    """

    def __init__(self, head: bytes | memoryview) -> None:
        magic, code, self.held, self.trainer, dtype, self.ndim, self.height, self.spelled = _HEAD.unpack(head)
        self.what, self.kind = divmod(code, 16)
        if magic != _MAGIC:
            raise FormatError(f"bytes that begin with {bytes(magic)!r} are no message of a job")
        if (
            self.what > _ERROR
            or self.held > _ROWS
            or dtype >= len(_DTYPES)
            or self.ndim > _MOST_DIMS
            or (self.what == _REQUEST and self.kind not in _KINDS)
        ):
            raise FormatError("a message of a job has a broken header")
        self.dtype = np.dtype(_DTYPES[dtype])
        self.rest = 8 * self.ndim + self.spelled
        self.shape: tuple[int, ...] = ()
        self.name = ""
        self.nbytes = self.ids_bytes = 0

    def describe(self, rest: bytes | memoryview) -> None:
        """The rest of the header: shape and name; FormatError where they make no sense."""
        self.shape = struct.unpack_from(f"<{self.ndim}q", rest)
        self.name = bytes(rest[8 * self.ndim :]).decode(errors="replace")
        if self.held == _NOTHING:
            return
        size = self.dtype.itemsize
        for dim in self.shape:
            size *= max(dim, -1)  # Python's integers do not overflow
        if size < 0 or min(self.shape, default=0) < 0 or size > MOST_BYTES or self.height < 0:
            raise FormatError(f"a message claims to hold a value of {self.dtype}{list(self.shape)}")
        if self.held == _ROWS and (not self.shape or 8 * self.shape[0] > MOST_BYTES):
            raise FormatError(f"a message claims to hold rows of {self.dtype}{list(self.shape)}")
        self.nbytes, self.ids_bytes = size, 8 * self.shape[0] if self.held == _ROWS else 0

    def fits_declared(self, shape: Sequence[int]) -> bool:
        """Whether a variable of this shape can have the value: rows lie within it, and there are not more
        than a batch can have.
        """
        if self.held == _NOTHING:
            return False
        return (
            self.held == _DENSE
            or not shape
            or shape[0] < 0
            or (self.height <= shape[0] and self.shape[0] <= MOST_ROWS)
        )

    def declared_shape(self) -> tuple[int, ...]:
        """The shape that the variable should have; -1 for a dimension that does not say."""
        return self.shape if self.held == _DENSE else (-1, *self.shape[1:])

    def text(self) -> str:
        """What the value is, for messages."""
        if self.held == _NOTHING:
            return "nothing"
        return f"{self.dtype}{list(self.shape)}" + (f", rows of {self.height}" if self.held == _ROWS else "")

    def arrays(self, into: Any, empty: Callable[[tuple[int, ...], Any], Any]) -> tuple[Any, Any]:
        """Where the row numbers and the elements are to be read into; None for what there is not.

        That is `into` where it fits, else what `empty` gives for a shape and a dtype.
        """
        ids = np.empty(self.shape[0], np.int64) if self.held == _ROWS else None
        if self.held == _NOTHING:
            return ids, None
        if self.fits(into):
            return ids, into
        return ids, empty(self.shape, self.dtype)

    def fits(self, into: Any) -> bool:
        """Whether the elements can be read straight into an array."""
        return (
            self.held == _DENSE
            and self.what == _REPLY
            and isinstance(into, np.ndarray)
            and into.shape == self.shape
            and into.dtype == self.dtype
            and into.flags.c_contiguous
            and into.flags.writeable
        )

    def item(self, ids: Any, array: Any) -> Message | Error | Any:
        """What was sent, once `arrays` have been filled; FormatError for row numbers outside of the table."""
        value = array
        if self.held == _ROWS:
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < self.height:
                raise FormatError(f"a message names rows outside of the {self.height} that there are")
            value = SelectedRows(ids, self.height, array)
        if self.what == _REQUEST:
            return Message(Kind(self.kind), self.trainer, self.name, value)
        if self.what == _ERROR:
            return Error("" if array is None else array.tobytes().decode(errors="replace"))
        return value


def decode(frames: Sequence[Any]) -> Message | Error | Any:
    """What `encode` was given, in the memory of the frames; FormatError for everything else, before
    anything is allocated.
    """
    head = bytes(frames[0]) if frames else b""
    if len(head) < HEAD_SIZE:
        raise FormatError(f"these {len(head)} bytes are no message of a job")
    found = Incoming(head[:HEAD_SIZE])
    if len(head) != HEAD_SIZE + found.rest or len(frames) != 1 + found.held:
        raise FormatError("a message of a job has a broken header")
    found.describe(head[HEAD_SIZE:])
    if found.held == _NOTHING:
        return found.item(None, None)
    if len(frames[-1]) != found.nbytes or (found.held == _ROWS and len(frames[1]) != found.ids_bytes):
        raise FormatError(
            f"a message holds {len(frames[-1])} bytes for a value of {found.dtype}{list(found.shape)}"
        )
    array = np.frombuffer(frames[-1], found.dtype).reshape(found.shape)
    return found.item(np.frombuffer(frames[1], np.int64) if found.held == _ROWS else None, array)
