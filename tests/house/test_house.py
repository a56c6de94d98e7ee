"""The house rules that a machine can check: sizes, packages, what an import loads.

`test_layers.py` has the rules of who imports whom.
"""

from __future__ import annotations

import ast
import configparser
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("fluidlite", "executor", "transpiler", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py"))
MAX_FILE, MAX_FUNCTION = 600, 40
LONG_FUNCTIONS: set[str] = set()  # named exceptions: "path:function"


def functions(path: pathlib.Path) -> list[tuple[str, int]]:
    """(name, lines without docstring) of every function in a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = ast.get_docstring(node, clean=False)
            size = (node.end_lineno or 0) - node.lineno + 1 - (doc.count("\n") + 1 if doc else 0)
            found.append((f"{path.relative_to(ROOT)}:{node.name}", size))
    return found


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in SOURCES + TESTS
        if (count := path.read_text(encoding="utf8").count("\n")) > MAX_FILE
    }
    assert not long


def test_functions_are_short() -> None:
    # the steps written by hand are straight lines on purpose (benchmarks/floors/README.md)
    sizes = [item for path in SOURCES if "floors" not in path.parts for item in functions(path)]
    long = {name: size for name, size in sizes if size > MAX_FUNCTION and name not in LONG_FUNCTIONS}
    assert not long
    ordered = sorted(size for _, size in sizes)
    assert ordered[len(ordered) // 2] <= 7
    assert ordered[len(ordered) * 9 // 10] <= 28


def test_import_is_light() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); import fluidlite as fluid; fluid.layers; "
        "fluid.Executor; fluid.optimizer; "
        "print(time.perf_counter() - start); print(sorted({'mpi4py', 'cupy', 'matplotlib', 'scipy'} & "
        "set(sys.modules)))"
    )
    best = []
    for _ in range(3):
        seconds, loaded = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert loaded == "[]"
        best.append(float(seconds))
    assert min(best) < 2.0  # 0.4 s is the aim, measured in benchmarks/; machines are noisy


def test_nothing_is_a_stub() -> None:
    marks = ("TODO", "FIXME", "XXX", "NotImplementedError")
    abstract = (
        ROOT / "fluidlite/incubate/fleet/base/abstract.py"
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
