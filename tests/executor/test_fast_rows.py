"""Compiled kernels over rows against NumPy's, whose place they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fluidlite.executor.fast.loops.compiler import RunCount
from fluidlite.executor.fast.loops.rows import compiled_rows
from fluidlite.executor.run import rows

SHAPES = [(1, 1), (3, 5), (4, 16), (7, 64), (33, 129), (600, 250)]


def check(kind: Any, options: Sequence[Any], given: Sequence[Any], outs: Sequence[Any]) -> None:
    """Both kernels of a kind give the same, on two threads where there are rows enough."""
    arguments = (*given[0].shape, np.dtype("float32"), 2, *options)
    results = []
    for kernel in (kind(np, *arguments), compiled_rows(np, kind, arguments, True, RunCount())):
        filled = [None if shape is None else np.full(shape, 7, np.float32) for shape in outs]
        for _ in range(2):
            with np.errstate(all="ignore"):
                kernel(*given, *filled)
        results.append([array for array in filled if array is not None])
    for found, wanted in zip(*results, strict=True):
        scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1))
        np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=1e-5 * scale)


def drawn(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, int]) -> None:
    x = 20 * drawn(*shape)
    check(rows.Softmax, [-64.0], [x], [shape])
    x.flat[0] = np.nan
    x.flat[-1] = np.inf
    check(rows.Softmax, [-64.0], [x], [shape])
    x.flat[-1] = -np.inf
    check(rows.Softmax, [-64.0], [x], [shape])


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_grad(shape: tuple[int, int]) -> None:
    y = np.exp(drawn(*shape))
    check(rows.SoftmaxGrad, [], [y / y.sum(1, keepdims=True), drawn(*shape)], [shape])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("present", [(True, True), (False, True), (True, False), (False, False)])
def test_layer_norm(shape: tuple[int, int], present: tuple[bool, bool]) -> None:
    scale, bias = (drawn(shape[1]) if has else None for has in present)
    count = shape[:1]
    check(rows.LayerNorm, [1e-5], [100 + drawn(*shape), scale, bias], [shape, count, count])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("wanted", [(1, 1, 1), (0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 0, 0)])
@pytest.mark.parametrize("has_scale", [True, False])
def test_layer_norm_grad(shape: tuple[int, int], wanted: tuple[int, int, int], has_scale: bool) -> None:
    x, d = drawn(*shape), np.cos(drawn(*shape))
    scale = drawn(shape[1]) if has_scale else None
    sizes = (shape, shape[1:], shape[1:])
    outs = [size if is_wanted else None for size, is_wanted in zip(sizes, wanted, strict=True)]
    check(rows.LayerNormGrad, [1e-5], [x, scale, x.mean(1), x.var(1), d], outs)


def test_other_dtypes_are_numpys() -> None:
    x = np.random.RandomState(0).randn(4, 9)
    kernel = compiled_rows(np, rows.SoftmaxGrad, (4, 9, x.dtype, 1), True, RunCount())
    out = np.empty_like(x)
    kernel(x, x, out)
    np.testing.assert_allclose(out, (x - (x * x).sum(1, keepdims=True)) * x)


@pytest.mark.parametrize("shape", SHAPES)
def test_loss_of_labels(shape: tuple[int, int]) -> None:
    x = 20 * drawn(*shape)
    labels = np.arange(shape[0]) * 7 % shape[1]
    check(rows.SoftmaxLoss, [-64.0, -100], [x, labels], [shape, shape[:1]])
    # as by a loss that overflowed: a row whose label is to be ignored has a loss of 0 nevertheless
    x[::3] = np.nan
    labels[::3] = -100
    check(rows.SoftmaxLoss, [-64.0, -100], [x, labels], [shape, shape[:1]])
    # what is to be ignored may be a class
    labels = np.arange(shape[0]) % 3 % shape[1]
    check(rows.SoftmaxLoss, [-64.0, 0], [x, labels], [shape, shape[:1]])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_uniform", [True, False])
def test_loss_of_labels_grad(shape: tuple[int, int], is_uniform: bool) -> None:
    y = np.exp(drawn(*shape))
    y /= y.sum(1, keepdims=True)
    labels = np.arange(shape[0]) * 7 % shape[1]
    d = np.asarray(drawn(shape[0])[0]) if is_uniform else drawn(shape[0])
    check(rows.SoftmaxLossGrad, [-100], [y, labels, d], [shape])
    y[::3] = np.nan
    labels[::3] = -100
    check(rows.SoftmaxLossGrad, [-100], [y, labels, d], [shape])
    labels = np.arange(shape[0]) % 3 % shape[1]
    check(rows.SoftmaxLossGrad, [0], [y, labels, d], [shape])


def test_a_label_that_is_no_class() -> None:
    x = drawn(600, 250)
    out, loss = np.empty_like(x), np.empty(600, np.float32)
    kernel = compiled_rows(np, rows.SoftmaxLoss, (*x.shape, x.dtype, 2, -64.0, -100), True, RunCount())
    labels = np.full(600, 3)
    for bad in (250, -1):
        labels[500] = bad
        with pytest.raises(ValueError, match=f"label {bad} is not one of the 250 classes"):
            kernel(x, labels, out, loss)
    # other labels than those before, and no trace of the mistake
    kernel(x, np.full(600, 249), out, loss)
    np.testing.assert_allclose(loss, -np.log(out[:, 249]), rtol=1e-5)
