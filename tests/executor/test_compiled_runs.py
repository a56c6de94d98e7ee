"""Compiled sums and maxima of runs of rows are NumPy's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.fast.loops.searches import Searches

layers = fluid.layers
RANDOM = np.random.default_rng(4)
SEARCHES = Searches(wait=True)


@pytest.mark.parametrize("columns", [4, 16, 33])
@pytest.mark.parametrize("lengths", [[3, 0, 1, 20], [0], [1] * 9])
def test_runs(columns: int, lengths: list[int]) -> None:
    offsets = np.cumsum([0, *lengths])
    rows = RANDOM.standard_normal((offsets[-1], columns)).astype("float32").round(1)
    rows[:1, 0] = np.nan
    rows[:2, 1] = -np.inf
    rows[1:2, 2] = np.nan
    sums, found = SEARCHES.sums_of_runs(rows, offsets), SEARCHES.maxima_of_runs(rows, offsets)
    assert sums is not None
    assert found is not None
    for run, (first, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        part = rows[first:end]
        np.testing.assert_array_equal(sums[run], part.sum(axis=0))
        if end > first:
            np.testing.assert_array_equal(found[0][run], part.max(axis=0))
            np.testing.assert_array_equal(found[1][run], first + part.argmax(axis=0))
        else:
            assert not found[0][run].any()
            assert (found[1][run] == -1).all()


def test_runs_that_are_not_compiled() -> None:
    rows = np.ones((6, 8), "float32")
    for given, offsets in ((rows, [0, 7]), (rows.astype("float64"), [0, 6]), (rows[:, :1], [0, 6])):
        assert SEARCHES.sums_of_runs(given, np.array(offsets)) is None
        assert SEARCHES.maxima_of_runs(given, np.array(offsets)) is None


@pytest.mark.parametrize("kind", ["sum", "average", "sqrt", "max"])
def test_pools_of_sequences(flags: Callable[..., None], kind: str) -> None:
    flags(fast_loops="wait")
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [-1, 2, 3], lod_level=1)
        x.stop_gradient = False
        pooled = layers.sequence_pool(x, kind, pad_value=0.5)
        (dx,) = fluid.gradients([layers.reduce_sum(layers.square(pooled))], [x])
    given = RANDOM.standard_normal((7, 2, 3)).astype("float32")
    feed = {"x": fluid.create_lod_tensor(given, [[2, 0, 4, 1]], fluid.CPUPlace())}
    exe, found = fluid.Executor(fluid.CPUPlace()), []
    for naive in (True, False):
        exe.naive = naive
        found.append(exe.run(main, feed=feed, fetch_list=[pooled, dx], return_numpy=False))
    for wanted, one in zip(*found, strict=True):
        assert one.lod() == wanted.lod()
        # `reduceat` adds in another order
        np.testing.assert_allclose(np.array(one), np.array(wanted), rtol=1e-6, atol=1e-6)
