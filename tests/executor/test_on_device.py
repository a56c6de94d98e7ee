"""The commands of a machine with a device, on the stand-in, with and without time."""

from __future__ import annotations

import json
import os
import pathlib
import runpy
import subprocess
import sys

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "on_device.py"


def run(out: pathlib.Path, *arguments: str, seconds: int = 120) -> str:
    """The output of a command that ends well."""
    env = {**os.environ, "OUT": str(out), "SECONDS_AT_MOST": str(seconds)}
    command = [sys.executable, str(PATH), *arguments]
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("seconds", "outcome"), [(200, "passed"), (20, "not begun")])
def test_tests_end_in_time(tmp_path: pathlib.Path, seconds: int, outcome: str) -> None:
    picked = ("tests/executor/test_cuda_cudnn.py", "-k", "test_geometry_without_elements")
    text = run(tmp_path, "test", "--stand-in", *picked, seconds=seconds)
    assert f"1 {outcome}" in text and "cuDNN 9.28.0" in text
    assert json.loads((tmp_path / "test.json").read_text())["outcomes"] == {outcome: 1}


def test_measurements(tmp_path: pathlib.Path) -> None:
    text = run(tmp_path, "bench", "--stand-in", "softmax_grad", "--elements", "3000", "--rounds", "1")
    assert "| softmax_grad |" in text and "float16, channels last" in text
    assert "softmax_grad" in (tmp_path / "bench.md").read_text()


def test_a_checkout_that_is_not_installed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-S` leaves out what an installation adds to the path."""
    commands = runpy.run_path(str(PATH))
    make_links = commands["make_links"]
    monkeypatch.setitem(make_links.__globals__, "LINKS", tmp_path)
    for _ in range(2):
        make_links()
    packages = [path for path in sys.path if path.endswith("-packages")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *packages])}
    code = "from fluidlite.executor.cuda.kernel import HALF; import fluidlite; print(fluidlite.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=env, cwd="/", capture_output=True, text=True
    )
    assert done.stdout.startswith(str(tmp_path)), done.stderr
