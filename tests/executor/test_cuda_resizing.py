"""The kernel of resized images beside the host's: larger and smaller, both ways, odd sizes, infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

pytestmark = pytest.mark.gpu
layers = fluid.layers
CASES: dict[str, Any] = {
    "nearest": lambda x: layers.resize_nearest(x, scale=2.0, align_corners=False),
    "nearest, smaller": lambda x: layers.resize_nearest(x, [4, 3]),
    "bilinear": lambda x: layers.resize_bilinear(x, [11, 9], align_corners=False, align_mode=0),
    "bilinear, smaller": lambda x: layers.resize_bilinear(x, [3, 9]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_as_on_the_host(name: str, dtype: str) -> None:
    x = fluid.data("x", [2, 3, 7, 5], dtype)
    x.stop_gradient = False
    out = CASES[name](x)
    fetches = [out, *fluid.gradients(layers.reduce_sum(out * out), [x])]
    values = np.random.default_rng(1).normal(size=(2, 3, 7, 5)).astype(dtype)
    feed = {"x": values}
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe = fluid.Executor(place)
        exe.naive = isinstance(place, fluid.CPUPlace)
        found.append([exe.run(feed=feed, fetch_list=fetches) for _ in range(3)][-1])
    text = exe.explain(feed=feed, fetch_list=fetches, full=True)
    assert "CUDA kernel resize" in text and "graph: the whole step is one launch" in text
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    for want, have in zip(*found, strict=True):
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def test_an_infinity_stays_where_it_is() -> None:
    x = fluid.data("x", [1, 1, 2, 2], "float32")
    out = CASES["nearest"](x)
    values = np.array([np.inf, 1, np.nan, -np.inf], "float32").reshape(1, 1, 2, 2)
    (found,) = fluid.Executor(fluid.CUDAPlace(0)).run(feed={"x": values}, fetch_list=[out])
    np.testing.assert_array_equal(found, values.repeat(2, axis=2).repeat(2, axis=3))
