"""`fleet.metrics`: figures over the samples of all workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fluidlite import paddle
from fluidlite.errors import NotFoundError, ShapeError
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.paddle.distributed.fleet import metrics

dist = paddle.distributed


class Util:
    """Exchanges of `fleet.util`, over the group of all ranks."""

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        total = np.array(input)
        dist.all_reduce(
            total, {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}[mode]
        )
        return total


def on_two_workers(work: Any) -> list[Any]:
    def role(rank: int) -> Any:
        dist.init_parallel_env()
        return work(rank, Util())

    found = run_roles(LocalNetwork(), [(f"rank{rank}", lambda rank=rank: role(rank)) for rank in range(2)])
    return [found["rank0"], found["rank1"]]


def test_sums_and_extremes() -> None:
    values = np.array([[[1.0, 5.0]], [[4.0, 2.0]]], "float32")

    def work(rank: int, util: Any) -> Any:
        return [getattr(metrics, how)(values[rank], util=util).tolist() for how in ("sum", "max", "min")]

    assert on_two_workers(work) == [[[[5, 7]], [[4, 5]], [[1, 2]]]] * 2


def test_errors_and_accuracy() -> None:
    def work(rank: int, util: Any) -> Any:
        error, count = (
            np.array([1.0 + rank], "float32"),
            np.array(2 + 4 * rank, "float32"),
        )  # of 2.x: no dimension
        return [getattr(metrics, name)(error, count, util=util) for name in ("mae", "mse", "rmse", "acc")]

    assert np.allclose(on_two_workers(work), [[3 / 8, 3 / 8, np.sqrt(3 / 8), 3 / 8]] * 2)


def test_auc_is_the_share_of_pairs_in_order() -> None:
    random = np.random.RandomState(0)
    counts = random.randint(0, 5, (2, 2, 1, 10))  # worker, kind, 1, bucket
    pos, neg = counts.sum(0)[:, 0]
    scores = np.repeat(np.arange(10), pos)[:, None] - np.repeat(np.arange(10), neg)[None, :]
    wanted = (scores > 0).mean() + (scores == 0).mean() / 2

    def work(rank: int, util: Any) -> Any:
        none = np.zeros((1, 10), "int64")
        return metrics.auc(*counts[rank], util=util), metrics.auc(counts[rank][0], none, util=util)

    assert np.allclose(on_two_workers(work), [[wanted, 0.5]] * 2)
    with pytest.raises(ShapeError, match=r"\[1, buckets\]"):
        metrics.auc(pos, neg, util=Alone())


class Alone:
    """A util of one worker."""

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        return input


def test_variables_and_names_are_read_from_the_scope() -> None:
    scope = paddle.static.Scope()
    total = paddle.static.create_global_var([1], 0.0, "float32", persistable=True, name="total")
    scope.var("total").get_tensor().set(np.array([6.0], "float32"), paddle.CPUPlace())
    assert metrics.sum(total, scope, Alone()) == metrics.sum("total", scope, Alone()) == [6.0]
    assert metrics.acc(np.array([3.0]), "total", scope, Alone()) == 0.5
    with pytest.raises(NotFoundError, match="'totals'"):
        metrics.sum("totals", scope, Alone())
