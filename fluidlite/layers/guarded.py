"""The door of the layers: where arguments enter, and where the errors of wrong ones leave.

An argument of a wrong kind meets Python or NumPy in the middle of a layer, and what they raise depends on the
line that they meet: "'float' object is not iterable". A guarded layer raises an `ArgumentError` in its place,
which names the layer, its arguments and the user's line, and is all the classes that 1.8.5 raises there.
Errors of FluidLite's own, and those of functions that the user gave, leave as they are.
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
from fluidlite.ir.variable import Variable
from fluidlite.ir.where import is_own_source, user_location

__all__ = ["guarded"]

_ACCIDENTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
_NUMPY = str(pathlib.Path(np.__file__).parent)
_LONGEST = 60


def guarded(door: str, public: Iterable[str]) -> dict[str, Any]:
    """Name -> guarded layer for the functions among the public names of a door, by the door's own name."""
    found = {name: getattr(sys.modules[door], name) for name in public}
    return {name: _guard(value, door) for name, value in found.items() if inspect.isfunction(value)}


_guards: dict[Any, Callable[..., Any]] = {}  # a layer that two doors offer stays one function


def _guard(layer: Callable[..., Any], door: str) -> Callable[..., Any]:
    if layer not in _guards:
        _guards[layer] = _make_guard(layer, door)
    # where a door imports from another one, the layer is guarded already
    _guards.setdefault(_guards[layer], _guards[layer])
    return _guards[layer]


def _make_guard(layer: Callable[..., Any], door: str) -> Callable[..., Any]:
    @functools.wraps(layer)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return layer(*args, **kwargs)
        except FluidError:
            raise
        except Exception as error:
            if not _is_accident(error):
                raise
            raise ArgumentError.of(error, _message(layer.__name__, args, kwargs, error)) from error

    # the names by which `pickle` finds it, and the arguments that `inspect` shows
    wrapper.__module__, wrapper.__qualname__ = door, layer.__name__
    wrapper.__signature__ = inspect.signature(layer)  # type: ignore[attr-defined]
    return wrapper


def _is_accident(error: Exception) -> bool:
    """True for what Python, NumPy or a layer raised, and no function of the user below the door."""
    if not isinstance(error, _ACCIDENTS) and type(error) is not Exception:
        return False
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return all(is_own_source(file) or file.startswith(_NUMPY) for file in files)


def _message(name: str, args: Any, kwargs: Mapping[str, Any], error: Exception) -> str:
    given = [*map(_shown, args), *(f"{key}={_shown(value)}" for key, value in kwargs.items())]
    return f"{error}\n  in layers.{name}({', '.join(given)})\n  built at {user_location()}"


def _shown(value: Any) -> str:
    text = value.name if isinstance(value, Variable) else " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
