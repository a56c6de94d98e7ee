"""Loops and branches in each other, deeper than one Python function may nest them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import random_blocks

import fluidlite as fluid
from fluidlite.errors import UnsupportedError
from fluidlite.executor.compile import render

layers = fluid.layers


def conds(depth: int, value: Any) -> Any:
    """`value + depth` by branches in each other."""
    zero = layers.fill_constant([1], "float32", 0.0)

    def nest(left: int, value: Any) -> Any:
        if left == 0:
            return value
        return layers.cond(layers.less_than(zero, value), lambda: nest(left - 1, value + 1.0), lambda: value)

    return nest(depth, value)


def loops(depth: int, value: Any) -> Any:
    """`value + depth` by loops in each other."""
    one = layers.fill_constant([1], "int64", 1)

    def nest(left: int, value: Any) -> Any:
        if left == 0:
            return value
        first = layers.fill_constant([1], "int64", 0)
        return layers.while_loop(
            lambda i, v: layers.less_than(i, one),
            lambda i, v: [layers.increment(i, 1, in_place=False), nest(left - 1, v + 1.0)],
            [first, value],
        )[1]

    return nest(depth, value)


@pytest.mark.parametrize(("nest", "depth"), [(conds, 13), (conds, 110), (loops, 13), (loops, 30)])
def test_as_deep_as_paddle(nest: Any, depth: int, flags: Callable[..., None]) -> None:
    flags(check_plans=depth < 20)  # each of 20 passes is followed by a check of all blocks
    out = nest(depth, fluid.data("x", [1]))
    exe = fluid.Executor(fluid.CPUPlace())
    for start in (1.0, 5.0):
        (found,) = exe.run(feed={"x": np.array([start], "float32")}, fetch_list=[out])
        assert found == [start + depth]


def test_too_deep_is_one_clear_error() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * limit)
    try:
        out = conds(260, fluid.data("x", [1]))
    finally:
        sys.setrecursionlimit(limit)
    exe = fluid.Executor(fluid.CPUPlace())
    for exe.naive in (False, True):
        with pytest.raises(
            UnsupportedError, match=r"is nested in more than 200 loops(.|\n)*built at .*deep_programs"
        ):
            exe.run(feed={"x": np.ones(1, "float32")}, fetch_list=[out])


@pytest.mark.parametrize("deepest", [0, 1])
@pytest.mark.parametrize("seed", range(6))
def test_functions_compute_what_blocks_do(deepest: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_DEEPEST", deepest)
    random_blocks.check(seed)


def test_names_that_functions_share_end_with_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_DEEPEST", 0)
    x = fluid.data("x", [1])
    out = conds(2, x)
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {"x": np.ones(1, "float32")}
    source = str(exe.explain(feed=feed, fetch_list=[out], full=True))
    assert "global x" in source and "globals().pop" in source
