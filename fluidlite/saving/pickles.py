"""The dicts of arrays that `fluid.save` keeps in `.pdparams` and `.pdopt` files, which are pickles in Paddle,
and the dicts, lists, numbers and texts around arrays that 2.x's `save` keeps.

Nothing is unpickled: a small machine here knows the opcodes that make dicts, tuples, strings, numbers and
arrays, imports nothing, calls nothing that a file names, and checks every size before it makes an array.
What it makes takes no more than 8 times the bytes of the file, beside 100 bytes for each of at most 2 ** 19
opcodes: a file may name one piece of data in many places, and copies are counted (`_Machine.spend`).
Writing gives the opcodes of protocol 2 that Paddle's Python (2.7 or 3) and any NumPy read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import FormatError
from fluidlite.base.records import dataclass

__all__ = ["dump_arrays", "dump_objects", "load_arrays", "load_objects"]

# An array takes about 25; a machine step takes a microsecond
_MAX_STEPS = 1 << 19
_KINDS = frozenset("biufc")
_MAX_DEPTH = 100  # of lists and dicts in each other, which may hold themselves in a hostile file
_MAX_DIMS = 64
_LONGEST_TEXT = 1 << 12  # of keys and names, which are hashed and compared each time that they are named
_COPIES = 4  # of the bytes of a file, by calls: an honest one has each byte of an array read twice
_STRUCTURED_NAMES = "StructuredToParameterName@@"


# ---------- parts of arrays
@dataclass
class _DType:
    """`numpy.dtype`: made from a code such as "f4", then told its byte order."""

    dtype: np.dtype[Any]

    @classmethod
    def make(cls, code: Any, *unused: Any) -> _DType:
        """From the arguments in a file."""
        text = _text(code)
        # NumPy would read a whole structure out of a longer text
        if len(text) > 8 or not text[1:].isdecimal() or text[0] not in _KINDS:
            raise FormatError(f"an array of type {text[:20]!r} does not hold numbers")
        return cls(np.dtype(text))

    def build(self, state: Any) -> None:
        """Take the byte order out of (version, order, ...)."""
        orders: dict[str, Literal["<", ">", "|", "="]] = {"<": "<", ">": ">", "|": "|", "=": "="}
        self.dtype = self.dtype.newbyteorder(orders[_text(state[1])])


@dataclass
class _Array:
    """An array in the making: a file says its type, shape and bytes one by one."""

    array: Array | None = None

    def build(self, state: Any) -> None:
        """Take (version, shape, type, Fortran order, data)."""
        _, shape, dtype, fortran, data = state
        self.array = _make_array(data, dtype, shape, bool(fortran))


def _text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray, str)) and len(value) > _LONGEST_TEXT:
        raise FormatError(f"found a text of {len(value)} characters where a name is expected")
    if isinstance(value, (bytes, bytearray)):
        return value.decode("latin1")
    if not isinstance(value, str):
        raise FormatError(f"found a {type(value).__name__} where text is expected")
    return value


def _make_array(data: Any, dtype: Any, shape: Any, fortran: bool) -> Array:
    # a string of Python 2, whose bytes Python 3 reads as latin1
    if isinstance(data, str):
        data = data.encode("latin1")
    if (
        not isinstance(dtype, _DType)
        or not isinstance(data, (bytes, bytearray))
        or not isinstance(shape, tuple)
    ):
        raise FormatError("an array without type, shape or data")
    if len(shape) > _MAX_DIMS:
        raise FormatError(f"an array has {len(shape)} dimensions")
    # in Python's integers, which do not wrap around
    count = 1
    for dim in shape:
        if not isinstance(dim, int) or not 0 <= dim < 1 << 60:
            raise FormatError("an array has an impossible shape")
        count *= dim
    if count * dtype.dtype.itemsize != len(data):
        raise FormatError(f"an array of {count} elements of type {dtype.dtype} has {len(data)} bytes")
    found = np.frombuffer(data, dtype.dtype).reshape(shape, order="F" if fortran else "C")
    # a copy: the array over the file's bytes can only be read, and would keep all of them
    return np.array(found, dtype=dtype.dtype.newbyteorder("="), order="C")


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """`_codecs.encode(text, "latin1")`: how Python 3 writes bytes in protocol 2."""
    if _text(encoding) not in ("latin1", "latin-1"):
        raise FormatError("bytes that are not in latin1")
    if not isinstance(text, str):
        raise FormatError(f"found a {type(text).__name__} where text is expected")
    return text.encode("latin1")


def _scalar(dtype: Any, data: Any) -> _Array:
    return _Array(_make_array(data, dtype, (), False))


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    return _Array(_make_array(data, dtype, shape, _text(order) == "F"))


def _tensor(code: Any, names: Any) -> Any:
    """`eval("data", {"data": array})`, as which 2.x writes a tensor alone: nothing else is evaluated."""
    if code != "data" or type(names) is not dict or set(names) != {"data"}:
        raise FormatError("it asks for code to be evaluated")
    return names["data"]


_CALLS: dict[str, Callable[..., Any]] = {
    # names of Python 2 and 3 and of NumPy 1 and 2; whatever else a file names is refused
    "numpy dtype": _DType.make,
    "_codecs encode": _encode,
    "builtins eval": _tensor,
    "collections OrderedDict": lambda: {},  # noqa: PIE807 (dict would take arguments)
    "__builtin__ bytes": lambda: b"",
    "builtins bytes": lambda: b"",  # how an empty array's data is written
    **{f"numpy.{core}.multiarray _reconstruct": lambda *unused: _Array() for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray scalar": _scalar for core in ("core", "_core")},
    **{f"numpy.{core}.numeric _frombuffer": _from_buffer for core in ("core", "_core")},
}


@dataclass(frozen=True)
class _Global:
    """A name that a file mentions."""

    name: str


# ------------------------------------------------------------------------------------------------ opcodes
def _fixed(form: str) -> Callable[[_Bytes], Any]:
    return lambda source: source.numbers(form)


def _sized(form: str, text: bool = False) -> Callable[[_Bytes], Any]:
    def read(source: _Bytes) -> Any:
        data = source.take(source.numbers(form))
        return data.decode("utf8", errors="surrogatepass") if text else data

    return read


class _Bytes:
    """The bytes of a file and a position in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if not 0 <= count <= len(self.data) - self.at:
            raise FormatError(f"{count} bytes are wanted, and {len(self.data) - self.at} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def numbers(self, form: str) -> Any:
        """The next number, in the notation of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        """The rest of a line, a module or a name."""
        # 200 bytes hold every name of the table of calls; without a limit each would scan the whole file
        end = self.data.find(b"\n", self.at, self.at + 200)
        if end < 0:
            raise FormatError("a name without an end")
        return self.take(end + 1 - self.at)[:-1].decode("utf8")


def _long(source: _Bytes) -> int:
    return int.from_bytes(source.take(source.numbers("<B")), "little", signed=True)


# ------------------------------------------------------------------------------------------------ the machine
class _Machine:
    """Runs the opcodes of a pickle on a stack of its own."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.budget = 0
        """The characters that may still be given to calls."""

    def spend(self, arguments: Iterable[Any]) -> None:
        """Count what a call reads: FormatError where calls read the same data again and again."""
        self.budget -= sum(len(item) for item in arguments if isinstance(item, (str, bytes, bytearray)))
        if self.budget < 0:
            raise FormatError(f"its arrays take more than {_COPIES} times the bytes that it has")

    def run(self, data: bytes) -> Any:
        """The value that the pickle describes."""
        source = _Bytes(data)
        self.budget = _COPIES * len(data) + _LONGEST_TEXT
        # a file of small opcodes would keep the machine busy for as long as it is large
        for _ in range(_MAX_STEPS):
            opcode = source.take(1)
            if opcode == b".":
                return self.stack.pop()
            if opcode not in _OPCODES:
                raise FormatError(f"the opcode {opcode!r} does not occur in files of arrays")
            read, handle = _OPCODES[opcode]
            handle(self, None if read is None else read(source))
        raise FormatError(f"more than {_MAX_STEPS} opcodes")

    def push(self, value: Any) -> None:
        """A constant."""
        self.stack.append(value)

    def mark(self, argument: Any) -> None:
        """Remember the height of the stack."""
        self.marks.append(len(self.stack))

    def above_mark(self) -> list[Any]:
        """Take what lies above the last mark."""
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def tuple(self, count: int | None) -> None:
        """A tuple of the topmost values."""
        if count is None:
            items = self.above_mark()
        else:
            # the last item lies on top
            items = [self.stack.pop() for _ in range(count)][::-1]
        self.stack.append(tuple(items))

    def append(self, items: list[Any]) -> None:
        """Put values behind those of the list on the stack."""
        target = self.stack[-1]
        if type(target) is not list:
            raise FormatError("items without a list")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        """Put keys and values into the dict on the stack; keys are text, because hashing anything else may
        never end.
        """
        target = self.stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise FormatError("items without a dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[_text(key)] = value

    def set_item(self, argument: Any) -> None:
        """Put one key and value into the dict below them."""
        value = self.stack.pop()
        key = self.stack.pop()
        self.set_items([key, value])

    def dict(self, argument: Any) -> None:
        """A dict of what lies above the mark."""
        items = self.above_mark()
        self.stack.append({})
        self.set_items(items)

    def global_name(self, argument: Any) -> None:
        """A name, here or in two strings on the stack."""
        if argument is None:
            name = _text(self.stack.pop())
            module = _text(self.stack.pop())
            argument = f"{module} {name}"
        # checked when it is named, before anything is done with it
        if argument not in _CALLS and argument != "numpy ndarray":
            raise FormatError(
                f"it refers to {argument[:100].replace(' ', '.')!r}, which is not part of an array"
            )
        self.stack.append(_Global(argument))

    def reduce(self, argument: Any) -> None:
        """A part of an array from its arguments."""
        arguments = self.stack.pop()
        function = self.stack.pop()
        if (
            not isinstance(function, _Global)
            or not isinstance(arguments, tuple)
            or function.name not in _CALLS
        ):
            raise FormatError("a call of an object that cannot be called")
        self.spend(arguments)
        # a function of this module, which makes a part of an array and has no other effect
        self.stack.append(_CALLS[function.name](*arguments))

    def build(self, argument: Any) -> None:
        """Tell a part of an array its state."""
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, (_DType, _Array)) or not isinstance(state, tuple):
            raise FormatError("a state for an object without state")
        self.spend(state)
        target.build(state)

    def remember(self, index: int | None) -> None:
        """Keep the top of the stack under a number."""
        # without a number (protocol 4) the next one is meant
        self.memo[len(self.memo) if index is None else index] = self.stack[-1]

    def recall(self, index: int) -> None:
        """The value that was kept under a number."""
        self.stack.append(self.memo[index])


def _nothing(machine: _Machine, argument: Any) -> None:
    """Skip PROTO and FRAME: neither the version nor the frames of the pickle are needed."""


_BYTE = _fixed("<B")
_WORD = _fixed("<I")
_LONG = _fixed("<Q")
_OPCODES: dict[bytes, tuple[Callable[[_Bytes], Any] | None, Callable[[_Machine, Any], None]]] = {
    b"\x80": (_BYTE, _nothing),
    b"\x95": (_LONG, _nothing),
    # constants
    b"N": (None, _Machine.push),
    b"\x88": (lambda source: True, _Machine.push),
    b"\x89": (lambda source: False, _Machine.push),
    b"K": (_BYTE, _Machine.push),
    b"M": (_fixed("<H"), _Machine.push),
    b"J": (_fixed("<i"), _Machine.push),
    b"\x8a": (_long, _Machine.push),
    b"G": (_fixed(">d"), _Machine.push),
    b"U": (_sized("<B"), _Machine.push),
    b"T": (_sized("<I"), _Machine.push),  # strings of Python 2
    b"X": (_sized("<I", text=True), _Machine.push),
    b"\x8c": (_sized("<B", text=True), _Machine.push),
    b"\x8d": (_sized("<Q", text=True), _Machine.push),
    b"B": (_sized("<I"), _Machine.push),
    b"C": (_sized("<B"), _Machine.push),
    b"\x8e": (_sized("<Q"), _Machine.push),
    b"\x96": (_sized("<Q"), _Machine.push),
    # dicts and tuples
    b"}": (lambda source: {}, _Machine.push),
    b"(": (None, _Machine.mark),
    b"d": (None, _Machine.dict),
    b"s": (None, _Machine.set_item),
    b"u": (None, lambda machine, _: machine.set_items(machine.above_mark())),
    b")": (None, lambda machine, _: machine.tuple(0)),
    b"\x85": (None, lambda machine, _: machine.tuple(1)),
    b"\x86": (None, lambda machine, _: machine.tuple(2)),
    b"\x87": (None, lambda machine, _: machine.tuple(3)),
    b"t": (None, lambda machine, _: machine.tuple(None)),
    # lists
    b"]": (lambda source: [], _Machine.push),
    b"a": (None, lambda machine, _: machine.append([machine.stack.pop()])),
    b"e": (None, lambda machine, _: machine.append(machine.above_mark())),
    # parts of arrays
    b"c": (lambda source: f"{source.line()} {source.line()}", _Machine.global_name),
    b"\x93": (None, _Machine.global_name),
    b"R": (None, _Machine.reduce),
    b"b": (None, _Machine.build),
    # the memo
    b"q": (_BYTE, _Machine.remember),
    b"r": (_WORD, _Machine.remember),
    b"\x94": (None, _Machine.remember),
    b"h": (_BYTE, _Machine.recall),
    b"j": (_WORD, _Machine.recall),
}


def _run(data: bytes, name: str) -> Any:
    """The value in a pickle; FormatError, which names the file, for what is none of arrays."""
    try:
        return _Machine().run(data)
    except FormatError as error:
        raise FormatError(f"{name} is not a file of parameters: {error}") from None
    # a hostile file can bring the machine to any of these: an empty stack, a missing memo, a wrong kind
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise FormatError(
            f"{name} is not a file of parameters: {type(error).__name__} in its opcodes: {str(error)[:200]}"
        ) from None


class _Whole:
    """Values with their arrays wrapped. What a file has in many places is one object in all of them, as in
    Python's pickles: 30 pairs of pairs, each twice the one before, are 30 objects.
    """

    def __init__(self, name: str, wrap: Callable[[Array], Any]) -> None:
        self.name = name
        self.wrap = wrap
        self.done: dict[int, Any] = {}
        """By `id` of a value that the machine has made, and still holds."""

    def __call__(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return value
        if depth > _MAX_DEPTH:
            raise self.bad(f"more than {_MAX_DEPTH} levels")
        if id(value) not in self.done:
            self.done[id(value)] = self.made(value, depth + 1)
        return self.done[id(value)]

    def made(self, value: Any, depth: int) -> Any:
        """The value of a container or an array."""
        if type(value) is dict:
            return {key: self(inner, depth) for key, inner in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self(inner, depth) for inner in value])
        if not isinstance(value, _Array):
            raise self.bad(f"it holds a {type(value).__name__}")
        if value.array is None:
            raise self.bad("an array without values")
        return self.wrap(value.array)

    def bad(self, what: str) -> FormatError:
        """The error for this file."""
        return FormatError(f"{self.name} is not a file of parameters: {what}")


def load_objects(data: bytes, name: str, wrap: Callable[[Array], Any]) -> Any:
    """The value that 2.x's `save` wrote: dicts, lists, tuples, numbers, texts; `wrap(array)` for an array.
    FormatError, which names the file, for anything else.
    """
    found = _Whole(name, wrap)(_run(data, name), 0)
    if type(found) is dict:
        found.pop(_STRUCTURED_NAMES, None)
    return found


def load_arrays(data: bytes, name: str = "the bytes given") -> dict[str, Array]:
    """Name -> array; FormatError, which names the file, for anything that is not a pickled dict of arrays."""
    found = _run(data, name)
    if type(found) is not dict:
        raise FormatError(
            f"{name} is not a file of parameters: it holds a {type(found).__name__}, not a dict"
        )
    # a table of names that 2.x writes beside the arrays
    found.pop(_STRUCTURED_NAMES, None)
    bad = next(
        (key for key, value in found.items() if not isinstance(value, _Array) or value.array is None), None
    )
    if bad is not None:
        raise FormatError(f"{name} is not a file of parameters: {bad[:100]!r} is not an array")
    return {key: value.array for key, value in found.items()}


# ------------------------------------------------------------------------------------------------ writing
def _unicode(text: str) -> bytes:
    data = text.encode("utf8")
    return b"X" + struct.pack("<I", len(data)) + data


def _number(value: int) -> bytes:
    # BININT1, BININT and LONG1, by size
    if 0 <= value < 256:
        return b"K" + bytes((value,))
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _data(raw: bytes) -> bytes:
    """Bytes as protocol 2, which Paddle writes, has them: text in latin1 that is to be encoded."""
    return b"c_codecs\nencode\n" + _unicode(raw.decode("latin1")) + _unicode("latin1") + b"\x86R"


def _array_opcodes(array: Array) -> Iterator[bytes]:
    """`_reconstruct(ndarray, (0,), b"b")`, then its state (1, shape, dtype, False, data)."""
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    yield (
        # `numpy.core`, which NumPy 2 still reads, and older ones read nothing else
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        + _number(0)
        + b"\x85"
        + _data(b"b")
        + b"\x87R"
    )
    shape = b"(" + b"".join(map(_number, array.shape)) + b"t"
    # NumPy writes single bytes as having no order
    order = _unicode("<" if little.dtype.itemsize > 1 else "|")
    state = b"(" + _number(3) + order + b"NNN" + _number(-1) + _number(-1) + _number(0) + b"t"
    dtype = b"cnumpy\ndtype\n" + _unicode(little.dtype.str[1:]) + b"\x89\x88\x87R" + state + b"b"
    yield b"(" + _number(1) + shape + dtype + b"\x89"
    yield _data(little.tobytes())
    yield b"tb"


def dump_arrays(arrays: Mapping[str, Array]) -> Iterator[bytes]:
    """The bytes of a pickled dict name -> array, piece by piece."""
    yield b"\x80\x02}("
    for name, array in arrays.items():
        yield _unicode(name)
        yield from _array_opcodes(np.asarray(array))
    yield b"u."


def dump_objects(value: Any) -> Iterator[bytes]:
    """The bytes of a pickle of dicts with text as keys, lists, tuples, numbers, texts and arrays. TypeError
    for other things: a file that holds any object at all could run any code when it is read.
    """
    yield b"\x80\x02"
    yield from _opcodes_of(value)
    yield b"."


def _opcodes_of(value: Any) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        yield b"}("
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the keys of a saved dict must be text, not {type(key).__name__}: {key!r}")
            yield _unicode(key)
            yield from _opcodes_of(inner)
        yield b"u"
    elif isinstance(value, (list, tuple)):
        yield b"](" if isinstance(value, list) else b"("
        for inner in value:
            yield from _opcodes_of(inner)
        yield b"e" if isinstance(value, list) else b"t"
    elif isinstance(value, (np.ndarray, np.generic)):
        yield from _array_opcodes(np.asarray(value))
    else:
        yield _constant(value)


def _constant(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return _number(value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return _unicode(value)
    raise TypeError(f"only numbers, texts and arrays can be saved, not {type(value).__name__}: {value!r:.60}")
