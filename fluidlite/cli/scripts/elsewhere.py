"""Modules of PaddlePaddle 2.x that FluidLite has no file for: their names lie in other modules.

`elsewhere.txt` lists them: a line with a module, then lines with a module that FluidLite has and its names.
`tests/house/elsewhere.py` writes it from the modules of 2.6.2.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from fluidlite.base.package_files import text_beside

__all__ = ["HOMES", "ElsewhereModule", "children_of", "home_of", "is_elsewhere", "lend"]

# the first that fits counts
HOMES = {
    "paddle.fluid": "fluidlite",
    "paddle.base": "fluidlite",  # as fluid is called in 2.6
    "paddle.framework.core": "fluidlite.core",
    "paddle.batch": "fluidlite.reading.decorators",
    "paddle": "fluidlite.paddle",
}
"""Modules of Paddle, and the modules of FluidLite that they and those below them stand for."""


def home_of(name: str) -> str:
    """The name of FluidLite's module that `paddle` or `paddle.x` stands for, whether there is one or not; ""
    for other names.
    """
    found = next((prefix for prefix in HOMES if f"{name}.".startswith(f"{prefix}.")), None)
    return "" if found is None else HOMES[found] + name[len(found) :]


@functools.cache
def _table() -> Mapping[str, Mapping[str, str]]:
    """Module -> name -> the module that has it."""
    found: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for line in text_beside("fluidlite.cli.scripts", "elsewhere.txt").splitlines():
        if not line.startswith(" "):
            names = found.setdefault(line, {})
            continue
        home, _, text = line.strip().partition(": ")
        names.update(dict.fromkeys(text.split(), home))
    return found


@functools.cache
def _children() -> Mapping[str, frozenset[str]]:
    """Module -> the last parts of the names of modules below it."""
    found: dict[str, set[str]] = {}
    for module in _table():
        parts = module.split(".")
        for end in range(1, len(parts)):
            found.setdefault(".".join(parts[:end]), set()).add(parts[end])
    return {module: frozenset(names) for module, names in found.items()}


def is_elsewhere(module: str) -> bool:
    """True for a module whose names lie elsewhere, and for a package of such modules."""
    return module in _table() or module in _children()


def children_of(module: str) -> frozenset[str]:
    """The modules below a module that FluidLite has no file for."""
    return _children().get(module, frozenset())


def _found(module: str, name: str) -> Any:
    """The object that a module has under `name`; AttributeError where it has none."""
    home = _table().get(module, {}).get(name)
    if home is not None:
        # FluidLite's own name is there whether `paddle` is installed in this process or not
        package = importlib.import_module(home_of(home))
        # the name of a module that nobody has imported yet, or another one
        return getattr(package, name) if hasattr(package, name) else _module(f"{home}.{name}")
    if name in children_of(module):
        return _module(f"{module}.{name}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def _module(name: str) -> ModuleType:
    """A module of FluidLite's, or one whose names lie elsewhere."""
    if not is_elsewhere(name):
        return importlib.import_module(home_of(name))
    return sys.modules.get(name) or ElsewhereModule(name)


class ElsewhereModule(ModuleType):
    """A module whose names lie in others."""

    def __getattr__(self, name: str) -> Any:
        value = _found(self.__name__, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_table().get(self.__name__, ()), *children_of(self.__name__)})


def lend(name: str, module: ModuleType) -> None:
    """Let FluidLite's `module`, known as `name`, and the modules below it find the names that lie elsewhere,
    too.
    """
    if not is_elsewhere(name) or hasattr(module, "__elsewhere__"):
        return
    before = vars(module).get("__getattr__")

    def find(wanted: str) -> Any:
        if before is not None:
            try:
                found = before(wanted)
            except AttributeError as error:
                # an own message, such as that of a refused name, is the better one
                refusal = error
            else:
                _lend_below(name, module, wanted, found)
                return found
        else:
            refusal = AttributeError(f"module {name!r} has no attribute {wanted!r}")
        try:
            return _found(name, wanted)
        except AttributeError:
            raise refusal from None

    vars(module).update(__getattr__=find, __elsewhere__=name)
    for inner, found in list(vars(module).items()):
        _lend_below(name, module, inner, found)
    if not hasattr(module, "__path__") and children_of(name):
        # the import system looks for modules below packages alone
        vars(module)["__path__"] = []


def _lend_below(name: str, module: ModuleType, inner: str, found: Any) -> None:
    """Lend to a module that another one shows under its own last name."""
    if isinstance(found, ModuleType) and found.__name__ == f"{module.__name__}.{inner}":
        lend(f"{name}.{inner}", found)
