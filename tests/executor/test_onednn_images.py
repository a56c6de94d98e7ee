"""Pools and batch normalisation by oneDNN against NumPy's, weights that are laid out once, and the rows of
the op tables that all of this computes, without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_tables import conv as conv_rows
from op_tables import norm as norm_rows
from op_tables import pool as pool_rows
from optest import Case, check_forward, check_gradient

import fluidlite as fluid
from fluidlite.executor.fast.batch_norm import FastBatchNorm
from fluidlite.executor.fast.loops.compiler import is_available
from fluidlite.executor.fast.onednn import library
from fluidlite.executor.fast.onednn.norm import NormKernel
from fluidlite.executor.fast.pool import FastPool, has_fast_pool
from fluidlite.executor.run.channels import ChannelKernel
from fluidlite.executor.run.convolutions import SharedPool
from fluidlite.executor.run.image_kernels import PoolForm
from fluidlite.ops.kernels.pooling import Pooling, Windows
from fluidlite.ops.kernels.row_kernels import RowKernel
from fluidlite.ops.neural.batch_norm import BY_BATCH, BY_GIVEN, GRADIENT, GRADIENT_OF_SAVED

needs_library = pytest.mark.skipif(
    library.library() is None, reason="oneDNN's wheel is for x86-64 processors under Linux"
)
F32 = np.dtype("float32")
_LAID_OUT = (
    *("conv2d", "depthwise_conv2d", "conv2d_transpose", "pool2d"),
    *("conv3d", "conv3d_transpose", "pool3d", "batch_norm"),
)
ROWS = [case for case in (*conv_rows.CASES, *norm_rows.CASES, *pool_rows.CASES) if case.op in _LAID_OUT]


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_rows_without_the_library(case: Case, flags: Callable[..., None]) -> None:
    flags(use_onednn=False)
    check_forward(case)
    if case.grad:
        check_gradient(case)


# ---------------------------------------------------------------------- pools
def regular(
    size: int, kernel: int, stride: int, pad: tuple[int, int] = (0, 0), ceil: bool = False
) -> Windows:
    return Windows.regular(size, kernel, stride, pad, ceil)


WINDOWS = {
    "disjoint": (regular(8, 2, 2), regular(6, 2, 2)),
    "odd sizes": (regular(9, 2, 2), regular(7, 2, 2)),
    "overlapping, padded": (regular(9, 3, 2, (1, 1)), regular(7, 3, 1, (1, 0))),
    "ceil": (regular(9, 2, 2, ceil=True), regular(8, 3, 2, (1, 1), ceil=True)),
    "the whole image": (regular(9, 9, 9), regular(7, 7, 7)),
}


@needs_library
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("mode", ["max", "avg", "avg with padding"])
@pytest.mark.parametrize("first", [1, 2], ids=["channels last", "channels first"])
@pytest.mark.parametrize("name", WINDOWS)
def test_pools_equal_numpy(name: str, first: int, mode: str, threads: int) -> None:
    windows = WINDOWS[name]
    shape, axes = (3, *(5,) * (first - 1), windows[0].size, windows[1].size, 5)[:4], (first, first + 1)
    pooling = Pooling(windows, mode[:3], mode == "avg", F32, False)
    assert has_fast_pool(shape, pooling, axes)
    kernels = [made(np, PoolForm(shape, pooling, axes, 0, threads)) for made in (FastPool, SharedPool)]
    random = np.random.RandomState(0)
    # few different values, so that windows have several largest elements
    x = random.randint(0, 4, shape).astype("float32")
    counts = [len(each.starts) for each in windows]
    pooled = (*shape[:first], *counts, *shape[first + 2 :])
    outs = [np.empty(pooled, "float32") for _ in kernels]
    d = random.standard_normal(outs[0].shape).astype("float32")
    gradients = [np.empty_like(x) for _ in kernels]
    for reuse in (True, False):
        for kernel, out, gradient in zip(kernels, outs, gradients, strict=True):
            kernel.forward(x, out)
            kernel.backward(x, out, d, gradient, reuse)
        np.testing.assert_allclose(outs[0], outs[1], rtol=1e-6)
        np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-5, atol=1e-6)
    assert kernels[0].kernels, "the library has a kernel of its own"


@needs_library
def test_small_pools_have_kernels_when_their_size_comes_again() -> None:
    shape, pooling = (2, 9, 7, 5), Pooling(WINDOWS["overlapping, padded"], "max", True, F32, False)
    pool = FastPool(np, PoolForm(shape, pooling, (1, 2), 0, 1, asked=2))
    x = np.random.RandomState(0).standard_normal(shape).astype("float32")
    outs, gradients = np.empty((2, 2, 5, 6, 5), "float32"), np.empty((2, *shape), "float32")
    for out, gradient, is_made in zip(outs, gradients, (False, True), strict=True):
        pool.forward(x, out)
        pool.backward(x, out, np.ones_like(out), gradient, True)
        assert bool(pool.kernels) is is_made
    np.testing.assert_array_equal(*outs)
    np.testing.assert_array_equal(*gradients)


@needs_library
@pytest.mark.parametrize("special", [np.nan, -np.inf, np.inf, 1e30])
def test_largest_elements_among_nan_and_infinities(special: float) -> None:
    windows = WINDOWS["disjoint"]
    pooling = Pooling(windows, "max", True, F32, False)
    x = np.random.RandomState(0).standard_normal((4, 8, 6, 2)).astype("float32")
    x[1, 2:4, 2:4, 1] = special
    x[3, 0, 0, 0] = special
    found, wanted = np.empty((2, 4, 4, 3, 2), "float32")
    d = np.ones_like(found)
    gradients = np.empty((2, *x.shape), "float32")
    for made, out, gradient in zip((FastPool, SharedPool), (found, wanted), gradients, strict=True):
        kernel = made(np, PoolForm(x.shape, pooling, (1, 2), 0, 2))
        with np.errstate(all="ignore"):  # as in a plan's run
            kernel.forward(x, out)
        kernel.backward(x, out, d, gradient, True)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(*gradients)


@needs_library
def test_pools_that_stay_numpys(flags: Callable[..., None]) -> None:
    windows = WINDOWS["disjoint"]
    shape = (3, 8, 6, 5)
    assert has_fast_pool(shape, Pooling(windows, "max", True, F32, False), (1, 2))
    assert not has_fast_pool(shape, Pooling(windows, "max", True, np.dtype("float64"), False), (1, 2))
    assert not has_fast_pool((0, *shape[1:]), Pooling(windows, "max", True, F32, False), (1, 2))
    assert has_fast_pool((3, 5, 8, 6), Pooling(windows, "max", True, F32, False), (2, 3))
    assert not has_fast_pool(shape, Pooling(windows, "max", True, F32, False), (0, 2))
    assert not has_fast_pool(shape, Pooling(windows, "avg", False, F32, True), (1, 2))
    uneven = (Windows.adaptive(8, 3), Windows.adaptive(6, 3))
    assert not has_fast_pool(shape, Pooling(uneven, "max", True, F32, False), (1, 2))
    flags(use_onednn=False)
    assert not has_fast_pool(shape, Pooling(windows, "max", True, F32, False), (1, 2))


# ---------------------------------------------------------------------- batch normalisation
class Norm:
    """The kernels of batch_norm for matrices of elements x channels."""

    def __init__(
        self, made: type[ChannelKernel], elements: int, channels: int, threads: int, asked: int = 1
    ) -> None:
        self.made = made
        self.sizes = elements, channels
        self.threads = threads
        self.asked = (asked,) if made is FastBatchNorm else ()
        self.kernels: dict[RowKernel, ChannelKernel] = {}

    def _run(self, kernel: RowKernel, numbers: Any, arrays: dict[str, Any]) -> None:
        absent = {array.name: None for array in kernel.writes if arrays.get(array.name) is None}
        form = kernel.form(**absent)
        if kernel not in self.kernels:
            self.kernels[kernel] = self.made(np, form, self.sizes, F32, numbers, self.threads, *self.asked)
        self.kernels[kernel](*(arrays[name] for name in (*form.inputs, *form.outputs)))

    def train(
        self, x: Any, scale: Any, bias: Any, running: Any, y: Any, running_out: Any, saved: Any
    ) -> None:
        names = ("x", "scale", "bias", "mean", "variance", "y", "meanout", "varianceout")
        values = (x, scale, bias, *running, y, *running_out, *saved)
        arrays = dict(zip((*names, "savedmean", "savedvariance"), values, strict=True))
        self._run(BY_BATCH, (0.9, 1e-5), arrays)

    def infer(self, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, y: Any) -> None:
        arrays = {"x": x, "scale": scale, "bias": bias, "mean": mean, "variance": variance, "y": y}
        self._run(BY_GIVEN, (1e-5,), arrays)

    def gradient(self, x: Any, d: Any, scale: Any, saved: Any, outs: Any, frozen: bool) -> None:
        names = ("x", "dy", "scale", "savedmean", "savedvariance", "dx", "dscale", "dbias")
        arrays = dict(zip(names, (x, d, scale, *saved, *outs), strict=True))
        self._run(GRADIENT_OF_SAVED if frozen else GRADIENT, (), arrays)


@pytest.fixture(params=["NumPy", "compiled"])
def norm_code(request: pytest.FixtureRequest, flags: Callable[..., None]) -> None:
    """The code that normalises large arrays; small ones always have oneDNN's."""
    if request.param == "compiled" and not is_available():
        pytest.skip("needs llvmlite: the extra 'fast'")
    flags(fast_loops="wait" if request.param == "compiled" else "off")


@needs_library
@pytest.mark.usefixtures("norm_code")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [50000, 49999])  # a prime, too: its rows cannot be put together
def test_statistics_of_many_rows_are_exact(rows: int, threads: int) -> None:
    """Within 1e-5 deviations, 10 of which the mean is away from 0: added up in one go 1e-4."""
    x = (np.random.RandomState(0).standard_normal((rows, 16)) + 10).astype("float32")
    ones, zeros = np.ones(16, "float32"), np.zeros(16, "float32")
    running, saved = np.empty((2, 2, 16), "float32")
    y = np.empty_like(x)
    kernel = Norm(FastBatchNorm, *x.shape, threads)
    kernel.train(x, ones, zeros, (zeros, ones), y, tuple(running), tuple(saved))
    exact = x.astype("float64")
    mean, deviation = exact.mean(axis=0), np.sqrt(exact.var(axis=0) + 1e-5)
    np.testing.assert_allclose(saved[0], mean, rtol=0, atol=1e-5)
    np.testing.assert_allclose(saved[1], 1 / deviation, rtol=3e-6)
    np.testing.assert_allclose(y, (exact - mean) / deviation, rtol=0, atol=2e-5)


@needs_library
def test_small_norms_have_kernels_when_their_size_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NormKernel, "train", lambda *_: made.append("train"))
    made: list[str] = []
    x, y = np.random.RandomState(0).standard_normal((2, 30, 5)).astype("float32")
    ones, zeros = np.ones(5, "float32"), np.zeros(5, "float32")
    norm = Norm(FastBatchNorm, *x.shape, 1, asked=2)
    for runs in ([], ["train"]):
        norm.train(x, ones, zeros, (zeros, ones), y, tuple(np.empty((2, 5), "float32")), (zeros, ones))
        assert made == runs


@needs_library
@pytest.mark.usefixtures("norm_code")
def test_members_of_the_team_have_kernels_of_their_own() -> None:
    x = np.random.RandomState(0).standard_normal((1 << 16, 8)).astype("float32")
    ones, zeros = np.ones(8, "float32"), np.zeros(8, "float32")
    norm = Norm(FastBatchNorm, *x.shape, 2)
    first, y, running = np.empty_like(x), np.empty_like(x), tuple(np.empty((2, 8), "float32"))
    norm.train(x, ones, zeros, (zeros, ones), first, running, tuple(np.empty((2, 8), "float32")))
    for _ in range(300):
        norm.train(x, ones, zeros, (zeros, ones), y, running, tuple(np.empty((2, 8), "float32")))
        np.testing.assert_array_equal(y, first)


@needs_library
@pytest.mark.usefixtures("norm_code")
@pytest.mark.parametrize(
    "shape", [(7, 1), (30, 5), (64, 16), (33000, 16), (9000, 3), (1001, 17), (333, 130), (40, 2048)], ids=str
)
@pytest.mark.parametrize("threads", [1, 2])
def test_batch_normalisation_equals_numpy(shape: tuple[int, int], threads: int) -> None:
    random = np.random.RandomState(0)
    # means far from zero, where squares alone lose the digits
    x, d = (random.standard_normal(shape).astype("float32") + offset for offset in (np.float32(30), 0))
    scale, bias, *running = random.rand(4, shape[1]).astype("float32")
    results = []
    for made in (FastBatchNorm, ChannelKernel):
        kernel = Norm(made, *shape, threads)
        y, given, dx, frozen = np.empty((4, *shape), "float32")
        numbers = np.empty((6, shape[1]), "float32")
        kernel.train(x, scale, bias, tuple(running), y, tuple(numbers[:2]), tuple(numbers[2:4]))
        kernel.gradient(x, d, scale, tuple(numbers[2:4]), (dx, *numbers[4:]), False)
        kernel.infer(x, scale, bias, *running, given)
        kernel.gradient(x, d, scale, tuple(numbers[2:4]), (frozen, None, None), True)
        results.append((y, given, dx, frozen, *numbers))
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * float(np.abs(wanted).max()))


@needs_library
@pytest.mark.usefixtures("norm_code")
@pytest.mark.parametrize("made", [FastBatchNorm, ChannelKernel])
@pytest.mark.parametrize(("shape", "threads"), [((7, 3), 1), ((3000, 16), 2), ((400000, 16), 2)], ids=str)
def test_infinite_values_have_no_part_in_gradients_of_constant_statistics(
    made: type[ChannelKernel], shape: tuple[int, int], threads: int
) -> None:
    random = np.random.RandomState(0)
    x, d = random.standard_normal((2, *shape)).astype("float32")
    x[1, 0], x[2, 1] = -np.inf, np.nan
    mean, inverse, scale = random.rand(3, shape[1]).astype("float32") + 1
    kernel = Norm(made, *shape, threads)
    for _ in range(3):  # the first runs, and those of compiled code
        dx = np.empty(shape, "float32")
        kernel.gradient(x, d, scale, (mean, inverse), (dx, None, None), True)
        np.testing.assert_allclose(dx, d * (scale * inverse), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------- weights that are laid out once
def predictor() -> tuple[fluid.Executor, fluid.Program, Any, Any]:
    """A trained network's parts: executor, test program, prediction, loss."""
    img = fluid.data("img", [None, 3, 8, 8], "float32")
    hidden = fluid.layers.batch_norm(fluid.layers.conv2d(img, 8, 3, padding=1), act="relu")
    out = fluid.layers.pool2d(fluid.layers.conv2d(hidden, 4, 3), 2, "max", 2)
    test = fluid.default_main_program().clone(for_test=True)
    loss = fluid.layers.reduce_mean(fluid.layers.square(out))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, test, out, loss


@pytest.mark.parametrize("way", ["a step of training", "set", "another array", "startup"])
def test_predictions_follow_the_parameters(way: str) -> None:
    exe, test, out, loss = predictor()
    feed = {"img": np.random.RandomState(0).standard_normal((2, 3, 8, 8)).astype("float32")}
    weights = fluid.default_main_program().all_parameters()[0]
    tensor = fluid.global_scope().find_var(weights.name).get_tensor()

    def predicted(naive: bool) -> np.ndarray:
        exe.naive = naive
        found = exe.run(test, feed=feed, fetch_list=[out])[0]
        exe.naive = False
        return found

    before = predicted(naive=False)
    np.testing.assert_array_equal(predicted(naive=False), before)
    for _ in range(2):
        if way == "a step of training":
            exe.run(feed=feed, fetch_list=[loss])
        elif way == "set":
            tensor.set(np.array(tensor) * 2, fluid.CPUPlace())
        elif way == "another array":
            tensor.array = np.array(tensor) * np.float32(2)
        else:
            exe.run(fluid.default_startup_program())
        after = predicted(naive=False)
        assert not np.array_equal(after, before)
        np.testing.assert_allclose(after, predicted(naive=True), rtol=1e-4, atol=1e-4)
        before = after
