"""Row-sparse gradients on a device: each optimizer's step is captured, with tables that several lookups
share, paddings and words that stand everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.tables import DeviceRowSums

pytestmark = pytest.mark.gpu

OPTIMIZERS = {
    "sgd": lambda: fluid.optimizer.SGD(0.3),
    "momentum": lambda: fluid.optimizer.Momentum(0.3, 0.9),
    "adagrad": lambda: fluid.optimizer.Adagrad(0.3),
    "adam": lambda: fluid.optimizer.Adam(0.1),
    "lazy adam": lambda: fluid.optimizer.Adam(0.1, lazy_mode=True),
    "rmsprop": lambda: fluid.optimizer.RMSProp(0.1),
    "ftrl": lambda: fluid.optimizer.Ftrl(0.1),
    "sgd with decay": lambda: fluid.optimizer.SGD(0.3, regularization=fluid.regularizer.L2Decay(0.1)),
}
# what other ops read is no part of a graph, and right nevertheless
NOT_CAPTURED = {"sgd with decay"}


def network(lookups: int, paddings: list[int | None], columns: int = 5) -> Any:
    """Words, each by a lookup of its own in one table, into classes."""
    start = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=4))
    words = [
        fluid.layers.embedding(
            fluid.data(f"w{index}", [None, 1], "int64"),
            (300, columns),
            is_sparse=True,
            padding_idx=paddings[index % len(paddings)],
            param_attr=start,
        )
        for index in range(lookups)
    ]
    to_class = fluid.ParamAttr(name="weight", initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=5))
    logits = fluid.layers.fc(fluid.layers.concat(words, 1), 3, param_attr=to_class)
    y = fluid.data("y", [None, 1], "int64")
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, y))


def feeds(lookups: int, rows: int = 70) -> list[dict[str, Any]]:
    random = np.random.default_rng(2)
    found = []
    for _ in range(4):
        words = {f"w{index}": random.integers(0, 300, (rows, 1)) for index in range(lookups)}
        for ids in words.values():
            ids[: rows // 2] = 7
        found.append({**words, "y": random.integers(0, 3, (rows, 1))})
    return found


@pytest.mark.parametrize("lookups", [1, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name: str, lookups: int) -> None:
    loss = network(lookups, [None, 7, -2])
    OPTIMIZERS[name]().minimize(loss)
    runs = run_on_both(feeds(lookups), loss, captured=name not in NOT_CAPTURED)
    assert runs.host == pytest.approx(runs.device, rel=1e-4)


def test_what_others_read() -> None:
    """A gradient that is fetched is there, and the update may use its rows."""
    loss = network(2, [None])
    fluid.optimizer.SGD(0.3).minimize(loss)
    (feed, *_) = feeds(2)
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe, scope = fluid.Executor(place), fluid.Scope()
        exe.run(fluid.default_startup_program(), scope=scope)
        (rows,) = exe.run(feed=feed, fetch_list=["table@GRAD"], scope=scope, return_numpy=False)
        tensor = rows.get_tensor() if hasattr(rows, "get_tensor") else rows
        table = np.array(scope.find_var("table").get_tensor())
        found.append((np.array(tensor), table))
    for host, device in zip(*found, strict=True):
        np.testing.assert_allclose(device, host, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_by_place(dtype: str) -> None:
    import cupy

    random = np.random.default_rng(0)
    counts, paddings, height = (150, 0, 90), (3, -1, -1), 40
    ids = [random.integers(-2, height + 2, count) for count in counts]
    rows = [random.random((count, 3)).astype(dtype) for count in counts]
    wanted: dict[int, Any] = {}
    for each, padding, part in zip(ids, paddings, rows, strict=True):
        for row, gradient in zip(each, part, strict=True):
            if 0 <= row < height and row != padding:
                wanted[int(row)] = wanted.get(int(row), 0) + gradient
    heads = cupy.full(240, -5, "int64")
    found = cupy.full((240, 3), np.nan, dtype)
    run = DeviceRowSums(cupy, counts, paddings, 3, height, dtype, True)
    run(*map(cupy.asarray, ids), *map(cupy.asarray, rows), heads, found)
    made = {
        row: values for row, values in zip(heads.get().tolist(), found.get(), strict=True) if row != height
    }
    assert made.keys() == wanted.keys()
    for row, values in made.items():
        np.testing.assert_allclose(values, wanted[row], rtol=1e-5)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_auc(steps: int) -> None:
    """The area of four batches, of which the last `steps` count."""
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1], "int64")
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-1, 1, seed=4))
    scores = fluid.layers.softmax(fluid.layers.fc(x, 2, param_attr=start))
    total, batch, _ = fluid.layers.auc(scores, y, num_thresholds=300, slide_steps=steps)
    random = np.random.default_rng(2)
    given = [{"x": random.random((70, 4), "float32"), "y": random.integers(0, 2, (70, 1))} for _ in range(5)]
    for area in (total, batch):
        # without steps the states of 1.8.5's layer are one bin shorter from the second run on
        runs = run_on_both(given, area, captured=steps > 0)
        assert runs.host == pytest.approx(runs.device, abs=1e-12)
    assert "CUDA kernels auc_*, 70 scores in 301 bins" in runs.text


def test_a_rate_of_warming_up() -> None:
    """Ops of one number, and arrays that a program holds, are part of the graph."""
    x = fluid.data("x", [None, 4])
    mask = fluid.layers.assign(np.array([1, 0, 1, 0], "float32"))
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-1, 1, seed=4))
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x * mask, 3, param_attr=start)))
    fluid.optimizer.SGD(fluid.layers.noam_decay(16, 3)).minimize(loss)
    random = np.random.default_rng(2)
    runs = run_on_both([{"x": random.random((5, 4), "float32")} for _ in range(5)], loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-5)
