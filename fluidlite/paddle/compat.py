"""`paddle.compat`: texts, bytes and numbers alike in Python 2 and 3, of which only the latter is left."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["floor_division", "get_exception_message", "long_type", "round", "to_bytes", "to_text"]

long_type = int


def to_text(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Bytes as text; the items of lists, sets and dicts one by one, in place if that is asked for."""
    return _converted(obj, lambda item: _text(item, encoding), inplace, (list, set, dict))


def to_bytes(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Text as bytes; the items of lists and sets one by one, in place if that is asked for."""
    return _converted(obj, lambda item: _bytes(item, encoding), inplace, (list, set))


def _converted(obj: Any, one: Callable[[Any], Any], inplace: bool, containers: tuple[type, ...]) -> Any:
    if type(obj) not in containers:
        return one(obj)
    if isinstance(obj, dict):
        pairs = {one(key): one(value) for key, value in obj.items()}
        if not inplace:
            return pairs
        obj.update(pairs)
        return obj
    made = type(obj)(one(item) for item in obj)
    if not inplace:
        return made
    obj.clear()
    obj.extend(made) if isinstance(obj, list) else obj.update(made)
    return obj


def _text(item: Any, encoding: str) -> Any:
    if item is None or isinstance(item, (str, bool, float)):
        return item
    return item.decode(encoding) if isinstance(item, bytes) else str(item)


def _bytes(item: Any, encoding: str) -> Any:
    if item is None or isinstance(item, bytes):
        return item
    return item.encode(encoding) if isinstance(item, str) else str(item).encode("latin-1")


def round(x: float, d: int = 0) -> float:
    """`x` with `d` digits after the point; halves go away from zero, as in Python 2."""
    if x == 0.0 or math.isnan(x):
        return math.copysign(0.0, x)
    power = 10**d
    towards = math.floor if x > 0.0 else math.ceil
    return float(towards(x * power + math.copysign(0.5, x))) / power


def floor_division(x: float, y: float) -> float:
    """`x // y`."""
    return x // y


def get_exception_message(exc: BaseException) -> str:
    """The text of an error."""
    assert exc is not None
    return str(exc)
