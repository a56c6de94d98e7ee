"""Every example in every mode under a real `mpiexec -n 4`: trainer 0 says how far the parameters are from
those of one process.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from mpi_jobs import TESTS, says, start

ROOT = TESTS.parent
pytestmark = pytest.mark.mpi

# 20 steps or a few more; what is allowed is what rounding alone makes (tests/house/test_examples.py measures
# it)
EXAMPLES = {
    "fit_a_line": (["--epochs", "2"], 1e-5),
    "recognize_digits": (["--net", "mlp", "--epochs", "1"], 2e-5),
    "word2vec": (["--epochs", "1", "--steps", "20"], 2e-3),
    "ctr_dnn": (["--steps", "20", "--rows", "260"], 1e-4),
    "transformer_lm": (["--steps", "20", "--length", "8", "--width", "16"], 2e-4),
}
IN_STEP = {"pserver": ["--pservers", "2"], "grad_allreduce": [], "nccl2": []}
OTHERS = {
    "async": ["--pservers", "2"],
    "half_async": ["--pservers", "1"],
    "geo_sgd": ["--pservers", "2"],
    "local_sgd": [],
}


def run(example: str, *options: str, count: int = 4, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mpi4py", str(ROOT / "examples" / f"{example}.py"), *options]
    return start(count, command, PYTHONPATH=str(TESTS), **env)


def difference(example: str, mode: str, options: list[str], **env: str) -> float:
    """The output, which is all of trainer 0's."""
    done = run(example, *EXAMPLES[example][0], "--mode", mode, *options, "--compare", **env)
    assert done.returncode == 0, says(done)
    trainers = 4 - int((options or ["", "0"])[1])
    said = re.findall(
        rf"^{mode}: {trainers} trainers(?:, (\d) servers)?: \d+ parameters, largest relative difference from "
        rf"one process (\S+) ",
        done.stdout,
        re.M,
    )
    assert len(said) == 1, says(done)
    return float(said[0][1])


@pytest.mark.parametrize("mode", IN_STEP)
@pytest.mark.parametrize("example", EXAMPLES)
def test_equal_to_one_process(example: str, mode: str) -> None:
    assert difference(example, mode, IN_STEP[mode]) <= EXAMPLES[example][1]


@pytest.mark.parametrize("mode", OTHERS)
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name not in ("fit_a_line", "word2vec") else [])
        for name in EXAMPLES
    ],
)
def test_modes_that_compute_something_else(example: str, mode: str) -> None:
    assert 0 < difference(example, mode, OTHERS[mode]) < 100


def test_a_mode_that_does_not_fit_the_world() -> None:
    done = run("fit_a_line", "--mode", "pserver", "--pservers", "2", count=2)
    assert (
        done.returncode != 0
        and "2 servers use all of the 2 processes, and none is left to train: start at least 3" in says(done)
    )
