"""Attention's kernels beside arrays of scores, and the programs whose chains they take the place of."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from both_places import run_on_both

import fluidlite as fluid
from fluidlite.executor.cuda.attention import AttentionForm, DeviceAttention

pytestmark = pytest.mark.gpu
layers = fluid.layers

# sizes that fill tiles, that leave most of one empty, and that differ from each other
FORMS = [
    AttentionForm(2, 3, 5, 7, 16, 16, "float32", alpha=0.25),
    AttentionForm(1, 2, 33, 65, 17, 40, "float32"),
    AttentionForm(1, 1, 70, 33, 128, 100, "float32", alpha=0.1, steep=0.1, grown=2.0),
    AttentionForm(2, 2, 40, 37, 64, 64, "float16", alpha=0.125),
    AttentionForm(1, 1, 1, 1, 8, 8, "float32"),
]
BIASES = [None, (2, 1, 1, -1), (1, 1, -1, -1), (2, 3, -1, -1)]


def _with_bias(form: AttentionForm, wanted: tuple[int, ...] | None, random: Any) -> tuple[AttentionForm, Any]:
    """The form with a bias that is broadcast over the dimensions of one, and the bias."""
    if wanted is None:
        return form, None
    whole = (form.batch, form.heads, form.queries, form.keys)
    shape = tuple(1 if want == 1 else size for want, size in zip(wanted, whole, strict=True))
    bias = random.normal(0, 2, shape).astype("float32")
    steps = [stride // 4 if size > 1 else 0 for size, stride in zip(shape, bias.strides, strict=True)]
    return replace(form, bias_dtype="float32", bias_steps=tuple(steps)), bias


def _reference(form: AttentionForm, q: Any, k: Any, v: Any, bias: Any, mask: Any, d: Any) -> list[Any]:
    """out, dq, dk, dv in float64."""
    scores = form.alpha * (q @ k.swapaxes(-1, -2)) + (0 if bias is None else bias)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    factor = form.grown * (1 if mask is None else mask)
    incoming = d @ v.swapaxes(-1, -2) * factor
    slope = form.steep * weights * (incoming - (incoming * weights).sum(-1, keepdims=True))
    dropped = weights * factor
    return [dropped @ v, slope @ k, slope.swapaxes(-1, -2) @ q, dropped.swapaxes(-1, -2) @ d]


@pytest.mark.parametrize("bias_shape", BIASES, ids=str)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.queries}x{form.keys}x{form.depth}")
@pytest.mark.parametrize("masked", [False, True])
def test_kernels(form: AttentionForm, bias_shape: tuple[int, ...] | None, masked: bool) -> None:
    import cupy

    random = np.random.default_rng(form.queries)
    form, bias = _with_bias(replace(form, masked=masked), bias_shape, random)
    stack = (form.batch, form.heads)
    shapes = [(form.queries, form.depth), (form.keys, form.depth), (form.keys, form.width)]
    shapes.append((form.queries, form.width))
    q, k, v, d = (random.normal(0, 1, (*stack, *shape)).astype(form.dtype) for shape in shapes)
    mask = random.random((*stack, form.queries, form.keys)) > 0.3 if masked else None
    wide = [part.astype("float64") for part in (q, k, v)]
    wanted = _reference(form, *wide, bias, mask, d.astype("float64"))
    given = [None if part is None else cupy.asarray(part) for part in (q, k, v, bias, mask)]
    out, dq, dk, dv = (cupy.empty(part.shape, form.dtype) for part in wanted)
    tops, shares = (cupy.empty((*stack, form.queries), "float32") for _ in range(2))
    kernel = DeviceAttention(cupy, form)
    kernel.forward(*given, out, tops, shares)
    kernel.backward(*given, out, tops, shares, cupy.asarray(d), dq, dk, dv)
    tolerance = 2e-3 if form.dtype == "float16" else 2e-5
    for want, found in zip(wanted, (out, dq, dk, dv), strict=True):
        np.testing.assert_allclose(
            found.get(), want, rtol=tolerance, atol=tolerance * max(1, np.abs(want).max())
        )


def test_rows_without_a_finite_score() -> None:
    """NaN, as softmax gives; -inf for some keys alone is a weight of 0."""
    import cupy

    steps = (40, 0, 40, 1)
    form = AttentionForm(1, 1, 3, 40, 4, 4, "float32", bias_dtype="float32", bias_steps=steps)
    bias = np.zeros((3, 40), "float32")
    bias[0] = -np.inf
    bias[1, :39] = -np.inf
    bias[2] = -1e9
    arrays = [cupy.ones((rows, 4), "float32") for rows in (3, 40)]
    v = np.arange(160, dtype="float32").reshape(40, 4)
    out, tops, shares = cupy.empty((3, 4), "float32"), cupy.empty(3, "float32"), cupy.empty(3, "float32")
    DeviceAttention(cupy, form).forward(*arrays, cupy.asarray(v), cupy.asarray(bias), None, out, tops, shares)
    found = out.get()
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], v[39])
    np.testing.assert_allclose(found[2], v.mean(0), rtol=1e-6)


# ---------------------------------------------------------------------- programs
START = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=3))


def _heads(x: Any) -> Any:
    return layers.transpose(layers.reshape(x, [0, 0, 2, 9]), [0, 2, 1, 3])


def _projected(x: Any, size: int = 18) -> Any:
    return layers.fc(x, size, num_flatten_dims=2, bias_attr=False, param_attr=START)


def _scaled_scores(x: Any, bias: Any) -> Any:
    q, k, v = (_heads(_projected(x)) for _ in range(3))
    scores = layers.elementwise_add(layers.matmul(q, k, transpose_y=True, alpha=0.3), bias)
    weights = layers.dropout(layers.softmax(scores), 0.2, seed=5, dropout_implementation="upscale_in_train")
    return layers.matmul(weights, v)


def _scaled_queries(x: Any, bias: Any) -> Any:
    q, k, v = (_heads(_projected(x)) for _ in range(3))
    scores = layers.matmul(layers.scale(q, 0.3), k, transpose_y=True)
    return layers.matmul(layers.softmax(layers.scale(scores, 0.5)), v) + layers.reduce_mean(bias) * 1e-5


def _one_head(x: Any, bias: Any) -> Any:
    """Of three dimensions, keys of another length than queries, and dropout that does not scale."""
    short = layers.slice(x, [1], [0], [4])
    q, k, v = _projected(x), _projected(short), _projected(short, 5)
    scores = layers.matmul(q, k, transpose_y=True, alpha=0.2)
    weights = layers.dropout(layers.softmax(scores), 0.2, seed=5)
    return layers.matmul(weights, v) + layers.reduce_mean(bias) * 1e-5


def _by_nets(x: Any, bias: Any) -> Any:
    q, k, v = (_projected(x) for _ in range(3))
    return fluid.nets.scaled_dot_product_attention(q, k, v) + layers.reduce_mean(bias) * 1e-5


def _loss(build: Any) -> Any:
    x, bias = fluid.data("x", [2, 7, 6]), fluid.data("bias", [2, 1, 1, 7])
    bias.stop_gradient = True
    out = build(x, bias)
    loss = layers.reduce_mean(layers.square(out)) + layers.reduce_sum(out) * 0.01
    fluid.optimizer.SGD(0.2).minimize(loss)
    return loss


def _feed() -> dict[str, Any]:
    random = np.random.default_rng(0)
    bias = np.where(random.random((2, 1, 1, 7)) > 0.3, 0, -1e4)
    return {"x": random.normal(0, 1, (2, 7, 6)).astype("float32"), "bias": bias.astype("float32")}


PROGRAMS = [_scaled_scores, _scaled_queries, _one_head, _by_nets]


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_steps_of_training(build: Any) -> None:
    runs = run_on_both([_feed()] * 4, _loss(build))
    assert runs.device == pytest.approx(runs.host, rel=1e-5)
    assert "attention_" in runs.text and "backward(" in runs.text
    assert "CUDA kernel softmax" not in runs.text


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_in_mixed_precision(build: Any, monkeypatch: Any) -> None:
    """Casts around the softmax are part of the chain; and small scores are left to cuBLAS."""
    x, bias = fluid.data("x", [2, 7, 6]), fluid.data("bias", [2, 1, 1, 7])
    loss = layers.reduce_mean(layers.square(build(x, bias)))
    fluid.contrib.mixed_precision.decorate(fluid.optimizer.SGD(0.2)).minimize(loss)
    assert "attention_" not in run_on_both([_feed()] * 3, loss).text
    module = importlib.import_module("fluidlite.executor.passes.fuse_attention")
    monkeypatch.setattr(module, "_HALF_FROM", 0)
    runs = run_on_both([_feed()] * 3, loss)
    assert "attention_" in runs.text and "backward(" in runs.text
    assert runs.device == pytest.approx(runs.host, rel=5e-3)


def _explained(build: Any, is_shown: bool = False) -> str:
    """The plan of a training step, whose weights are fetched where `is_shown`."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        loss = _loss(build)
        ops = fluid.default_main_program().global_block().ops
        shown = [op.output("Out")[0] for op in ops if op.type == "softmax" and is_shown]
        exe, scope = fluid.Executor(fluid.CUDAPlace(0)), fluid.Scope()
        exe.run(fluid.default_startup_program(), scope=scope)
        return str(exe.explain(feed=_feed(), fetch_list=[loss, *shown], scope=scope, full=True))


def test_weights_that_somebody_reads() -> None:
    """They have to be there then: fetched, or for the gradient of a bias."""

    def trained(x: Any, bias: Any) -> Any:
        return _scaled_scores(x, layers.create_parameter([2, 2, 7, 7], "float32"))

    assert "attention_" in _explained(_scaled_scores)
    assert "attention_" not in _explained(_scaled_scores, is_shown=True)
    assert "attention_" not in _explained(trained)


def test_inference_has_no_scores() -> None:
    x, bias = fluid.data("x", [2, 7, 6]), fluid.data("bias", [2, 1, 1, 7])
    out = layers.reduce_sum(_scaled_scores(x, bias))
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe, scope = fluid.Executor(place), fluid.Scope()
        exe.naive = isinstance(place, fluid.CPUPlace)
        exe.run(fluid.default_startup_program(), scope=scope)
        program = fluid.default_main_program().clone(for_test=True)
        found += exe.run(program, feed=_feed(), fetch_list=[out], scope=scope)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    text = str(exe.explain(program, feed=_feed(), fetch_list=[out], scope=scope, full=True))
    assert "attention_0.forward" in text and "backward" not in text and "float32[2, 2, 7, 7]" not in text
