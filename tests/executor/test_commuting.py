"""Pools that go before bias and relu, against the interpreter, which does them in the program's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

POOLS: dict[str, dict[str, Any]] = {
    "pairs": {"pool_size": 2, "pool_stride": 2},
    "overlapping": {"pool_size": 3, "pool_stride": 2, "pool_padding": 1},
    "threes": {"pool_size": 3, "pool_stride": 3, "ceil_mode": True},
    "whole": {"global_pooling": True},
}


def trainer(bias: bool, act: str | None, pool: dict[str, Any], norm: bool = False) -> tuple[Any, list[str]]:
    """A step of SGD for two convolutions with a pool behind the first; what to fetch."""
    x = fluid.data("x", [-1, 2, 12, 9])
    h = fluid.layers.conv2d(x, 6, 3, act=None if norm else act, bias_attr=None if bias else False)
    if norm:
        h = fluid.layers.batch_norm(h, act=act)
    h = fluid.layers.pool2d(h, pool_type="max", **pool)
    h = fluid.layers.conv2d(h, 5, 1, act="tanh")
    loss = fluid.layers.mean(h)
    fluid.optimizer.SGD(0.5).minimize(loss)
    program = fluid.default_main_program()
    return program, [loss.name, *(each.name for each in program.all_parameters())]


def explained(program: Any, fetched: list[str]) -> str:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe.explain(program, feed=images(3), fetch_list=fetched, full=True)


def images(batch: int) -> dict[str, np.ndarray]:
    x = np.random.RandomState(batch).standard_normal((batch, 2, 12, 9))
    return {"x": x.astype("float32")}


def trained(program: Any, fetched: list[str], naive: bool) -> list[np.ndarray]:
    """The results of steps of several batch sizes, from one start."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    with fluid.scope_guard(fluid.Scope()):
        exe.run(fluid.default_startup_program())
        rng = np.random.RandomState(1)
        for var in sorted(program.all_parameters(), key=lambda var: var.name):
            value = rng.uniform(-0.5, 0.7, var.shape).astype("float32")
            fluid.global_scope().find_var(var.name).get_tensor().set(value, fluid.CPUPlace())
        return [each for batch in (3, 3, 1, 4) for each in exe.run(program, images(batch), fetched)]


def check(program: Any, fetched: list[str]) -> None:
    pairs = zip(trained(program, fetched, False), trained(program, fetched, True), strict=True)
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "numpy"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("act", ["relu", None])
def test_steps(fast: bool, pool: str, bias: bool, act: str | None, flags: Callable[..., None]) -> None:
    flags(use_onednn=fast)
    program, fetched = trainer(bias, act, POOLS[pool])
    text = explained(program, fetched)
    assert ("dropped: relu" in text) == (act is not None)
    assert ("dropped: elementwise_add" in text) == bias
    check(program, fetched)


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "numpy"])
def test_behind_batch_norm(fast: bool, flags: Callable[..., None]) -> None:
    flags(use_onednn=fast)
    program, fetched = trainer(False, "relu", POOLS["overlapping"], norm=True)
    check(program, fetched)


@pytest.mark.parametrize("what", ["relu", "elementwise_add", "relu_grad", "pool2d_grad"])
def test_fetched_between(what: str) -> None:
    """A result between the steps that somebody fetches is the program's own."""
    program, fetched = trainer(True, "relu", POOLS["pairs"])
    op = next(op for op in program.global_block().ops if op.type == what)
    (name,) = (names[0] for slot, names in op.outputs.items() if slot in ("Out", "X@GRAD"))
    check(program, [*fetched, name])


def test_read_twice() -> None:
    """A result that another op reads, too, stays where it is."""
    x = fluid.data("x", [-1, 2, 12, 9])
    h = fluid.layers.conv2d(x, 6, 3, padding=1, act="relu")
    pooled = fluid.layers.pool2d(h, 2, "max", 2)
    loss = fluid.layers.mean(pooled) + fluid.layers.mean(fluid.layers.square(h))
    fluid.optimizer.SGD(0.5).minimize(loss)
    program = fluid.default_main_program()
    names = [loss.name, *(each.name for each in program.all_parameters())]
    assert "dropped: relu" not in explained(program, names)
    check(program, names)


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "numpy"])
def test_without_training(fast: bool, flags: Callable[..., None]) -> None:
    flags(use_onednn=fast)
    x = fluid.data("x", [-1, 2, 12, 9])
    h = fluid.layers.conv2d(x, 6, 3, act="relu")
    out = fluid.layers.pool2d(h, 2, "max", 2)
    check(fluid.default_main_program(), [out.name])
    x = images(2)
    x["x"][0, 0, 5] = np.nan
    x["x"][1, 1, 0] = np.inf
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = exe.run(feed=x, fetch_list=[out])[0]
    exe.naive = True
    np.testing.assert_allclose(found, exe.run(feed=x, fetch_list=[out])[0], rtol=1e-4, atol=1e-5)
