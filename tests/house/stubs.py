"""Writes the stubs of the doors: modules that load their names at first use, or gather them from other files.

    python tests/house/stubs.py

Type checkers and editors cannot run such a module, and took every name of it for `Any`. A stub beside it
(`.pyi`) says where each public name is defined: signatures and docstrings are read there.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import sys
import types
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = "# written by tests/house/stubs.py\n"
# doors that gather their names in a loop
GATHERED = ("fluidlite.layers", "fluidlite.executor")
# rooms that users do not import from, and the names of imperative mode, which are refused
PRIVATE = ("base", "cli", "compat", "dygraph", "ir", "ops", "proto", "values")


def doors() -> Iterator[str]:
    """The modules that need a stub."""
    for folder in ("fluidlite", "executor", "transpiler"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if folder == "fluidlite" and parts[1:2] and parts[1] in PRIVATE:
                continue
            name = ".".join(parts if folder == "fluidlite" else ("fluidlite", *parts))
            if _is_door(name, path):
                yield name


def _is_door(name: str, path: pathlib.Path) -> bool:
    """True if the module loads its names when they are asked for, or gathers them in a loop."""
    text = path.read_text(encoding="utf8")
    if "LazyNames" not in text:  # parsed, 700 files take two seconds
        return name in GATHERED
    lazy = any(isinstance(node, ast.Name) and node.id == "LazyNames" for node in ast.walk(ast.parse(text)))
    return lazy or name in GATHERED


def stub(door: str) -> str:
    """The text of a door's stub."""
    module = importlib.import_module(door)
    texts = [_line(door, name, getattr(module, name)) for name in public_names(module)]
    lines = {line for text in texts for line in text.split("\n")}
    imports = sorted(line for line in lines if line.startswith("from"))
    values = sorted(line for line in lines if not line.startswith("from"))
    values.sort(key=lambda line: " = " in line)  # after the objects whose methods they are
    return "\n".join([HEAD + _doc(module), *imports, "", *values]).rstrip() + "\n"


def _doc(module: types.ModuleType) -> str:
    return f'"""{(module.__doc__ or "").strip()}"""\n'


def public_names(module: types.ModuleType) -> list[str]:
    """The names that a door offers, without those that its file only uses."""
    names = {*dir(module), *getattr(module, "__all__", ())}
    found = sorted(name for name in names if not name.startswith("_") and not _used(module, name))
    return [*found, *(["__version__"] if hasattr(module, "__version__") else [])]


def _used(module: types.ModuleType, name: str) -> bool:
    """True for what a file imports for itself: `annotations`, `Any`, `importlib`."""
    if name in getattr(module, "__all__", ()):
        return False
    value = getattr(module, name)
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "")
    return not str(home or type(value).__module__).startswith("fluidlite")


def _line(door: str, name: str, value: object) -> str:
    if isinstance(value, types.ModuleType) and not hasattr(value, "__file__"):  # made to be refused
        return f"from types import ModuleType as _ModuleType\n{name}: _ModuleType"
    if isinstance(value, types.ModuleType):
        home, _, last = value.__name__.rpartition(".")
        return _import(home, last, name)
    home, last = _home(door, value)
    if home:
        return _import(home, last, name)
    if isinstance(value, types.MethodType):  # of an object that the door offers, too
        offered = vars(sys.modules[door])
        owner = next(
            other for other, one in offered.items() if one is value.__self__ and not other.startswith("_")
        )
        return f"{name} = {owner}.{value.__name__}"
    kind = type(value)
    if isinstance(value, type | types.FunctionType):  # made to be refused
        return f"from typing import Any as _Any\n{name}: _Any"
    if kind.__module__ == "builtins":
        return f"{name}: {kind.__qualname__}"
    hidden = f"_{kind.__qualname__}"
    return f"from {kind.__module__} import {kind.__qualname__} as {hidden}\n{name}: {hidden}"


def _import(home: str, last: str, name: str) -> str:
    if last == name:
        return f"from {home} import {name} as {name}"
    return f"from {home} import {last} as _{name}\n{name} = _{name}"  # checkers hide what is imported renamed


def _home(door: str, value: object) -> tuple[str, str]:
    """The module that defines a class or function and its name there; empty where there is none. Of a guard
    it is the module of the function that it stands before; layers are those of fluid's modules.
    """
    looked = [value, getattr(value, "__wrapped__", value)]
    if not getattr(value, "__module__", "").startswith("fluidlite.layers"):
        looked.reverse()
    homes = [_of(door, each) for each in looked]
    return homes[0] if homes[0][0] else homes[1]


def _of(door: str, value: object) -> tuple[str, str]:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module is None or module == door or not isinstance(value, type | types.FunctionType):
        return "", ""
    inside = vars(importlib.import_module(module))
    if inside.get(name) is not value:
        name = next((other for other, one in inside.items() if one is value), "")
    return (module, name) if name else ("", "")


def path_of(door: str) -> pathlib.Path:
    """The file of a door's stub."""
    return pathlib.Path(inspect.getfile(importlib.import_module(door))).resolve().with_suffix(".pyi")


if __name__ == "__main__":
    written = {path_of(door): stub(door) for door in doors()}
    for path, text in written.items():
        path.write_text(text, encoding="utf8")
    for folder in ("fluidlite", "executor", "transpiler"):
        for old in (ROOT / folder).rglob("*.pyi"):
            if old not in written:
                old.unlink()
    sys.stdout.write(f"{len(written)} stubs\n")
