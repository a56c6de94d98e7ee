"""Packages that are doors: names that are imported at first use, so that importing the package is fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from fluidlite.base.imperative import instead_of

__all__ = ["LazyNames"]

# guards functions and constructors: their errors name the arguments, and show the user's frames
_GUARD = ("fluidlite.ir.guarded", "offered")


class LazyNames:
    """The names of one package, and the modules that they are imported from.

    `homes` maps a module to the names that it has; `new=old` renames one. `modules` are sub-modules of the
    package. `values` are names that cost nothing. Functions and classes of FluidLite's are guarded.
    """

    def __init__(
        self,
        package: str,
        homes: Mapping[str, str],
        modules: str = "",
        values: Mapping[str, Any] | None = None,
    ) -> None:
        self.package = package
        self.homes: dict[str, tuple[str, str]] = {}
        for module, names in homes.items():
            for name in names.split():
                new, _, old = name.partition("=")
                self.homes[new] = (module, old or new)
        self.modules = frozenset(modules.split())
        self.values = dict(values or {})

    def load(self, name: str) -> Any:
        """The thing that `name` stands for, which the package then keeps; AttributeError with the nearest
        name.
        """
        if name in self.homes:
            module, old = self.homes[name]
            value = self._guarded(getattr(importlib.import_module(module), old))
        elif name in self.modules:
            value = importlib.import_module(f"{self.package}.{name}")
        elif name in self.values:
            value = self.values[name]
        else:
            # `__wrapped__` and its kin are asked for by tools, which read no message: to look for the nearest
            # name takes milliseconds
            near = "" if name.startswith("__") else instead_of(name, self.names())
            raise AttributeError(f"module {self.package!r} has no attribute {name!r}{near}")
        setattr(sys.modules[self.package], name, value)
        return value

    def _guarded(self, value: Any) -> Any:
        # one that another package offers, too, is guarded once
        if not isinstance(value, (FunctionType, type)) or not value.__module__.startswith("fluidlite."):
            return value
        # the package may be imported before what guards are made of: scripts set the environment first
        module, name = _GUARD
        return getattr(importlib.import_module(module), name)(value, self.package)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted({*self.homes, *self.modules, *self.values})
