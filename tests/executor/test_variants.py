"""Networks of random sizes, those of the benchmarks: plans train as the naive interpreter does."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import fluidlite as fluid

BENCHMARKS = str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks")


@pytest.mark.parametrize("seed", range(20, 35))  # three of each kind
def test_plans_train_as_the_interpreter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from networks import in_fluid

    losses = []
    for naive in (True, False):
        with fluid.scope_guard(fluid.Scope()):
            step = in_fluid.step_of(fluid, f"variant_{seed}", infer=False, naive=naive)
            losses.append([step() for _ in range(6)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-4, atol=1e-6)
    assert len(set(losses[0])) == 6 and np.isfinite(losses[0]).all()
