"""Kernels of pools beside NumPy's plan for the same windows: padded, overlapping, adaptive and empty ones."""

from __future__ import annotations

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.pools import DevicePool
from fluidlite.ops.kernels.pooling import Pooling, PoolPlan, Windows

pytestmark = pytest.mark.gpu
TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-14}


def _regular(size: int, kernel: int, stride: int, pad: int, ceil: bool = False) -> Windows:
    return Windows.regular(size, kernel, stride, (pad, pad), ceil)


WINDOWS = {
    "apart": (_regular(6, 2, 2, 0), _regular(9, 3, 3, 0)),
    "over each other": (_regular(7, 3, 2, 1), _regular(300, 3, 1, 1)),
    "beyond the edge": (_regular(6, 3, 2, 1, True), _regular(5, 2, 2, 0, True)),
    "with gaps": (_regular(8, 1, 3, 0), _regular(7, 2, 4, 1)),
    "adaptive": (Windows.adaptive(7, 3), Windows.adaptive(5, 4)),
    "whole": (Windows.adaptive(7, 1), Windows.adaptive(6, 1)),
    "in the padding": (_regular(4, 2, 1, 2), _regular(3, 1, 1, 1)),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("mode", ["max", "avg", "avg of the kernel", "avg up to the padding"])
@pytest.mark.parametrize("name", WINDOWS)
def test_as_on_the_host(name: str, mode: str, dtype: str) -> None:
    import cupy

    windows = WINDOWS[name]
    shape = (2, 3, *(each.size for each in windows))
    random = np.random.default_rng(len(name))
    # whole numbers, of which many are equal
    x = random.integers(-3, 4, shape).astype(dtype)
    x[0, 0, 1, 1] = np.nan
    # where windows reach beyond the edge, none is lower than the lowest of float32, which half has not
    x[1, 2] = -3 if dtype == "float16" else -np.inf
    pooling = (windows, mode[:3], mode == "avg")
    wide = np.dtype("float64" if dtype == "float64" else "float32")
    host = PoolPlan(np, shape, Pooling(*pooling, wide, "padding" in mode))
    device = DevicePool(cupy, shape, Pooling(*pooling, np.dtype(dtype), "padding" in mode))
    d = random.normal(0, 1, host.out_shape).astype(dtype)
    pooled, gradient = np.empty(host.out_shape, wide), np.empty(shape, wide)
    with np.errstate(all="ignore"):
        host.forward(x.astype(wide), pooled)
        host.backward(x.astype(wide), pooled, d.astype(wide), gradient)
        pooled = pooled.astype(dtype)
    found, slopes = (cupy.asarray(np.full(part, 7, dtype)) for part in (pooled.shape, shape))
    device.forward(cupy.asarray(x), found)
    device.backward(cupy.asarray(x), found, cupy.asarray(d), slopes)
    np.testing.assert_allclose(found.get(), pooled, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    np.testing.assert_allclose(slopes.get(), gradient, rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype])


def test_no_images() -> None:
    import cupy

    windows = WINDOWS["apart"]
    pool = DevicePool(cupy, (0, 3, 6, 9), Pooling(windows, "max", True, np.dtype("float32")))
    pool.forward(cupy.zeros((0, 3, 6, 9), "float32"), cupy.zeros((0, 3, 3, 3), "float32"))


def test_a_networks_steps() -> None:
    x = fluid.data("x", [None, 3, 9, 7], "float32")
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=3))
    h = fluid.layers.conv2d(x, 4, 3, padding=1, param_attr=start, act="relu")
    h = fluid.layers.pool2d(h, 3, "max", 2, 1)
    h = fluid.layers.pool2d(h, pool_type="avg", global_pooling=True)
    loss = fluid.layers.mean(fluid.layers.fc(h, 2, param_attr=start))
    fluid.optimizer.SGD(0.1).minimize(loss)
    feed = {"x": np.random.default_rng(1).random((5, 3, 9, 7), "float32")}
    runs = run_on_both([feed] * 4, loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-5)
    assert "CUDA kernels pool_max*" in runs.text and "CUDA kernels pool_mean*" in runs.text
