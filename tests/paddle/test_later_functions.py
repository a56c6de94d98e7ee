"""Functions of 2.x whose values no row of `golden/functions_2x.py` can hold: drawn ones, and those that are
better here than in 2.6.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.paddle.nn import functional as F

X = np.linspace(-2, 2, 24, dtype="float32").reshape(4, 6)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield


def given(value: np.ndarray, name: str = "x") -> Any:
    """A fed variable that has a gradient."""
    var = paddle.static.data(name, list(value.shape), str(value.dtype))
    var.stop_gradient = value.dtype.kind != "f"
    return var


def run(fetches: list[Any], **feed: np.ndarray) -> list[np.ndarray]:
    """The values of `fetches` in a run."""
    found: list[np.ndarray] = paddle.static.Executor().run(feed=feed, fetch_list=fetches)
    return found


def test_slopes_of_rrelu_are_drawn_between_its_limits() -> None:
    x = given(X)
    out = F.rrelu(x, 0.2, 0.6)
    value, gradient = run([out, paddle.static.gradients([out], [x])[0]], x=X)
    np.testing.assert_array_equal(value[X >= 0], X[X >= 0])
    slopes = value[X < 0] / X[X < 0]
    assert 0.2 <= slopes.min() < slopes.max() <= 0.6
    np.testing.assert_allclose(gradient, np.where(X < 0, value / X, 1), rtol=1e-5)


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_gives_shares(hard: bool) -> None:
    scores = np.tile(np.log(np.array([1, 2, 5], "float32")), (4000, 1))
    (shares,) = run([F.gumbel_softmax(given(scores), hard=hard)], x=scores)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
    drawn = np.bincount(shares.argmax(1), minlength=3) / 4000
    np.testing.assert_allclose(drawn, [0.125, 0.25, 0.625], atol=0.03)
    assert set(np.unique(shares)) == {0, 1} if hard else len(np.unique(shares)) > 100


def test_poisson_has_its_mean() -> None:
    rates = np.full(4000, 2.5, "float32")
    (counts,) = run([paddle.poisson(given(rates))], x=rates)
    assert (counts == counts.round()).all() and abs(counts.mean() - 2.5) < 0.1


def test_least_squares() -> None:
    x, y = X[:, :3] + np.eye(4, 3, dtype="float32"), X[:, 3:5]
    found = run(list(paddle.linalg.lstsq(given(x), given(y, "y"), driver="gelsd")), x=x, y=y)
    for value, wanted in zip(found, np.linalg.lstsq(x, y, rcond=1e-6), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="driver"):
        paddle.linalg.lstsq(given(x, "a"), given(y, "b"), driver="fast")


def test_kthvalue_keeps_the_dimension() -> None:
    """2.6.2 leaves `keepdim` out in programs."""
    value, place = paddle.kthvalue(given(X), 2, 0, keepdim=True)
    assert value.shape == place.shape == (1, 6)
    np.testing.assert_array_equal(run([value], x=X)[0], X[1:2])


def test_the_mode_of_nan_alone() -> None:
    """Each NaN is an element of its own: of nothing else, the first one is returned, as in 2.6.2."""
    rows = np.array([[np.nan, np.nan], [np.nan, 1], [2, 2]], "float32")
    value, place = run(paddle.mode(given(rows)), x=rows)
    np.testing.assert_array_equal(value, [np.nan, 1, 2])
    assert place.tolist() == [0, 1, 1]


def test_a_distance_of_ones_own() -> None:
    """2.6.2's layer forgets its distance function."""
    layer = paddle.nn.TripletMarginWithDistanceLoss(lambda x, y: paddle.sum(paddle.abs(x - y), 1), margin=3.0)
    one, other = given(X), given(X + 1, "y")
    (value,) = run([layer(one, other, one * 2)], x=X, y=X + 1)
    wanted = np.maximum(6 - abs(X).sum(1) + 3, 0).mean()
    np.testing.assert_allclose(value, wanted, rtol=1e-5)


def test_methods() -> None:
    x = given(X[:, :4] + 3 * np.eye(4, dtype="float32"))
    q, r = x.qr()
    found = run([q.matmul(r), x.amax(1), x.moveaxis(0, 1), x.neg()], x=X[:, :4])
    np.testing.assert_allclose(found[0], X[:, :4], atol=1e-5)
    np.testing.assert_array_equal(found[1], X[:, :4].max(1))
    np.testing.assert_array_equal(found[2], X[:, :4].T)
    np.testing.assert_array_equal(found[3], -X[:, :4])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: paddle.bitwise_not(x),
        lambda x: paddle.moveaxis(x, [0, 0], [1, 0]),
        lambda x: paddle.rot90(x, 1, [0, 0]),
        lambda x: paddle.repeat_interleave(x, 2, 5),
        lambda x: paddle.kthvalue(x, 9),
        lambda x: paddle.quantile(x, 1.5),
        lambda x: paddle.quantile(x, "half"),
        lambda x: paddle.nanmedian(x, []),
        lambda x: paddle.bincount(x),
        lambda x: paddle.bucketize(x, x),
        lambda x: paddle.cumprod(x),
        lambda x: paddle.diff(x, 0),
        lambda x: paddle.trapezoid(x, x, 2.0),
        lambda x: paddle.polygamma(x, -1),
        lambda x: paddle.take(x, x, "bounce"),
        lambda x: paddle.unflatten(x, 7, [2, 2]),
        lambda x: paddle.put_along_axis(x, x, 1.0, 0),
        lambda x: paddle.linalg.eigh(x, "X"),
        lambda x: paddle.linalg.cond(x, 7),
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: F.max_unpool2d(x, x, 2, data_format="NHWC"),
    ],
)
def test_wrong_use(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError, AssertionError, RuntimeError), match=r"."):
        wrong(given(X))


def test_products_as_2x_writes_their_gradients() -> None:
    """Its gradient op has the operands in InnerCache alone."""
    x, y = given(X), given(X.T.copy(), "y")
    block = x.block
    names = ("out", "cache_x", "cache_y", "shape_x", "shape_y", "seed", "dx", "dy")
    made = {name: block.create_var(name=name, dtype="float32") for name in names}
    attrs = {"equation": "ij,jk->ik"}
    cache, shapes = [made["cache_x"], made["cache_y"]], [made["shape_x"], made["shape_y"]]
    outputs = {"Out": [made["out"]], "InnerCache": cache, "XShape": shapes}
    block.append_op(type="einsum", inputs={"Operands": [x, y]}, outputs=outputs, attrs=attrs)
    block.append_op(
        type="fill_any_like",
        inputs={"X": [made["out"]]},
        outputs={"Out": [made["seed"]]},
        attrs={"value": 1.0},
    )
    block.append_op(
        type="einsum_grad",
        inputs={"InnerCache": cache, "Out@GRAD": [made["seed"]]},
        outputs={"Operands@GRAD": [made["dx"], made["dy"]]},
        attrs=attrs,
    )
    found = run([made["out"], made["dx"], made["dy"]], x=X, y=X.T)
    ones = np.ones((4, 4), "float32")
    for value, wanted in zip(found, (X @ X.T, ones @ X, X.T @ ones), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5)


def test_gradients_of_grids_come_in_by_the_name_of_2x() -> None:
    x = given(X[0])
    paddle.static.gradients([paddle.meshgrid(x, x)[0]], [x])
    ops = x.block.ops
    assert ["outputs@GRAD" in op.input_names for op in ops if op.type == "meshgrid_grad"] == [True]


def test_exponential_writes_over_its_operand() -> None:
    x = given(np.zeros(4000, "float32"))
    assert x.exponential_(2.0) is x
    (times,) = run([x], x=np.zeros(4000, "float32"))
    assert times.min() >= 0 and abs(times.mean() - 0.5) < 0.05
    with pytest.raises(TypeError, match="INT64"):
        given(np.zeros(2, "int64"), "i").exponential_()


@pytest.mark.parametrize("count", [2, 6])
def test_samples_of_classes_hold_those_that_occur(count: int) -> None:
    labels = np.array([5, 1, 5, 9])
    places, classes = run([*F.class_center_sample(given(labels), 20, count)], x=labels)
    np.testing.assert_array_equal(places, [1, 0, 1, 2])
    assert classes[:3].tolist() == [1, 5, 9] and len(classes) == max(count, 3)
    assert len(set(classes.tolist())) == len(classes) and 0 <= classes.min() and classes.max() < 20
    with pytest.raises(ValueError, match="num_samples 21"):
        F.class_center_sample(given(labels, "y"), 20, 21)


def started(initializer: Any, shape: list[int], dtype: str = "float32") -> np.ndarray:
    """The value that a parameter begins with."""
    parameter = paddle.create_parameter(shape, dtype, default_initializer=initializer)
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    return np.array(executor.run(fetch_list=[parameter])[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dirac_hands_on_channels(dtype: str) -> None:
    found = started(paddle.nn.initializer.Dirac(2), [4, 2, 3], dtype)
    wanted = np.zeros((4, 2, 3))
    wanted[[0, 1, 2, 3], [0, 1, 0, 1], 1] = 1
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(AssertionError, match="divisible by groups"):
        started(paddle.nn.initializer.Dirac(3), [4, 2, 3])


@pytest.mark.parametrize("shape", [[4, 3], [3, 4], [2, 3, 2]])
def test_orthogonal_rows_or_columns(shape: list[int]) -> None:
    found = started(paddle.nn.initializer.Orthogonal(gain=2.0), shape).reshape(shape[0], -1)
    tall = found if found.shape[0] >= found.shape[1] else found.T
    np.testing.assert_allclose(tall.T @ tall, 4 * np.eye(tall.shape[1]), atol=1e-5)


def test_programs_for_tests_keep_gradients_where_there_is_no_loss() -> None:
    x = given(X)
    (gradient,) = paddle.static.gradients([paddle.sum(paddle.square(x))], [x])
    test = paddle.static.default_main_program().clone(for_test=True)
    (found,) = paddle.static.Executor().run(test, feed={"x": X}, fetch_list=[gradient.name])
    np.testing.assert_allclose(found, 2 * X)


def test_audio() -> None:
    audio = paddle.audio.functional
    power = np.array([[0.1, 1, 3], [2, 0, 1e-12]])
    windows = [audio.get_window(name, 5) for name in ("hann", ("gaussian", 2.0), "triang")]
    decibels = audio.power_to_db(given(power), top_db=10.0)
    found = run([decibels, audio.create_dct(3, 4), audio.fft_frequencies(8, 4), *windows], x=power)
    exact = 10 * np.log10(np.maximum(power, 1e-10))
    np.testing.assert_allclose(found[0], np.maximum(exact, exact.max() - 10))
    np.testing.assert_allclose(found[1].T @ found[1], np.eye(3), atol=1e-6)
    np.testing.assert_allclose(found[2], [0, 2, 4])
    np.testing.assert_allclose(found[3], np.sin(np.pi * np.arange(5) / 5) ** 2, atol=1e-12)
    assert [window.dtype.name for window in found[3:]] == ["float64"] * 3
    with pytest.raises(ValueError, match="Unknown window type 'box'"):
        audio.get_window("box", 3)
    with pytest.raises(ValueError, match="needs one or more parameters"):
        audio.get_window("gaussian", 3)


def test_nothing_has_no_segments() -> None:
    rows, ids = np.zeros((0, 2), "float32"), np.zeros(0, "int64")
    (found,) = run([paddle.geometric.segment_max(given(rows), given(ids, "i"))], x=rows, i=ids)
    assert found.shape == (0, 2)
