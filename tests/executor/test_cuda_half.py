"""Kernels over float16 beside the host, which computes each op in single precision and rounds its results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

pytestmark = pytest.mark.gpu
layers = fluid.layers
START = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=3))


def _normal(shape: tuple[int, ...]) -> Any:
    values = np.random.default_rng(len(shape)).normal(0.25, 1, shape)
    return values.astype("float16").astype("float32")


def _labels(rows: int, classes: int) -> Any:
    return layers.assign(np.arange(rows).reshape(rows, 1) % classes)


def _with_bias(x: Any) -> Any:
    bias = layers.cast(layers.reduce_sum(layers.cast(x, "float32"), dim=0), "float16")
    return layers.elementwise_add(x, bias, axis=1)


def _layer_norm(x: Any) -> Any:
    """Of half precision; the layer itself takes none."""
    block = fluid.default_main_program().global_block()
    outputs = {slot: block.create_var(dtype="float16") for slot in ("Y", "Mean", "Variance")}
    block.append_op("layer_norm", inputs={"X": x}, outputs=outputs, attrs={"begin_norm_axis": 2})
    return outputs["Y"]


def _gelu(x: Any) -> Any:
    return layers.gelu(layers.relu(x * 3.0) - layers.tanh(x))


# name -> the shape of the input, the layers on it, and the kernels that `explain` must name
CASES: dict[str, tuple[tuple[int, ...], Callable[[Any], Any], tuple[str, ...]]] = {
    "elements": ((5, 33), _gelu, ("relu", "gelu_grad")),
    "a bias": ((7, 12), _with_bias, ()),
    "softmax": ((3, 700), layers.softmax, ("CUDA kernel softmax,", "CUDA kernel softmax_grad,")),
    "loss": (
        (9, 5),
        lambda x: layers.softmax_with_cross_entropy(x, _labels(9, 5)),
        ("CUDA kernel softmax_with_cross_entropy_grad,",),
    ),
    "probabilities": (
        (9, 5),
        lambda x: layers.cross_entropy(layers.softmax(x), _labels(9, 5)),
        ("CUDA kernel cross_entropy_grad2,",),
    ),
    "layer_norm": ((4, 3, 37), _layer_norm, ("CUDA kernel layer_norm,", "CUDA kernel layer_norm_grad,")),
    "conv2d": (
        (2, 3, 7, 5),
        lambda x: layers.conv2d(x, 4, 3, padding=1, stride=2, bias_attr=False, param_attr=START),
        ("conv2d_grad",),
    ),
    "depthwise": (
        (2, 3, 7, 5),
        lambda x: layers.conv2d(x, 6, 3, groups=3, bias_attr=False, param_attr=START),
        ("conv2d_grad",),
    ),
    "batch_norm": ((3, 5, 7, 3), layers.batch_norm, ("CUDA kernels batch_norm_*",)),
    "dropout": ((6, 31), lambda x: layers.dropout(x, 0.25, seed=3), ("dropout_grad",)),
}


def _both(name: str) -> tuple[list[list[Any]], str]:
    """The result and the gradient of a case on the host and on a device, and the device's plan."""
    shape, build, _ = CASES[name]
    x = fluid.data("x", list(shape), "float32")
    x.stop_gradient = False
    half = layers.cast(x, "float16")
    out = layers.cast(build(half), "float32")
    (gradient,) = fluid.gradients(layers.reduce_sum(out * out), [half])
    fetches, feed = [out, layers.cast(gradient, "float32")], {"x": _normal(shape)}
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe, scope = fluid.Executor(place), fluid.Scope()
        exe.naive = isinstance(place, fluid.CPUPlace)
        exe.run(fluid.default_startup_program(), scope=scope)
        for _ in range(3):
            result = exe.run(feed=feed, fetch_list=fetches, scope=scope)
        found.append(result)
    return found, exe.explain(feed=feed, fetch_list=fetches, scope=scope, full=True)


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_host(name: str) -> None:
    (wanted, found), text = _both(name)
    assert "portable kernels" not in text
    for part in CASES[name][2]:
        assert part in text
    for want, have in zip(wanted, found, strict=True):
        # sums come in another order, and are rounded to 11 bits
        largest = np.abs(want).max()
        np.testing.assert_allclose(have, want, rtol=2**-9, atol=2**-10 * largest)
