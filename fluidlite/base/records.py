"""Dataclasses that are completed at their first use: importing FluidLite declares a hundred of them, a
program makes instances of a few, and the standard decorator takes half a millisecond for each, most of it to
compile the text of methods. Comparison and text need no text of their own here.
"""

from __future__ import annotations

import abc
import dataclasses
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fluidlite.base.forks import waited_lock

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """`dataclasses.dataclass`. `__init__` and the fields are there when a first instance is made or
        loaded, when the class is inspected, or when one that derives from it is completed. A class with an
        `__init__` or `__setstate__` of its own, and one whose `options` are more than `frozen` and `eq`, is
        complete at once. TypeError at its completion for one that derives from a built-in class.
        """
        return _declare(options) if cls is None else _declare(options)(cls)


_Class = TypeVar("_Class", bound=type)
_OWN = frozenset(["__init__", "__setstate__"])  # what a class may have written itself
_WAITING = frozenset(["frozen", "eq"])  # options of classes that wait
_completing = waited_lock()


def _declare(options: dict[str, Any]) -> Callable[[_Class], _Class]:
    """The decorator of a class: every attribute through which its fields are reached waits for them."""

    def declared(cls: _Class) -> _Class:
        if not vars(cls).keys().isdisjoint(_OWN) or not options.keys() <= _WAITING:
            whole: _Class = dataclasses.dataclass(**options)(cls)  # type: ignore[assignment]
            return whole
        is_frozen = options.get("frozen", False)
        methods = {"__repr__": _text, **(_comparison(cls, is_frozen) if options.get("eq", True) else {})}
        for name in methods.keys() - vars(cls).keys():
            setattr(cls, name, methods[name])
        if "__eq__" in vars(cls) and vars(cls)["__hash__"] is None and "__hash__" in methods:
            # where a class writes `__eq__` alone, Python gives it no hash, and dataclasses give it theirs
            cls.__hash__ = methods["__hash__"]  # type: ignore[method-assign]
        for name in ("__init__", "__dataclass_fields__", "__setstate__"):
            setattr(cls, name, _Awaited(cls, name, is_frozen))
        return cls

    return declared


@reprlib.recursive_repr("...")
def _text(self: Any) -> str:
    """The class, and its fields with their values."""
    shown = [
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    ]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparison(cls: type, is_frozen: bool) -> dict[str, Any]:
    """`__eq__` and `__hash__` of a class, by the values of its fields."""
    made: list[Callable[[Any], Any]] = []  # what reads the values, from the first comparison on

    def values(self: Any) -> Any:
        if not made:
            names = [field.name for field in dataclasses.fields(cls) if field.compare]
            made.append(_reader(names))
        return made[0](self)

    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equals, "__hash__": hashed if is_frozen else None}


def _reader(names: list[str]) -> Callable[[Any], Any]:
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


class _Awaited:
    """An attribute of a dataclass that is not complete: to read it completes the class.

    Until all is there, other threads find this object in place of `__init__` and wait here.
    """

    def __init__(self, cls: type, name: str, is_frozen: bool) -> None:
        self.cls = cls
        self.name = name
        self.is_frozen = is_frozen

    def __get__(self, instance: Any, owner: type) -> Any:
        with _completing:
            if isinstance(vars(self.cls).get("__init__"), _Awaited):
                _complete(self.cls, self.is_frozen)
        if self.name not in vars(self.cls):
            return getattr(owner if instance is None else instance, self.name)
        value = vars(self.cls)[self.name]
        return value.__get__(instance, owner) if self.name == "__init__" else value


class _Apart:
    """The base of what is derived only for its `__init__`, afterwards."""


# the same, of abstract classes: instances of both kinds are laid out differently
_AbstractApart = abc.ABCMeta("_AbstractApart", (abc.ABC,), {})


def _complete(cls: type, is_frozen: bool) -> None:
    """Find the fields of a class, and write its `__init__`, which comes last, and all at once; it is taken
    from a derived class that adds no field.
    """
    # for a class without a text the standard decorator asks for the signature that is not there
    cls.__doc__ = cls.__doc__ or cls.__name__
    dataclasses.dataclass(init=False, repr=False, eq=False, frozen=is_frozen)(cls)
    derived = type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__})
    method = vars(dataclasses.dataclass(repr=False, eq=False, frozen=is_frozen)(derived))["__init__"]
    # whoever lists the classes below this one does not find it
    derived.__bases__ = (_AbstractApart if isinstance(cls, abc.ABCMeta) else _Apart,)
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    delattr(cls, "__setstate__")
    type.__setattr__(cls, "__init__", method)
