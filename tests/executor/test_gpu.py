"""NumPy against CuPy: the whole op table and the golden runs, where there is a device; elsewhere, that the
names exist.
"""

from __future__ import annotations

import ast
import json
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from golden import harness
from optest import Case, check_forward, check_gradient
from test_golden_differences import CASES as FAULTY
from test_golden_differences import assert_same, ours
from test_ops import CASES

import fluidlite as fluid

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = json.loads((ROOT / "tests/golden/cupy_names.json").read_text(encoding="utf8"))


def xp_names(path: pathlib.Path) -> Iterator[tuple[str, int]]:
    """(name, line) of every attribute of the array module that a file uses."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "xp":
            yield node.attr, node.lineno


@pytest.mark.parametrize("path", sorted((ROOT / "fluidlite").rglob("*.py")), ids=lambda path: path.stem)
def test_every_array_function_exists_in_cupy(path: pathlib.Path) -> None:
    missing = [
        f"{path.name}:{line} xp.{name}"
        for name, line in xp_names(path)
        if name not in NAMES["cupy"] and not name.startswith("__")
    ]
    assert not missing


def each_once(cases: Iterable[Case]) -> list[Any]:
    """The first row of each op for every landing, the others for `make gpu-sim-all` and for devices."""
    seen: set[str] = set()
    found = []
    for case in cases:
        found.append(pytest.param(case, marks=[pytest.mark.slow] if case.op in seen else [], id=str(case)))
        seen.add(case.op)
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("case", each_once(CASES))
def test_forward(case: Case) -> None:
    check_forward(case, fluid.CUDAPlace(0))


@pytest.mark.gpu
@pytest.mark.parametrize("case", each_once(case for case in CASES if case.grad))
def test_gradient(case: Case) -> None:
    check_gradient(case, fluid.CUDAPlace(0))


# on the stand-in each compiles some thirty kernels, and a sixteenth of them is enough for every landing
RIGHT = [name for name in harness.recorded_cases() if name not in FAULTY]
RUNS = [pytest.param(name, marks=[pytest.mark.slow] if at % 16 else []) for at, name in enumerate(RIGHT)]


@pytest.mark.gpu
@pytest.mark.parametrize("name", RUNS)
def test_run(name: str) -> None:
    """Paddle's programs give Paddle's numbers on the device too: two plain steps, then captured ones."""
    golden = harness.Golden(name)
    replay = harness.Replay(fluid, golden)
    replay.exe = fluid.Executor(fluid.CUDAPlace(0))
    for step in range(min(4, golden.meta["steps"])):
        for index in range(golden.step_runs):
            replay.run(index, step)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_recording(name: str) -> None:
    """The runs that 1.8.5 computes wrong come out right on the device too."""
    golden = harness.Golden(name)
    assert_same(ours(golden, fluid.CUDAPlace(0)), FAULTY[name].by_hand(golden, False))


@pytest.mark.gpu
def test_fetches_are_host_arrays() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = fluid.layers.scale(fluid.data("x", [None, 2], "float32"), 2.0)
        (value,) = fluid.Executor(fluid.CUDAPlace(0)).run(
            fluid.default_main_program(), feed={"x": np.ones((1, 2), "float32")}, fetch_list=[out]
        )
    assert isinstance(value, np.ndarray) and (value == 2).all()
