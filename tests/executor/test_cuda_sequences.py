"""Recurrences over sequences whose lengths a program states: their portable kernels are part of a graph, and
leave what the host leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.contrib import mixed_precision

pytestmark = pytest.mark.gpu
layers = fluid.layers
BATCH, STEPS, WIDE, SIZE = 3, 4, 5, 6


def start(seed: int) -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=seed))


def recurrence(x: Any, seed: int, offsets: list[int], reverse: bool = False) -> Any:
    """An LSTM over rows that lie sequence by sequence."""
    rows = layers.reshape(x, [-1, x.shape[-1]])
    gates = layers.fc(rows, 4 * SIZE, param_attr=start(seed), bias_attr=False)
    hidden, _ = layers.dynamic_lstm(
        layers.lod_reset(gates, target_lod=offsets),
        4 * SIZE,
        use_peepholes=False,
        is_reverse=reverse,
        param_attr=start(seed + 1),
        bias_attr=start(seed + 2),
    )
    return layers.reshape(hidden, [-1, STEPS, SIZE])


def feeds(count: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(1)
    return [
        {
            "x": random.normal(size=(BATCH, STEPS, WIDE)).astype("float32"),
            "y": random.integers(0, 3, (BATCH, 1)),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("offsets", [[0, 4, 8, 12], [0, 1, 7, 12]], ids=str)
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_stacked(precision: str, offsets: list[int]) -> None:
    """Classes from the largest states of two layers, one of them backwards."""
    x, y = fluid.data("x", [None, STEPS, WIDE]), fluid.data("y", [None, 1], "int64")
    h = recurrence(recurrence(x, 1, offsets), 4, offsets, reverse=True)
    scores = layers.fc(layers.reduce_max(h, 1), 3, param_attr=start(7))
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, y))
    optimizer = fluid.optimizer.Adam(0.05)
    if precision == "mixed":
        optimizer = mixed_precision.decorate(optimizer, init_loss_scaling=8.0)
    optimizer.minimize(loss)
    runs = run_on_both(feeds(6), loss, kernels=True)
    assert runs.device == pytest.approx(runs.host, rel=1e-3 if precision == "float32" else 2e-2)


def test_both_directions() -> None:
    x = fluid.data("x", [None, STEPS, WIDE])
    offsets = [0, 4, 8, 12]
    h = recurrence(x, 1, offsets) + recurrence(x, 4, offsets, reverse=True)
    loss = layers.mean(layers.square(layers.fc(h, 2, num_flatten_dims=2, param_attr=start(7))))
    fluid.optimizer.SGD(0.5).minimize(loss)
    runs = run_on_both([{"x": feed["x"]} for feed in feeds(5)], loss, kernels=True)
    assert runs.device == pytest.approx(runs.host, rel=1e-3)


def test_lengths_that_are_fed_keep_a_step_from_a_graph() -> None:
    x = fluid.layers.data("x", [4 * SIZE], lod_level=1)
    hidden, _ = layers.dynamic_lstm(x, 4 * SIZE, use_peepholes=False, param_attr=start(1), bias_attr=start(2))
    loss = layers.mean(layers.square(hidden))
    fluid.optimizer.SGD(0.5).minimize(loss)
    random = np.random.default_rng(1)
    batches = []
    for lengths in ([3, 1, 2], [1, 3, 2], [2, 2, 2], [3, 1, 2]):
        rows = random.normal(size=(6, 4 * SIZE)).astype("float32")
        batches.append({"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())})
    runs = run_on_both(batches, loss, captured=False)
    assert runs.device == pytest.approx(runs.host, rel=1e-3)
    assert "no graph: portable kernels (lstm" in runs.text


def test_a_plan_for_all_shapes_is_no_graph() -> None:
    """After many shapes all further ones have one plan: a graph of it would keep to the first of them."""
    x = fluid.data("x", [None, WIDE])
    out = layers.reduce_max(layers.fc(x, 3, param_attr=start(1), bias_attr=start(2)), 1)
    exe = fluid.Executor(fluid.CUDAPlace(0))
    exe.run(fluid.default_startup_program())
    weight, bias = (
        np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("fc_0.w_0", "fc_0.b_0")
    )
    for rows in [*range(1, 20), 19, 19, 19, 18, 1]:
        batch = np.random.default_rng(rows).normal(size=(rows, WIDE)).astype("float32")
        (found,) = exe.run(feed={"x": batch}, fetch_list=[out])
        np.testing.assert_allclose(found, (batch @ weight + bias).max(axis=1), rtol=1e-5)


@pytest.mark.parametrize("size", [SIZE, 600])
def test_units_beyond_the_kernels_are_no_graph(size: int) -> None:
    x = fluid.data("x", [4, 4 * size])
    rows = layers.lod_reset(x, target_lod=[0, 3, 4])
    hidden, _ = layers.dynamic_lstm(rows, 4 * size, use_peepholes=False)
    total = layers.mean(hidden)
    exe = fluid.Executor(fluid.CUDAPlace(0))
    exe.run(fluid.default_startup_program())
    text = exe.explain(feed={"x": np.ones((4, 4 * size), "float32")}, fetch_list=[total], full=True)
    assert ("no graph" in text) == (size > 512)


ALONE = {
    "relu": layers.relu,
    "tanh": layers.tanh,
    "sigmoid": layers.sigmoid,
    "scale": lambda x: layers.scale(x, 2.0, 0.5),
    "softmax": layers.softmax,
    "sum": lambda x: layers.sums([x, layers.relu(x)]),
    "elementwise_sub": lambda x: layers.elementwise_sub(x, layers.relu(x)),
    "elementwise_mul": lambda x: layers.elementwise_mul(x, layers.relu(x)),
    "flatten2": lambda x: layers.flatten(x),
    "reduce_max": lambda x: layers.reduce_max(x, 1),
    "reduce_mean": lambda x: layers.reduce_mean(x, 1),
    "reduce_sum": lambda x: layers.reduce_sum(x, 1),
}


@pytest.mark.parametrize("name", ALONE)
def test_ops_behind_stated_lengths(name: str) -> None:
    x = fluid.data("x", [12, WIDE])
    rows = layers.fc(x, 3 * SIZE, param_attr=start(1), bias_attr=start(2))
    found = ALONE[name](layers.lod_reset(rows, target_lod=[0, 2, 7, 12]))
    loss = layers.mean(layers.square(found))
    fluid.optimizer.SGD(0.5).minimize(loss)
    random = np.random.default_rng(1)
    batches = [{"x": random.normal(size=(12, WIDE)).astype("float32")} for _ in range(4)]
    runs = run_on_both(batches, loss, kernels=True)
    assert runs.device == pytest.approx(runs.host, rel=1e-3)
