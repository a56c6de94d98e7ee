"""The examples on a device: the losses of the first steps are those of the CPU, and steps are captured."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.run.cuda import CapturedStep

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
# name -> its arguments
RUNS = {
    "fit_a_line": ["--epochs", "1", "--batch", "90"],
    "recognize_digits": ["--net", "mlp", "--epochs", "1", "--batch", "400"],
    "transformer_lm": ["--steps", "4", "--batch", "2", "--length", "8", "--width", "16"],
    "word2vec": ["--epochs", "1", "--steps", "3", "--batch", "16"],
    "ctr_dnn": ["--steps", "3", "--batch", "16", "--rows", "260"],
}
pytestmark = pytest.mark.gpu


class _Trained(Exception):
    """The end of the part of an example that is looked at: the losses."""


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of an example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(name: str, place: Any, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The losses of an example's training on a place."""
    module = example(name, monkeypatch)
    train: Callable[..., Any] = module.train

    def trained(*arguments: Any) -> Any:
        raise _Trained(train(*arguments))

    monkeypatch.setattr(module, "train", trained)
    monkeypatch.setattr(fluid, "CPUPlace", lambda: place)
    monkeypatch.setattr(sys, "argv", [name, *RUNS[name]])
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
        pytest.raises(_Trained) as end,
    ):
        fluid.default_startup_program().random_seed = 1
        module.main()
    (found,) = end.value.args
    return np.array(found[0] if isinstance(found, tuple) else found)


@pytest.mark.parametrize("name", RUNS)
def test_example(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[CapturedStep] = []
    before = CapturedStep.__init__

    def made(self: CapturedStep, *args: Any) -> None:
        before(self, *args)
        steps.append(self)

    monkeypatch.setattr(CapturedStep, "__init__", made)
    wanted = losses(name, fluid.CPUPlace(), monkeypatch)
    found = losses(name, fluid.CUDAPlace(0), monkeypatch)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
    assert any(step.graph is not None for step in steps if step.runs >= 2)
