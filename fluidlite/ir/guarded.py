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
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fluidlite.base.errors import ArgumentError, FluidError
from fluidlite.base.tracebacks import is_own_source, shorten
from fluidlite.ir.argument_types import shown, trouble
from fluidlite.ir.refused_kinds import refused_of
from fluidlite.ir.where import user_location

__all__ = ["guard", "guard_start", "guarded", "offered"]

_ACCIDENTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
# the doors of what builds programs: errors of others, such as those about a file, are not about ops
_BUILDING = ("fluidlite.contrib", "fluidlite.layers", "fluidlite.nets", "fluidlite.paddle")
_ROOMS_WITHIN = ("fluidlite.ir.", "fluidlite.values.")
_NUMPY = str(pathlib.Path(np.__file__).parent)


def guarded(door: str, public: Iterable[str]) -> dict[str, Any]:
    """Name -> guarded function for the functions among the public names of a module, by its own name; the
    constructors of classes among them are guarded in their place.
    """
    found = {name: getattr(sys.modules[door], name) for name in public}
    kinds = (types.FunctionType, type)
    return {name: offered(value, door) for name, value in found.items() if isinstance(value, kinds)}


def offered(value: Any, door: str) -> Any:
    """A function or class as the module `door` offers it: the one guarded, the other with its constructor
    guarded.
    """
    if inspect.isfunction(value):
        return guard(value, door)
    if _is_offered(value):
        guard_start(value, door)
    return value


_guards: dict[Any, Callable[..., Any]] = {}  # a function that two modules offer stays one function


def guard_start(cls: type, door: str = "") -> None:
    """Guard the constructor of a class, or the one that it inherits from another class of FluidLite; messages
    name the class of the new object, as the module `door` offers it.
    """
    # in the class that has it: one more `__init__` in between would hide those of other bases
    owner = next((base for base in cls.__mro__ if "__init__" in vars(base)), object)
    start = vars(owner)["__init__"]
    if not inspect.isfunction(start) or _guards.get(start) is start or not _is_offered(owner):
        return
    made = _make_guard(start, owner.__module__, f"{_public(door)}." if door else "")
    _guards[made] = made
    owner.__init__ = made  # type: ignore[misc]


def _is_offered(cls: type) -> bool:
    """True for a class of FluidLite that it does not itself make by the thousands, such as ops."""
    return cls.__module__.startswith("fluidlite.") and not cls.__module__.startswith(_ROOMS_WITHIN)


def guard(function: Callable[..., Any], door: str, owner: str = "") -> Callable[..., Any]:
    """A function as the module `door` offers it; `owner` is the class or module that messages name."""
    if function not in _guards:
        _guards[function] = _make_guard(function, door, f"{owner or _public(door)}.{function.__name__}")
    # where a door imports from another one, the function is guarded already
    _guards.setdefault(_guards[function], _guards[function])
    return _guards[function]


def _make_guard(function: Callable[..., Any], door: str, called: str) -> Callable[..., Any]:
    """The guard of a function, `called` in messages, or of an `__init__`, where that is what comes before the
    name of the object's class.
    """
    refused = refused_of(function)
    is_start = function.__name__ == "__init__"
    builds = door.startswith(_BUILDING)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                if refused is not None:
                    refused.check(args, kwargs)
                return function(*args, **kwargs)
            except FluidError as error:
                if builds:
                    _locate(error, _where(called, args, kwargs, is_start))
                raise
            except Exception as error:
                if not _is_accident(error):
                    raise
                text = trouble(function, args, kwargs, error) or str(error)
                raise ArgumentError.of(error, text + _where(called, args, kwargs, is_start)) from error
        except Exception as error:
            shorten(error)
            raise

    # the names by which `pickle` finds it, and the arguments that `inspect.getfullargspec` shows
    wrapper.__module__ = door
    wrapper.__qualname__ = function.__qualname__ if is_start else function.__name__
    wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return wrapper


def _is_accident(error: Exception) -> bool:
    """True for what Python, NumPy or the function raised, and no function of the user below it."""
    if not isinstance(error, _ACCIDENTS) and type(error) is not Exception:
        return False
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return all(is_own_source(file) or file.startswith(_NUMPY) for file in files)


def _locate(error: FluidError, where: str) -> None:
    """Add the call and the user's line to the text of an error that has no line."""
    if error.args and isinstance(error.args[0], str) and "built at" not in error.args[0]:
        error.args = (error.args[0] + where, *error.args[1:])


def _where(called: str, args: Any, kwargs: Mapping[str, Any], is_start: bool) -> str:
    """The call and the user's line; of a constructor without the object."""
    if is_start and args:
        called, args = f"{called}{type(args[0]).__name__}", args[1:]
    given = [*map(shown, args), *(f"{key}={shown(value)}" for key, value in kwargs.items())]
    return f"\n  in {called}({', '.join(given)})\n  built at {user_location()}"


def _public(door: str) -> str:
    """A module as users write it."""
    if door == "fluidlite":
        return "fluid"
    return "layers" if door.startswith("fluidlite.layers") else door.removeprefix("fluidlite.")
