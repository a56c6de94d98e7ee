"""Ops over a few rows, whose time is that of their calls: what they share and what they leave out."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.run.calls import KernelCall
from fluidlite.ops.kernels import gemm
from fluidlite.ops.kernels.numbers import at_last
from fluidlite.ops.kernels.sequence_rows import lengths_of, level_of, sum_runs
from fluidlite.ops.math import search
from fluidlite.ops.sequences import beam_search
from fluidlite.values.tensor import LoDTensor, LoDTensorArray


def test_ops_on_the_same_sequences_share_what_follows_from_their_lengths() -> None:
    level = level_of("sequence_pool", "X", ((0, 2, 2, 5),), rows=5)
    assert level is level_of("sequence_softmax", "X", ((0, 2, 2, 5),))
    assert level.lengths is level.lengths
    np.testing.assert_array_equal(level.lengths, [2, 0, 3])
    np.testing.assert_array_equal(level.owners, [0, 0, 2, 2, 2])
    np.testing.assert_array_equal(level.empty, [1])
    np.testing.assert_array_equal(level.filled, [0, 2])
    with pytest.raises(ValueError, match="read-only"):
        level.offsets[0] = 1


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 3], [0, 0, 2, 2, 5], [0, 20, 20, 41]])
def test_sums_of_runs(offsets: list[int]) -> None:
    rows = np.arange(offsets[-1] * 4, dtype="float32").reshape(-1, 4)
    wanted = [rows[first:end].sum(axis=0) for first, end in zip(offsets[:-1], offsets[1:], strict=True)]
    found = sum_runs(np, rows, np.array(offsets))
    np.testing.assert_array_equal(found, np.array(wanted, "float32").reshape(-1, 4))
    np.testing.assert_array_equal(lengths_of(np.array(offsets)), np.diff(offsets))


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (5,)])
def test_elements_by_their_places(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape)
    places = array.argsort(axis=-1)[..., :2]
    np.testing.assert_array_equal(at_last(np, array, places), np.take_along_axis(array, places, axis=-1))


def test_small_products_are_not_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise AssertionError("prepared")

    monkeypatch.setattr(gemm, "_prepared", refuse)
    left, right, out = np.ones((2, 3)), np.ones((3, 4)), np.ones((2, 4))
    gemm.gemm(left, right, out, add=True)
    np.testing.assert_array_equal(out, np.full((2, 4), 4.0))


def test_arrays_of_their_own_are_handed_on_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise AssertionError("looked at one by one")

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 3], lod_level=1)
        x.stop_gradient = False
        w = fluid.layers.create_parameter([3, 2], "float32", name="w")
        gradients = fluid.gradients(fluid.layers.mul(x, w), [x, w])
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {"x": fluid.create_lod_tensor(np.ones((4, 3), "float32"), [[1, 3]], fluid.CPUPlace())}
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        exe.naive = True
        wanted = exe.run(main, feed=feed, fetch_list=gradients, return_numpy=False)
        exe.naive = False
        monkeypatch.setattr(KernelCall, "_finish_each", refuse)
        found = exe.run(main, feed=feed, fetch_list=gradients, return_numpy=False)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(other))
        assert one.recursive_sequence_lengths() == other.recursive_sequence_lengths()


@pytest.mark.parametrize("name", ["one_hot", "one_hot_v2"])
def test_ids_without_a_class(name: str) -> None:
    ids = np.array([[2], [-1], [5], [0]], "int64")
    main = fluid.Program()
    with fluid.program_guard(main):
        block = main.global_block()
        block.create_var(name="x", shape=[4, 1], dtype="int64")
        block.create_var(name="y", dtype="float32")
        attrs = {"depth": 4, "dtype": int(fluid.core.VarDesc.VarType.FP32), "allow_out_of_range": True}
        block.append_op(type=name, inputs={"X": ["x"]}, outputs={"Out": ["y"]}, attrs=attrs)
    (found,) = fluid.Executor(fluid.CPUPlace()).run(main, feed={"x": ids}, fetch_list=["y"])
    wanted = (ids == np.arange(4)).astype("float32")
    np.testing.assert_array_equal(found, wanted if name == "one_hot" else wanted[:, None])


@pytest.mark.parametrize("found", [[3.0, 3.0, 1.0], [-np.inf, -np.inf, -np.inf], [1.0, np.inf, np.inf]])
def test_the_first_of_equal_largest_elements(found: list[float]) -> None:
    main = fluid.Program()
    with fluid.program_guard(main):
        values, places = fluid.layers.topk(fluid.data("x", [1, 3]), 1)
    feed = {"x": np.array([found], "float32")}
    value, place = fluid.Executor(fluid.CPUPlace()).run(main, feed=feed, fetch_list=[values, places])
    assert value == max(found)
    assert place == found.index(max(found))


@pytest.mark.parametrize("unusual", ["none", "ties", "zeros", "infinite", "nan"])
def test_many_largest_elements_in_order(unusual: str) -> None:
    x = np.random.default_rng(1).normal(size=(5, 600)).astype("float32")
    if unusual == "ties":
        x = np.round(x, 1)
    elif unusual == "zeros":
        x = np.where(np.abs(x) < 1.5, np.float32(-0.0), -x)
        x[:, ::2] += np.float32(0)
    elif unusual == "infinite":
        x[:, 3:6], x[:, 9:300] = np.inf, -np.inf
    elif unusual == "nan":
        x[:, 7::90] = np.nan
    wanted = search.stable_order(np, x, -1, descending=True)[:, :30]
    np.testing.assert_array_equal(search.places_of_largest(np, x, 30), wanted)


def test_sentences_that_end_in_different_steps() -> None:
    # ids, and for both levels of detail how many: prefixes of a source, continuations of a prefix
    steps = [([4, 5], [1, 1], [1, 1]), ([6, 7, 8, 1], [1, 1], [2, 2]), ([9, 1], [2, 2], [1, 1, 0, 0])]
    ids, scores = LoDTensorArray(), LoDTensorArray()
    for words, prefixes, continuations in steps:
        lod = tuple(tuple(np.cumsum([0, *counts]).tolist()) for counts in (prefixes, continuations))
        ids.append(LoDTensor(np.array(words).reshape(-1, 1), lod))
        scores.append(LoDTensor(np.array(words, "float32").reshape(-1, 1), lod))
    found, totals = beam_search.decode.compute(np, ids, scores, 2, 1)
    # the second source has no words in the last step; of each the sentence of the best last score comes first
    assert found.lod == ((0, 2, 4), (0, 3, 6, 8, 10))
    assert found.value.tolist() == [4, 6, 9, 4, 7, 1, 5, 8, 5, 1]
    np.testing.assert_array_equal(totals.value, found.value)
