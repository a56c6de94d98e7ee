"""`fluid.contrib.layers`: what the recorded programs do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.contrib import layers as contrib
from fluidlite.ops.kernels.hashing import in_bloom_filter, murmur3_128, xxh32

layers = fluid.layers


def _run(build: Any, feed: dict[str, Any], runs: int = 1) -> list[list[Any]]:
    """The values of what `build` returns, for each run of its program."""
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
        fetches = build()
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        exe.run(fluid.default_startup_program(), scope=scope)
        return [exe.run(feed=feed, fetch_list=fetches, scope=scope) for _ in range(runs)]


# ---------------------------------------------------------------------- samples of a tree's layers
NODES, WIDTH = 9, 4


def _sampled(**options: Any) -> Any:
    """2000 leaves of a tree with layers of 3 and 9 nodes, numbered 1 to 12, each leaf below its third."""
    travel = np.stack([np.arange(NODES) // 3 + 1, np.arange(NODES) + 4], axis=1)

    def build() -> Any:
        initial = fluid.initializer.NumpyArrayInitializer
        return contrib.tdm_sampler(
            fluid.data("leaves", [None, 1], "int32"),
            [2, WIDTH],
            [3, NODES],
            NODES,
            fluid.ParamAttr(initializer=initial(travel.astype("int32"))),
            fluid.ParamAttr(initializer=initial(np.arange(1, 13)[:, None].astype("int32"))),
            **options,
        )

    leaves = np.random.RandomState(0).randint(0, NODES, (2000, 1)).astype("int32")
    return leaves, build, travel


def test_tdm_sampler_draws_others_of_the_layer() -> None:
    """Without repetition, never the node above the leaf, and each of the rest as often."""
    leaves, build, travel = _sampled(output_list=False)
    out, labels, mask = _run(build, {"leaves": leaves})[0]
    assert out.shape == labels.shape == mask.shape == (2000, 3 + 1 + WIDTH)
    np.testing.assert_array_equal(out[:, [0, 3]], travel[leaves[:, 0]])
    np.testing.assert_array_equal(np.sort(out[:, :3]), np.tile([1, 2, 3], (2000, 1)))
    below = out[:, 3:]
    assert ((below >= 4) & (below <= 12)).all() and (np.diff(np.sort(below)) > 0).all()
    others = np.bincount((below[:, 1:] - below[:, :1]).ravel() % NODES, minlength=NODES)
    assert others[0] == 0
    np.testing.assert_allclose(others[1:], 2000 * WIDTH / (NODES - 1), rtol=0.15)
    np.testing.assert_array_equal(labels, np.tile([1, 0, 0, 1, 0, 0, 0, 0], (2000, 1)))
    assert mask.all()


def test_tdm_sampler_by_layer() -> None:
    leaves, build, _ = _sampled(output_positive=False, seed=3)

    def flat() -> Any:
        return [var for kind in build() for var in kind]

    first, again = _run(flat, {"leaves": leaves}, runs=2)
    assert [array.shape for array in first] == [(2000, 2, 1), (2000, WIDTH, 1)] * 3
    np.testing.assert_array_equal(first[1], again[1])  # a seed has the same draws in each run


@pytest.mark.parametrize(
    "negatives, nodes, message",
    [
        ([1], [2, 4], "must match the shape of layers"),
        ([2, 1], [2, 4], "must be less than the number of nodes"),
    ],
)
def test_tdm_sampler_refuses(negatives: list[int], nodes: list[int], message: str) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.raises(ValueError, match=message):
        contrib.tdm_sampler(fluid.data("x", [None, 1], "int32"), negatives, nodes, 4)


# ---------------------------------------------------------------------- batches
def test_shuffle_batch() -> None:
    rows = np.arange(40, dtype="float32").reshape(20, 2)
    first, second = (
        found[0]
        for found in _run(lambda: [contrib.shuffle_batch(fluid.data("x", [None, 2]), seed=5)], {"x": rows}, 2)
    )
    for found in (first, second):
        np.testing.assert_array_equal(found[np.argsort(found[:, 0])], rows)
    assert not np.array_equal(first, second)


def test_index_sample() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    columns = np.array([[2, 0], [1, 1]])
    found = _run(
        lambda: [contrib.index_sample(fluid.data("x", [2, 3]), fluid.data("i", [2, 2], "int64"))],
        {"x": x, "i": columns},
    )
    np.testing.assert_array_equal(found[0][0], [[2, 0], [4, 4]])


def test_sparse_embedding() -> None:
    """A table for servers: its rows are looked up, and its gradient is sparse."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        words = fluid.data("words", [None, 1], "int64")
        out = contrib.sparse_embedding(
            words, [10, 4], padding_idx=-1, param_attr=fluid.ParamAttr(name="table")
        )
        op = out.op
    assert op is not None and out.shape == (-1, 4)
    assert op.type == "lookup_table" and op.attr("padding_idx") == 9
    assert op.attr("is_distributed") and op.attr("is_sparse") and op.attr("remote_prefetch")


def test_ctr_metric_bundle_adds_up() -> None:
    predicted, label = np.array([[0.2], [0.9]], "float32"), np.array([[0], [1]], "float32")

    def build() -> Any:
        return list(contrib.ctr_metric_bundle(fluid.data("p", [None, 1]), fluid.data("l", [None, 1])))

    first, second = _run(build, {"p": predicted, "l": label}, runs=2)
    wanted = [0.05, 0.3, 1.1, float((1 / (1 + np.exp(-predicted))).sum()), 1, 2]
    np.testing.assert_allclose(np.concatenate(first), wanted, rtol=1e-5)
    np.testing.assert_allclose(np.concatenate(second), 2 * np.array(wanted), rtol=1e-5)


# ---------------------------------------------------------------------- hashes
def test_hashes() -> None:
    """XXH32 of nothing is its specification's; equal keys have equal hashes, whatever stands beside them."""
    assert xxh32(np.zeros((1, 0), np.uint32), 0)[0] == 0x02CC5D05
    keys = np.random.RandomState(0).randint(0, 2**31, (50, 5)).astype(np.uint32)
    keys[7] = keys[31]
    for hashed in (xxh32(keys, 3), *murmur3_128(keys, 3)):
        assert hashed[7] == hashed[31] and len(set(hashed.tolist())) == 49


def test_pyramid_hash_refuses_a_list_that_is_no_filter() -> None:
    def build() -> Any:
        words = layers.data("words", [1], dtype="int32", lod_level=1)
        return [contrib.search_pyramid_hash(words, 8, 10, 2, 4, 0.0, True, True, 20, 0, 1, 0.1)]

    with pytest.raises(Exception, match="BlackList"):
        _run(build, {})
    with pytest.raises(ValueError, match="not a Bloom filter"):
        in_bloom_filter(np.ones((20, 1), "float32"), np.zeros((1, 2), np.uint32))


def test_pyramid_hash_leaves_windows_out() -> None:
    """A quarter of 2000 windows of two words."""
    words = fluid.create_lod_tensor(np.arange(2001, dtype="int32")[:, None], [[2001]], fluid.CPUPlace())

    def build() -> Any:
        ids = layers.data("words", [1], dtype="int32", lod_level=1)
        out = contrib.search_pyramid_hash(ids, 8, 90, 2, 4, 0.25, True, False, 4, 4, 1, 0.1)
        return [layers.shape(out)]

    (found,) = _run(build, {"words": words})[0]
    assert abs(found[0] / 2000 - 0.75) < 0.03


# ---------------------------------------------------------------------- arguments
@pytest.mark.parametrize("functors", [["relu"], 3, ["relu", "tanh"], ["elementwise_sub", "relu"]])
def test_fused_elemwise_activation_refuses(functors: Any) -> None:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        pytest.raises((ValueError, Exception)) as caught,
    ):
        contrib.fused_elemwise_activation(fluid.data("x", [2]), fluid.data("y", [2]), functors)
    assert "length should be 2" in str(caught.value) or "not included in fused_list" in str(caught.value)


def test_units_share_their_parameters() -> None:
    """A unit that is called twice has one set of parameters."""
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
        unit = contrib.BasicLSTMUnit("cell", 3)
        assert unit.parameters() == []
        x = fluid.data("x", [2, 3])
        unit(*unit(x, x, x), x)
        names = [param.name for param in unit.parameters()]
        assert names == ["cell/BasicLSTMUnit_0.w_0", "cell/BasicLSTMUnit_0.b_0"]
        assert len(fluid.default_main_program().all_parameters()) == 2
        assert unit.full_name() == "cell/BasicLSTMUnit_0"


def test_averages_of_the_best_are_sequences_to_later_layers() -> None:
    lengths = {"q": [2, 3], "t": [3, 2]}
    rng = np.random.RandomState(0)
    feed = {
        name: fluid.create_lod_tensor(rng.rand(5, 3).astype("float32"), [sizes], fluid.CPUPlace())
        for name, sizes in lengths.items()
    }

    def build() -> Any:
        q, t = (fluid.data(name, [None, 3], lod_level=1) for name in lengths)
        matched, _ = contrib.match_matrix_tensor(q, t, 2)
        best = contrib.sequence_topk_avg_pooling(matched, q, t, [1, 2], 2)
        assert best.lod_level == 1
        return layers.reduce_sum(best, dim=0), layers.sequence_pool(best, "sum")

    ((total, sums),) = _run(build, feed)
    assert sums.shape == (2, 4)
    # initial values may make a sum end near 0
    np.testing.assert_allclose(sums.sum(axis=0), total, rtol=1e-6, atol=1e-6)
