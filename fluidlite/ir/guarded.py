"""Guards of public functions: where arguments enter, and where the errors of wrong ones leave.

An argument of a wrong kind meets Python or NumPy in the middle of a function, and what they raise depends on
the line that they meet: "'float' object is not iterable". A guarded function raises an `ArgumentError` in its
place, which says which argument is of another type than declared, names the function, its arguments and the
user's line, and is all the classes that 1.8.5 raises there. Functions of 2.x begin by refusing the kinds of
arguments that 2.6.2 refuses (`fluidlite.ir.refused_kinds`). Errors of FluidLite's own get the function and
the line where they lack them; those of functions that the user gave leave as they are. All of them leave with
the user's frames alone (`fluidlite.base.tracebacks`).
"""

from __future__ import annotations

import functools
import inspect
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fluidlite.base.errors import ArgumentError, FluidError
from fluidlite.base.tracebacks import is_own_source, shorten
from fluidlite.ir.argument_types import shown, trouble
from fluidlite.ir.refused_kinds import refused_of
from fluidlite.ir.where import user_location

__all__ = ["guard", "guarded"]

_ACCIDENTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
_NUMPY = str(pathlib.Path(np.__file__).parent)


def guarded(door: str, public: Iterable[str]) -> dict[str, Any]:
    """Name -> guarded function for the functions among the public names of a module, by its own name."""
    found = {name: getattr(sys.modules[door], name) for name in public}
    return {name: guard(value, door) for name, value in found.items() if inspect.isfunction(value)}


_guards: dict[Any, Callable[..., Any]] = {}  # a function that two modules offer stays one function


def guard(function: Callable[..., Any], door: str, owner: str = "") -> Callable[..., Any]:
    """A function as the module `door` offers it; `owner` is the class or module that messages name."""
    if function not in _guards:
        _guards[function] = _make_guard(function, door, f"{owner or _public(door)}.{function.__name__}")
    # where a door imports from another one, the function is guarded already
    _guards.setdefault(_guards[function], _guards[function])
    return _guards[function]


def _make_guard(function: Callable[..., Any], door: str, called: str) -> Callable[..., Any]:
    refused = refused_of(function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                if refused is not None:
                    refused.check(args, kwargs)
                return function(*args, **kwargs)
            except FluidError as error:
                _locate(error, called, args, kwargs)
                raise
            except Exception as error:
                if not _is_accident(error):
                    raise
                text = trouble(function, args, kwargs, error) or str(error)
                raise ArgumentError.of(error, text + _where(called, args, kwargs)) from error
        except Exception as error:
            shorten(error)
            raise

    # the names by which `pickle` finds it, and the arguments that `inspect` shows
    wrapper.__module__, wrapper.__qualname__ = door, function.__name__
    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return wrapper


def _is_accident(error: Exception) -> bool:
    """True for what Python, NumPy or the function raised, and no function of the user below it."""
    if not isinstance(error, _ACCIDENTS) and type(error) is not Exception:
        return False
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return all(is_own_source(file) or file.startswith(_NUMPY) for file in files)


def _locate(error: FluidError, called: str, args: Any, kwargs: Mapping[str, Any]) -> None:
    """Add the call and the user's line to the text of an error that has no line."""
    if error.args and isinstance(error.args[0], str) and "built at" not in error.args[0]:
        error.args = (error.args[0] + _where(called, args, kwargs), *error.args[1:])


def _where(called: str, args: Any, kwargs: Mapping[str, Any]) -> str:
    given = [*map(shown, args), *(f"{key}={shown(value)}" for key, value in kwargs.items())]
    return f"\n  in {called}({', '.join(given)})\n  built at {user_location()}"


def _public(door: str) -> str:
    """A module as users write it."""
    return "layers" if door.startswith("fluidlite.layers") else door.removeprefix("fluidlite.")
