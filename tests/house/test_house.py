"""The house rules that a machine can check: packages, stubs, the time and weight of an import.

`test_layers.py` has the rules of who imports whom, `test_budgets.py` those of size.
"""

from __future__ import annotations

import configparser
import importlib
import pathlib
import re
import subprocess
import sys

from fluidlite.base.lazy import LazyNames
from fluidlite.cli import doctor

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("fluidlite", "executor", "transpiler", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
FLUID = "fluidlite as fluid; fluid.layers, fluid.Executor, fluid.optimizer"
HEAVY = {"mpi4py", "cupy", "google", "matplotlib", "scipy", "networkx"}


def import_of(name: str) -> tuple[float, set[str]]:
    """CPU seconds that an import takes in a process of its own, and the packages loaded after it."""
    code = f"""
import sys, time
start = time.process_time()
import {name}
print(time.process_time() - start, *{{module.partition(".")[0] for module in sys.modules}})
"""
    command = [sys.executable, "-c", code]
    seconds, *loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), set(loaded)


def test_import_is_light() -> None:
    """Beside NumPy, which it loads first, in turn and under the same load: 4 to 10 times as long was seen
    (0.05 and 0.48 s of processor time); since modules wait for their first use it is 2 to 3 times.
    """
    turns = [(import_of("numpy")[0], import_of(FLUID)[0]) for _ in range(4)]
    assert min(both for _, both in turns) < 8 * min(numpy for numpy, _ in turns), turns


def test_import_loads_nothing_heavy() -> None:
    assert not import_of(FLUID)[1] & HEAVY


def test_nothing_is_a_stub() -> None:
    marks = ("TODO", "FIXME", "XXX", "NotImplementedError")
    abstract = (
        ROOT / "fluidlite/base/abstract.py"
    )  # the error of fluid's base classes, under the type that fluid gave it
    found = [
        f"{path.relative_to(ROOT)}: {mark}"
        for path in SOURCES
        if path != abstract
        for mark in marks
        if mark in path.read_text(encoding="utf8")
    ]
    assert not found


def test_every_package_is_installed() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    listed = set(config["options"]["packages"].split())
    homes = {
        "fluidlite": ROOT / "fluidlite",
        "fluidlite.executor": ROOT / "executor",
        "fluidlite.transpiler": ROOT / "transpiler",
    }
    found = {
        ".".join([name, *path.parent.relative_to(home).parts])
        for name, home in homes.items()
        for path in home.rglob("__init__.py")
    }
    # pages and examples are installed as they lie beside the package
    data = {"fluidlite.docs", "fluidlite.docs.pictures", "fluidlite.examples"}
    assert listed == found | data


def test_every_extra_that_is_named_exists() -> None:
    """In messages and pages, and those that `fluidlite doctor` puts beside a package that is missing."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        extra
        for path in [*SOURCES, *pages]
        for extras in re.findall(r"fluidlite\[([a-z0-9,]+)\]", path.read_text(encoding="utf8"))
        for extra in extras.split(",")
    }
    named |= {extra for extra, _ in doctor._PACKAGES.values() if extra}
    assert len(named) > 5 and named <= set(config["options.extras_require"])


def test_no_offered_function_is_hidden_by_its_module() -> None:
    """A module that is imported takes the place of its package's function of that name."""
    offered = [
        f"{door}.{name}"
        for door, names in lazy_doors().items()
        for name, (home, _) in names.homes.items()
        if home == f"{door}.{name}"
    ]
    assert not offered


def lazy_doors() -> dict[str, LazyNames]:
    """Packages whose names are imported when they are asked for."""
    files = [
        path for path in (ROOT / "fluidlite").rglob("__init__.py") if "_NAMES = Lazy" in path.read_text()
    ]
    doors = [".".join(path.parent.relative_to(ROOT).parts) for path in files]
    return {door: importlib.import_module(door)._NAMES for door in doors}
