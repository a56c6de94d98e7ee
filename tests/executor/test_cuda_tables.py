"""Rows of tables and their gradients on a device: few and many ids, words that stand everywhere, tables whose
numbers have one byte and more.
"""

from __future__ import annotations

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.rows import DeviceRows
from fluidlite.executor.cuda.tables import DeviceRowSums

pytestmark = pytest.mark.gpu

# ids, columns, rows of the table, padding
CASES = [
    (5, 3, 4, -1),
    (1, 1, 1, -1),
    (0, 3, 4, -1),
    (300, 10, 7, 2),
    (3000, 5, 300, -1),
    (1100, 2, 70000, 9),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradient(case: tuple[int, int, int, int], dtype: str) -> None:
    import cupy

    count, columns, height, padding = case
    random = np.random.default_rng(count)
    ids = random.integers(0, height, count)
    ids[::2] = ids[:1]  # one of them stands everywhere
    d = random.normal(size=(count, columns)).astype(dtype)
    wanted = np.zeros((height, columns))
    np.add.at(wanted, ids, d)
    if padding >= 0:
        wanted[padding] = 0
    gradient = DeviceRowSums(cupy, (count,), (padding,), columns, height, dtype)
    first, second = (cupy.asarray(np.full(wanted.shape, 7, dtype)) for _ in range(2))
    gradient(cupy.asarray(ids), cupy.asarray(d), first)
    gradient(cupy.asarray(ids), cupy.asarray(d), second)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(first.get(), wanted, rtol=tolerance, atol=tolerance)
    assert (first.get() == second.get()).all()


def test_what_is_no_row() -> None:
    import cupy

    ids = cupy.asarray(np.array([1, -1, 3, 1, 1 << 40, 257]))
    d = cupy.ones((6, 2), "float32")
    out = cupy.zeros((3, 2), "float32")
    DeviceRowSums(cupy, (6,), (-1,), 2, 3, "float32")(ids, d, out)
    assert out.get().tolist() == [[0, 0], [2, 2], [0, 0]]
    found = cupy.zeros((6, 2), "float32")
    table = cupy.asarray(np.arange(6, dtype="float32").reshape(3, 2))
    DeviceRows(cupy, "lookup", 6, 2, "float32", [3, 1])(table, ids, found)
    assert np.isnan(found.get()[[1, 2, 4, 5]]).all() and not found.get()[[0, 3]].any()


@pytest.mark.parametrize("padding", [None, -2])
def test_a_models_steps(padding: int | None) -> None:
    """Words into classes."""
    ids, y = fluid.data("ids", [None, 3], "int64"), fluid.data("y", [None, 1], "int64")
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=4))
    words = fluid.embedding(ids, [9, 4], padding_idx=padding, param_attr=start)
    logits = fluid.layers.fc(words, 3, param_attr=start)
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, y))
    fluid.optimizer.Adam(0.05).minimize(loss)
    random = np.random.default_rng(2)
    feeds = [{"ids": random.integers(0, 9, (6, 3)), "y": random.integers(0, 3, (6, 1))} for _ in range(4)]
    runs = run_on_both(feeds, loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-5)
    assert "18 places sorted in 1 passes" in runs.text and "CUDA kernel lookup" in runs.text
