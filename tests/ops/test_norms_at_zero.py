"""Norms of zeros and beside zeros, of all orders, in both doors: gradients and derivatives of these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
import fluidlite.paddle.nn.functional as F

ORDERS = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0]
NORMS: dict[str, Callable[[Any, Any, float], Any]] = {
    "fluid.dist": lambda x, y, p: fluid.layers.dist(x, y, p),
    "dist": lambda x, y, p: paddle.dist(x, y, p),
    "norm": lambda x, y, p: paddle.norm(x, p),
    "norm of rows": lambda x, y, p: paddle.norm(x, p, axis=1),
    "cdist": lambda x, y, p: paddle.cdist(x, y, p),
    "pairwise_distance": lambda x, y, p: F.pairwise_distance(x, y, p, 0.0),
    "renorm": lambda x, y, p: paddle.renorm(x, p, 0, 0.7),
}


def derivatives(build: Callable[[Any, Any], Any], value: list[list[float]]) -> list[np.ndarray]:
    """The gradient by x of the sum of what `build` gives, and that of the sum of the gradient."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x, y = (fluid.data(name, [2, 2], "float64") for name in ("x", "y"))
        x.stop_gradient = False
        (first,) = fluid.gradients([build(x, y)], [x])
        (second,) = fluid.gradients([first], [x])
    feed = {"x": np.array(value), "y": np.zeros((2, 2))}
    found: list[np.ndarray] = fluid.Executor().run(main, feed=feed, fetch_list=[first, second])
    return found


@pytest.mark.parametrize("order", [*ORDERS, math.inf])
@pytest.mark.parametrize("name", NORMS)
def test_zeros_have_no_slope_that_varies(name: str, order: float) -> None:
    first, second = derivatives(lambda x, y: NORMS[name](x, y, order), [[0.0, 0.0], [0.0, 0.0]])
    assert first.tolist() == np.full((2, 2), float(name == "renorm")).tolist()
    assert not second.any()


def test_zeros_by_frobenius() -> None:
    for axis in (None, [0, 1]):
        found = derivatives(lambda x, y, axis=axis: paddle.norm(x, "fro", axis=axis), [[0.0, 0.0]] * 2)
        assert not np.any(found)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", NORMS)
def test_one_zero_beside_others(name: str, order: float) -> None:
    """Also at the zero itself, where the power is smooth; elsewhere a number, not nan."""

    def norm(x: Any, y: Any) -> Any:
        return NORMS[name](x, y, order)

    value = [[0.0, 3.0], [-1.0, 2.0]]
    first, second = derivatives(norm, value)
    if order < 2:
        # the power has a corner at 0, beside which a difference tells nothing
        assert np.isfinite(first).all() and np.isfinite(second).all()
        return
    step = 1e-5
    central = np.zeros((2, 2))
    for at in np.ndindex(2, 2):
        moved = [np.array(value) for _ in range(2)]
        moved[0][at] += step
        moved[1][at] -= step
        ends = [derivatives(norm, one.tolist())[0].sum() for one in moved]
        central[at] = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(second, central, rtol=1e-5, atol=1e-5)


def test_renorm_by_the_largest() -> None:
    """2.6.2 takes the power of infinity for a norm of 1."""
    x = paddle.static.data("x", [2, 2], "float64")
    out = paddle.renorm(x, math.inf, 0, 0.7)
    feed = {"x": np.array([[0.0, 3.5], [0.1, -0.2]])}
    (found,) = fluid.Executor().run(feed=feed, fetch_list=[out])
    np.testing.assert_allclose(found, [[0, 0.7], [0.1, -0.2]], rtol=1e-6)
    with pytest.raises(fluid.core.EnforceNotMet, match="p must be above 0, but is 0"):
        paddle.renorm(x, 0.0, 0, 0.7)
