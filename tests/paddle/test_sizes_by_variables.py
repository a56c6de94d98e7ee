"""Lists of sizes and positions in which Variables give some numbers: first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle

X = np.random.RandomState(0).uniform(0.5, 1.5, (2, 1, 3))
# `n` is 2, `one` is 1, both without a dimension
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "expand": lambda x, n, one: x.expand([2, 2, n, 3][1:]),
    "expand in front": lambda x, n, one: x.expand([n, 2, 1, 3]),
    "broadcast_to": lambda x, n, one: paddle.broadcast_to(x, [n, 4, 3]),
    "tile": lambda x, n, one: paddle.tile(x, [one, n, 2]),
    "reshape": lambda x, n, one: paddle.reshape(x, [3, n]),
    "reshape rest": lambda x, n, one: paddle.reshape(x, [n, -1]),
    "slice": lambda x, n, one: paddle.slice(x, [0, 2], [0, one], [n, 3]),
    "strided_slice": lambda x, n, one: paddle.strided_slice(x, [2], [0], [3], [n]),
    "crop": lambda x, n, one: paddle.crop(x, [n, 1, 2], [0, 0, one]),
    "getitem": lambda x, n, one: x[:, 0, one:],
    "split": lambda x, n, one: paddle.split(x, [one, n], axis=2)[1],
    "unsqueeze": lambda x, n, one: paddle.unsqueeze(x, [n]),
    "squeeze": lambda x, n, one: paddle.squeeze(x, [one]),
    "interpolate": lambda x, n, one: paddle.nn.functional.interpolate(
        x.reshape([1, 1, 2, 3]), size=[4, n], mode="bilinear"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives(name: str) -> None:
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [2, 1, 3], "float64")
        x.stop_gradient = False
        n, one = paddle.full([], 2, "int32"), paddle.full([], 1, "int32")
        y = CALLS[name](x * x, n, one)
        (first,) = paddle.static.gradients([paddle.sum(y * y * y)], [x])
        total = paddle.sum(first * first)
        (second,) = paddle.static.gradients([total], [x])
    exe = paddle.static.Executor()

    def run(values: Any, fetched: Any) -> Any:
        return exe.run(main, feed={"x": values}, fetch_list=[fetched])[0]

    step, found = 1e-6, run(X, second)
    for place in np.ndindex(X.shape):
        moved = np.zeros(X.shape)
        moved[place] = step
        slope = (run(X + moved, total) - run(X - moved, total)) / (2 * step)
        np.testing.assert_allclose(found[place], slope, rtol=1e-5, atol=1e-7, err_msg=str(place))
