"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["computed_once"]

T = TypeVar("T")


class computed_once(Generic[T]):
    """functools.cached_property without the lock that it has up to Python 3.11, which takes a microsecond: a
    plan has thousands of values, of which each is asked for its size.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> T:
        found = self.function(instance)
        # the next time the attribute is found there, ahead of this
        instance.__dict__[self.name] = found
        return found
