"""Repetition on a device: steps with it are captured, and their gradients are those of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite import paddle

pytestmark = pytest.mark.gpu
layers = fluid.layers

REPEATED: dict[str, Callable[[Any], Any]] = {
    "expand along one dimension": lambda x: layers.expand(x, [1, 5, 1]),
    "expand along all": lambda x: layers.expand(x, [2, 3, 4]),
    "expand to itself": lambda x: layers.expand(x, [1, 1, 1]),
    "expand_as": lambda x: layers.expand_as(x, layers.concat([x, x, x], 2)),
    "tile to more dimensions": lambda x: paddle.tile(x, [2, 1, 3, 1]),
    "expand_v2": lambda x: paddle.expand(layers.reduce_sum(x, 1, keep_dim=True), [4, -1, 6, 3]),
}


@pytest.mark.parametrize("name", REPEATED)
def test_steps(name: str) -> None:
    x = fluid.data("x", [None, 2, 3])
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-1, 1, seed=4))
    h = layers.fc(x, 3, num_flatten_dims=2, param_attr=start)
    loss = layers.mean(layers.square(REPEATED[name](h) + 1.0))
    fluid.optimizer.SGD(0.1).minimize(loss)
    random = np.random.default_rng(2)
    runs = run_on_both([{"x": random.random((5, 2, 3), "float32")} for _ in range(4)], loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-5)
