"""Gradients of functions of the 2.x door at 0, where formulas have 0 / 0 or 0 * inf, and labels that do not
count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite import backward

F = paddle.nn.functional
ZEROS = {
    "frexp": (lambda x: paddle.frexp(x)[0], [0, 0.5, 0.25]),
    "frobenius": (lambda x: paddle.norm(x * 0.0, "fro"), [0, 0, 0]),
    "x ** 0": (lambda x: paddle.pow(x, paddle.zeros_like(x)), [0, 0, 0]),
    "x ** 2": (lambda x: paddle.pow(x, paddle.full_like(x, 2.0)), [0, 2, 6]),
    "0 ** (x + 1)": (lambda x: paddle.pow(paddle.zeros_like(x), x + 1.0), [0, 0, 0]),
}


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("name", ZEROS)
def test_gradients_at_zero(name: str, naive: bool) -> None:
    function: Callable[[Any], Any] = ZEROS[name][0]
    x = paddle.static.data("x", [3], "float64")
    x.stop_gradient = False
    (gradient,) = backward.gradients([function(x)], [x])
    exe = paddle.static.Executor()
    exe.naive = naive
    (found,) = exe.run(feed={"x": np.array([0.0, 1, 3])}, fetch_list=[gradient])
    np.testing.assert_allclose(found, ZEROS[name][1])


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_smoothed_labels_that_do_not_count(reduction: str) -> None:
    """2.6.2 adds the losses of ignored labels, too, where labels are smoothed."""
    scores, labels, share, ignored = (
        np.array([[1.0, 2, 0.5], [0, 1, 3], [2, 2, 1]]),
        np.array([0, 7, 2]),
        0.1,
        7,
    )
    x, y = paddle.static.data("x", [3, 3], "float64"), paddle.static.data("y", [3], "int64")
    loss = F.cross_entropy(x, y, ignore_index=ignored, reduction=reduction, label_smoothing=share)
    (found,) = paddle.static.Executor().run(feed={"x": scores, "y": labels}, fetch_list=[loss])
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    target = np.eye(3)[[0, 0, 2]] * (1 - share) + share / 3
    each = -(target * logs).sum(1) * (labels != ignored)
    wanted = {"none": each, "sum": each.sum(), "mean": each.sum() / 2}[reduction]
    np.testing.assert_allclose(found.reshape(np.shape(wanted)), wanted)


def test_mean_over_a_batch_of_any_size() -> None:
    x, y = paddle.static.data("x", [None, 3]), paddle.static.data("y", [None, 3])
    loss = F.kl_div(x, y, "batchmean")
    feed = {"x": np.full((4, 3), -1, "float32"), "y": np.full((4, 3), 1, "float32")}
    (found,) = paddle.static.Executor().run(feed=feed, fetch_list=[loss])
    np.testing.assert_allclose(found, 3.0)


def test_a_number_of_no_dimensions_is_not_added_to_all() -> None:
    x, number = paddle.static.data("x", [2], "float64"), paddle.static.data("number", [], "float64")
    with pytest.raises(ValueError, match=r"one shape, but these have \[2\], \[\]"):
        paddle.add_n([x, number])


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("what", ["ignored", "weight 0", "no label"])
def test_the_weighted_mean_of_nothing(what: str, soft: bool) -> None:
    """0, as 2.6.2 has it: the sum of the weights that the losses are divided by is 0."""
    x = paddle.static.data("x", [3, 4], "float64")
    x.stop_gradient = False
    y = paddle.static.data("y", [3, 4], "float64") if soft else paddle.static.data("y", [3], "int64")
    weight = paddle.static.data("weight", [4], "float64")
    ignored = 1 if what == "ignored" and not soft else -100
    loss = F.cross_entropy(x, y, weight, ignored, soft_label=soft)
    (gradient,) = backward.gradients([loss], [x])
    labels = np.zeros((3, 4)) if soft else np.full(3, ignored)
    if what == "weight 0":
        labels = np.ones((3, 4)) if soft else np.arange(3)
    weights = np.full(4, 0.0 if what == "weight 0" else 2.0)
    feed = {"x": np.ones((3, 4)), "y": labels, "weight": weights}
    found = paddle.static.Executor().run(feed=feed, fetch_list=[loss, gradient])
    assert found[0] == 0 and not found[1].any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
def test_numbers_without_dimensions_keep_their_shape(dtype: str) -> None:
    """Also where a kernel puts elements in order: NumPy's function for that makes one dimension of none."""
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [], dtype)
        found = [paddle.transpose(x, []), paddle.transpose(paddle.transpose(x, []), [])]
        if dtype != "complex64":
            found += [paddle.crop(x, [], []), paddle.flip(x, [])]
        values = paddle.static.Executor().run(feed={"x": np.array(3, dtype)}, fetch_list=found)
        assert [(value.shape, value.dtype, value) for value in values] == [((), dtype, 3)] * len(found)


def test_what_is_clipped_gets_no_gradient_however_large() -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [3], "float64")
        x.stop_gradient = False
        (dx,) = paddle.static.gradients(
            [paddle.clip(x, -1, 1) * paddle.static.data("w", [3], "float64")], [x]
        )
        feed = {"x": np.array([-2.0, 0.5, 3.0]), "w": np.array([np.inf, 2, np.nan])}
        (found,) = paddle.static.Executor().run(feed=feed, fetch_list=[dx])
    np.testing.assert_array_equal(found, [0, 2, 0])
