"""What a base class of Fleet raises where a class of its own has to say what is done.
tests/house/test_house.py knows this file.
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
