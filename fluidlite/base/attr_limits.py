"""Limits of attributes: the values with which an op means anything, and those that 1.8.5 takes.

A limit of the first kind (`at_least`) is checked with the shapes, of every op. One of the second kind
(`limited`) is checked when an op is made: each was found by setting the attribute to numbers, words and lists
and asking for 1.8.5's check. Ops of 2.x have limits of their own, and are not held to these; nor are gradient
ops, which have their op's attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidlite.base.attr_types import Attr, Limit, as_attr
from fluidlite.base.errors import ShapeError

__all__ = [
    "LAYOUT",
    "Limit",
    "POSITIVE_IF_ANY",
    "above",
    "at_least",
    "between",
    "broken_limit",
    "check_limits",
    "least",
    "limited",
    "one_of",
    "positive",
]


def at_least(low: int, default: Any) -> Attr:
    """An attribute of numbers, or lists of them, that mean nothing below `low`: an `Attr`, or a default that
    shows its type.
    """
    return as_attr(default)._replace(limit=least(low)._replace(always=True))


def limited(default: Any, limit: Limit) -> Attr:
    """An attribute whose values 1.8.5 limits: an `Attr`, or a default that shows its type."""
    return as_attr(default)._replace(limit=limit)


def least(low: float) -> Limit:
    """A number that is at least `low`, or a list of such numbers."""
    return Limit(f"at least {low}", lambda value: min(_items(value), default=low) >= low)


def _items(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) else [value]


def above(low: float) -> Limit:
    """A number above `low`."""
    return Limit(f"above {low}", lambda value: value > low)


def between(low: float, high: float) -> Limit:
    """A number from `low` to `high`."""
    # 0.001 comes as the 32-bit number next to it, which is a little larger
    return Limit(f"between {low} and {high}", lambda value: low <= value <= high * (1 + 1e-7))


def one_of(*values: Any) -> Limit:
    """One of these values."""
    return Limit(f"one of {sorted(values)}", lambda value: value in values)


def positive(count: int | None = None) -> Limit:
    """A list of `count` numbers above 0; None for any count but 0."""
    wanted = "positive numbers" if count is None else f"{count} positive numbers"
    return Limit(
        wanted, lambda values: (len(values) == count or (count is None and values)) and min(values) > 0
    )


POSITIVE_IF_ANY = Limit("positive numbers, if any", lambda values: all(value > 0 for value in values))
LAYOUT = Limit(
    "'NCHW', 'NHWC' or 'AnyLayout'",
    lambda value: value.upper() in ("NCHW", "NHWC", "ANYLAYOUT", "MKLDNNLAYOUT"),
)


def check_limits(op_type: str, declared: Mapping[str, Attr], attrs: Mapping[str, Any]) -> None:
    """ShapeError for a value with which the op means nothing."""
    for name, attr in declared.items():
        if attr.limit is None or not attr.limit.always or name not in attrs:
            continue
        if not attr.limit.holds(attrs[name]):
            raise ShapeError(f"op {op_type!r}: {name} is {attrs[name]}, but has to be {attr.limit.wanted}")


def broken_limit(declared: Mapping[str, Attr], attrs: Mapping[str, Any]) -> str | None:
    """A sentence about the first attribute that has a value which 1.8.5 does not take; None without one."""
    for name, attr in declared.items():
        if attr.limit is None or attr.limit.always or attrs.get(name) is None:
            continue
        if not attr.limit.holds(attrs[name]):
            return f"attribute {name!r} is {attrs[name]!r}, but must be {attr.limit.wanted}"
    return None
