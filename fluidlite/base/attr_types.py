"""Types of attributes, as ops declare them and as values show them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = [
    "Attr",
    "AttrType",
    "BLOCK",
    "BLOCKS",
    "BOOLEANS",
    "BlockValue",
    "FLOATS",
    "INTS",
    "LONG",
    "LONGS",
    "Limit",
    "STRINGS",
    "as_attr",
    "infer_attr_type",
    "later",
    "required",
]


class AttrType(enum.IntEnum):
    """Paddle's numbering of attribute types."""

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOLEAN = 6
    BOOLEANS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11
    BOOL = 6  # the names that Paddle's Python knows them by
    BOOLS = 7

    def __str__(self) -> str:
        return f"AttrType.{self.name.replace('EAN', '')}"

    __repr__ = __str__


class BlockValue:
    """Base of `fluidlite.ir.block.Block`, which attributes may hold and this room does not know."""


_REQUIRED: Any = object()


class Limit(NamedTuple):
    """A condition on an attribute, in words and as a test of its value (`fluidlite.base.attr_limits`)."""

    wanted: str
    holds: Callable[[Any], bool]
    always: bool = False
    """The op means nothing with other values; elsewhere 1.8.5 refuses them, when such an op is made."""


class Attr(NamedTuple):
    """Type and default of one attribute; the default of a required attribute is a marker.

    An attribute that came `later`, with PaddlePaddle 2.x, is no part of fluid's op: ops carry it where it is
    given, and only kernels and rules see its default.
    """

    type: AttrType
    default: Any
    later: bool = False
    other: AttrType | None = None
    """The type that the attribute may have in ops of 2.x."""
    limit: Limit | None = None

    @property
    def required(self) -> bool:
        """True if a program must give this attribute."""
        return self.default is _REQUIRED


def required(type_: AttrType) -> Attr:
    """An attribute without a default."""
    return Attr(type_, _REQUIRED)


def as_attr(default: Any) -> Attr:
    """The attribute that a default declares, whose type it shows; an `Attr` is one already."""
    return default if isinstance(default, Attr) else Attr(infer_attr_type(default), default)


def later(default: Any) -> Attr:
    """An attribute that ops have since PaddlePaddle 2.x: an `Attr`, a default that shows its type, or a type,
    which kernels and rules then see as None in ops that lack it.
    """
    if isinstance(default, AttrType):
        return Attr(default, None, later=True)
    return as_attr(default)._replace(later=True)


def LONG(default: int) -> Attr:
    """A 64-bit integer attribute."""
    return Attr(AttrType.LONG, default)


def LONGS(default: Iterable[int] = ()) -> Attr:
    """A list of 64-bit integers."""
    return Attr(AttrType.LONGS, list(default))


def INTS(default: Iterable[int] = ()) -> Attr:
    """A list of 32-bit integers."""
    return Attr(AttrType.INTS, list(default))


def FLOATS(default: Iterable[float] = ()) -> Attr:
    """A list of floats."""
    return Attr(AttrType.FLOATS, list(default))


def STRINGS(default: Iterable[str] = ()) -> Attr:
    """A list of strings."""
    return Attr(AttrType.STRINGS, list(default))


def BOOLEANS(default: Iterable[bool] = ()) -> Attr:
    """A list of booleans."""
    return Attr(AttrType.BOOLEANS, list(default))


BLOCK = required(AttrType.BLOCK)
BLOCKS = required(AttrType.BLOCKS)
# bool first: it is an int, too
_SCALAR_TYPES = (
    (bool, AttrType.BOOLEAN),
    (int, AttrType.INT),
    (float, AttrType.FLOAT),
    (str, AttrType.STRING),
)
_LIST_TYPES = {
    AttrType.BOOLEAN: AttrType.BOOLEANS,
    AttrType.INT: AttrType.INTS,
    AttrType.FLOAT: AttrType.FLOATS,
    AttrType.STRING: AttrType.STRINGS,
    AttrType.LONG: AttrType.LONGS,
    AttrType.BLOCK: AttrType.BLOCKS,
}


def infer_attr_type(value: Any) -> AttrType:
    """The attribute type that Paddle gives to a Python value that no op declares."""
    if isinstance(value, (list, tuple)):
        # an empty list is INTS in Paddle
        kinds = {infer_attr_type(item) for item in value} or {AttrType.INT}
        # 1 beside 2.5 is a float; otherwise the larger number is the wider type (LONG after INT)
        widest = AttrType.FLOAT if kinds == {AttrType.INT, AttrType.FLOAT} else max(kinds)
        if widest not in _LIST_TYPES or (AttrType.STRING in kinds and len(kinds) > 1):
            raise TypeError(f"an attribute cannot hold {value!r}")
        return _LIST_TYPES[widest]
    for python_type, attr_type in _SCALAR_TYPES:
        if isinstance(value, python_type):
            # the wire's INT has 32 bits
            if attr_type == AttrType.INT and not -(2**31) <= int(value) < 2**31:
                return AttrType.LONG
            return attr_type
    if isinstance(value, BlockValue):
        return AttrType.BLOCK
    raise TypeError(f"an attribute cannot hold {value!r} of type {type(value).__name__}")
