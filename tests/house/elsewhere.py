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


Places = dict[int, list[tuple[str, str]]]


def homes_of(module: str, names: dict[str, int | str], file: ModuleType | None, places: Places) -> list[str]:
    """A line for each module of FluidLite that has some of the names which `file` lacks."""
    homes: dict[str, list[str]] = defaultdict(list)
    for name, number in names.items():
        if file is not None and name in dir(file):
            continue
        if isinstance(number, str):
            home = home_of_module(module, name, number)
        else:
            found = [home for home, other in places.get(number, ()) if other == name]
            home = min(found, key=lambda each: (len(each), each), default=None)
        if home is not None:
            homes[home].append(name)
    return [f"  {home}: {' '.join(sorted(each))}" for home, each in sorted(homes.items())]


def written() -> str:
    """The text of the file."""
    warnings.simplefilter("ignore")
    recorded = json.loads(gzip.decompress(NAMES.read_bytes()))["modules"]
    files = {name: ours(name) for name in recorded}
    # negative numbers are those of names that a module only imports
    places: Places = defaultdict(list)
    for module, names in recorded.items():
        for name, number in names.items():
            if not isinstance(number, str) and name in dir(files[module]) and files[module] is not None:
                places[abs(number)].append((module, name))
    lines = []
    for module, names in recorded.items():
        if not module.startswith(LEFT_OUT) and (files[module] is not None or not is_hidden(module)):
            homes = homes_of(module, names, files[module], places)
            lines += [module, *homes] if homes else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf8")
