"""Gradients of ops that read one variable in three slots: the sum of three parts, by central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle

X = np.array([[0.3, 0.7], [-0.4, 1.1]])
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "lerp": lambda x: paddle.lerp(x, x, x),
    "addmm": lambda x: paddle.addmm(x, x, x),
    "einsum": lambda x: paddle.einsum("ij,jk,kl->il", x, x, x),
    "multi_dot": lambda x: paddle.linalg.multi_dot([x, x, x]),
    "concat": lambda x: paddle.concat([x, x, x]) ** 2,
    "add_n": lambda x: paddle.add_n([x, x, x]),
    "where": lambda x: paddle.where(x > 0, x, x),
    "weights of a product": lambda x: gradients(x * x, x, x),
    "weights of a matrix product": lambda x: gradients(paddle.matmul(x, x), x, x),
    "weights of weights": lambda x: gradients(gradients(x * x, x, x), x, x),
}


def gradients(y: Any, x: Any, weights: Any) -> Any:
    """The gradient by x of y, weighted."""
    return paddle.static.gradients([y], [x], target_gradients=[weights])[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_three_parts(name: str) -> None:
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", X.shape, "float64")
        x.stop_gradient = False
        out = paddle.sum(paddle.sin(FUNCTIONS[name](x)))
        (gradient,) = paddle.static.gradients([out], [x])
    exe = paddle.static.Executor()

    def value(at: np.ndarray) -> float:
        return float(exe.run(main, feed={"x": at}, fetch_list=[out])[0])

    (found,) = exe.run(main, feed={"x": X}, fetch_list=[gradient])
    step = 1e-6
    for place in np.ndindex(*X.shape):
        moved = np.zeros(X.shape)
        moved[place] = step
        slope = (value(X + moved) - value(X - moved)) / (2 * step)
        np.testing.assert_allclose(found[place], slope, rtol=1e-6, atol=1e-8)
