"""Sizes that are not known while a program is built: -1 in shapes, with arithmetic that keeps it in mind.

A shape rule computes with sizes as if they were known: it multiplies them, and compares them with others.
With -1 as a plain number two of them would make a size of 1, and a comparison refuse what a run may make
fit. `Op.infer` gives rules an `OpenSize` in the place of each -1 of an input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

__all__ = ["OpenSize", "OpenShape", "closed", "fits", "opened"]


class OpenSize(int):
    """The number -1, which stands for any size: what is computed of it is open, too.

    It is below 0 and equal to -1, as rules ask. A known size other than 1 is not said to differ from it (`!=`
    is False): rules refuse what differs. A dimension of 1 may go away or be repeated, and so it does differ.
    """

    __slots__ = ()

    def _open(self, other: Any) -> Any:
        return ANY

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = __truediv__ = _open  # type: ignore[assignment]
    __rtruediv__ = _open  # type: ignore[assignment]

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (int, float)):  # a list, that is to be repeated
            return NotImplemented
        return 0 if other == 0 else ANY

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return ANY

    def __mod__(self, other: Any) -> int:
        """0, as if it were divisible."""
        return 0

    __rmod__ = __mod__

    def __ne__(self, other: object) -> bool:
        if isinstance(other, int) and (other > 1 or other == 0):
            return False
        return int(self) != other

    __eq__ = int.__eq__
    __hash__ = int.__hash__


ANY = OpenSize(-1)


class OpenShape(tuple[int, ...]):
    """A shape with open sizes, which is not said to differ (`!=`) from one that it may turn out to be."""

    __slots__ = ()

    def __ne__(self, other: object) -> bool:
        if not isinstance(other, tuple) or len(other) != len(self):
            return True
        pairs = zip(self, other, strict=True)
        return not all(
            one == two or isinstance(one, OpenSize) or isinstance(two, OpenSize) for one, two in pairs
        )

    __eq__ = tuple.__eq__
    __hash__ = tuple.__hash__

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        part: Any = super().__getitem__(key)
        return OpenShape(part) if isinstance(key, slice) else part

    def __add__(self, other: Any) -> OpenShape:
        return OpenShape(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> OpenShape:
        return OpenShape(other + tuple(self))


def fits(found: Any, *wanted: Any) -> bool:
    """True unless `found`, a size or a shape, differs from each of those that are wanted in known sizes."""
    if not isinstance(found, (tuple, list)):  # a number, or a plan's `Size`
        return found < 0 or any(one < 0 or one == found for one in wanted)
    return any(
        len(found) == len(one) and all(fits(a, b) for a, b in zip(found, one, strict=True)) for one in wanted
    )


def opened(shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with an open size for each -1; itself where it has none."""
    if -1 not in shape:
        return shape
    return OpenShape(ANY if isinstance(dim, int) and dim == -1 else dim for dim in shape)


def closed(shape: Iterable[int]) -> tuple[int, ...]:
    """`shape` in plain numbers: -1 for an open size."""
    return tuple(-1 if isinstance(dim, OpenSize) else dim for dim in shape)
