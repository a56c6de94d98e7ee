"""The argument that a failed call is about: the one whose value does not fit its annotation.

Only calls that failed are looked at. A value that Python or NumPy took is not refused for its type.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from fluidlite.base.place import Place
from fluidlite.ir.variable import Variable

__all__ = ["shown", "trouble"]

_LONGEST = 60
# the texts of Python and NumPy, which name no argument; an `assert` has none at all
_PYTHONS = re.compile(
    r"^$|not supported between|unsupported operand|object is not|has no attribute|has no len|"
    r"object cannot be|index out of range|indices must be|argument must be|(division|modulo) by zero|"
    r"can't multiply sequence|cannot unpack|values to unpack|invalid literal|could not convert|"
    r"must be real number|required argument|unhashable type|keyword argument|positional argument|"
    r"can only concatenate|out of bounds|broadcast|only integer|inhomogeneous|cannot be interpreted|"
    r"bad operand|must be str|expected str|expected string"
)
_WORDS = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "True or False",
    Variable: "a Variable",
    type(None): "None",
}
_MANY = {int: "integers", float: "numbers", str: "strings", bool: "truth values", Variable: "Variables"}
# what each annotation stands for, where that is more than the class itself
_TAKEN: dict[Any, tuple[type, ...]] = {int: (Integral,), float: (Real,), bool: (bool, np.bool_)}
_UNKNOWN = (Any, object, inspect.Parameter.empty)


def shown(value: Any) -> str:
    """A value as a message shows it: Variables by their names, all in at most 60 characters."""
    if isinstance(value, Variable):
        return value.name
    if type(value).__module__.startswith("fluidlite.") and not isinstance(value, (enum.Enum, Place)):
        return f"<{type(value).__name__}>"  # it may be half made, or its text of many lines
    if type(value) is list and any(isinstance(item, Variable) for item in value):
        text = f"[{', '.join(map(shown, value))}]"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def trouble(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], error: Exception) -> str:
    """A sentence about the argument that explains an error: of another type than declared, 0 as a divisor, or
    empty where its first item is read. "" where no argument does.
    """
    if not _PYTHONS.search(str(error)):
        return ""  # what raised it has said what is wrong
    given = _bound(function, args, kwargs)
    hints = _hints(function)
    for name, value in given.items():
        # a Variable in the place of a number is a TypeError; one that a function takes may have a wrong value
        if isinstance(value, Variable) and isinstance(error, ValueError):
            continue
        if not _fits(value, hints.get(name, Any)):
            return f"{name} must be {_words(hints[name])}, but is {shown(value)}"
    if isinstance(error, ZeroDivisionError):
        return _first(given, _has_zero, "must not be 0")
    if isinstance(error, IndexError):
        return _first(given, _is_empty, "must not be empty")
    return ""


def _bound(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, by name; nothing where the call does not fit the signature."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return {}
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: value for name, value in given.items() if signature.parameters[name].kind not in several}


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations, without those that name what only type checkers import."""
    found: dict[str, Any] = {}
    for name, text in getattr(function, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: text})
        with contextlib.suppress(NameError, TypeError):
            found |= typing.get_type_hints(alone, getattr(function, "__globals__", {}))
    return found


def _first(given: Mapping[str, Any], holds: Callable[[Any], bool], demand: str) -> str:
    return next(
        (f"{name} {demand}, but is {shown(value)}" for name, value in given.items() if holds(value)), ""
    )


def _has_zero(value: Any) -> bool:
    items = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(item, Real) and not isinstance(item, bool) and item == 0 for item in items)


def _is_empty(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not value


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the hint alone."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(hint) for member in _members(part))
    return (hint,)


def _fits(value: Any, hint: Any) -> bool:
    return any(_is_of(value, member) for member in _members(hint))


def _is_of(value: Any, hint: Any) -> bool:
    """True if a value is of a type that is no union, or the type says nothing."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if hint in _UNKNOWN or not isinstance(origin or hint, type):
        return True
    if origin is None:
        # True is an integer to Python, and a mistake as a size
        return hint is bool if isinstance(value, bool) else isinstance(value, _TAKEN.get(hint, hint))
    if not isinstance(value, origin) or isinstance(value, str):
        return False
    items = [item for item in typing.get_args(hint) if item is not Ellipsis]
    if not items or not issubclass(origin, Iterable) or not isinstance(value, (list, tuple)):
        return True
    return all(any(_fits(one, item) for item in items) for one in value)


def _words(hint: Any) -> str:
    """A type as a message names it: "an integer or a list of integers"."""
    named = list(dict.fromkeys(map(_word, _members(hint))))
    return " or ".join(sorted(named, key=lambda word: word == "None"))


def _word(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin is None:
        return _WORDS.get(hint) or str(getattr(hint, "__name__", hint))
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    if issubclass(origin, Callable):  # type: ignore[arg-type]
        return "a function"
    if issubclass(origin, Mapping):
        return "a dict"
    if not issubclass(origin, Iterable):
        return str(origin.__name__)
    items = [item for item in typing.get_args(hint) if item is not Ellipsis]
    kinds = {_MANY.get(member, "") for item in items for member in _members(item)}
    kind = "tuple" if origin is tuple else "list"
    return f"a {kind} of {' or '.join(sorted(kinds))}" if kinds and all(kinds) else f"a {kind}"
