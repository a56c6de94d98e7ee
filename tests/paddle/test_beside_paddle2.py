"""Values, gradients and declared shapes of static programs of 2.x, as 2.6.2 has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.paddle import static
from fluidlite.paddle.nn import functional as F

X = np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(3, 4)


@pytest.fixture(autouse=True)
def _program() -> Any:
    with static.program_guard(static.Program(), static.Program()):
        yield


def given(value: np.ndarray, shape: Any = None, name: str = "x") -> Any:
    """A fed variable that has a gradient."""
    var = static.data(name, list(value.shape) if shape is None else shape, str(value.dtype))
    var.stop_gradient = value.dtype.kind != "f"
    return var


def run(fetches: list[Any], **feed: np.ndarray) -> list[np.ndarray]:
    """The values of `fetches` in a run."""
    exe = static.Executor()
    exe.run(static.default_startup_program())
    return exe.run(feed=feed, fetch_list=fetches)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_ignored_labels_have_no_gradient(reduction: str) -> None:
    labels = np.array([2, 0, 1])
    x, label = given(X), given(labels, name="label")
    loss = F.cross_entropy(x, label, ignore_index=0, reduction=reduction)
    value, gradient = run([loss, static.gradients([loss], [x])[0]], x=X, label=labels)
    softmax = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    rows = -np.log(softmax[np.arange(3), labels]) * [1, 0, 1]
    wanted = (softmax - np.eye(4)[labels]) * [[1], [0], [1]] / (2 if reduction == "mean" else 1)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)
    found = {"none": rows, "sum": rows.sum(), "mean": rows.sum() / 2}[reduction]
    np.testing.assert_allclose(value, found, rtol=1e-5, atol=1e-6)


def test_expand_as_takes_the_size_of_the_run() -> None:
    small, large = X[:1], np.zeros((3, 4), "float32")
    x, y = given(small, [1, 4]), given(large, [-1, 4], "y")
    out = paddle.expand_as(x, y)
    assert out.shape == (-1, 4)
    value, gradient = run([out, static.gradients([out], [x])[0]], x=small, y=large)
    np.testing.assert_array_equal(value, np.repeat(small, 3, 0))
    np.testing.assert_array_equal(gradient, np.full((1, 4), 3.0))


def test_temporal_shift_with_channels_last() -> None:
    images = np.arange(4 * 4 * 2 * 2, dtype="float32").reshape(4, 4, 2, 2)
    x, y = given(images), given(np.moveaxis(images, 1, -1), name="y")
    first = F.temporal_shift(x, 2, 0.25)
    last = F.temporal_shift(y, 2, 0.25, data_format="NHWC")
    weights = paddle.to_tensor(np.arange(64, dtype="float32").reshape(4, 2, 2, 4))
    gradient = static.gradients([paddle.sum(last * weights)], [y])[0]
    wanted = static.gradients([paddle.sum(first * weights.transpose([0, 3, 1, 2]))], [x])[0]
    found = run([first, last, wanted, gradient], x=images, y=np.moveaxis(images, 1, -1))
    np.testing.assert_array_equal(np.moveaxis(found[0], 1, -1), found[1])
    np.testing.assert_array_equal(np.moveaxis(found[2], 1, -1), found[3])


def test_gather_along_an_axis_in_a_tensor() -> None:
    x = given(X)
    out = paddle.gather(x, paddle.to_tensor([1, 1]), paddle.to_tensor([1], dtype="int32"))
    value, gradient = run([out, static.gradients([out], [x])[0]], x=X)
    np.testing.assert_array_equal(value, X[:, [1, 1]])
    np.testing.assert_array_equal(gradient, [[0, 2, 0, 0]] * 3)


def test_dtypes_that_follow_from_arguments() -> None:
    end = given(np.array([4], "float32"), name="end")
    assert paddle.arange(0, end, 1).dtype == paddle.float32
    assert paddle.arange(0, paddle.full([1], 4, "int64")).dtype == paddle.int64
    condition = paddle.to_tensor([True, False])
    assert paddle.where(condition, 1.0, 2.0).dtype == paddle.float64
    assert paddle.where(condition, 1, 2).dtype == paddle.int64


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: paddle.max(x, axis=-3),
        lambda x: paddle.sum(x, axis=[0, 2]),
        lambda x: paddle.median(x, axis=2),
        lambda x: paddle.median(static.data("rows", [-1, 4]), axis=0),
        lambda x: paddle.allclose(x, x[0]),
        lambda x: paddle.isclose(x, x[0]),
    ],
)
def test_dimensions_that_are_not_there(wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError):
        wrong(given(X))


def test_local_response_norm_of_pictures_of_any_size() -> None:
    images = np.linspace(-1, 1, 2 * 3 * 4 * 4, dtype="float32").reshape(2, 3, 4, 4)
    whole = F.local_response_norm(given(images), 3)
    rows = F.local_response_norm(given(images, [-1, 3, 4, 4], "y"), 3)
    any_size = F.local_response_norm(given(images, [-1, 3, -1, -1], "z"), 3)
    found = run([whole, rows, any_size], x=images, y=images, z=images)
    for value in found[1:]:
        np.testing.assert_array_equal(value, found[0])


def test_branches_may_return_numbers() -> None:
    out = static.nn.cond(given(np.array([True]), name="yes"), lambda: (1, 2.5), lambda: (2, 0.5))
    first, second = run(list(out), yes=np.array([False]))
    assert (first.shape, first.dtype, int(first), float(second)) == ((), np.int64, 2, 0.5)


def test_branches_of_other_shapes_declare_what_they_share() -> None:
    yes = static.data("yes", [1], "bool")
    out = static.nn.cond(yes, lambda: paddle.full([2, 4], 1.0), lambda: paddle.full([3, 4], 2.0))
    assert out.shape == (-1, 4)


def test_norms_without_parameters_of_their_own() -> None:
    image = static.data("image", [2, 4, 3, 3])
    static.nn.instance_norm(image)
    static.nn.instance_norm(image, param_attr=paddle.ParamAttr(name="scale"))
    assert not static.default_main_program().all_parameters()
    static.nn.instance_norm(image, param_attr="scale", bias_attr="shift")
    norm = paddle.nn.GroupNorm(2, 4, weight_attr=False, bias_attr=False)
    assert (norm.weight.stop_gradient, norm.bias.stop_gradient) == (True, True)
    names = [parameter.name for parameter in static.default_main_program().all_parameters()]
    assert names == ["scale", "shift", "group_norm_0.w_0", "group_norm_0.b_0"]
    with pytest.raises(AssertionError):
        static.nn.instance_norm(image, param_attr=False)


def test_old_batch_norm_keeps_to_what_it_was_made_for() -> None:
    norm = paddle.nn.BatchNorm(4)
    norm.eval()
    norm(given(X))
    paddle.nn.BatchNorm(4, is_test=True)(given(X, name="y"))
    made = [op.attr("is_test") for op in static.default_main_program().global_block().ops]
    assert made == [False, True]


def test_dropout_of_nothing_is_no_op() -> None:
    x = given(X)
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 0, training=False, mode="downscale_in_infer") is x
