"""`x[...]` and `paddle.strided_slice` of the 2.x door beside NumPy, for all starts, ends and steps."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite import backward

LIMITS = (None, -6, -4, -3, -1, 0, 1, 3, 4, 6)
STEPS = (-5, -3, -2, -1, 1, 2, 3)
FOUR = np.arange(4.0)


def run(fetches: list[Any], x: np.ndarray[Any, Any], naive: bool) -> list[Any]:
    exe = paddle.static.Executor()
    exe.naive = naive
    found: list[Any] = exe.run(feed={"x": x}, fetch_list=fetches)
    return found


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_slices_of_four_rows(step: int, naive: bool) -> None:
    """Values, declared shapes and the elements that gradients reach."""
    x = paddle.static.data("x", [4], "float64")
    x.stop_gradient = False
    cuts = [slice(*limits, step) for limits in itertools.product(LIMITS, LIMITS)]
    parts: list[Any] = [x[cut] for cut in cuts]
    weights = [np.arange(1.0, 1 + len(FOUR[cut])) for cut in cuts]
    sums = [paddle.sum(part * paddle.assign(w)) for part, w in zip(parts, weights, strict=True) if w.size]
    (gradient,) = backward.gradients([paddle.add_n(sums)], [x])
    *found, slope = run([*parts, gradient], FOUR, naive)
    expected = np.zeros(4)
    for cut, part, values, weight in zip(cuts, parts, found, weights, strict=True):
        np.testing.assert_array_equal(values, FOUR[cut], err_msg=str(cut))
        assert part.shape == values.shape, cut
        expected[cut] += weight
    np.testing.assert_allclose(slope, expected)


@pytest.mark.parametrize(
    ("start", "end", "step", "wanted"),
    [(3, -9, -2, [3, 1]), (-1, 0, -2, [3, 1]), (9, -1, -3, [3, 0]), (-2, -4, -1, [2, 1])],
)
def test_strided_slice_counts_from_its_start(start: int, end: int, step: int, wanted: list[int]) -> None:
    """Backwards an end of -1 is the place before the first, as in PaddlePaddle 1.8.5 and 2.6.2."""
    x = paddle.static.data("x", [4], "float64")
    (found,) = run([paddle.strided_slice(x, [0], [start], [end], [step])], FOUR, False)
    assert found.tolist() == wanted


def test_last_row_by_a_variable_beside_a_step() -> None:
    x = paddle.static.data("x", [2, 3], "float64")
    last = paddle.full([], -1, "int64")
    values = np.arange(6.0).reshape(2, 3)
    for found in (run([x[last, ::-2]], values, naive)[0] for naive in (True, False)):
        np.testing.assert_array_equal(found, values[-1, ::-2])
