"""Neighbours that are drawn from a graph: beside PaddlePaddle 2.6.2 where nothing is left to chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import KernelError

ROW = np.array([3, 7, 0, 9, 1, 4, 2, 9, 3, 9, 1, 9, 7])
COLPTR = np.array([0, 2, 4, 5, 6, 7, 9, 11, 11, 13, 13])
NODES = np.array([0, 8, 1, 2])
EIDS = np.arange(100, 113)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with paddle.static.scope_guard(paddle.static.Scope()):
            yield


def run(build: Callable[..., Any], times: int = 1, dtype: str = "int64", **others: np.ndarray) -> list[Any]:
    """The values that `build` gives of row, colptr, nodes and `others`, each time."""
    feed = {"row": ROW, "colptr": COLPTR, "nodes": NODES} | others
    feed = {name: value if value.dtype.kind == "f" else value.astype(dtype) for name, value in feed.items()}
    given = {
        name: paddle.static.data(name, list(value.shape), str(value.dtype)) for name, value in feed.items()
    }
    outs = [*build(**given)]
    exe = paddle.static.Executor()
    return [exe.run(feed=feed, fetch_list=outs) for _ in range(times)]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("size", [-1, 2, 9])
def test_all_neighbours(size: int, dtype: str) -> None:
    """As 2.6.2 gives them for 2 and 9; -1 throws there (docs/DIFFERENCES.md, all-neighbours)."""
    sample = paddle.geometric.sample_neighbors
    [(found, counts, eids)] = run(
        lambda row, colptr, nodes, eids: sample(row, colptr, nodes, size, eids, True), dtype=dtype, eids=EIDS
    )
    assert found.tolist() == [3, 7, 9, 7, 0, 9, 1] and counts.tolist() == [2, 2, 2, 1]
    assert eids.tolist() == [100, 101, 111, 112, 102, 103, 104]
    assert (found.dtype, counts.dtype, eids.dtype) == (dtype, "int32", dtype)


def test_steps() -> None:
    """As 2.6.2 gives them: nodes that are met for the first time draw in the next step."""
    [found] = run(
        lambda row, colptr, nodes, eids: paddle.incubate.graph_khop_sampler(
            row, colptr, nodes, [5, -1, 5], eids, True
        ),
        eids=EIDS,
    )
    sources, targets, numbers, asked, eids = found
    assert sources.ravel().tolist() == [4, 5, 6, 5, 0, 6, 2, 7, 3] and sources.shape == (9, 1)
    assert targets.ravel().tolist() == [0, 0, 1, 1, 2, 2, 3, 4, 7] and targets.shape == (9, 1)
    assert numbers.tolist() == [0, 8, 1, 2, 3, 7, 9, 4] and asked.tolist() == [0, 1, 2, 3]
    assert eids.tolist() == [100, 101, 111, 112, 102, 103, 104, 105, 106]


def test_each_neighbour_is_as_likely() -> None:
    sample = paddle.incubate.graph_sample_neighbors
    runs = run(
        lambda row, colptr, nodes: sample(row, colptr, nodes, sample_size=2),
        400,
        row=np.arange(7),
        colptr=np.array([0, 5, 7]),
        nodes=np.array([1, 0]),
    )
    assert all(counts.tolist() == [2, 2] and found[:2].tolist() == [5, 6] for found, counts in runs)
    drawn = [found[2:].tolist() for found, _ in runs]
    assert all(len(set(pair)) == 2 for pair in drawn)
    shares = np.bincount(np.ravel(drawn), minlength=5) / len(runs)
    np.testing.assert_allclose(shares, 0.4, atol=0.12)


def test_weights_say_how_likely() -> None:
    sample = paddle.geometric.weighted_sample_neighbors
    weights = np.array([1.0, 3.0, 0.0, 4.0], "float32")
    runs = run(
        lambda row, colptr, nodes, weights, eids: sample(row, colptr, weights, nodes, 1, eids, True),
        400,
        row=np.arange(4),
        colptr=np.array([0, 4]),
        nodes=np.array([0]),
        weights=weights,
        eids=EIDS[:4],
    )
    assert all(eids[0] == 100 + found[0] and counts.tolist() == [1] for found, counts, eids in runs)
    shares = np.bincount([found[0] for found, _, _ in runs], minlength=4) / len(runs)
    np.testing.assert_allclose(shares, weights / 8, atol=0.1)


def test_errors() -> None:
    row, colptr, nodes = (paddle.static.data(name, [3], "int64") for name in ("row", "colptr", "nodes"))
    fractions = paddle.static.data("fractions", [3])
    with pytest.raises(TypeError, match="data type of 'Row' in graph_sample_neighbors must be .*int32"):
        paddle.geometric.sample_neighbors(fractions, colptr, nodes)
    with pytest.raises(ValueError, match="`eids` should not be None if `return_eids` is True"):
        paddle.geometric.weighted_sample_neighbors(row, colptr, fractions, nodes, return_eids=True)
    with pytest.raises(ValueError, match="`perm_buffer` should not be None"):
        paddle.incubate.graph_sample_neighbors(row, colptr, nodes, flag_perm_buffer=True)
    found = paddle.geometric.sample_neighbors(row, colptr, nodes, 1)
    feed = {"row": ROW[:3], "colptr": np.array([0, 1, 3]), "nodes": np.array([0, 1, 2])}
    with pytest.raises(KernelError, match="nodes from 0 to 2 of a graph of 2 nodes"):
        paddle.static.Executor().run(feed=feed, fetch_list=[*found])
