"""Windows of different sizes, and windows of all elements, in plans and in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.ops.kernels.pooling import Pooling, PoolPlan, Windows


def pooled(x: np.ndarray, **options: Any) -> list[np.ndarray]:
    """The pool of x and its gradient by the interpreter, after the plan's were held to them."""
    data = fluid.data("x", list(x.shape), str(x.dtype))
    data.stop_gradient = False
    adaptive = "count" in options
    layer = fluid.layers.adaptive_pool2d if adaptive else fluid.layers.pool2d
    y = layer(data, options.pop("count"), **options) if adaptive else layer(data, **options)
    (grad,) = fluid.gradients(fluid.layers.reduce_sum(y * y), data)
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(feed={"x": x}, fetch_list=[y, grad])
    exe.naive = True
    wanted = exe.run(feed={"x": x}, fetch_list=[y, grad])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return wanted


def means(x: np.ndarray, count: int) -> np.ndarray:
    out = np.empty((*x.shape[:2], count, count), x.dtype)
    sizes = x.shape[2:]
    for i, j in np.ndindex(count, count):
        (top, left), (bottom, right) = (
            [place * size // count for place, size in zip((i, j), sizes, strict=True)],
            [-(-(place + 1) * size // count) for place, size in zip((i, j), sizes, strict=True)],
        )
        out[:, :, i, j] = x[:, :, top:bottom, left:right].mean((2, 3))
    return out


@pytest.mark.parametrize("count", [1, 3, 5])
def test_adaptive_means(count: int) -> None:
    x = np.random.RandomState(0).randn(2, 3, 7, 11).astype("float32")
    y, grad = pooled(x, count=count, pool_type="avg")
    np.testing.assert_allclose(y, means(x, count), rtol=1e-5, atol=1e-6)
    # a sum of squares: the gradient times x is twice its value
    np.testing.assert_allclose((grad * x).sum(), 2 * (y * y).sum(), rtol=1e-4)


def test_an_infinity_reaches_its_own_windows_alone() -> None:
    x = np.ones((1, 1, 7, 7), "float32")
    x[0, 0, 1, 1] = np.inf
    y, _ = pooled(x, count=3, pool_type="avg")
    assert np.isinf(y[0, 0, 0, 0])
    assert np.isfinite(y).sum() == 8


def test_the_first_of_the_largest_gets_the_gradient() -> None:
    x = np.zeros((1, 3, 4, 5), "float32")
    x[0, 0, 2, 3] = x[0, 0, 2, 4] = 2
    x[0, 2, 1, 1] = np.nan
    y, grad = pooled(x, pool_type="max", global_pooling=True)
    wanted = np.zeros_like(x)
    wanted[0, 0, 2, 3] = 4
    np.testing.assert_array_equal(grad, wanted)
    assert np.isnan(y[0, 2, 0, 0])


@pytest.mark.parametrize(("size", "beyond"), [(4, 0.0), (5, np.nan)])
def test_means_of_windows_behind_the_image(size: int, beyond: float) -> None:
    """The last window begins behind the image, with a gap or without."""
    x = np.ones((1, 1, size, size), "float32")
    with np.errstate(invalid="ignore"):
        y, _ = pooled(x, pool_size=2, pool_type="avg", pool_stride=3, pool_padding=1, ceil_mode=True)
    whole = np.array([1, 1, beyond], "float32")
    np.testing.assert_array_equal(y[0, 0], whole * whole[:, None])


@pytest.mark.parametrize("special", [0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("spatial", [(5, 4), (3, 2, 6), (1, 1)], ids=str)
def test_largest_of_whole_images_by_rows_or_by_dimensions(spatial: tuple[int, ...], special: float) -> None:
    windows = [Windows.regular(size, size, 1, (0, 0), False) for size in spatial]
    random = np.random.RandomState(0)
    # few different values, so that images have several largest elements
    x = random.randint(0, 3, (4, 3, *spatial)).astype("float32")
    x[0, 0, ..., -1] = special
    d = random.standard_normal((4, 3, *(1 for _ in spatial))).astype("float32")
    results = []
    # a view with gaps is pooled dimension by dimension
    for given in (x, np.repeat(x, 2, axis=0)[::2]):
        plan = PoolPlan(np, x.shape, Pooling(windows, "max", True, x.dtype))
        out, dx = np.empty_like(d), np.full_like(x, np.nan)
        plan.forward(given, out)
        plan.backward(given, out, d, dx, True)
        results.append((out, dx))
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_array_equal(found, wanted)
