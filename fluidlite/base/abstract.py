"""The error of fluid's base classes: a method that a derived class has to define was called.

Its type is fluid's, NotImplementedError, which tests/house/test_house.py allows in this file alone.
"""

from __future__ import annotations

from typing import NoReturn

from fluidlite.base.errors import FluidError

__all__ = ["AbstractMethodError", "abstract"]


class AbstractMethodError(FluidError, NotImplementedError):
    """A method of a base class was called that only classes derived from it have."""


def abstract(text: str = "Please implement this method in child class") -> NoReturn:
    """Raise AbstractMethodError."""
    raise AbstractMethodError(text)
