"""Target gradients of any name, of one of several outputs alone: the gradient is that of the weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle

SHAPE = [3, 4]
LAYERS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "split": lambda x: fluid.layers.split(x, 2, dim=1),
    "sections": lambda x: fluid.layers.split(x, [1, 2, 1], dim=-1),
    "unstack": lambda x: fluid.layers.unstack(x, axis=1),
    "unbind": lambda x: fluid.layers.unbind(x, axis=0),
}
LAYERS_2X: dict[str, Callable[[Any], Sequence[Any]]] = {
    "split": lambda x: paddle.split(x, 2, axis=1),
    "chunk": lambda x: paddle.chunk(x, 3, axis=0),
    "unstack": lambda x: paddle.unstack(x, axis=0),
    "unbind": lambda x: paddle.unbind(x, axis=1),
    "meshgrid": lambda x: paddle.meshgrid(x[0], x[1]),
    "broadcast_tensors": lambda x: paddle.broadcast_tensors([x, x[:1]]),
    "topk": lambda x: paddle.topk(x, 2)[:1],
    "kthvalue": lambda x: paddle.kthvalue(x, 2)[:1],
    "qr": lambda x: paddle.linalg.qr(x[:, :3]),
    "eigh": lambda x: paddle.linalg.eigh(paddle.matmul(x, x, transpose_y=True))[:1],
}
CASES = [("fluid", name) for name in LAYERS] + [("paddle", name) for name in LAYERS_2X]


def gradients_of(door: str, name: str, at: int, given: bool) -> tuple[Any, int]:
    """The gradient by x of output number `at`, whose weights are given or multiplied, and how many outputs
    there are.
    """
    paddle.enable_static()
    system = fluid if door == "fluid" else paddle.static
    main = system.Program()
    weight = np.random.RandomState(1)
    with system.program_guard(main, system.Program()):
        x = system.data("x", SHAPE, "float64")
        x.stop_gradient = False
        front = fluid.layers.sin(x) if door == "fluid" else paddle.sin(x)
        outputs = (LAYERS if door == "fluid" else LAYERS_2X)[name](front)
        y = outputs[at]
        w = system.data("any_name", list(y.shape), "float64")
        if given:
            (gradient,) = system.gradients([y], [x], [w]) or (None,)
        else:
            (gradient,) = system.gradients([y * w], [x])
    feed = {"x": np.random.RandomState(0).uniform(-1, 1, SHAPE), "any_name": weight.uniform(1, 2, y.shape)}
    assert gradient is not None
    return fluid.Executor().run(main, feed=feed, fetch_list=[gradient])[0], len(outputs)


@pytest.mark.parametrize(("door", "name"), CASES)
def test_one_output_with_a_gradient_of_any_name(door: str, name: str) -> None:
    at, count = 0, 1
    while at < count:
        expected, count = gradients_of(door, name, at, given=False)
        found, _ = gradients_of(door, name, at, given=True)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        assert np.abs(expected).max() > 0
        at += 1
