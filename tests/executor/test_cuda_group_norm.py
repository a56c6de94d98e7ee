"""group_norm and instance_norm on a device beside the naive interpreter of the host, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

pytestmark = pytest.mark.gpu
layers = fluid.layers
PARAM = fluid.ParamAttr(initializer=fluid.initializer.Uniform(0.5, 2.0, seed=3))

# groups of one and several channels, rows of part of a warp, of several warps, and longer than a block
SHAPES = [(2, 6, 3, 1), (3, 4, 7, 5), (1, 2, 33, 31)]
NORMS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "group_norm": (lambda x: layers.group_norm(x, 2, 1e-3, PARAM, PARAM), ("Scale", "Bias")),
    "group_norm, scale alone": (lambda x: layers.group_norm(x, 2, 1e-3, PARAM, False), ("Scale",)),
    "instance_norm": (lambda x: layers.instance_norm(x, 1e-3, PARAM, PARAM), ("Scale", "Bias")),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_norms(name: str, shape: tuple[int, ...], dtype: str) -> None:
    build, slots = NORMS[name]
    if dtype == "float16":
        return _check(lambda x: _in_half(build, x), [], shape, "float32", 4e-3)
    return _check(build, slots, shape, dtype, 2e-5)


def _in_half(build: Callable[..., Any], x: Any) -> Any:
    """The op over half precision, which its layer does not take: factors are cast, too."""
    build(x)
    block = fluid.default_main_program().global_block()
    op = next(op for op in block.ops if op.type in ("group_norm", "instance_norm"))
    names = {slot: op.input(slot) for slot in op.input_names if op.input(slot)}
    inputs = {slot: layers.cast(block.var(given[0]), "float16") for slot, given in names.items()}
    outputs = {slot: block.create_var(dtype="float16") for slot in op.output_names}
    block.append_op(op.type, inputs=inputs, outputs=outputs, attrs=op.all_attrs())
    return layers.cast(outputs["Y"], "float32")


def _check(
    build: Callable[..., Any], slots: Any, shape: tuple[int, ...], dtype: str, tolerance: float
) -> None:
    x = fluid.data("x", list(shape), dtype)
    x.stop_gradient = False
    out = build(x)
    block = fluid.default_main_program().global_block()
    op = next(op for op in block.ops if op.type in ("group_norm", "instance_norm"))
    factors = [block.var(op.input(slot)[0]) for slot in slots]
    weights = layers.cast(layers.assign(np.random.default_rng(1).random(shape, "float32")), dtype)
    gradients = fluid.gradients(layers.reduce_sum(out * out * weights), [x, *factors])
    feed = {"x": np.random.default_rng(0).normal(1, 2, shape).astype(dtype)}
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe, scope = fluid.Executor(place), fluid.Scope()
        exe.naive = isinstance(place, fluid.CPUPlace)
        exe.run(fluid.default_startup_program(), scope=scope)
        found.append(exe.run(feed=feed, fetch_list=[out, *gradients], scope=scope))
    text = str(exe.explain(feed=feed, fetch_list=[out, *gradients], scope=scope, full=True))
    assert f"CUDA kernel {op.type}," in text and f"CUDA kernel {op.type}_grad," in text
    assert "portable kernels" not in text
    for want, have in zip(*found, strict=True):
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance * np.abs(want).max())
