"""The mathematics of a kernel stands once: renderers make NumPy calls, loops and CUDA text from it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import pytest
from formulas import deviations, exponentials
from modules import HOMES, ROOT

Finder = Callable[[pathlib.Path], list[int]]

# file -> how often: batch_norm, sync_batch_norm and inplace_abn share one deviation
DEVIATIONS = {
    "fluidlite/ops/neural/batch_norm.py": 1,
    # forward and backward: the gradient is given the variance
    "fluidlite/ops/neural/group_norm.py": 2,
    # layer_norm as group_norm; instance_norm, and the derivative of its gradient; norm
    "fluidlite/ops/neural/norm.py": 5,
    # steps of optimizers
    "fluidlite/ops/training/optimizer.py": 3,
    # the length of weights, for weight_norm
    "fluidlite/paddle/nn/utils.py": 1,
}
# attention never has all scores of a row, and so computes softmax its own way
SOFTMAX_IN_EXECUTOR = {"executor/cuda/attention.cu": 2, "executor/cuda/attention_grad.cu": 1}
# softmax, and its loss
SOFTMAX = {"fluidlite/ops/neural/softmax.py": 2}


def found(finder: Finder, *folders: str) -> dict[str, int]:
    """File -> how often it has a formula."""
    paths = [path for folder in folders for path in _sources(ROOT / folder)]
    counts = {path.relative_to(ROOT).as_posix(): len(finder(path)) for path in paths}
    return {name: count for name, count in counts.items() if count}


def _sources(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    if folder.is_file():
        yield folder
    yield from (
        path for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".cu", ".cuh", ".c", ".ll")
    )


def test_deviations_stand_once() -> None:
    assert found(deviations, *HOMES.values()) == DEVIATIONS


def test_softmax_stands_once() -> None:
    assert found(exponentials, "executor") == SOFTMAX_IN_EXECUTOR
    assert found(exponentials, *SOFTMAX) == SOFTMAX


@pytest.mark.parametrize(
    ("name", "text", "finder"),
    [
        ("a.py", "y = 1 / np.sqrt(variance + x.dtype.type(self.epsilon))", deviations),
        ("b.py", "K = RowKernel('''\ninverse = rsqrt(epsilon + mean(x * x))\n''')", deviations),
        ("c.py", "K = f'''\nvariance = {V}\ny = x * rsqrt({V} + epsilon)\n'''", deviations),
        ("d.py", "v = code.call('sqrt', variance + code.number(eps))", deviations),
        ("e.cu", "y[i] = x[i] / sqrt((S)variance[i]\n    + epsilon);", deviations),
        ("f.py", "y = np.exp(x - top)", exponentials),
        ("g.cuh", "sum += exp(larger(x[i] - top, lowest));", exponentials),
    ],
)
def test_formulas_are_found(tmp_path: pathlib.Path, name: str, text: str, finder: Finder) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf8")
    assert len(finder(path)) == 1
