"""Steps behind convolutions of fixed filters, put into those: against the interpreter."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import fluidlite as fluid


def predictor(groups: int = 1, bias: bool = True, relu: bool = True) -> tuple[fluid.Program, str]:
    """Two convolutions with batch_norm by running statistics, which are not what they are at the start."""
    x = fluid.data("x", [-1, 8, 9, 7])
    h = x
    for _ in range(2):
        h = fluid.layers.conv2d(h, 8, 3, padding=1, groups=groups, bias_attr=None if bias else False)
        h = fluid.layers.batch_norm(h, act="relu" if relu else None)
    program = fluid.default_main_program().clone(for_test=True)
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    rng = np.random.RandomState(1)
    for var in program.list_vars():
        if var.persistable:
            tensor = fluid.global_scope().find_var(var.name).get_tensor()
            tensor.set(rng.uniform(0.5, 1.5, var.shape).astype("float32"), fluid.CPUPlace())
    return program, h.name


def run(program: fluid.Program, name: str, x: np.ndarray, naive: bool = False) -> np.ndarray:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    return exe.run(program, feed={"x": x}, fetch_list=[name])[0]


def images(batch: int = 2) -> np.ndarray:
    return np.random.RandomState(0).standard_normal((batch, 8, 9, 7)).astype("float32")


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "numpy"])
@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("relu", [True, False], ids=["relu", "linear"])
def test_batch_norm_is_in_the_filters(
    fast: bool, groups: int, bias: bool, relu: bool, flags: Callable[..., None]
) -> None:
    flags(use_onednn=fast)
    program, name = predictor(groups, bias, relu)
    exe = fluid.Executor(fluid.CPUPlace())
    text = exe.explain(program, feed={"x": images()}, fetch_list=[name], full=True)
    assert text.count(".forward_to_tail(") == 2
    assert ".infer(" not in text
    for batch in (2, 3, 1):
        wanted = run(program, name, images(batch), naive=True)
        found = exe.run(program, feed={"x": images(batch)}, fetch_list=[name])[0]
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "numpy"])
@pytest.mark.parametrize("what", ["conv2d_0.w_0", "conv2d_0.b_0", "batch_norm_0.w_0", "batch_norm_0.w_2"])
def test_parameters_that_are_set_later(fast: bool, what: str, flags: Callable[..., None]) -> None:
    flags(use_onednn=fast)
    program, name = predictor()
    exe = fluid.Executor(fluid.CPUPlace())

    def found() -> np.ndarray:
        return exe.run(program, feed={"x": images()}, fetch_list=[name])[0]

    before = found()
    tensor = fluid.global_scope().find_var(what).get_tensor()
    tensor.set(np.array(tensor) * np.float32(1.5), fluid.CPUPlace())
    after = found()
    assert np.abs(before - after).max() > 1e-3
    wanted = run(program, name, images(), naive=True)
    np.testing.assert_allclose(after, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "numpy"])
def test_nan_stays_nan(fast: bool, flags: Callable[..., None]) -> None:
    flags(use_onednn=fast)
    program, name = predictor()
    x = images()
    x[1, 3, 4, 4] = np.nan
    found, wanted = run(program, name, x), run(program, name, x, naive=True)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert np.isnan(found).any() and not np.isnan(found[0]).any()


def test_training_goes_on_moving_the_statistics() -> None:
    x = fluid.data("x", [-1, 8, 9, 7])
    h = fluid.layers.batch_norm(fluid.layers.conv2d(x, 4, 3))
    tested = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(h))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for _ in range(3):
        exe.run(feed={"x": images()}, fetch_list=[])
        found = exe.run(tested, feed={"x": images()}, fetch_list=[h.name])[0]
        np.testing.assert_allclose(found, run(tested, h.name, images(), naive=True), rtol=1e-3, atol=1e-4)


def test_filters_are_kept_once(flags: Callable[..., None]) -> None:
    flags(use_onednn=True)
    x = fluid.data("x", [-1, 256, 8, 8])
    h = fluid.layers.batch_norm(fluid.layers.conv2d(x, 256, 3, padding=1, bias_attr=False))
    program = fluid.default_main_program().clone(for_test=True)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    given = np.ones((2, 256, 8, 8), "float32")
    tracemalloc.start()
    try:
        exe.run(program, feed={"x": given}, fetch_list=[h.name])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # filters of 2.36 MB, and arrays of 131 KB
    assert kept < 1.5 * 256 * 256 * 9 * 4
