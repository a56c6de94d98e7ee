"""Kinds of arguments that PaddlePaddle 2.6.2 refuses where a program is built.

`refused_kinds.txt` lists them: a line with a function of `fluidlite.paddle`, then lines with an argument and
its kinds, and one with those that must be `alike`: Variables of one dtype. `tests/house/refused_kinds.py`
writes it from what 2.6.2 raised. A kind is a dtype of Variables, "None", a type of Python, "array", or "list"
and "tuple" for those of numbers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.package_files import text_beside
from fluidlite.ir.argument_types import shown
from fluidlite.ir.variable import Variable

__all__ = ["DTYPES", "Refused", "refused_of"]

DTYPES = {
    VarType.BOOL: "bool",
    VarType.INT8: "int8",
    VarType.UINT8: "uint8",
    VarType.INT16: "int16",
    VarType.INT32: "int32",
    VarType.INT64: "int64",
    VarType.FP16: "float16",
    VarType.FP32: "float32",
    VarType.FP64: "float64",
    VarType.COMPLEX64: "complex64",
    VarType.COMPLEX128: "complex128",
}
_NUMBERS = (int, float)
_WORDS = {
    "None": "None",
    "int": "an integer",
    "float": "a number with a fraction",
    "str": "a string",
    "list": "a list of numbers",
    "tuple": "a tuple of numbers",
    "array": "an array",
}
_FEW = 3  # dtypes that are tried for arguments that are not meant to be Variables: the others are not known
_ROOM = "fluidlite.paddle."
_ALIKE = "alike"  # in the place of an argument
_ABSENT = object()  # an argument that was not given


def _kind(value: Any) -> str:
    """The kind of a value; "" for values that no function refuses for their kind alone."""
    if value is None:
        return "None"
    if isinstance(value, Variable):
        return DTYPES.get(value.dtype, "") if value.type == VarType.LOD_TENSOR else ""
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, (list, tuple)):
        numbers = value and all(type(item) in _NUMBERS for item in value)
        return type(value).__name__ if numbers and type(value) in (list, tuple) else ""
    # exactly these: dtypes are integers to Python, and True is one
    return type(value).__name__ if type(value) in (int, float, str) else ""


class Refused:
    """The kinds that the arguments of one function must not have, and those that must have one dtype."""

    def __init__(self, function: Callable[..., Any], kinds: Mapping[str, tuple[str, ...]]) -> None:
        places = list(inspect.signature(function).parameters)
        self._name = function.__name__
        self._alike = [(places.index(name), name) for name in kinds.get(_ALIKE, ())]
        alone = {name: frozenset(refused) for name, refused in kinds.items() if name != _ALIKE}
        self._kinds = [(places.index(name), name, refused) for name, refused in alone.items()]

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """TypeError for the first argument of a kind that is refused, or of another dtype than one before."""
        for place, name, refused in self._kinds:
            value = args[place] if place < len(args) else kwargs.get(name, _ABSENT)
            kind = _kind(value)
            if kind in refused:
                raise TypeError(self._text(name, value, kind, refused))
        if self._alike:
            self._check_alike(args, kwargs)

    def _check_alike(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        given = {name: args[place] if place < len(args) else kwargs.get(name) for place, name in self._alike}
        found = {name: value.dtype for name, value in given.items() if isinstance(value, Variable)}
        if len(set(found.values())) > 1:
            said = [f"{name} is {DTYPES.get(dtype, dtype.name)}" for name, dtype in found.items()]
            raise TypeError(
                f"{' and '.join(map(repr, found))} in {self._name} must have one data type, but "
                f"{' and '.join(said)}; cast one of them (paddle.cast)"
            )

    def _text(self, name: str, value: Any, kind: str, refused: frozenset[str]) -> str:
        what = f"'{name}' in {self._name}"
        if not isinstance(value, Variable):
            return f"The type of {what} must not be {_WORDS[kind]}, but received {shown(value)}"
        taken = [dtype for dtype in DTYPES.values() if dtype not in refused]
        if not taken or len(taken) > len(DTYPES) - _FEW:
            return f"The type of {what} must not be Variable of {kind}, but received {value.name}"
        return f"The data type of {what} must be {taken}, but received {kind}."


@functools.cache
def _table() -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    names: dict[str, tuple[str, ...]] = {}
    for line in text_beside("fluidlite.ir", "refused_kinds.txt").splitlines():
        if not line.startswith(" "):
            names = found.setdefault(line, {})
            continue
        name, _, kinds = line.strip().partition(": ")
        names[name] = tuple(kinds.split())
    return found


def refused_of(function: Callable[..., Any]) -> Refused | None:
    """The kinds that a function of `fluidlite.paddle` refuses; None where it refuses none."""
    module = getattr(function, "__module__", "") or ""
    if not module.startswith(_ROOM) or "." in function.__qualname__:
        return None  # start-up time: scripts of fluid 1.8, and classes of layers, do not read the table
    kinds = _table().get(f"{module.removeprefix(_ROOM)}.{function.__name__}")
    return Refused(function, kinds) if kinds else None
