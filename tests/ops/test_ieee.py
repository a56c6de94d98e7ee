"""Infinities, nan and signed zeros: the same by interpreter, plan and compiled loops."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.contrib.layers import basic_lstm

layers = fluid.layers
NAN, INF = np.nan, np.inf
SPECIAL = np.array(
    [NAN, INF, -INF, -0.0, 0.0, 1.0, -1.0, 2.5, 1e-40, -1e-40, 3e38, -3e38, 0.5, 88.8, -104.0], "float32"
)
X, Y = np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))
UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "elu",
    "erf",
    "exp",
    "floor",
    "gelu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "log",
    "log1p",
    "logsigmoid",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "selu",
    "sigmoid",
    "sign",
    "sin",
    "soft_relu",
    "softplus",
    "softshrink",
    "softsign",
    "sqrt",
    "square",
    "stanh",
    "swish",
    "tanh",
    "tanh_shrink",
    "thresholded_relu",
    "brelu",
]
MORE: dict[str, Callable[[Any, Any], Any]] = {
    "leaky_relu 0": lambda x, y: layers.leaky_relu(x, alpha=0.0),
    "leaky_relu 2": lambda x, y: layers.leaky_relu(x, alpha=2.0),
    "leaky_relu below 0": lambda x, y: layers.leaky_relu(x, alpha=-0.5),
    "scale by 1": lambda x, y: layers.scale(x, 1.0),
    "scale by -1": lambda x, y: -x,
    "plus 0": lambda x, y: x + 0.0,
    "minus 0": lambda x, y: x - 0.0,
    "clip": lambda x, y: layers.clip(x, -1.0, 1.0),
    "add": lambda x, y: x + y,
    "max": layers.elementwise_max,
    "min": layers.elementwise_min,
    "div": layers.elementwise_div,
    "pow": layers.elementwise_pow,
    "add and relu": lambda x, y: layers.elementwise_add(x, y, act="relu"),
    "sum": lambda x, y: layers.sum([x, y]),
    "largest": lambda x, y: layers.reduce_max(layers.reshape(y, [-1, 3]), 1),
    "smallest": lambda x, y: layers.reduce_min(layers.reshape(y, [-1, 3]), 0),
    "pooled": lambda x, y: layers.pool2d(layers.reshape(y, [-1, 1, 5, 3]), [5, 1], "max", [5, 1]),
    "top": lambda x, y: layers.topk(layers.reshape(y, [-1, 3]), 2)[0],
    "softmax": lambda x, y: layers.softmax(layers.reshape(y, [-1, 3])),
}


def computed(build: Callable[[Any, Any], Any], naive: bool, feed: dict[str, Any]) -> list[np.ndarray]:
    """The second run's results of a layer, and its gradients."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x, y = (fluid.data(name, list(value.shape)) for name, value in feed.items())
        x.stop_gradient = y.stop_gradient = False
        out = build(x, y)
        gradients = [each for each in fluid.gradients(out, [x, y]) if each is not None]
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        exe.run(fluid.default_startup_program())
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [exe.run(feed=feed, fetch_list=[out, *gradients]) for _ in range(2)][1]


def alike(found: np.ndarray, wanted: np.ndarray) -> None:
    """The same nan, infinities and signs of zeros; other numbers but for rounding."""
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    zeros = (found == 0) & (wanted == 0)
    np.testing.assert_array_equal(np.signbit(found)[zeros], np.signbit(wanted)[zeros])


@pytest.mark.parametrize("loops", ["off", "wait"])
@pytest.mark.parametrize("name", [*UNARY, *MORE])
def test_three_ways(name: str, loops: str, flags: Callable[..., None]) -> None:
    flags(fast_loops=loops)
    build = MORE.get(name) or (lambda x, y: getattr(layers, name)(x))
    feed = {"x": X, "y": Y}
    plan, naive = (computed(build, naive, feed) for naive in (False, True))
    for found, wanted in zip(plan, naive, strict=True):
        alike(found, wanted)


RIGHT: dict[str, tuple[Callable[[Any, Any], Any], list[float], list[float]]] = {
    "leaky_relu": (MORE["leaky_relu 0"], [INF, -INF, 2, -2], [INF, 0, 2, 0]),
    "zeros": (lambda x, y: 1.0 / (x + 0.0), [-0.0, 0.0], [INF, INF]),
    "scaled zeros": (lambda x, y: 1.0 / layers.scale(x, 1.0), [-0.0, 0.0], [INF, INF]),
    "less a zero": (lambda x, y: 1.0 / (x - 0.0), [-0.0, 0.0], [-INF, INF]),
    "max": (layers.elementwise_max, [NAN, 1, -INF], [NAN, 1, 1]),
    "min": (layers.elementwise_min, [NAN, 1, INF], [NAN, 1, 1]),
    "largest": (lambda x, y: layers.reduce_max(x), [NAN, 1, 2], [NAN]),
    "pooled": (lambda x, y: layers.pool2d(layers.reshape(x, [1, 1, 2, 2]), 2), [NAN, 1, 2, 0], [NAN]),
    "sign": (lambda x, y: layers.sign(x), [NAN, -3, 0], [NAN, -1, 0]),
    "log": (lambda x, y: layers.log(x), [INF, 0], [INF, -INF]),
    "rsqrt": (lambda x, y: layers.rsqrt(x), [INF, 4], [0, 0.5]),
    "clip_by_norm": (lambda x, y: layers.clip_by_norm(x, 1.0), [3, NAN, 400], [NAN, NAN, NAN]),
    "clip_by_norm of zeros": (lambda x, y: layers.clip_by_norm(x, 1.0), [0, 0], [0, 0]),
}


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, naive: bool) -> None:
    build, given, wanted = RIGHT[name]
    x = fluid.data("x", [len(given)])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    out = build(x, layers.ones_like(x))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (found,) = exe.run(feed={"x": np.array(given, "float32")}, fetch_list=[out])
    np.testing.assert_array_equal(found.reshape(-1), np.array(wanted, "float32"))


@pytest.mark.parametrize("naive", [False, True])
def test_ignored_rows_may_be_nan(naive: bool) -> None:
    rows = np.array([[NAN, 1, 2], [INF, 0, 1]], "float32")

    def softmax(x: Any, y: Any) -> Any:
        labels = layers.fill_constant([2, 1], "int64", -100)
        return layers.softmax_with_cross_entropy(x, labels) + 0.0 * layers.reduce_sum(y)

    def sigmoid(x: Any, y: Any) -> Any:
        return layers.sigmoid_cross_entropy_with_logits(x, y, ignore_index=-1, normalize=True)

    for build in (softmax, sigmoid):
        out, dx, *_ = computed(build, naive, {"x": rows, "y": -np.ones_like(rows)})
        assert not out.any() and not dx.any()


@pytest.mark.parametrize("naive", [False, True])
def test_rows_without_a_direction(naive: bool) -> None:
    x, y = np.array([[0, 0, 0], [1, 2, 3]], "float32"), np.ones((2, 3), "float32")
    out, dx, dy = computed(layers.cos_sim, naive, {"x": x, "y": y})
    np.testing.assert_allclose(out.ravel(), [0, 6 / np.sqrt(42)], rtol=1e-6)
    assert np.isfinite(dx).all() and not dy[0].any()


def test_infinite_scores_of_a_pair() -> None:
    scores = np.array([[1, -INF, 3]], "float32")
    out, dx, *_ = computed(
        lambda x, y: (
            layers.bpr_loss(x, layers.fill_constant([1, 1], "int64", 1)) + 0.0 * layers.reduce_sum(y)
        ),
        True,
        {"x": scores, "y": np.zeros_like(scores)},
    )
    assert out.item() == INF
    np.testing.assert_allclose(dx, [[0.5, -1, 0.5]])


def test_division_of_fewer_dimensions() -> None:
    x, y = fluid.data("x", [3], "int32"), fluid.data("y", [2, 3], "int32")
    feed = {"x": np.array([7, 8, 9], "int32"), "y": np.array([[2, 3, 4], [1, 2, 3]], "int32")}
    out = layers.elementwise_floordiv(x, y)
    (found,) = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[out])
    np.testing.assert_array_equal(found, feed["x"] // feed["y"])


def test_slices_that_keep_nothing() -> None:
    x = fluid.data("x", [4])
    outs = [layers.strided_slice(x, [0], [start], [end], [1]) for start, end in ((5, 9), (2, 2), (3, 1))]
    outs.append(layers.trace(layers.reshape(x, [2, 2]), offset=5))
    *parts, diagonal = fluid.Executor(fluid.CPUPlace()).run(
        feed={"x": np.arange(4, dtype="float32")}, fetch_list=outs
    )
    assert [part.shape for part in parts] == [(0,)] * 3 and diagonal.tolist() == [0]


def test_both_directions_start_from_zeros() -> None:
    values = np.arange(12.0).reshape(3, 2, 2) / 6 - 0.9
    half, tenth = (fluid.ParamAttr(initializer=fluid.initializer.Constant(value)) for value in (0.5, 0.1))
    x = fluid.data("x", [3, 2, 2])
    out, *_ = basic_lstm(
        x, None, None, 2, bidirectional=True, batch_first=False, param_attr=half, bias_attr=tenth
    )
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    (found,) = exe.run(feed={"x": values.astype("float32")}, fetch_list=[out])

    def sigmoid(z: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-z))

    hidden = cell = np.zeros((2, 2))
    wanted = []
    for step in values[::-1]:
        i, j, f, o = np.split(np.concatenate([step, hidden], 1) @ np.full((4, 8), 0.5) + 0.1, 4, 1)
        cell = cell * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        hidden = np.tanh(cell) * sigmoid(o)
        wanted.append(hidden)
    np.testing.assert_allclose(found[:, :, 2:], wanted[::-1], rtol=1e-5)


@pytest.mark.parametrize("naive", [False, True])
def test_points_at_infinity_move_no_pixel(naive: bool) -> None:
    image = np.arange(4, dtype="float32").reshape(1, 1, 2, 2)
    grid = np.array([0.5, 0.5, INF, 0, NAN, 0, -1, -INF], "float32").reshape(1, 2, 2, 2)
    _, dx, _ = computed(layers.grid_sampler, naive, {"x": image, "y": grid})
    np.testing.assert_allclose(dx.ravel(), [0.0625, 0.1875, 0.1875, 0.5625])


@pytest.mark.parametrize("naive", [False, True])
def test_no_nan_is_equal_to_another(naive: bool) -> None:
    out, index, count = layers.unique_with_counts(fluid.data("x", [5]), dtype="int64")
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    x = np.array([2, NAN, 2, NAN, 1], "float32")
    found = exe.run(feed={"x": x}, fetch_list=[out, index, count])
    np.testing.assert_array_equal(found[0], [2, NAN, NAN, 1])
    assert [each.tolist() for each in found[1:]] == [[0, 1, 0, 2, 3], [2, 1, 1, 1]]


def test_a_score_that_is_nan_leaves_other_slopes_alone() -> None:
    scores = np.array([[1, NAN, 3]], "float32")
    _, dx, *_ = computed(
        lambda x, y: layers.bpr_loss(x, layers.zeros([1, 1], "int64")) + 0.0 * layers.reduce_sum(y),
        True,
        {"x": scores, "y": np.zeros_like(scores)},
    )
    np.testing.assert_allclose(dx, [[NAN, NAN, 0.5 / (1 + np.exp(-2))]], rtol=1e-6)


@pytest.mark.parametrize("naive", [False, True])
def test_a_norm_that_is_nan_has_no_slope(naive: bool) -> None:
    x, y = np.array([1, NAN], "float32"), np.zeros(2, "float32")
    _, dx, dy = computed(lambda x, y: layers.dist(x, y, p=2), naive, {"x": x, "y": y})
    assert np.isnan(dx).all() and np.isnan(dy).all()


def resized(mode: str, corners: bool, size: int, naive: bool) -> Callable[..., list[np.ndarray]]:
    """A function of images of 5 pixels a dimension, and slopes: images of `size`, and the gradient."""
    rank = {"linear": 1, "trilinear": 3}.get(mode, 2)
    layout = {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank]
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [1, 1] + [5] * rank, "float64")
        x.stop_gradient = False
        out = paddle.nn.functional.interpolate(
            x, [size] * rank, mode=mode, align_corners=corners, data_format=layout
        )
        slope = paddle.static.data("slope", out.shape, "float64")
        grad = paddle.static.gradients(out, x, slope)[0]
    exe = paddle.static.Executor()
    exe.naive = naive

    def run(image: np.ndarray, slopes: np.ndarray) -> list[np.ndarray]:
        feed = {"x": image.reshape(x.shape), "slope": slopes.reshape(out.shape)}
        return list(exe.run(main, feed=feed, fetch_list=[out, grad]))

    return run


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(("mode", "rank"), [("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3)])
def test_pixels_without_weight_are_not_read(mode: str, rank: int, corners: bool, naive: bool) -> None:
    """An infinite pixel is seen where it has a weight, and there alone; so is an infinite slope."""
    # beside an edge, cubic taps of both signs meet one pixel
    shifts = (0,) if mode == "bicubic" else (0, 1)
    for size in (3, 5, 9):
        run = resized(mode, corners, size, naive)
        for shift in shifts:
            pixel, slope = np.eye(5**rank)[5**rank // 2 - shift], np.eye(size**rank)[size**rank // 2 - shift]
            weights, shares = run(pixel, slope)
            with np.errstate(all="ignore"):
                found = run(np.where(pixel, INF, 0), np.where(slope, INF, 0))
                for given, wanted in zip(found, (weights, shares), strict=True):
                    np.testing.assert_array_equal(given, np.where(wanted == 0, 0, wanted * INF))


@pytest.mark.parametrize("naive", [False, True])
def test_nothing_is_read_at_infinity(naive: bool) -> None:
    """A tap whose offset is infinite, or NaN, reads nothing, whatever its mask; the others do not see it."""
    image = np.arange(1, 10, dtype="float32").reshape(1, 1, 3, 3)
    offset = np.zeros((1, 2, 3, 3), "float32")
    offset[0, 0, 0, 0], offset[0, 1, 1, 1], offset[0, 0, 2, 2] = INF, -INF, NAN
    mask = np.ones((1, 1, 3, 3), "float32")
    mask[0, 0, 1, 1] = INF

    def build(x: Any, y: Any) -> Any:
        ones = fluid.ParamAttr(initializer=fluid.initializer.Constant(1.0))
        return layers.deformable_conv(
            x, y, layers.assign(mask), 1, 1, param_attr=ones, bias_attr=False, im2col_step=1
        )

    out, dx, dy = computed(build, naive, {"x": image, "y": offset})
    seen = np.isfinite(offset).all(1).reshape(image.shape)
    np.testing.assert_allclose(out, image * seen)
    np.testing.assert_allclose(dx, seen)
    assert np.isfinite(dy).all()


@pytest.mark.parametrize("shape", [(2, 1, 4, 4), (2, 1, 4, 40)])
@pytest.mark.parametrize("naive", [False, True])
def test_maxima_with_places_of_nan_and_minus_infinity(naive: bool, shape: tuple[int, ...]) -> None:
    """The first NaN of a window, else the first of its largest elements, has the maximum and the slope."""
    image = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    image[0, 0, :2, :2], image[1, 0, 2, 1] = -INF, NAN
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", shape)
        x.stop_gradient = False
        out, places = paddle.nn.functional.max_pool2d(x, 2, return_mask=True)
        exe = paddle.static.Executor()
        exe.naive = naive
        fetches = [out, places, *paddle.static.gradients(out, x)]
        found, at, dx = exe.run(feed={"x": image}, fetch_list=fetches)
    windows = image.reshape(2, 2, 2, -1, 2).transpose(0, 1, 3, 2, 4).reshape(*out.shape, 4)
    np.testing.assert_array_equal(found, windows.max(-1))
    best = windows.argmax(-1)  # of NumPy, too, the first NaN
    rows, columns = np.indices(out.shape)[2:] * 2
    wanted = (rows + best // 2) * shape[3] + columns + best % 2
    np.testing.assert_array_equal(at, wanted)
    slopes = np.zeros((2, shape[2] * shape[3]))
    np.put_along_axis(slopes, wanted.reshape(2, -1), 1, axis=1)
    np.testing.assert_array_equal(dx.reshape(2, -1), slopes)


@pytest.mark.parametrize("special", ["rows", "filter"])
@pytest.mark.parametrize("layer", ["sequence_conv", "row_conv"])
def test_windows_of_one_sequence_do_not_see_another(layer: str, special: str) -> None:
    """The gradients are sums over the rows that windows read, of infinities too: nothing is 0 * inf."""
    lengths, columns, length, start = [2, 3], 2, 3, -1 if layer == "sequence_conv" else 0
    rows = np.arange(1, 11, dtype="float32").reshape(5, columns)
    shape = (length * columns, 1) if layer == "sequence_conv" else (length, columns)
    taps = np.arange(1, 7, dtype="float32").reshape(shape)
    (rows if special == "rows" else taps)[1, 0] = INF
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, columns], lod_level=1)
        x.stop_gradient = False
        given = fluid.ParamAttr("taps", initializer=fluid.initializer.NumpyArrayInitializer(taps))
        if layer == "sequence_conv":
            out = layers.sequence_conv(x, 1, length, param_attr=given, bias_attr=False)
        else:
            out = layers.row_conv(x, length - 1, param_attr=given)
        grads = fluid.gradients(out, [x, out.block.var("taps")])
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        feed = {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())}
        found = [np.array(grad) for grad in exe.run(feed=feed, fetch_list=grads, return_numpy=False)]
    taps, wanted = taps.reshape(length, columns), np.zeros((length, columns))
    slopes = np.zeros(rows.shape)
    for first, last in ((0, 2), (2, 5)):
        for row in range(first, last):
            for tap in range(length):
                at = row + start + tap
                if first <= at < last:
                    wanted[tap] += rows[at]
                    slopes[at] += taps[tap]
    np.testing.assert_allclose(found[0], slopes)
    np.testing.assert_allclose(found[1].reshape(wanted.shape), wanted)
