"""Kernels of batch_norm beside NumPy in double precision: channels second and last, few and many elements,
odd sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.channels import DeviceChannels
from fluidlite.ops.kernels.row_kernels import RowKernel
from fluidlite.ops.neural.batch_norm import BY_BATCH, BY_GIVEN, GRADIENT, GRADIENT_OF_GIVEN, GRADIENT_OF_SAVED

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

    def run(self, kernel: RowKernel, *given: Any, momentum: float = 0.75, **absent: None) -> list[Any]:
        """The outputs that are there; arrays and outputs in the order of the declaration."""
        form = kernel.form(**absent)
        numbers = [{"momentum": momentum, "epsilon": EPSILON}[name] for name in form.numbers]
        call = DeviceChannels(self.cupy, form, self.sizes, self.dtype, numbers)
        shapes = {"ncp": self.sizes, "c": (self.sizes[1],)}
        outs = self.new(*(shapes[form.axes[name]] for name in form.outputs))
        call(*self.there(*given), *outs)
        return list(outs)

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
    given = images.x, images.scale, images.bias, images.mean, images.variance
    y, mean_out, variance_out, saved_mean, saved_inverse = images.run(BY_BATCH, *given)
    middle, spread = images.exact.mean((0, 2)), images.exact.var((0, 2))
    inverse = 1 / np.sqrt(spread + EPSILON)
    images.close(saved_mean, middle)
    images.close(saved_inverse, inverse)
    images.close(mean_out, images.mean * 0.75 + middle * 0.25)
    images.close(variance_out, images.variance * 0.75 + spread * 0.25)
    unit = (images.exact - wide(middle)) * wide(inverse)
    images.close(y, unit * wide(images.scale) + wide(images.bias))


def test_infer(images: Images) -> None:
    given = images.x, images.scale, images.bias, images.mean, images.variance
    (y,) = images.run(BY_GIVEN, *given, savedmean=None, savedvariance=None)
    unit = (images.exact - wide(images.mean)) / wide(np.sqrt(images.variance.astype("float64") + EPSILON))
    images.close(y, unit * wide(images.scale) + wide(images.bias))


@pytest.mark.parametrize("kernel", [GRADIENT, GRADIENT_OF_SAVED, GRADIENT_OF_GIVEN], ids=lambda k: k.name)
def test_gradient(images: Images, kernel: RowKernel) -> None:
    mean, variance = images.mean.astype("float64"), images.variance.astype("float64")
    inverse = 1 / np.sqrt(variance + EPSILON)
    second = images.variance if kernel is GRADIENT_OF_GIVEN else inverse.astype(images.dtype)
    dx, dscale, dbias = images.run(kernel, images.x, images.scale, images.mean, second, images.d)
    unit = (images.exact - wide(mean)) * wide(inverse)
    slopes = images.d.astype("float64")
    weight, bias = (slopes * unit).sum((0, 2)), slopes.sum((0, 2))
    images.close(dscale, weight)
    images.close(dbias, bias)
    if kernel is GRADIENT:
        elements = images.sizes[0] * images.sizes[2]
        slopes = slopes - (wide(bias) + unit * wide(weight)) / elements
    images.close(dx, slopes * wide(images.scale * inverse))


def test_gradient_of_x_alone_and_of_the_rest(images: Images) -> None:
    given = images.x, images.scale, images.mean, images.variance + 1, images.d
    found = images.run(GRADIENT, *given, dscale=None, dbias=None)
    found += images.run(GRADIENT, *given, dx=None)
    for value, again in zip(found, images.run(GRADIENT, *given), strict=True):
        assert (value.get() == again.get()).all()


def test_channels_without_spread_and_with_nan() -> None:
    import cupy

    images = Images(cupy, 4, 3, 6, "float32")
    images.x[...] = 1000.1
    images.x[1, 1, 2] = np.nan
    images.x[2, 2, 3] = 1001.1
    zeros, ones = np.zeros(3, "float32"), np.ones(3, "float32")
    y, _, variance, *_ = images.run(BY_BATCH, images.x, ones, zeros, zeros, ones, momentum=0.0)
    assert variance.get()[0] == 0 and not y.get()[:, 0].any()
    assert np.isnan(y.get()[:, 1]).all()
    assert variance.get()[2] == pytest.approx(images.x[:, 2].astype("float64").var(), rel=1e-4)


def test_a_running_statistic_lies_where_it_was() -> None:
    import cupy

    images = Images(cupy, 9, 33, 49, "float32")
    given = images.x, images.scale, images.bias, images.mean, images.variance
    _, mean, variance, *_ = images.run(BY_BATCH, *given)
    form = BY_BATCH.form(savedmean=None, savedvariance=None)
    call = DeviceChannels(cupy, form, images.sizes, "float32", (0.75, EPSILON))
    there = images.there(*given)
    call(*there, cupy.zeros(images.sizes, "float32"), *there[3:])
    assert (there[3].get() == mean.get()).all() and (there[4].get() == variance.get()).all()


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
    assert runs.text.count("CUDA kernels batch_norm_") == 4
