"""Attributes of ops: those that every op carries, roles among them, and values as their types have them."""

from __future__ import annotations

import ctypes
import enum
from typing import Any

import numpy as np

from fluidlite.base.registry import AttrType

__all__ = [
    "CALLSTACK_ATTR",
    "COMMON_TYPES",
    "DEVICE_ATTR",
    "NAMESCOPE_ATTR",
    "OpRole",
    "RING_RANKS_ATTR",
    "ROLES",
    "ROLE_ATTR",
    "ROLE_VAR_ATTR",
    "STAMPS",
    "as_32_bits",
    "exact_value",
    "plain_value",
    "typed_value",
]

ROLE_ATTR = "op_role"
ROLE_VAR_ATTR = "op_role_var"
NAMESCOPE_ATTR = "op_namescope"
CALLSTACK_ATTR = "op_callstack"
DEVICE_ATTR = "op_device"
RING_RANKS_ATTR = "ring_ranks"  # of an op on a ring that no op makes: the ranks that form it, also in files
ROLES = frozenset((0, 1, 2, 4, 8, 16, 18, 256, 257, 4096))  # the roles that 1.8.5 lets an op have
COMMON_TYPES = {
    ROLE_ATTR: AttrType.INT,
    ROLE_VAR_ATTR: AttrType.STRINGS,
    NAMESCOPE_ATTR: AttrType.STRING,
    CALLSTACK_ATTR: AttrType.STRINGS,
    DEVICE_ATTR: AttrType.STRING,
}
"""The types of the attributes that every op may carry."""
STAMPS: dict[str, Any] = {ROLE_ATTR: 0, ROLE_VAR_ATTR: [], NAMESCOPE_ATTR: "/", DEVICE_ATTR: ""}
"""The attributes that every op does carry, with the values that stand for those that a file leaves out."""


class OpRole(enum.IntFlag):
    """The purpose of an op; transpilers decide by it."""

    Forward = 0
    Backward = 1
    Optimize = 2
    RPC = 4
    Dist = 8
    LRSched = 16
    Loss = 256
    NotSpecified = 4096

    def __str__(self) -> str:
        return f"OpRole.{self.name}"

    __repr__ = __str__


# attribute type -> the types in which its values, or the items of its lists, may come, and what converts them
_SCALARS: dict[AttrType, tuple[tuple[type, ...], Any]] = {
    AttrType.INT: ((int,), int),
    AttrType.LONG: ((int,), int),
    AttrType.FLOAT: ((int, float), float),
    AttrType.BOOLEAN: ((int, float), bool),
    AttrType.STRING: ((str,), str),
}
_LISTS: dict[AttrType, tuple[tuple[type, ...], Any]] = {
    AttrType.INTS: ((int,), int),
    AttrType.LONGS: ((int, float), int),
    AttrType.FLOATS: ((int, float), float),
    AttrType.BOOLEANS: ((int, float), bool),
    AttrType.STRINGS: ((str,), str),
}


def plain_value(value: Any) -> Any:
    """An attribute's value as plain Python, so that NumPy's scalars do not leak into programs."""
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    # a VarType or an OpRole: the wire knows only their numbers
    if isinstance(value, (enum.IntEnum, enum.IntFlag)):
        return int(value)
    if isinstance(value, bytes):
        return value.decode()
    # `tolist` of a scalar, or of an array without dimensions, is a number
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def typed_value(value: Any, attr_type: AttrType) -> Any:
    """`value` as that type has it, 1 as 1.0 for FLOAT; TypeError for what Paddle does not take for one."""
    if attr_type in (AttrType.BLOCK, AttrType.BLOCKS):
        return value
    items = value if attr_type in _LISTS else [value]
    kinds, make = _LISTS.get(attr_type) or _SCALARS[attr_type]
    if not isinstance(items, list) or not all(isinstance(item, kinds) for item in items):
        raise TypeError(f"a value of type {attr_type} cannot be {value!r}")
    # the wire has int32 there: a larger number would be written as another one
    if attr_type in (AttrType.INT, AttrType.INTS) and not all(-(2**31) <= item < 2**31 for item in items):
        raise TypeError(f"{value!r} does not fit into 32 bits")
    return [make(item) for item in items] if attr_type in _LISTS else make(value)


def as_32_bits(value: Any, attr_type: AttrType) -> Any:
    """The 32-bit number next to a FLOAT: programs keep 0.1, and kernels get 0.10000000149011612."""
    if attr_type == AttrType.FLOAT:
        return ctypes.c_float(value).value
    return [ctypes.c_float(item).value for item in value] if attr_type == AttrType.FLOATS else value


def exact_value(value: Any, attr_type: AttrType) -> Any:
    """A value as a file has it: 1 as 1.0 where the type is FLOAT, blocks as their numbers."""
    if attr_type == AttrType.BLOCK:
        return int(value.idx)
    if attr_type == AttrType.BLOCKS:
        return [int(block.idx) for block in value]
    if attr_type in _LISTS:
        _, make = _LISTS[attr_type]
        return [make(item) for item in value]
    _, make = _SCALARS[attr_type]
    return make(value)
