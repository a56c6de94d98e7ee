"""SharedProducts that a team shares, by NumPy and by oneDNN; the team itself; dense training steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers
from fluidlite.executor.compile import pipeline
from fluidlite.executor.compile.render import render
from fluidlite.executor.fast import products as fast_products
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.onednn import library
from fluidlite.executor.fast.onednn.matmul import MatmulKernel
from fluidlite.executor.fast.products import FastDescent, FastProduct, has_fast_product
from fluidlite.executor.plan.plan import FeedSpec, Target
from fluidlite.executor.run import bound
from fluidlite.executor.run.products import (
    DESCENT,
    PartialProduct,
    PlainProduct,
    ProductCut,
    ProductForm,
    SharedProducts,
)
from fluidlite.executor.run.team import Team, on_team
from fluidlite.ops.kernels.gemm import adder

needs_onednn = pytest.mark.skipif(
    library.library() is None, reason="oneDNN's wheel is for x86-64 processors under Linux"
)
needs_avx512 = pytest.mark.skipif(
    library.library() is None or not library.has_avx512(),
    reason="oneDNN's products are measured, and chosen, on processors with AVX-512 only",
)
RANDOM = np.random.default_rng(7)


def matrix(rows: int, columns: int, turned: bool = False) -> Any:
    """Whole numbers, of which sums are exact in any order; with `turned` the transpose of what lies there."""
    shape = (columns, rows) if turned else (rows, columns)
    found = RANDOM.integers(-4, 5, shape).astype("float32")
    return found.T if turned else found


# ---------------------------------------------------------------------- the team
def test_the_caller_does_what_no_thread_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Team, "_work", lambda self, worker, inbox: None)  # threads that never get to run
    team = Team(3)
    found: list[int] = []
    team(found.append)
    assert sorted(found) == [0, 1, 2]


class Switch:
    """A count of the runs that keep BLAS to one thread."""

    runs = 0

    def enter(self) -> None:
        self.runs += 1

    def leave(self) -> None:
        pass


def test_blas_keeps_its_threads_for_kernels_that_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Switch()
    monkeypatch.setattr(bound, "blas_switch", lambda: switch)
    rows = layers.data("rows", [4], lod_level=1)
    shared = layers.sequence_conv(rows, 3)
    nodes, edges = fluid.data("nodes", [1, 3, 4]), fluid.data("edges", [1, 2, 2], "int32")
    alone = fluid.contrib.layers.tree_conv(nodes, edges, 5)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {
        "rows": fluid.create_lod_tensor(np.ones((3, 4), "float32"), [[2, 1]], fluid.CPUPlace()),
        "nodes": np.ones((1, 3, 4), "float32"),
        "edges": np.array([[[1, 2], [1, 3]]], "int32"),
    }
    for out, runs in ((shared, 1), (alone, 1)):
        exe.run(feed=feed, fetch_list=[out], return_numpy=False, use_prune=True)
        assert switch.runs == runs


def test_every_part_is_done_once_and_errors_are_raised() -> None:
    team = Team(3)
    for _ in range(200):
        found: list[int] = []
        team(found.append)
        assert sorted(found) == [0, 1, 2]

    def fails(part: int) -> None:
        found.append(part)
        if part == 2:
            raise ValueError("of part 2")

    found = []
    with pytest.raises(ValueError, match="of part 2"):
        team(fails)
    assert sorted(found) == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_more_parts_than_members(size: int) -> None:
    done: list[int] = []
    for _ in range(20):
        on_team(size, done.append, 5)
    assert sorted(done) == sorted(20 * [0, 1, 2, 3, 4])


# ---------------------------------------------------------------------- parts of products
MAKERS: dict[str, Callable[[], PartialProduct]] = {
    "NumPy": PlainProduct,
    "oneDNN": partial(FastProduct, 1),
    "oneDNN from the second run": partial(FastProduct, 2),
}


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("name", MAKERS)
def test_products_of_all_shapes(name: str, members: int) -> None:
    forms = [(127, 131, 129), (3, 700, 1001), (61, 64, 301), (1001, 40, 29), (16, 150, 120)]
    for rows, depth, columns in forms:
        triples = []
        for left, right in ((False, False), (False, True), (True, False), (True, True)):
            triples.append([matrix(rows, depth, left), matrix(depth, columns, right)])
        cuts = [ProductCut.ROWS, ProductCut.COLUMNS, ProductCut.ROWS, ProductCut.COLUMNS]
        outs = [np.full((rows, columns), np.nan, "float32") for _ in triples]
        products = SharedProducts(np, [ProductForm(MAKERS[name], cut=cut) for cut in cuts], members)
        arguments = [item for pair, out in zip(triples, outs, strict=True) for item in (*pair, out)]
        for _ in range(3):
            for out in outs:
                out.fill(np.nan)
            products(*arguments)
            for (left, right), out in zip(triples, outs, strict=True):
                np.testing.assert_array_equal(out, left @ right)


@pytest.mark.parametrize("name", MAKERS)
def test_other_arrays_and_sizes_come_and_go(name: str) -> None:
    products = SharedProducts(np, [ProductForm(MAKERS[name], cut=ProductCut.ROWS)], 2)
    weight = matrix(256, 300)
    for rows in (33, 64, 33, 7, 64, 33, 5, 1, 2, 64):
        x, out = matrix(rows, 256), np.empty((rows, 300), "float32")
        products(x, weight, out)
        np.testing.assert_array_equal(out, x @ weight)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("name", MAKERS)
def test_stacks(name: str, members: int) -> None:
    def numbers(*shape: int) -> np.ndarray:
        return RANDOM.integers(-4, 5, shape).astype("float32")

    stack, by_one = (ProductForm(MAKERS[name], cut=cut) for cut in (ProductCut.STACK, ProductCut.ROWS))
    left, right = numbers(5, 70, 64), numbers(5, 64, 90)
    out, flat = np.empty((5, 70, 90), "float32"), np.empty((5, 70, 90), "float32")
    products = SharedProducts(np, [stack, by_one], members)
    for _ in range(3):
        out.fill(np.nan)
        flat.fill(np.nan)
        products(left, right, out, left, right[0], flat)
        np.testing.assert_array_equal(out, left @ right)
        np.testing.assert_array_equal(flat, left @ right[0])
    # heads of one sample, and of some, as they lie beside each other in rows of words
    for samples in (1, 3):
        words, keys = (numbers(samples, 80, 4, 64).transpose(0, 2, 1, 3) for _ in range(2))
        weights = np.empty((samples, 4, 80, 80), "float32")
        heads = SharedProducts(np, [stack], members)
        for _ in range(3):
            weights.fill(np.nan)
            heads(words, keys.swapaxes(2, 3), weights)
            np.testing.assert_array_equal(weights, words @ keys.swapaxes(2, 3))


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("name", MAKERS)
def test_a_weight_moves_when_all_have_read_it(name: str, members: int) -> None:
    weight, x, d = matrix(255, 131), matrix(98, 255), matrix(98, 131)
    forms = [ProductForm(MAKERS[name], cut=ProductCut.COLUMNS), replace(DESCENT, cut=ProductCut.ROWS)]
    products = SharedProducts(np, forms, members)
    back = np.empty((98, 255), "float32")
    rate = np.array(2.0, "float32")
    for _ in range(50):
        before = weight.copy()
        products(d, weight.T, back, x.T, d, weight, rate)
        np.testing.assert_array_equal(back, d @ before.T)
        np.testing.assert_array_equal(weight, before - 2 * (x.T @ d))
        weight %= 8


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_products_added_to_what_lies_there(dtype: str) -> None:
    for rows, depth, columns in ((5, 3, 7), (1, 4, 9), (6, 1, 1), (3, 0, 2), (0, 3, 2)):
        left, right = matrix(rows, depth, True).astype(dtype), matrix(depth, columns).astype(dtype)
        out = matrix(rows, columns).astype(dtype)
        wanted = out + 0.5 * (left @ right)
        adder(left, right, out)(0.5)
        np.testing.assert_array_equal(out, wanted)
        strided = np.zeros((rows, 2 * columns), dtype)[:, ::2]
        adder(left, right, strided)(1.0)
        np.testing.assert_array_equal(strided, left @ right)


@needs_avx512
def test_kernels_are_made_for_what_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_products, "_FORMS", 3)
    monkeypatch.setattr(fast_products, "_WORTH", 1)
    product = FastProduct(2)
    weight = matrix(256, 300)
    for rows in (33, 64, 65, 64, 33, 34, 35, 36, 34, 35, 36, 34):
        x, out = matrix(rows, 256), np.empty((rows, 300), "float32")
        product.place(x, weight, out)
        product.run()
        np.testing.assert_array_equal(out, x @ weight)
        assert len(product.kernels) <= 3
    assert len(product.kernels) > 0


@needs_avx512
def test_small_products_wait_longer_for_a_kernel() -> None:
    """One of 2^25 multiply-adds is due at the second run, one of 2^23 at the 8th; few rows never are."""
    weight = matrix(512, 512)
    for rows, due in ((128, 2), (32, 8), (16, None), (1, None)):
        product = FastProduct(2)
        x, out = matrix(rows, 512), np.empty((rows, 512), "float32")
        product.place(x, weight, out)
        found = None
        for run in range(1, 40):
            product.run()
            np.testing.assert_array_equal(out, x @ weight)
            # for as long a library's routine for any shapes computes
            assert run == 1 or rows == 1 or product.kernel is not None
            if isinstance(product.kernel, MatmulKernel) and found is None:
                found = run
        assert found == due


@needs_avx512
def test_weights_move_by_the_library_from_the_second_run_on() -> None:
    weight, x, d = matrix(255, 131), matrix(98, 255), matrix(98, 131)
    products = SharedProducts(np, [ProductForm(partial(FastDescent, 2), 4)], 1)
    assert "into the weight" in SharedProducts.explained([ProductForm(partial(FastDescent, 2), 4)], 1)
    rate = np.array(2.0, "float32")
    used = []
    for _ in range(3):
        before = weight.copy()
        products(x.T, d, weight, rate)
        np.testing.assert_array_equal(weight, before - 2 * (x.T @ d))
        used.append(products.parts[0][0].is_decided)
        weight %= 8
    assert used == [False, True, True]


def test_counts_of_sizes_that_never_come_again_are_dropped() -> None:
    runs = FirstRuns(2)
    assert all(runs.is_early(size) for size in range(10_000))
    assert len(runs.runs) < 1_000
    assert not runs.is_early(9_999)


@needs_avx512
def test_what_numpy_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_products, "_has_narrow_cores", lambda: False)
    assert has_fast_product(128, 128, 128, turned=False, dtype=np.float32)
    assert has_fast_product(64, 100, 100, turned=True, dtype=np.float32)
    for rows, depth, columns, turned, dtype in (
        (1, 2000, 2000, False, "float32"),
        (64, 100, 100, False, "float32"),
        (500, 50, 50, False, "float32"),
        (4, 1000, 100, True, "float32"),
        (128, 128, 128, False, "float64"),
    ):
        assert not has_fast_product(rows, depth, columns, turned=turned, dtype=np.dtype(dtype))
    monkeypatch.setattr(fast_products, "available", lambda: False)
    assert not has_fast_product(128, 128, 128, turned=False, dtype=np.float32)


@needs_avx512
def test_a_blas_of_narrow_vectors_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_products, "_has_narrow_cores", lambda: True)
    assert has_fast_product(64, 64, 64, turned=False, dtype=np.float32)
    assert has_fast_product(500, 50, 50, turned=False, dtype=np.float32)
    for rows, depth, columns in ((1, 2000, 2000), (32, 64, 64), (512, 512, 2)):
        assert not has_fast_product(rows, depth, columns, turned=False, dtype=np.float32)
    monkeypatch.setattr(fast_products, "available", lambda: False)
    assert not has_fast_product(64, 64, 64, turned=False, dtype=np.float32)


@pytest.mark.parametrize("cores", ["SkylakeX", "Haswell", ""])
def test_narrow_vectors_are_known_by_the_names_of_cores(monkeypatch: pytest.MonkeyPatch, cores: str) -> None:
    monkeypatch.setattr(fast_products, "blas_cores", lambda: cores)
    monkeypatch.setattr(fast_products, "has_avx512", lambda: True)
    fast_products._has_narrow_cores.cache_clear()
    assert fast_products._has_narrow_cores() == (cores == "Haswell")
    fast_products._has_narrow_cores.cache_clear()


# ---------------------------------------------------------------------- training steps
ACTIVATIONS = ("relu", "tanh", "sigmoid")
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
    "adam": lambda: fluid.optimizer.Adam(0.01),
}


def dense(count: int, width: int, act: str) -> tuple[Any, Any]:
    """Program and loss of a number of dense layers."""
    x = fluid.data("x", [None, 37], "float32")
    label = fluid.data("label", [None, 1], "int64")
    hidden = x
    for _ in range(count):
        hidden = layers.fc(hidden, width, act=act)
    logits = layers.fc(hidden, 5)
    return x, layers.mean(layers.softmax_with_cross_entropy(logits, label))


def losses_of(count: int, width: int, act: str, optimizer: str, naive: bool) -> list[Any]:
    """Losses over batches of many sizes, and the parameters after them."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        _, loss = dense(count, width, act)
        OPTIMIZERS[optimizer]().minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    exe.naive = naive
    random = np.random.default_rng(3)
    found = []
    for rows in (128, 101, 128, 1, 2, 33, 128, 101):
        feed = {
            "x": random.standard_normal((rows, 37)).astype("float32"),
            "label": random.integers(0, 5, (rows, 1)),
        }
        found += exe.run(main, feed=feed, fetch_list=[loss], scope=scope)
    names = sorted(variable.name for variable in main.list_vars() if variable.persistable)
    return found + [np.array(scope.find_var(name).get_tensor()) for name in names]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize(("count", "width"), [(2, 300), (6, 130), (3, 50)])
def test_training_equals_the_interpreters(count: int, width: int, act: str, optimizer: str) -> None:
    found, wanted = (losses_of(count, width, act, optimizer, naive) for naive in (False, True))
    for mine, theirs in zip(found, wanted, strict=True):
        # adam's first steps take the sign of a gradient, also of one that rounding alone keeps from 0
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-3 if optimizer == "adam" else 2e-4)


def shared_by(threads: int, width: int) -> list[int]:
    """How many products each call in a training step of 128 rows computes."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        _, loss = dense(3, width, "tanh")
        fluid.optimizer.SGD(0.1).minimize(loss)
        scope = fluid.Scope()
        fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program(), scope=scope)
        feeds = {
            "x": FeedSpec((128, 37), np.dtype("float32")),
            "label": FeedSpec((128, 1), np.dtype("int64")),
        }
        block = fluid.default_main_program().global_block()
        plan = pipeline.lower(block, block.ops, feeds, [loss.name], scope, Target(threads=threads))
    lines = render(pipeline.run_passes(plan)).text().splitlines()
    return [
        (line.count(",") + 1) // 3
        for line in lines
        if line.strip().startswith("products_") and line.endswith(")")
    ]


def test_a_team_is_woken_once_for_both_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_products, "available", lambda: False)
    # of 3 million multiply-adds each, one alone is not worth it
    assert shared_by(2, 160) == [2, 2]
    assert shared_by(1, 160) == []
    assert shared_by(2, 256) == [1, 1, 2, 2]


def test_explain_says_how_products_are_computed() -> None:
    forms = (ProductForm(cut=ProductCut.COLUMNS), replace(DESCENT, cut=ProductCut.ROWS))
    wanted = "NumPy, cut by columns; BLAS, into the weight, cut by rows (2 threads)"
    assert SharedProducts.explained(forms, 2) == wanted
    assert (
        SharedProducts.explained((ProductForm(partial(FastProduct, 1)),), 1)
        == "oneDNN or NumPy, by their shapes"
    )


@needs_avx512
def test_one_thread_has_faster_kernels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_products, "_has_narrow_cores", lambda: False)
    assert shared_by(1, 128) == [1] * 6


# ---------------------------------------------------------------------- weights moved by products
def tied(x: Any) -> Any:
    """A weight that is read again, in front of the layer that it was first read in."""
    weight = layers.create_parameter([192, 192], "float32", name="w")
    return layers.matmul(layers.tanh(layers.matmul(layers.tanh(layers.matmul(x, weight)), weight)), weight)


def plain(x: Any) -> Any:
    return layers.fc(layers.tanh(layers.fc(x, 192, param_attr="w", bias_attr=False)), 192)


def read_later(x: Any) -> Any:
    """Only the first layer gets a gradient from behind; the weight's transpose is read in between."""
    weight = layers.create_parameter([192, 192], "float32", name="w")
    return layers.matmul(layers.tanh(layers.matmul(x, weight)), weight, transpose_y=True)


def penalised(x: Any) -> Any:
    attr = fluid.ParamAttr(name="w", regularizer=fluid.regularizer.L2Decay(0.1))
    return layers.fc(layers.tanh(layers.fc(x, 192, param_attr=attr, bias_attr=False)), 192)


DESCENTS: dict[str, tuple[Callable[[Any], Any], list[str], bool]] = {
    "plain": (plain, [], True),
    "the gradient is fetched": (plain, ["w@GRAD"], False),
    "the weight is fetched": (plain, ["w"], True),
    "several gradients": (tied, [], False),
    "a transpose is read": (read_later, [], False),
    "a penalty reads the gradient": (penalised, [], False),
}


@pytest.mark.parametrize("narrow", [False, pytest.param(True, marks=needs_onednn)])
@pytest.mark.parametrize("schedule", [False, True])
@pytest.mark.parametrize("name", DESCENTS)
def test_products_move_weights(
    name: str, schedule: bool, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_products, "_has_narrow_cores", lambda: narrow)
    build, fetches, is_fused = DESCENTS[name]
    found = []
    for naive in (False, True):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 5
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 192], "float32")
            loss = layers.mean(layers.square(build(layers.fc(x, 192, act="tanh"))))
            rate = layers.exponential_decay(0.5, 1, 0.9) if schedule else 0.5
            fluid.optimizer.SGD(rate).minimize(loss)
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.run(startup, scope=scope)
        exe.naive = naive
        random = np.random.default_rng(3)
        for rows in (64, 64, 40, 1):
            feed = {"x": random.standard_normal((rows, 192)).astype("float32")}
            found.append(exe.run(main, feed=feed, fetch_list=[loss, *fetches], scope=scope))
            found[-1].append(np.array(scope.find_var("w").get_tensor()))
        if not naive:
            text = exe.explain(
                main,
                feed={"x": np.ones((64, 192), "float32")},
                fetch_list=[loss, *fetches],
                scope=scope,
                full=True,
            )
            assert ("sgd fused into the product that computes w@GRAD" in text) == is_fused
    for mine, theirs in zip(found[:4], found[4:], strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
