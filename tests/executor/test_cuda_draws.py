"""Masks that a device draws: how many, other ones at each step, and the same ones from the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.draws import DeviceKeptMask
from fluidlite.executor.run.draws import KeptMask

pytestmark = pytest.mark.gpu


def masks(count: int, probability: float, seed: int | None = None, start: int = 0, steps: int = 2) -> Any:
    import cupy

    draw = DeviceKeptMask(cupy, np.random.default_rng(start), count, probability, seed)
    found = []
    for _ in range(steps):
        out = cupy.zeros(count, bool)
        draw(out)
        found.append(out.get())
    return found


def test_numbers_are_philoxs() -> None:
    """The first numbers of a known counter and key, from the authors' file of known answers."""
    # counter 0, key 0 gives 6627e8d5 e169c58d bc57ac4c 9b00dbd8: as floats 0.399, 0.880, 0.736, 0.605
    import cupy

    class Zero:
        @staticmethod
        def integers(_: int) -> int:
            return 0

    for probability, wanted in ((0.5, [0, 1, 1, 1]), (0.7, [0, 1, 1, 0]), (0.8, [0, 1, 0, 0])):
        out = cupy.zeros(4, bool)
        DeviceKeptMask(cupy, Zero(), 4, probability, None)(out)
        assert out.get().astype(int).tolist() == wanted


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 1000, 4099])
def test_odd_sizes(count: int) -> None:
    assert masks(count, 0.0)[0].all() and not masks(count, 1.0)[0].any()


def test_shares_steps_and_seeds() -> None:
    first, second = masks(20000, 0.3)
    assert first.mean() == pytest.approx(0.7, abs=0.02) and second.mean() == pytest.approx(0.7, abs=0.02)
    assert (first == second).mean() == pytest.approx(0.7**2 + 0.3**2, abs=0.02)
    assert (masks(20000, 0.3)[0] == first).all()
    assert (masks(20000, 0.3, start=1)[0] != first).any()


def test_a_fixed_seed_draws_as_the_host() -> None:
    wanted = np.zeros(100, bool)
    KeptMask(np, None, 100, 0.4, 7, 1)(wanted)
    first, second = masks(100, 0.4, seed=7)
    assert (first == wanted).all() and (second == wanted).all()


def network(seed: int | None) -> Any:
    x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=4))
    h = fluid.layers.dropout(fluid.layers.fc(x, 50, act="relu", param_attr=start), 0.4, seed=seed)
    return fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(h, 3, act="softmax"), y))


def feed() -> dict[str, Any]:
    random = np.random.default_rng(2)
    return {"x": random.random((8, 6), "float32"), "y": random.integers(0, 3, (8, 1))}


def test_a_models_steps() -> None:
    """With a seed the masks, and so the losses, are the host's."""
    loss = network(seed=5)
    fluid.optimizer.SGD(0.1).minimize(loss)
    for op in fluid.default_startup_program().global_block().ops:
        if "seed" in op.attrs:
            op._set_attr("seed", 3)
    runs = run_on_both([feed()] * 4, loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-5)
    assert "by Philox" in runs.text and "CUDA kernel cross_entropy_grad2" in runs.text


def test_a_captured_step_draws_anew() -> None:
    loss = network(seed=None)
    losses = run_on_both([feed()] * 6, loss).device
    assert len(set(losses)) == 6
