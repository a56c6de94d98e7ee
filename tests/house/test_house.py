"""The house rules that a machine can check: sizes, packages, what an import loads.

`test_layers.py` has the rules of who imports whom.
"""

from __future__ import annotations

import ast
import configparser
import pathlib
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("fluidlite", "executor", "transpiler", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py"))
MAX_FILE, MAX_FUNCTION = 600, 40

# What the formatter made longer than the limits, and is still to be cut. These lists only get shorter.
STILL_LONG_FILES = {"transpiler/check/servers.py"}
STILL_LONG_FUNCTIONS = {
    "benchmarks/ctr.py:job",
    "benchmarks/pserver.py:job",
    "executor/comm/server/loop.py:Server.__init__",
    "executor/compile/builder.py:PlanBuilder._call",
    "executor/executor.py:Executor._acquire",
    "executor/passes/tiles.py:_Loop._loop",
    "fluidlite/cli/tables.py:_plan_parts",
    "transpiler/check/facts.py:read_server",
    "transpiler/check/order.py:_check_step",
    "transpiler/check/ranks.py:_check_snapshots",
    "transpiler/check/servers.py:_check_blocks",
}


def functions(path: pathlib.Path) -> list[tuple[str, int]]:
    """(path:name, lines without docstring) of every function in a file; a method is `Class.name`."""
    tree = ast.parse(path.read_text(encoding="utf8"))
    return [(f"{path.relative_to(ROOT)}:{name}", size) for name, size in _functions_in(tree, "")]


def _functions_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = ast.get_docstring(child, clean=False)
            lines = (child.end_lineno or 0) - child.lineno + 1
            yield prefix + child.name, lines - (doc.count("\n") + 1 if doc else 0)
        scope = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        yield from _functions_in(child, f"{prefix}{child.name}." if scope else prefix)


def test_files_are_short() -> None:
    sizes = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf8").count("\n") for path in SOURCES + TESTS
    }
    assert not {
        path: lines for path, lines in sizes.items() if lines > MAX_FILE and path not in STILL_LONG_FILES
    }


def test_functions_are_short() -> None:
    # the steps written by hand are straight lines on purpose (benchmarks/floors/README.md)
    sizes = [item for path in SOURCES if "floors" not in path.parts for item in functions(path)]
    long = {name: size for name, size in sizes if size > MAX_FUNCTION and name not in STILL_LONG_FUNCTIONS}
    assert not long
    ordered = sorted(size for _, size in sizes)
    assert ordered[len(ordered) // 2] <= 7
    assert ordered[len(ordered) * 9 // 10] <= 28


FLUID = "fluidlite as fluid; fluid.layers, fluid.Executor, fluid.optimizer"
HEAVY = {"mpi4py", "cupy", "matplotlib", "scipy", "networkx"}


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
    """Beside NumPy, which it loads first, in turn and under the same load: 4 to 5 times as long was seen on
    an idle machine (0.10 and 0.45 s).
    """
    turns = [(import_of("numpy")[0], import_of(FLUID)[0]) for _ in range(4)]
    assert min(both for _, both in turns) < 7 * min(numpy for numpy, _ in turns), turns


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
    assert listed == found
