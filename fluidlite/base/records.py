"""Dataclasses whose methods are written at their first use: importing FluidLite declares a hundred of them, a
program makes instances of a few, and the standard decorator takes half a millisecond for each.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fluidlite.base.forks import waited_lock

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """`dataclasses.dataclass`. The methods are there when a first instance is made or loaded, when the
        class is inspected, or when one that derives from it is completed. A class with an `__init__` or
        `__setstate__` of its own, and one whose `options` are more than `frozen`, `eq`, `order` and `repr`,
        is complete at once. TypeError at its completion for one that derives from a built-in class.
        """
        return _declare(options) if cls is None else _declare(options)(cls)


_Class = TypeVar("_Class", bound=type)
_OWN = frozenset(["__init__", "__setstate__"])  # what a class may have written itself
_WAITING = frozenset(["frozen", "eq", "order", "repr"])  # options of classes that wait
_completing = waited_lock()


def _declare(options: dict[str, Any]) -> Callable[[_Class], _Class]:
    """The decorator of a class: every attribute through which its methods are reached waits for them."""

    def declared(cls: _Class) -> _Class:
        if not vars(cls).keys().isdisjoint(_OWN) or not options.keys() <= _WAITING:
            whole: _Class = dataclasses.dataclass(**options)(cls)  # type: ignore[assignment]
            return whole
        for name in ("__init__", "__dataclass_fields__", "__setstate__"):
            setattr(cls, name, _Awaited(cls, name, options))
        return cls

    return declared


class _Awaited:
    """An attribute of a dataclass that is not complete: to read it completes the class.

    Until the methods are all there, other threads find this object in place of `__init__` and wait here.
    """

    def __init__(self, cls: type, name: str, options: dict[str, Any]) -> None:
        self.cls = cls
        self.name = name
        self.options = options

    def __get__(self, instance: Any, owner: type) -> Any:
        with _completing:
            if isinstance(vars(self.cls).get("__init__"), _Awaited):
                _complete(self.cls, self.options)
        if self.name not in vars(self.cls):
            return getattr(owner if instance is None else instance, self.name)
        value = vars(self.cls)[self.name]
        return value.__get__(instance, owner) if self.name == "__init__" else value


class _Apart:
    """The base of what is derived only for its `__init__`, afterwards."""


# the same, of abstract classes: instances of both kinds are laid out differently
_AbstractApart = abc.ABCMeta("_AbstractApart", (abc.ABC,), {})


def _complete(cls: type, options: dict[str, Any]) -> None:
    """Write the methods of a class. `__init__` comes last, and all at once; it is taken from a derived class
    that adds no field.
    """
    # for a class without a text the standard decorator asks for the signature that is not there
    cls.__doc__ = cls.__doc__ or cls.__name__
    dataclasses.dataclass(init=False, **options)(cls)
    derived = type(cls.__name__, (cls,), {"__module__": cls.__module__, "__doc__": cls.__doc__})
    is_frozen = options.get("frozen", False)
    method = vars(dataclasses.dataclass(repr=False, eq=False, frozen=is_frozen)(derived))["__init__"]
    # whoever lists the classes below this one does not find it
    derived.__bases__ = (_AbstractApart if issubclass(cls, abc.ABC) else _Apart,)
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    delattr(cls, "__setstate__")
    type.__setattr__(cls, "__init__", method)
