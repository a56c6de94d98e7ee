"""The order of equal elements of `top_k` on the host."""

from __future__ import annotations

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.ops.kernels.heap_order import largest_by_heap


def test_as_recorded() -> None:
    """The result of PaddlePaddle 1.8.5 for these rows."""
    rows = np.array([[0] * 8, [1, 2] * 4, [3, 1, 2, 1, 2, 1, 0, 1]], "float32")
    x = fluid.data("x", [-1, 8], "float32")
    values, places = fluid.layers.topk(x, 3)
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(feed={"x": rows}, fetch_list=[values, places])
    assert found[1].tolist() == [[0, 1, 2], [5, 1, 3], [0, 4, 2]]
    np.testing.assert_array_equal(found[0], np.take_along_axis(rows, found[1], axis=1))


@pytest.mark.parametrize("seed", range(40))
def test_largest_of_rows(seed: int) -> None:
    """The largest elements, each of them once, in order; more than one block of them, too."""
    rng = np.random.RandomState(seed)
    row = rng.randint(0, 1 + seed, rng.randint(1, 3000)).astype("float32")
    k = rng.randint(1, min(len(row), 40) + 1)
    found = largest_by_heap(row, k)
    assert len(set(found)) == k
    np.testing.assert_array_equal(row[found], -np.sort(-row)[:k])
