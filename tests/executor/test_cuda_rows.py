"""Kernels over the rows of a matrix, beside what the host computes: rows of all kinds of lengths, few and
many of them, and none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_places import run_on_both
from host_rows import host_rows

import fluidlite as fluid
from fluidlite.base.registry import get
from fluidlite.executor.cuda.rows import DeviceAccuracy, DeviceRowKernel, DeviceRows
from fluidlite.ops.kernels.row_kernels import NUMBER, RowForm
from fluidlite.ops.math.search import stable_order

pytestmark = pytest.mark.gpu

# (rows, columns): lanes of 1, of a part of a warp, of some warps, of a block; odd tails, and no rows
SHAPES = [(5, 1), (300, 3), (33, 100), (3, 700), (2, 1000), (1, 4099), (0, 7)]
DTYPES = ["float32", "float64"]
LOWEST = -64.0
TOLERANCE = {"float32": 2e-6, "float64": 1e-13}


@pytest.fixture()
def cupy() -> Any:
    import cupy

    return cupy


class Both:
    """The same call on the host and on a device."""

    def __init__(self, cupy: Any, rows: int, columns: int, dtype: str) -> None:
        self.cupy = cupy
        self.rows, self.columns, self.dtype = rows, columns, dtype
        self.random = np.random.default_rng(rows * columns + 1)

    def numbers(self, *shape: int) -> Any:
        return self.random.normal(1.0, 3.0, shape).astype(self.dtype)

    def check(self, host: Any, device: Any, inputs: list[Any], outputs: list[tuple[int, ...]]) -> None:
        """`host` and `device` fill outputs of these shapes from the same inputs."""
        wanted = [np.zeros(shape, self.dtype) for shape in outputs]
        found = [self.cupy.asarray(np.full(shape, 7.0, self.dtype)) for shape in outputs]
        host(*inputs, *wanted)
        device(*(None if item is None else self.cupy.asarray(item) for item in inputs), *found)
        for want, have in zip(wanted, found, strict=True):
            largest = np.abs(want).max(initial=1.0, where=np.isfinite(want))
            np.testing.assert_allclose(have.get(), want, rtol=1e-5, atol=TOLERANCE[self.dtype] * largest)


@pytest.fixture(params=[(*shape, dtype) for shape in SHAPES for dtype in DTYPES], ids=str)
def both(cupy: Any, request: Any) -> Both:
    return Both(cupy, *request.param)


def form(op: str, **given: str | None) -> RowForm:
    """The form of the row kernel that an op declares."""
    found: RowForm = get(op).by_rows.kernel.form(**given)
    return found


def check_form(both: Both, form: RowForm, numbers: list[float], inputs: list[Any]) -> None:
    """A row kernel gives the same on both."""
    sizes = both.rows, both.columns
    shapes = {"rc": sizes, "r": sizes[:1], "c": sizes[1:]}
    arguments = (form, sizes, both.dtype, numbers)
    outputs = [shapes[form.axes[name]] for name in form.outputs]
    both.check(host_rows(*arguments, 1), DeviceRowKernel(both.cupy, *arguments), inputs, outputs)


def test_softmax(both: Both) -> None:
    x = both.numbers(both.rows, both.columns) * 20  # some scores lie below the lowest
    check_form(both, form("softmax"), [LOWEST], [x])


def test_softmax_grad(both: Both) -> None:
    y, d = (both.numbers(both.rows, both.columns) for _ in range(2))
    check_form(both, form("softmax_grad"), [], [y, d])


def labels_for(both: Both) -> Any:
    labels = both.random.integers(0, both.columns, both.rows)
    labels[::3] = -100
    return labels


@pytest.mark.parametrize("has_bias", [True, False])
def test_cross_entropy(both: Both, has_bias: bool) -> None:
    x, labels = both.numbers(both.rows, both.columns), labels_for(both)
    bias = [both.numbers(both.columns)] if has_bias else []
    given = {} if has_bias else {"bias": None}
    check_form(both, form("softmax_with_cross_entropy", **given), [LOWEST, -100], [x, labels, *bias])


@pytest.mark.parametrize("ignored", [-100, 2])
def test_cross_entropy_grad(both: Both, ignored: int) -> None:
    y, d = both.numbers(both.rows, both.columns), both.numbers(both.rows)
    labels = labels_for(both) if ignored < 0 else both.random.integers(0, both.columns, both.rows)
    check_form(both, form("softmax_with_cross_entropy_grad"), [ignored], [labels, y, d])


def test_cross_entropy_grad_of_a_mean(both: Both) -> None:
    """The incoming gradient is one number: an array of it on the host, a number on a device."""
    y, labels = both.numbers(both.rows, both.columns), labels_for(both)
    sizes = both.rows, both.columns
    op = "softmax_with_cross_entropy_grad"
    host = host_rows(form(op, dloss=""), sizes, both.dtype, [-100], 1)
    device = DeviceRowKernel(both.cupy, form(op, dloss=NUMBER), sizes, both.dtype, [-100, 0.25])
    number = np.array(0.25, both.dtype)
    both.check(lambda labels, y, out: host(labels, y, number, out), device, [labels, y], [y.shape])


def test_a_label_that_is_no_class(cupy: Any) -> None:
    loss_form = form("softmax_with_cross_entropy", bias=None)
    kernel = DeviceRowKernel(cupy, loss_form, (3, 4), "float32", [LOWEST, -100])
    x, y, loss = cupy.zeros((3, 4), "float32"), cupy.zeros((3, 4), "float32"), cupy.zeros(3, "float32")
    kernel(x, cupy.asarray(np.array([4, -1, 3])), y, loss)
    assert np.isnan(loss.get()).tolist() == [True, True, False]


def test_cross_entropy_of_probabilities(both: Both) -> None:
    x, labels = np.abs(both.numbers(both.rows, both.columns)), labels_for(both)
    if both.rows > 1:
        x[1, labels[1]] = 0  # whose logarithm is infinite
    sizes = both.rows, both.columns, both.dtype

    def host(x: Any, labels: Any, loss: Any, match: Any) -> None:
        counts = labels >= 0
        match[counts] = x[counts, labels[counts]]
        with np.errstate(divide="ignore"):
            loss[counts] = np.minimum(-np.log(match[counts]), 1e20)

    device = DeviceRows(both.cupy, "cross_entropy2", *sizes, [-100])
    both.check(host, device, [x, labels], [(both.rows,), (both.rows,)])


def test_gradient_of_the_cross_entropy_of_probabilities(both: Both) -> None:
    labels, match, d = labels_for(both), np.abs(both.numbers(both.rows)) + 0.1, both.numbers(both.rows)
    sizes = both.rows, both.columns, both.dtype

    def host(labels: Any, match: Any, d: Any, dx: Any) -> None:
        counts = labels >= 0
        dx[counts, labels[counts]] = -d[counts] / match[counts]

    device = DeviceRows(both.cupy, "cross_entropy_grad2", *sizes, [-100])
    both.check(host, device, [labels, match, d], [(both.rows, both.columns)])


def test_rows_with_nan_and_infinities(cupy: Any) -> None:
    x = np.array([[1, np.nan, 2], [1, np.inf, 2], [-np.inf, 1, 2], [-np.inf] * 3, [1, 2, 3]], "float32")
    found, wanted = cupy.zeros(x.shape, "float32"), np.zeros_like(x)
    with np.errstate(invalid="ignore"):
        host_rows(form("softmax"), x.shape, x.dtype, [LOWEST], 1)(x, wanted)
    DeviceRowKernel(cupy, form("softmax"), x.shape, x.dtype, [LOWEST])(cupy.asarray(x), found)
    np.testing.assert_allclose(found.get(), wanted, rtol=1e-6)


@pytest.mark.parametrize("absent", [(), ("bias",), ("scale", "bias")], ids=str)
def test_layer_norm(both: Both, absent: tuple[str, ...]) -> None:
    arrays = {"x": both.numbers(both.rows, both.columns)}
    arrays |= {name: both.numbers(both.columns) for name in ("scale", "bias")}
    norm = form("layer_norm", **dict.fromkeys(absent))
    check_form(both, norm, [0.1], [arrays[name] for name in norm.inputs])


@pytest.mark.parametrize("absent", [(), ("scale",), ("dx",), ("dscale", "dbias")], ids=str)
def test_layer_norm_grad(both: Both, absent: tuple[str, ...]) -> None:
    x, dy = both.numbers(both.rows, both.columns), both.numbers(both.rows, both.columns)
    arrays = {"x": x, "dy": dy, "scale": both.numbers(both.columns)}
    arrays |= {"mean": x.mean(axis=1), "variance": x.var(axis=1)}
    gradient = form("layer_norm_grad", **dict.fromkeys(absent))
    check_form(both, gradient, [0.1], [arrays[name] for name in gradient.inputs])


@pytest.mark.parametrize("k", [1, 3])
def test_top_k(both: Both, k: int) -> None:
    k = min(k, both.columns)
    x = np.round(both.numbers(both.rows, both.columns))  # many are equal
    x[:, 1::5] = -np.inf
    x[1:, ::7] = np.nan
    order = stable_order(np, x, -1, descending=True)[:, :k]
    values = both.cupy.asarray(np.full((both.rows, k), 7, both.dtype))
    indices = both.cupy.asarray(np.full((both.rows, k), 7))
    kernel = DeviceRows(both.cupy, "top_k", both.rows, both.columns, both.dtype, [k])
    kernel(both.cupy.asarray(x), values, indices)
    assert (indices.get() == order).all()
    np.testing.assert_array_equal(values.get(), np.take_along_axis(x, order, axis=1))


@pytest.mark.parametrize("rows", [0, 1, 255, 700])
def test_accuracy(cupy: Any, rows: int) -> None:
    random = np.random.default_rng(rows)
    indices, label = random.integers(0, 5, (rows, 2)), random.integers(0, 5, (rows, 1))
    found = [cupy.zeros(1, dtype) for dtype in ("float32", "int32", "int32")]
    DeviceAccuracy(cupy, rows, 2)(cupy.asarray(indices), cupy.asarray(label), *found)
    hits = int((indices == label).any(axis=1).sum())
    share = np.float32(hits / max(rows, 1))
    assert [value.get()[0] for value in found] == [share, hits, rows]


def test_a_classifiers_step(cupy: Any) -> None:
    x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
    start = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=3))
    found = fluid.layers.fc(x, 5, act="softmax", param_attr=start)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(found, y))
    total = fluid.layers.elementwise_add(loss, fluid.layers.accuracy(found, y, k=2))
    fluid.optimizer.SGD(0.5).minimize(loss)
    random = np.random.default_rng(0)
    feed = {"x": random.random((9, 6), "float32"), "y": random.integers(0, 5, (9, 1))}
    runs = run_on_both([feed] * 4, total)
    assert runs.host == pytest.approx(runs.device, rel=1e-5)


def test_a_transformers_step(cupy: Any) -> None:
    """Forward and backward of softmax, layer_norm and the loss."""
    x, y = fluid.data("x", [None, 5, 6], "float32"), fluid.data("y", [None, 1], "int64")
    start = fluid.initializer.Uniform(-0.5, 0.5, seed=3)
    h = fluid.layers.layer_norm(fluid.layers.softmax(x), begin_norm_axis=2)
    logits = fluid.layers.fc(h, 3, param_attr=fluid.ParamAttr(initializer=start))
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, y))
    fluid.optimizer.SGD(0.5).minimize(loss)
    random = np.random.default_rng(0)
    feed = {"x": random.random((7, 5, 6), "float32"), "y": random.integers(0, 3, (7, 1))}
    runs = run_on_both([feed] * 4, loss)
    assert runs.host == pytest.approx(runs.device, rel=1e-5)
    for name in ("softmax", "layer_norm", "layer_norm_grad", "softmax_with_cross_entropy_grad"):
        assert f"CUDA kernel {name}," in runs.text or f"CUDA kernels {name}," in runs.text
