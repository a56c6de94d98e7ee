"""Compiled kernels over rows against NumPy's, whose place they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from host_rows import host_rows

from fluidlite.base.errors import KernelError
from fluidlite.base.registry import get
from fluidlite.executor.fast.loops.compiler import RunCount
from fluidlite.executor.fast.loops.rows import CompiledRows
from fluidlite.executor.run.rows import LabelledRows, block_rows
from fluidlite.ops.kernels.row_kernels import RowForm, RowKernel


def declared(op: str) -> RowKernel:
    """The row kernel that an op declares."""
    return get(op).by_rows.kernel


SOFTMAX, SOFTMAX_GRAD = (declared(op).form() for op in ("softmax", "softmax_grad"))
LOSS = declared("softmax_with_cross_entropy").form(bias=None)
LOSS_GRAD = declared("softmax_with_cross_entropy_grad")
SHAPES = [(1, 1), (3, 5), (4, 16), (7, 64), (33, 129), (600, 250)]


def compiled(arguments: tuple[Any, ...]) -> CompiledRows:
    """The compiled kernel of a form, which is made at once."""
    factory = LabelledRows if arguments[0].labels else block_rows
    return CompiledRows(np, factory, arguments, True, RunCount())


def check(form: RowForm, numbers: Sequence[float], given: Sequence[Any], outs: Sequence[Any]) -> None:
    """NumPy's and the compiled kernel of a form give the same, on two threads where there are rows enough."""
    whole = next(array for name, array in zip(form.inputs, given, strict=True) if form.axes[name] == "rc")
    arguments = (form, whole.shape, np.dtype("float32"), tuple(numbers), 2)
    results = []
    for kernel in (host_rows(*arguments), compiled(arguments)):
        filled = [np.full(shape, 7, np.float32) for shape in outs]
        for _ in range(2):
            with np.errstate(all="ignore"):
                kernel(*given, *filled)
        results.append(filled)
    for found, wanted in zip(*results, strict=True):
        scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1))
        np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=1e-5 * scale)


def drawn(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, int]) -> None:
    x = 20 * drawn(*shape)
    check(SOFTMAX, [-64.0], [x], [shape])
    x.flat[0] = np.nan
    x.flat[-1] = np.inf
    check(SOFTMAX, [-64.0], [x], [shape])
    x.flat[-1] = -np.inf
    check(SOFTMAX, [-64.0], [x], [shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_grad(shape: tuple[int, int]) -> None:
    y = np.exp(drawn(*shape))
    check(SOFTMAX_GRAD, [], [y / y.sum(1, keepdims=True), drawn(*shape)], [shape])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("absent", [(), ("scale",), ("bias",), ("scale", "bias"), ("mean", "variance")])
def test_layer_norm(shape: tuple[int, int], absent: tuple[str, ...]) -> None:
    form = declared("layer_norm").form(**dict.fromkeys(absent))
    arrays = {"x": 100 + drawn(*shape), "scale": drawn(shape[1]), "bias": drawn(shape[1])}
    shapes = {"rc": shape, "r": shape[:1]}
    outs = [shapes[form.axes[name]] for name in form.outputs]
    check(form, [1e-5], [arrays[name] for name in form.inputs], outs)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("absent", [(), ("dx",), ("dscale",), ("dbias",), ("dscale", "dbias"), ("scale",)])
def test_layer_norm_grad(shape: tuple[int, int], absent: tuple[str, ...]) -> None:
    form = declared("layer_norm_grad").form(**dict.fromkeys(absent))
    x = drawn(*shape)
    arrays = {"x": x, "dy": np.cos(x), "scale": drawn(shape[1]), "mean": x.mean(1), "variance": x.var(1)}
    shapes = {"rc": shape, "c": shape[1:]}
    outs = [shapes[form.axes[name]] for name in form.outputs]
    check(form, [1e-5], [arrays[name] for name in form.inputs], outs)


def test_other_dtypes_are_numpys() -> None:
    x = np.random.RandomState(0).randn(4, 9)
    kernel = compiled((SOFTMAX_GRAD, x.shape, x.dtype, (), 1))
    out = np.empty_like(x)
    kernel(x, x, out)
    np.testing.assert_allclose(out, (x - (x * x).sum(1, keepdims=True)) * x)


@pytest.mark.parametrize("shape", SHAPES)
def test_loss_of_labels(shape: tuple[int, int]) -> None:
    x = 20 * drawn(*shape)
    labels = np.arange(shape[0]) * 7 % shape[1]
    check(LOSS, [-64.0, -100], [x, labels], [shape, shape[:1]])
    # as by a loss that overflowed: a row whose label is to be ignored has a loss of 0 nevertheless
    x[::3] = np.nan
    labels[::3] = -100
    check(LOSS, [-64.0, -100], [x, labels], [shape, shape[:1]])
    # what is to be ignored may be a class
    labels = np.arange(shape[0]) % 3 % shape[1]
    check(LOSS, [-64.0, 0], [x, labels], [shape, shape[:1]])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_uniform", [True, False])
def test_loss_of_labels_grad(shape: tuple[int, int], is_uniform: bool) -> None:
    y = np.exp(drawn(*shape))
    y /= y.sum(1, keepdims=True)
    labels = np.arange(shape[0]) * 7 % shape[1]
    d = np.asarray(drawn(shape[0])[0]) if is_uniform else drawn(shape[0])
    form = LOSS_GRAD.form(dloss="" if is_uniform else "r")
    check(form, [-100], [labels, y, d], [shape])
    y[::3] = np.nan
    labels[::3] = -100
    check(form, [-100], [labels, y, d], [shape])
    labels = np.arange(shape[0]) % 3 % shape[1]
    check(form, [0], [labels, y, d], [shape])


def test_a_label_that_is_no_class() -> None:
    x = drawn(600, 250)
    out, loss = np.empty_like(x), np.empty(600, np.float32)
    kernel = compiled((LOSS, x.shape, x.dtype, (-64.0, -100), 2))
    labels = np.full(600, 3)
    for bad in (250, -1):
        labels[500] = bad
        with pytest.raises(KernelError, match=f"label {bad} is not one of 250 classes"):
            kernel(x, labels, out, loss)
    # other labels than those before, and no trace of the mistake
    kernel(x, np.full(600, 249), out, loss)
    np.testing.assert_allclose(loss, -np.log(out[:, 249]), rtol=1e-5)
