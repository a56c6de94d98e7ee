"""Complex numbers, products with zeros, default dtypes: what random programs of 2.x have found wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import FluidError
from fluidlite.paddle.nn import functional as F

Z = np.array([0.3 + 0.2j, -0.5 - 0.1j, 0.7 - 0.4j])
WEIGHTS = np.array([0.5, -0.7, 0.9])
STEP = 1e-6


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield


def given(value: np.ndarray) -> Any:
    """A fed variable that has a gradient."""
    var = paddle.static.data("x", list(value.shape), str(value.dtype))
    var.stop_gradient = False
    return var


def runner(naive: bool, fetches: list[Any]) -> Callable[[np.ndarray], list[np.ndarray]]:
    """A function from what is fed to the values of `fetches`."""
    exe = paddle.static.Executor()
    exe.naive = naive
    exe.run(paddle.static.default_startup_program())

    def run(value: np.ndarray) -> list[np.ndarray]:
        found: list[np.ndarray] = exe.run(feed={"x": value}, fetch_list=fetches)
        return found

    return run


def slopes(loss: Callable[[np.ndarray], float], value: np.ndarray) -> np.ndarray:
    """Central differences by each element: of complex ones dL/dx + i dL/dy."""
    found = np.zeros_like(value)
    for at in np.ndindex(value.shape):
        for unit in (1, 1j) if value.dtype.kind == "c" else (1,):
            moved = [value.copy(), value.copy()]
            moved[0][at] += STEP * unit
            moved[1][at] -= STEP * unit
            found[at] += unit * (loss(moved[0]) - loss(moved[1])) / (2 * STEP)
    return found


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        "abs",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cos",
        "sinh",
        "tan",
        "exp",
        "expm1",
        "sgn",
        "angle",
    ],
)
def test_gradients_of_complex_numbers(function: str, naive: bool) -> None:
    x = given(Z)
    out = getattr(paddle, function)(x)
    if out.dtype in (paddle.complex64, paddle.complex128):
        out = paddle.real(out) + 2 * paddle.imag(out)
    loss = paddle.sum(out * paddle.assign(WEIGHTS))
    run = runner(naive, [loss, *paddle.static.gradients([loss], [x])])
    np.testing.assert_allclose(run(Z)[1], slopes(lambda z: float(run(z)[0]), Z), rtol=1e-5, atol=1e-7)


def test_absolute_values_of_complex_numbers_are_real() -> None:
    out = paddle.abs(given(Z))
    assert out.dtype == paddle.float64
    np.testing.assert_allclose(runner(False, [out])(Z)[0], np.abs(Z))


@pytest.mark.parametrize("function", [F.softplus, F.log_sigmoid, F.relu, F.hardswish])
def test_functions_that_compare_take_no_complex_numbers(function: Any) -> None:
    with pytest.raises((FluidError, TypeError), match="complex"):
        function(given(Z))


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("axis", [None, 0, 1, [0, 1]])
def test_gradients_of_products_with_zeros(axis: Any, naive: bool) -> None:
    value = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.5], [0.5, -1.0, 4.0]])
    x = given(value)
    out = paddle.prod(x, axis)
    loss = paddle.sum(out * 2 + out * out)
    run = runner(naive, [loss, *paddle.static.gradients([loss], [x])])
    np.testing.assert_allclose(run(value)[1], slopes(lambda one: float(run(one)[0]), value), atol=1e-6)


def test_whole_numbers() -> None:
    value = np.array([1, 3, 3], "int32")
    x = given(value)
    outs = [paddle.expm1(x), paddle.bincount(x)]
    assert [out.dtype for out in outs] == [paddle.float32, paddle.int64]
    found = runner(False, outs)(value)
    np.testing.assert_allclose(found[0], np.expm1(value), rtol=1e-6)
    np.testing.assert_array_equal(found[1], [0, 1, 0, 2])
    assert found[1].dtype == np.int64


@pytest.mark.parametrize("naive", [True, False])
def test_statistics_of_the_batch_that_are_asked_for_by_name(naive: bool) -> None:
    value = np.random.default_rng(0).normal(2, 3, (4, 2, 3)).astype("float32")
    layer = paddle.nn.BatchNorm1D(2, use_global_stats=False)
    layer.eval()
    run = runner(naive, [layer(given(value))])
    center, spread = value.mean((0, 2), keepdims=True), value.std((0, 2), keepdims=True)
    np.testing.assert_allclose(run(value)[0], (value - center) / spread, rtol=1e-3, atol=1e-3)


LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (2, 3),
    "Embedding": (3, 2),
    "Conv2D": (2, 2, 3),
    "LayerNorm": (2,),
    "GRU": (2, 2),
    "PReLU": (),
    "BatchNorm1D": (2,),
    "GroupNorm": (1, 2),
}


@pytest.mark.parametrize("kind", ["float64", "float16"])
@pytest.mark.parametrize("name", LAYERS)
def test_parameters_have_the_default_dtype(name: str, kind: str) -> None:
    paddle.set_default_dtype(kind)
    try:
        layer = getattr(paddle.nn, name)(*LAYERS[name])
    finally:
        paddle.set_default_dtype("float32")
    # statistics of batches are kept in single precision at least
    wanted = "float32" if name == "BatchNorm1D" and kind == "float16" else kind
    assert {param.dtype for param in layer.parameters()} == {getattr(paddle, wanted)}


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("function", [paddle.all, paddle.any])
def test_truths_of_numbers_are_bools(function: Any, naive: bool) -> None:
    value = np.array([[1.5, 0.0], [0.0, 0.0]])
    out = function(given(value), 1)
    assert out.dtype == paddle.bool
    found = runner(naive, [out])(value)[0]
    np.testing.assert_array_equal(found, getattr(np, function.__name__)(value != 0, 1))
    assert found.dtype == np.bool_


@pytest.mark.parametrize("function", [paddle.poisson, paddle.bernoulli])
def test_a_single_number_is_drawn(function: Any) -> None:
    (found,) = runner(False, [function(given(np.array(0.5)))])(np.array(0.5))
    assert found.shape == ()
    assert found.dtype == np.float64
