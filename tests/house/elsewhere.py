"""Writes `fluidlite/cli/scripts/elsewhere.txt` from the modules of PaddlePaddle 2.6.2 and those of FluidLite.

python tests/house/elsewhere.py
"""

from __future__ import annotations

import gzip
import importlib
import json
import pathlib
import warnings
from collections import defaultdict
from types import ModuleType

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ROOT / "tests" / "golden" / "module_names_2x.json.gz"
TARGET = ROOT / "fluidlite" / "cli" / "scripts" / "elsewhere.txt"
# 2.6.2 calls fluid so: the whole of it is there under one name
LEFT_OUT = ("paddle.base", "paddle.pir", "paddle.decomposition", "paddle.incubate.autograd")


def ours(name: str) -> ModuleType | None:
    """FluidLite's module in the place of 2.6.2's; None where it has no file."""
    base = "paddle.base"
    home = "fluidlite" + name.removeprefix(base) if f"{name}.".startswith(f"{base}.") else f"fluidlite.{name}"
    try:
        return importlib.import_module(home)
    except ImportError:
        return None


def home_of_module(module: str, name: str, path: str) -> str | None:
    """The package of the module `path` that a module has under a name of its own, where FluidLite has it."""
    home, _, last = path.rpartition(".")
    # what a module imports for itself is no name of it, but packages show modules
    if module.count(".") > 1 or ours(module) is None:
        return None
    return home if path != f"{module}.{name}" and last == name and ours(path) is not None else None


def is_hidden(module: str) -> bool:
    """True where a function or class of the package has the module's name: an import of the module would take
    its place.
    """
    package, _, name = module.rpartition(".")
    found = getattr(ours(package), name, None)
    return found is not None and not isinstance(found, ModuleType)


def written() -> str:
    """The text of the file."""
    warnings.simplefilter("ignore")
    recorded = json.loads(gzip.decompress(NAMES.read_bytes()))["modules"]
    known = {name: names for name, names in recorded.items() if not name.startswith(LEFT_OUT)}
    files = {name: ours(name) for name in recorded}
    places: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for module, names in recorded.items():
        file = files[module]
        for name, number in names.items():
            if file is not None and not isinstance(number, str) and name in dir(file):
                places[abs(number)].append((module, name))
    lines = []
    for module, names in known.items():
        file = files[module]
        if file is None and is_hidden(module):
            continue
        homes: dict[str, list[str]] = defaultdict(list)
        for name, number in names.items():
            if file is not None and name in dir(file):
                continue
            if isinstance(number, str):
                home = home_of_module(module, name, number)
                if home is not None:
                    homes[home].append(name)
                continue
            if number < 0:
                continue
            found = [home for home, other in places[number] if other == name]
            if found:
                homes[min(found, key=lambda home: (len(home), home))].append(name)
        if homes:
            lines.append(module)
            lines += [f"  {home}: {' '.join(sorted(each))}" for home, each in sorted(homes.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf8")
