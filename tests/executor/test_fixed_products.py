"""Products with weights that are laid out once: against NumPy and the interpreter."""

from __future__ import annotations

import pathlib
import re
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core, layers
from fluidlite.cli.models import load_model, run_model
from fluidlite.executor.fast.onednn import fixed_product, library
from fluidlite.executor.fast.onednn.fixed_product import (
    FixedProduct,
    LyingProducts,
    PackedProduct,
    has_fixed_product,
)
from fluidlite.executor.run import feeding
from fluidlite.values.tensor import LoDTensor, rebinds

needs_library = pytest.mark.skipif(
    library.library() is None, reason="oneDNN's wheel is for x86-64 processors under Linux"
)
pytestmark = needs_library
needs_blocks = pytest.mark.skipif(
    not has_fixed_product(4, 512, 512, np.dtype("float32")),
    reason="oneDNN has no kernel of blocks for a processor without AVX-512",
)
RNG = np.random.RandomState(3)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    "sizes", [(32, 96, 40), (64, 7, 1), (150, 300, 257), (1, 50, 30), (32, 512, 600)], ids=str
)
@pytest.mark.parametrize("kind", ["laid out", "laid out from columns", "where it lies"])
def test_products_equal_numpy(sizes: tuple[int, int, int], threads: int, kind: str) -> None:
    rows, depth, columns = sizes
    x, w, bias, term = (
        numbers(rows, depth),
        numbers(depth, columns),
        numbers(columns),
        numbers(rows, columns),
    )
    w = np.asfortranarray(w) if kind == "laid out from columns" else w
    multiply = (LyingProducts if kind == "where it lies" else FixedProduct)(np, threads)
    out = np.full((rows, columns), np.nan, "float32")
    plain = x.astype("float64") @ w
    for more, wanted in (
        ((None, None), plain),
        ((bias, None), plain + bias),
        ((None, term), plain + term),
        ((bias, term), plain + bias + term),
    ):
        out.fill(np.nan)
        multiply(x, w, out, *more)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [2, 13, 32, 64])
@pytest.mark.parametrize("sizes", [(512, 512), (2048, 300), (100, 1000)], ids=str)
def test_all_calls_run_by_kernels_of_blocks(rows: int, sizes: tuple[int, int]) -> None:
    if not has_fixed_product(64, *sizes, np.dtype("float32")):
        pytest.skip("the processor has no AVX-512, which the library's kernels of blocks are made for")
    for bias in (True, False):
        for term in (True, False):
            made, _ = fixed_product._described(fixed_product._FixedShape(rows, *sizes, sizes[0], bias, term))
            assert made.name.startswith("brg")


@pytest.mark.parametrize("kind", [FixedProduct, LyingProducts])
def test_rows_that_lie_apart_or_turned(kind: Any) -> None:
    wide, w = numbers(20, 60), numbers(30, 16)
    multiply = kind(np, 1)
    for x in (wide[:, 7:37], wide[::-2, :30], wide[::2, ::2], np.asfortranarray(wide[:, :30])):
        out = np.empty((len(x), 16), "float32")
        multiply(x, w, out)
        np.testing.assert_allclose(out, x.astype("float64") @ w, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------- in plans
WIDTH = 512
ROWS = [4, 32]
"""Of a product whose weight is laid out, and of one whose weight is read where it lies."""


def network() -> Any:
    """A network whose products have biases, sums with what was there, and readers beside those."""
    x = fluid.data("x", [-1, WIDTH])
    h = layers.fc(x, WIDTH, act="relu")
    h = layers.elementwise_add(h, layers.fc(h, WIDTH))
    both = layers.fc(h, WIDTH, bias_attr=False)
    h = layers.elementwise_add(both, layers.relu(both))
    early = layers.fc(h, WIDTH, bias_attr=False)
    later = layers.tanh(early)
    h = layers.elementwise_add(early, later)
    return layers.fc(h, 600)


def started(network: Callable[[], Any]) -> tuple[fluid.Program, str, Any]:
    name = network().name
    program = fluid.default_main_program().clone(for_test=True)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for var in program.list_vars():
        if var.persistable and len(var.shape) == 1:
            fluid.global_scope().find_var(var.name).get_tensor().set(numbers(*var.shape), fluid.CPUPlace())
    return program, name, exe


def interpreted(program: fluid.Program, name: str, x: np.ndarray) -> np.ndarray:
    naive = fluid.Executor(fluid.CPUPlace())
    naive.naive = True
    return naive.run(program, feed={"x": x}, fetch_list=[name])[0]


@needs_blocks
@pytest.mark.parametrize("first", ROWS)
def test_plans_equal_the_interpreter(first: int) -> None:
    program, name, exe = started(network)
    text = exe.explain(program, feed={"x": numbers(first, WIDTH)}, fetch_list=[name], full=True)
    # the one whose result somebody else reads first is written as it stands
    assert len(re.findall(r"^ +product_\d+\(", text, re.MULTILINE)) == 5, text
    assert "dot(" not in text and "matmul(" not in text
    for rows in (first, 40, 3, 100, 1, 600, first):
        x = numbers(rows, WIDTH)
        found = exe.run(program, feed={"x": x}, fetch_list=[name])[0]
        np.testing.assert_allclose(found, interpreted(program, name, x), rtol=1e-3, atol=1e-3)


def views() -> Any:
    """Queries, keys and values of one array, and what needs all of them."""
    x = fluid.data("x", [-1, WIDTH])
    first, second, third = (layers.fc(x, size) for size in (WIDTH, 600, WIDTH))
    joined = layers.concat([layers.tanh(first), second, third], axis=1)
    return layers.elementwise_add(layers.fc(joined, WIDTH), layers.fc(first, WIDTH))


@needs_blocks
@pytest.mark.parametrize("threads", [1, 2])
def test_products_that_do_not_need_each_other_are_one_call(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "blas_threads", lambda: threads)
    program, name, exe = started(views)
    text = exe.explain(program, feed={"x": numbers(32, WIDTH)}, fetch_list=[name], full=True)
    calls = re.findall(r"^ +product_\d+\((.*)\)$", text, re.MULTILINE)
    assert [(call.count(",") + 1) // 5 for call in calls] == [3, 1, 1], text
    for rows in (32, 7, 100, 33):
        x = numbers(rows, WIDTH)
        found = exe.run(program, feed={"x": x}, fetch_list=[name])[0]
        np.testing.assert_allclose(found, interpreted(program, name, x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("what", ["fc_1.w_0", "fc_1.b_0"])
def test_parameters_that_are_set_later(what: str, rows: int) -> None:
    program, name, exe = started(network)
    x = numbers(rows, WIDTH)
    before = exe.run(program, feed={"x": x}, fetch_list=[name])[0]
    tensor = fluid.global_scope().find_var(what).get_tensor()
    tensor.set(np.array(tensor) * np.float32(1.5), fluid.CPUPlace())
    after = exe.run(program, feed={"x": x}, fetch_list=[name])[0]
    assert np.abs(before - after).max() > 1e-3
    np.testing.assert_allclose(after, interpreted(program, name, x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", ROWS)
def test_a_program_between_whose_runs_another_one_trains(rows: int) -> None:
    x = fluid.data("x", [-1, WIDTH])
    found = layers.fc(layers.fc(x, WIDTH, act="tanh"), WIDTH)
    tested = fluid.default_main_program().clone(for_test=True)
    loss = layers.mean(layers.square(found))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    given = numbers(rows, WIDTH)
    explained = exe.explain(feed={"x": given}, fetch_list=[loss], full=True)
    assert "product_" not in explained  # the program writes its weights
    for _ in range(3):
        exe.run(feed={"x": given}, fetch_list=[loss])
        seen = exe.run(tested, feed={"x": given}, fetch_list=[found.name])[0]
        np.testing.assert_allclose(seen, interpreted(tested, found.name, given), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", ROWS)
def test_nan_and_infinity_stay(rows: int) -> None:
    program, name, exe = started(network)
    x = numbers(rows, WIDTH)
    x[1, 5], x[2, 6] = np.nan, np.inf
    found = exe.run(program, feed={"x": x}, fetch_list=[name])[0]
    assert np.isnan(found[1]).all()
    assert not np.isfinite(found[2]).all()
    assert np.isfinite(np.delete(found, [1, 2], axis=0)).all()


def test_plans_share_what_is_laid_out() -> None:
    w = numbers(64, 64)
    first, second = FixedProduct(np, 2), FixedProduct(np, 2)
    out = np.empty((32, 64), "float32")
    first(numbers(32, 64), w, out)
    second(numbers(32, 64), w, out)
    assert first._weight is second._weight


# ---------------------------------------------------------------------- tensors that hold packed values
def packed_tensor(w: np.ndarray) -> LoDTensor:
    """A frozen tensor of a scope after a product with it."""
    held = fluid.Scope().var("w")
    held.get_tensor().set(w, fluid.CPUPlace())
    held.get_tensor().freeze()
    PackedProduct(np, 1)(numbers(32, len(w)), held.get_tensor(), np.empty((32, w.shape[1]), "float32"))
    assert held.get_tensor().packed is not None and held.is_initialized()
    return held.get_tensor()


@pytest.mark.parametrize("shape", [(64, 64), (70, 50), (33, 17), (128, 1)], ids=str)
def test_packed_values_are_those_of_the_array(shape: tuple[int, int]) -> None:
    w = numbers(*shape)
    tensor = packed_tensor(w)
    assert tensor.shape() == list(shape) and tensor._dtype() == fluid.core.VarDesc.VarType.FP32
    np.testing.assert_array_equal(np.array(packed_tensor(w)), w)
    np.testing.assert_array_equal(np.array(packed_tensor(w), "float64"), w.astype("float64"))
    np.testing.assert_array_equal(packed_tensor(w).array, w)
    np.testing.assert_array_equal(np.array(packed_tensor(w)[1]), w[1:2])


def test_reading_a_copy_leaves_values_packed_and_an_array_is_kept() -> None:
    tensor = packed_tensor(numbers(64, 64))
    np.array(tensor), str(tensor.shape()), repr(tensor), tensor.form
    assert tensor.packed is not None
    before = rebinds.count
    array = tensor.array
    # plans that hold the array from before look again: from now on `set` writes into this one
    assert rebinds.count > before and tensor.array is array
    PackedProduct(np, 1)(numbers(32, 64), tensor, np.empty((32, 64), "float32"))
    assert tensor.packed is None


def test_packed_values_are_replaced_by_set() -> None:
    w, x, out = numbers(64, 64), numbers(32, 64), np.empty((32, 64), "float32")
    tensor = packed_tensor(w)
    multiply = PackedProduct(np, 1)
    for factor in (1, 2, 3):
        tensor.set(w * factor, fluid.CPUPlace())
        for _ in range(2):
            multiply(x, tensor, out)
            np.testing.assert_allclose(out, x.astype("float64") @ w * factor, rtol=1e-4, atol=1e-4)
        assert tensor.packed is not None


def test_threads_that_begin_at_once_lay_a_weight_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[np.ndarray] = []
    begin = fixed_product._LaidWeight.__init__

    def slowly(self: Any, weight: np.ndarray) -> None:
        made.append(weight)
        time.sleep(0.05)
        begin(self, weight)

    monkeypatch.setattr(fixed_product._LaidWeight, "__init__", slowly)
    tensor = fluid.Scope().var("w").get_tensor()
    tensor.set(numbers(64, 64), fluid.CPUPlace())
    tensor.freeze()
    together = threading.Barrier(4)

    def multiply(x: np.ndarray) -> np.ndarray:
        out = np.empty((32, 64), "float32")
        together.wait()
        PackedProduct(np, 1)(x, tensor, out)
        return out

    given = [numbers(32, 64) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(multiply, given))
    assert len(made) == 1 and tensor.packed is not None
    for x, out in zip(given, found, strict=True):
        np.testing.assert_allclose(out, x @ np.array(tensor), rtol=1e-4, atol=1e-4)


def test_an_array_that_others_may_write_stays() -> None:
    program, name, exe = started(network)
    exe.run(program, feed={"x": numbers(32, WIDTH)}, fetch_list=[name])
    held = fluid.global_scope().variables.values()
    assert not any(var.get_tensor().packed for var in held if isinstance(var.value, LoDTensor))


@pytest.mark.parametrize("rows", ROWS)
def test_a_predictor_has_its_weights_once(tmp_path: pathlib.Path, rows: int) -> None:
    program, name, exe = started(network)
    target = [program.global_block().var(name)]
    fluid.io.save_inference_model(str(tmp_path), ["x"], target, exe, program)
    weights = sum(4 * np.prod(var.shape) for var in program.all_parameters())
    config, fed = core.AnalysisConfig(str(tmp_path)), [core.PaddleTensor(numbers(rows, WIDTH))]
    core.create_paddle_predictor(config).run(fed)
    tracemalloc.start()
    try:
        predictor = core.create_paddle_predictor(config)
        predictor.run(fed)
        assert tracemalloc.get_traced_memory()[0] < 1.6 * weights
    finally:
        tracemalloc.stop()
    # batches whose products are BLAS's want arrays, and find them
    for others in (1, 32, 600, 40, 4):
        x = numbers(others, WIDTH)
        (found,) = predictor.run([core.PaddleTensor(x)])
        np.testing.assert_allclose(found.as_ndarray(), interpreted(program, name, x), rtol=1e-3, atol=1e-3)


@needs_blocks
def test_a_command_that_runs_a_model_has_its_weights_once(tmp_path: pathlib.Path) -> None:
    program, name, exe = started(network)
    target = [program.global_block().var(name)]
    fluid.io.save_inference_model(str(tmp_path), ["x"], target, exe, program)
    with fluid.scope_guard(fluid.Scope()):
        x = numbers(4, WIDTH)
        (found,) = run_model(load_model(str(tmp_path)), {"x": x}).values()
        scope = fluid.global_scope()
        weights = [scope.find_var(var.name).get_tensor() for var in program.all_parameters()]
        assert all((weight.packed is not None) == (len(weight.shape()) == 2) for weight in weights)
    np.testing.assert_allclose(np.array(found), interpreted(program, name, x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", ROWS)
def test_a_weight_of_another_shape_has_a_plan_of_its_own(rows: int) -> None:
    program, name, exe = started(network)
    x = numbers(rows, WIDTH)
    exe.run(program, feed={"x": x}, fetch_list=[name])
    for var, shape in zip(program.all_parameters()[-2:], ((WIDTH, 599), (599,)), strict=True):
        fluid.global_scope().find_var(var.name).get_tensor().set(numbers(*shape), fluid.CPUPlace())
    assert exe.run(program, feed={"x": x}, fetch_list=[name])[0].shape == (rows, 599)


def test_without_the_library_products_are_numpys(flags: Callable[..., None]) -> None:
    flags(use_onednn=False)
    program, name, exe = started(network)
    assert "product_" not in exe.explain(
        program, feed={"x": numbers(32, WIDTH)}, fetch_list=[name], full=True
    )
