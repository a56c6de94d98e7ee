"""Kernels of batch_norm beside NumPy in double precision: channels second and last, few and many elements,
odd sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.channels import DeviceBatchNorm

pytestmark = pytest.mark.gpu

# sizes as (outer, channels, inner) tell them
SIZES = [(2, 3, 5), (1, 1, 700), (9, 33, 49), (40, 3, 300), (7, 5, 1), (700, 40, 1), (2, 1, 1)]
CASES = [(*sizes, dtype) for sizes in SIZES for dtype in ("float32", "float64")]
EPSILON = 1e-3


class Images:
    """Random images, what belongs to their channels, and the same on a device."""

    def __init__(self, cupy: Any, outer: int, channels: int, inner: int, dtype: str) -> None:
        self.cupy, self.dtype = cupy, dtype
        self.sizes = (outer, channels, inner)
        self.random = np.random.default_rng(outer + channels)
        self.x, self.d = (self.random.normal(4, 2, self.sizes).astype(dtype) for _ in range(2))
        self.scale, self.bias, self.mean = (self.of_channels() for _ in range(3))
        self.variance = np.abs(self.of_channels())
        self.exact = self.x.astype("float64")

    def of_channels(self) -> Any:
        return self.random.normal(1, 1, self.sizes[1]).astype(self.dtype)

    def kernel(self, given: bool = False) -> DeviceBatchNorm:
        return DeviceBatchNorm(self.cupy, *self.sizes, self.dtype, EPSILON, given)

    def there(self, *arrays: Any) -> tuple[Any, ...]:
        return tuple(map(self.cupy.asarray, arrays))

    def new(self, *shapes: Any) -> tuple[Any, ...]:
        return self.there(*(np.full(shape, 7, self.dtype) for shape in shapes))

    def close(self, found: Any, wanted: Any) -> None:
        tolerance = 3e-5 if self.dtype == "float32" else 1e-12
        size = np.abs(wanted).max()
        np.testing.assert_allclose(found.get(), wanted, rtol=tolerance, atol=tolerance * size)


@pytest.fixture(params=CASES, ids=str)
def images(request: Any) -> Images:
    import cupy

    return Images(cupy, *request.param)


def wide(values: Any) -> Any:
    """A value for each channel, beside the elements."""
    return np.asarray(values, "float64")[None, :, None]


def test_train(images: Images) -> None:
    channels = images.sizes[1]
    y, mean_out, variance_out, saved_mean, saved_inverse = images.new(images.sizes, *[channels] * 4)
    x, scale, bias, mean, variance = images.there(
        images.x, images.scale, images.bias, images.mean, images.variance
    )
    running, saved = (mean_out, variance_out), (saved_mean, saved_inverse)
    images.kernel().train(x, scale, bias, (mean, variance), 0.75, y, running, saved)
    middle, spread = images.exact.mean((0, 2)), images.exact.var((0, 2))
    inverse = 1 / np.sqrt(spread + EPSILON)
    images.close(saved_mean, middle)
    images.close(saved_inverse, inverse)
    images.close(mean_out, images.mean * 0.75 + middle * 0.25)
    images.close(variance_out, images.variance * 0.75 + spread * 0.25)
    unit = (images.exact - wide(middle)) * wide(inverse)
    images.close(y, unit * wide(images.scale) + wide(images.bias))


def test_infer(images: Images) -> None:
    (y,) = images.new(images.sizes)
    given = images.there(images.x, images.scale, images.bias, images.mean, images.variance)
    images.kernel().infer(*given, y)
    unit = (images.exact - wide(images.mean)) / wide(np.sqrt(images.variance.astype("float64") + EPSILON))
    images.close(y, unit * wide(images.scale) + wide(images.bias))


@pytest.mark.parametrize("kind", ["of the batch", "frozen", "given"])
def test_gradient(images: Images, kind: str) -> None:
    channels = images.sizes[1]
    mean, variance = images.mean.astype("float64"), images.variance.astype("float64")
    inverse = 1 / np.sqrt(variance + EPSILON)
    dx, dscale, dbias = images.new(images.sizes, channels, channels)
    second = images.variance if kind == "given" else inverse.astype(images.dtype)
    x, d, scale, *statistics = images.there(images.x, images.d, images.scale, images.mean, second)
    kernel = images.kernel(kind == "given")
    kernel.gradient(x, d, scale, tuple(statistics), (dx, dscale, dbias), kind != "of the batch")
    unit = (images.exact - wide(mean)) * wide(inverse)
    slopes = images.d.astype("float64")
    weight, bias = (slopes * unit).sum((0, 2)), slopes.sum((0, 2))
    images.close(dscale, weight)
    images.close(dbias, bias)
    if kind == "of the batch":
        elements = images.sizes[0] * images.sizes[2]
        slopes = slopes - (wide(bias) + unit * wide(weight)) / elements
    images.close(dx, slopes * wide(images.scale * inverse))


def test_gradient_of_x_alone_and_of_the_rest(images: Images) -> None:
    channels = images.sizes[1]
    dx, dscale, dbias, other = images.new(images.sizes, channels, channels, images.sizes)
    x, d, scale, mean, inverse = images.there(
        images.x, images.d, images.scale, images.mean, images.variance + 1
    )
    kernel = images.kernel()
    kernel.gradient(x, d, scale, (mean, inverse), (dx, None, None), False)
    kernel.gradient(x, d, scale, (mean, inverse), (None, dscale, dbias), False)
    found = [dx.get(), dscale.get(), dbias.get()]
    kernel.gradient(x, d, scale, (mean, inverse), (other, dscale, dbias), False)
    for value, again in zip(found, (other, dscale, dbias), strict=True):
        assert (value == again.get()).all()


def test_channels_without_spread_and_with_nan() -> None:
    import cupy

    x = np.full((4, 3, 6), 1000.1, "float32")
    x[1, 1, 2] = np.nan
    x[2, 2, 3] = 1001.1
    found = [cupy.zeros(3, "float32") for _ in range(4)]
    y = cupy.zeros(x.shape, "float32")
    ones, zeros = cupy.ones(3, "float32"), cupy.zeros(3, "float32")
    kernel = DeviceBatchNorm(cupy, *x.shape, "float32", 1e-5)
    kernel.train(cupy.asarray(x), ones, zeros, (zeros, ones), 0.0, y, tuple(found[:2]), tuple(found[2:]))
    assert found[1].get()[0] == 0 and not y.get()[:, 0].any()
    assert np.isnan(y.get()[:, 1]).all()
    assert found[1].get()[2] == pytest.approx(x[:, 2].astype("float64").var(), rel=1e-4)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_networks_steps(layout: str) -> None:
    """Images into numbers."""
    x = fluid.data("x", [None, 3, 4, 4] if layout == "NCHW" else [None, 4, 4, 3], "float32")
    h = fluid.layers.batch_norm(x, act="relu", data_layout=layout)
    h = fluid.layers.batch_norm(fluid.layers.reduce_sum(h, dim=[1, 2]))
    start = fluid.initializer.Uniform(-0.5, 0.5, seed=3)
    loss = fluid.layers.mean(fluid.layers.fc(h, 2, param_attr=fluid.ParamAttr(initializer=start)))
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    feed = {"x": np.random.default_rng(1).random((5, *x.shape[1:]), "float32")}
    runs = run_on_both([feed] * 4, loss)
    assert runs.host == pytest.approx(runs.device, rel=2e-4, abs=1e-6)
    assert runs.text.count("CUDA kernels batch_norm_*") == 4
