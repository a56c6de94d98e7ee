"""Derivatives of derivatives in programs of 2.x, and training by them: no op on the way is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.paddle import static
from fluidlite.paddle.nn import functional as F

ACTIVATIONS = {
    "tanh": F.tanh,
    "sigmoid": F.sigmoid,
    "sin": paddle.sin,
    "cos": paddle.cos,
    "square": paddle.square,
}


@pytest.fixture(autouse=True)
def _program() -> Any:
    with static.program_guard(static.Program(), static.Program()):
        yield


def fed(name: str, shape: list[int | None]) -> Any:
    """A variable of float64 that has a gradient."""
    var = static.data(name, shape, "float64")
    var.stop_gradient = False
    return var


@pytest.mark.parametrize(
    ("function", "derivatives"),
    [
        (F.tanh, lambda x: (1 - np.tanh(x) ** 2) * (6 * np.tanh(x) ** 2 - 2)),
        (paddle.sin, lambda x: -np.cos(x)),
        (paddle.cos, np.sin),
        (paddle.log, lambda x: 2 / x**3),
        (lambda x: x * x * x, lambda x: np.full_like(x, 6.0)),
        (lambda x: paddle.square(paddle.square(x)), lambda x: 24 * x),
        (lambda x: paddle.concat([x, x * x * x])[2:], lambda x: np.full_like(x, 6.0)),
        (lambda x: (x * x * x).transpose([1, 0]), lambda x: np.full_like(x, 6.0)),
        (lambda x: paddle.unsqueeze(x * x * x, 0), lambda x: np.full_like(x, 6.0)),
        (lambda x: paddle.tile(x * x * x, [2, 1]), lambda x: np.full_like(x, 12.0)),
        (lambda x: paddle.expand(x * x * x, [3, 2, 2]), lambda x: np.full_like(x, 18.0)),
    ],
)
def test_third_derivative(function: Callable[[Any], Any], derivatives: Callable[[Any], Any]) -> None:
    points = np.array([[0.3, 0.9], [0.5, 0.7]])
    x = fed("x", [2, 2])
    found = function(x)
    for _ in range(3):
        found = static.gradients([found], [x])[0]
    assert (found.shape, found.dtype) == ((2, 2), paddle.float64)
    (value,) = static.Executor().run(feed={"x": points}, fetch_list=[found])
    np.testing.assert_allclose(value, derivatives(points), rtol=1e-9)


@pytest.mark.parametrize(
    "function",
    [paddle.i0, paddle.i1, paddle.erf, paddle.sinh, paddle.asinh, paddle.atan, F.gelu, F.mish, F.log_sigmoid],
)
def test_derivatives_at_zero(function: Callable[[Any], Any]) -> None:
    """Those of the second and third order at 0 lie between those on both sides of it."""
    x = fed("x", [5])
    found = [function(x)]
    for _order in range(3):
        found += paddle.static.gradients([found[-1]], [x])
    points = np.array([-1e-4, 0, 1e-4, 1e-40, -1e-300])
    for values in static.Executor().run(feed={"x": points}, fetch_list=found[2:]):
        np.testing.assert_allclose(values, (values[0] + values[2]) / 2, atol=1e-3)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_weights_of_a_second_derivative(name: str) -> None:
    """Their gradient is that of differences, with a product behind the activation and a sum in it."""
    activation = ACTIVATIONS[name]
    x, w = fed("x", [3, 2]), fed("w", [2, 2])
    u = paddle.matmul(activation(paddle.matmul(x, w) + w[0]), w, transpose_y=True) - w[1]
    first = static.gradients([u], [x])[0][:, 0:1]
    second = static.gradients([first], [x])[0][:, 0:1]
    loss = paddle.mean((second + paddle.sum(u * u, axis=1, keepdim=True)) * second)
    gradient = static.gradients([loss], [w])[0]
    exe, rng = static.Executor(), np.random.RandomState(0)
    feed = {"x": rng.uniform(-1, 1, (3, 2)), "w": rng.uniform(-1, 1, (2, 2))}
    (found,) = exe.run(feed=feed, fetch_list=[gradient])
    wanted = np.zeros((2, 2))
    for place in np.ndindex(2, 2):
        sides = []
        for step in (1e-5, -1e-5):
            moved = feed["w"].copy()
            moved[place] += step
            sides.append(float(exe.run(feed=feed | {"w": moved}, fetch_list=[loss])[0]))
        wanted[place] = (sides[0] - sides[1]) / 2e-5
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def test_training_by_an_equation() -> None:
    """u_t + u u_x = 0.1 u_xx by a network of two layers: the losses of 2.6.2."""
    x = static.data("x", [None, 2])
    x.stop_gradient = False
    u = x
    for layer in range(2):
        values = np.random.RandomState(layer).uniform(-0.7, 0.7, (u.shape[-1], 8)).astype("float32")
        shift = np.random.RandomState(9 + layer).uniform(-0.7, 0.7, (8,)).astype("float32")
        make = paddle.nn.initializer.Assign
        w = static.create_parameter([u.shape[-1], 8], "float32", default_initializer=make(values))
        b = static.create_parameter([8], "float32", default_initializer=make(shift))
        u = F.tanh(paddle.matmul(u, w) + b)
    out = static.create_parameter([8, 1], "float32", default_initializer=paddle.nn.initializer.Constant(0.3))
    u = paddle.matmul(u, out)
    slope = static.gradients([u], [x])[0]
    along, in_time = slope[:, 0:1], slope[:, 1:2]
    bend = static.gradients([along], [x])[0][:, 0:1]
    loss = paddle.mean((in_time - 0.1 * bend + u * along) ** 2)
    paddle.optimizer.SGD(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(static.default_startup_program())
    found = [
        float(exe.run(feed={"x": points.astype("float32")}, fetch_list=[loss])[0])
        for points in (np.random.RandomState(step).uniform(-1, 1, (5, 2)) for step in range(4))
    ]
    np.testing.assert_allclose(found, [0.04857028, 0.02202862, 0.02206487, 0.00700147], rtol=1e-4)


def test_outputs_that_nobody_reads() -> None:
    x = fed("x", [2, 4])
    first = paddle.split(x, 2, axis=1)[0]
    (value,) = static.Executor().run(
        feed={"x": np.ones((2, 4))}, fetch_list=static.gradients([first * first], [x])
    )
    np.testing.assert_array_equal(value, [[2, 2, 0, 0]] * 2)
