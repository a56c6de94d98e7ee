"""lrn, log_loss and powers with gradients on a device beside the naive interpreter of the host, in graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

pytestmark = pytest.mark.gpu
layers = fluid.layers


def checked(
    build: Callable[[Any], Any], x: np.ndarray, others: tuple[str, ...] = (), tolerance: float = 3e-5
) -> None:
    """The result and the gradients of x and of other variables, on both places; the device's in one graph."""
    data = fluid.data("x", list(x.shape), str(x.dtype))
    data.stop_gradient = False
    out = build(data)
    weights = layers.assign(np.random.default_rng(3).random(x.shape, "float32"))
    block = fluid.default_main_program().global_block()
    wanted = [data, *map(block.var, others)]
    gradients = fluid.gradients(layers.reduce_sum(out * layers.cast(weights, str(x.dtype))), wanted)
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe = fluid.Executor(place)
        exe.naive = isinstance(place, fluid.CPUPlace)
        for _ in range(3):
            got = exe.run(feed={"x": x}, fetch_list=[out, *gradients])
        found.append(got)
    for host, device in zip(*found, strict=True):
        np.testing.assert_allclose(device, host, rtol=tolerance, atol=tolerance)
    text = exe.explain(feed={"x": x}, fetch_list=[out, *gradients], full=True)
    assert "graph: the whole step is one launch" in text, text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 5, 11])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_lrn(data_format: str, n: int, dtype: str) -> None:
    x = np.random.default_rng(1).normal(size=(2, 6, 5, 4)).astype(dtype)
    options = {"n": n, "k": 1.5, "alpha": 0.1, "beta": 0.75, "data_format": data_format}

    def build(data: Any) -> Any:
        block = fluid.default_main_program().global_block()
        out, middle = (block.create_var(name=name, dtype=dtype) for name in ("out", "middle"))
        block.append_op("lrn", {"X": data}, {"Out": out, "MidOut": middle}, options)
        return out

    checked(build, x)


def test_log_loss() -> None:
    x = np.random.default_rng(1).uniform(0.05, 0.95, (7, 1)).astype("float32")

    def build(data: Any) -> Any:
        labels = layers.cast(layers.greater_than(data, layers.fill_constant([1], "float32", 0.5)), "float32")
        labels.stop_gradient = True
        return layers.log_loss(data, labels)

    checked(build, x)


@pytest.mark.parametrize("shape", [(3, 4, 5), (4,), (1,), (5,)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).uniform(0.5, 2.0, (3, 4, 5)).astype(dtype)

    def build(data: Any) -> Any:
        exponents = layers.cast(
            layers.assign(np.random.default_rng(2).normal(size=shape).astype("float32")), dtype
        )
        exponents.stop_gradient = False
        block = fluid.default_main_program().global_block()
        y = block.create_var(name="y", dtype=dtype, shape=shape)
        block.append_op("scale", {"X": exponents}, {"Out": y}, {"scale": 1.0})
        y.stop_gradient = False
        return layers.elementwise_pow(data, y, axis=1 if shape == (4,) else -1)

    checked(build, x, ("y",), 2e-4 if dtype == "float32" else 1e-9)
