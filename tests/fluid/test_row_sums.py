"""Rows added to rows of a table, in place."""

from __future__ import annotations

import numpy as np
import pytest

from fluidlite.values.row_sums import add_rows


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("count", "width"), [(0, 4), (1, 1), (7, 3), (5000, 10)])
@pytest.mark.parametrize("factor", [1.0, -0.25])
def test_each_row_once_for_each_time(dtype: str, count: int, width: int, factor: float) -> None:
    random = np.random.RandomState(0)
    table = random.randn(6, width).astype(dtype)
    ids, rows = random.randint(0, 6, count), (random.randn(count, width) / 64).astype(dtype)
    wanted = table.astype("float64")
    np.add.at(wanted, ids, factor * rows.astype("float64"))
    add_rows(np, table, ids, rows, factor)
    rounding = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(table, wanted, rtol=rounding, atol=rounding)


def test_values_that_lie_apart() -> None:
    """A table and rows that are no whole arrays, ids of 32 bits, and values of more dimensions."""
    table, rows = np.zeros((4, 6), "float32"), np.ones((3, 12), "float32")
    add_rows(np, table[:, ::2], np.array([1, 3, 1], "int32"), rows[:, ::4])
    assert table.sum(axis=1).tolist() == [0, 6, 0, 3] and not table[:, 1::2].any()
    cubes = np.zeros((2, 2, 2))
    add_rows(np, cubes, np.array([1, 1]), np.ones((2, 2, 2)))
    assert (cubes[1] == 2).all() and not cubes[0].any()


@pytest.mark.parametrize("wrong", [-1, 4, 1 << 40])
def test_ids_outside(wrong: int) -> None:
    table = np.zeros((4, 2), "float32")
    with pytest.raises(IndexError, match=f"row {wrong} is outside of a table of 4 rows"):
        add_rows(np, table, np.array([0, wrong]), np.ones((2, 2), "float32"))
    assert not table.any()
