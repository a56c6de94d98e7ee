"""Convolutions on a device against those of NumPy: strides, dilations, uneven paddings, groups, batches in
parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.convolutions import device_conv
from fluidlite.executor.run.cuda import Namespace
from fluidlite.ops.kernels import convolution
from fluidlite.ops.kernels.convolution import Geometry, conv_plan

pytestmark = pytest.mark.gpu

EVEN = ((1, 1), (1, 1))
GEOMETRIES = {
    "3 x 3": Geometry((3, 4, 7, 6), (5, 4, 3, 3), (1, 1), EVEN, (1, 1)),
    "strides": Geometry((2, 3, 9, 8), (4, 3, 3, 3), (2, 3), EVEN, (1, 1)),
    "dilations": Geometry((2, 3, 9, 8), (4, 3, 3, 2), (1, 2), EVEN, (2, 3)),
    "uneven paddings": Geometry((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), ((0, 2), (2, 1)), (1, 1)),
    "groups": Geometry((2, 6, 5, 6), (4, 3, 3, 3), (1, 1), EVEN, (1, 1), 2),
    "one element": Geometry((2, 3, 5, 6), (4, 3, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "one element with strides": Geometry((2, 3, 5, 6), (4, 3, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "one element with paddings": Geometry((2, 3, 5, 6), (4, 3, 1, 1), (2, 2), EVEN, (1, 1)),
    "a filter as large as the image": Geometry((2, 3, 4, 4), (4, 3, 4, 4), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "each channel by itself": Geometry((2, 6, 7, 5), (6, 1, 3, 3), (2, 1), EVEN, (1, 2), 6),
    "two filters to a channel": Geometry((2, 3, 7, 5), (6, 1, 3, 2), (1, 2), EVEN, (1, 1), 3),
    "wide": Geometry((1, 2, 3, 300), (2, 2, 3, 3), (1, 1), EVEN, (1, 1)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_against_numpy(name: str, parts: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    geometry = GEOMETRIES[name]
    if parts > 1:  # an image at a time
        monkeypatch.setattr(convolution, "_UNFOLDED_ELEMENTS", 1)
    random = np.random.default_rng(1)
    x, w, d = (random.normal(size=shape).astype(dtype) for shape in (geometry.x, geometry.w, geometry.out))
    host = conv_plan(np, geometry, dtype)
    device = device_conv(Namespace(cupy), geometry, dtype)
    there = {"x": cupy.asarray(x), "w": cupy.asarray(w), "d": cupy.asarray(d)}
    given: dict[str, tuple[Any, Any, Any]] = {
        "forward": (x, w, d),
        "grad_input": (d, w, x),
        "grad_filter": (x, d, w),
    }
    names = {id(x): "x", id(w): "w", id(d): "d"}
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    for method, (left, right, like) in given.items():
        wanted = np.empty_like(like)
        getattr(host, method)(left, right, wanted)
        found = [cupy.empty(like.shape, dtype) for _ in range(2)]
        for out in found:
            getattr(device, method)(there[names[id(left)]], there[names[id(right)]], out)
        np.testing.assert_allclose(found[0].get(), wanted, rtol=tolerance, atol=tolerance, err_msg=method)
        assert (found[0].get() == found[1].get()).all()


def block(x: Any, channels: int, **options: Any) -> Any:
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.3, 0.3, seed=channels))
    found = fluid.layers.conv2d(x, channels, 3, param_attr=start, bias_attr=False, **options)
    return fluid.layers.batch_norm(found, act="relu")


def test_a_networks_steps() -> None:
    """Convolutions of all kinds, one of a piece of its input, in one graph."""
    x, y = fluid.data("x", [None, 4, 9, 9]), fluid.data("y", [None, 1], "int64")
    h = block(x, 8, padding=1)
    h = block(h, 8, padding=1, stride=2, groups=8)
    h = block(fluid.layers.slice(h, [3], [1], [5]), 6, dilation=1)
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.3, 0.3, seed=4))
    h = fluid.layers.conv2d_transpose(h, 5, filter_size=3, stride=2, param_attr=start)
    h = fluid.layers.pool2d(h, 2, "max", 2)
    loss = fluid.layers.mean(
        fluid.layers.softmax_with_cross_entropy(fluid.layers.fc(h, 3, param_attr=start), y)
    )
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    random = np.random.default_rng(2)
    feeds = [
        {"x": random.normal(size=(3, 4, 9, 9)).astype("float32"), "y": random.integers(0, 3, (3, 1))}
        for _ in range(4)
    ]
    runs = run_on_both(feeds, loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-3)
