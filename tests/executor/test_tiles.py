"""Blocked loops over large arrays: what they take in, what they keep, and that they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.plan.actions import CompiledRun, TiledLoop
from fluidlite.executor.plan.steps import flat

layers = fluid.layers
SHAPE = [300, 301]  # of a size that no block divides


def built(build: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any]:
    """The program of `build(x, a)`, its startup program, and what it fetches."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = layers.create_parameter(SHAPE, "float32", name="x")
        a = fluid.data("a", SHAPE, "float32")
        fetched = build(x, a)
    return main, startup, fetched


def trained(build: Callable[[Any, Any], Any], naive: bool, feed: Any, steps: int = 3) -> Any:
    """The fetched values of each step and the parameter behind them."""
    main, startup, fetched = built(build)
    exe = fluid.Executor(fluid.CPUPlace())
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        start = np.random.RandomState(5).randn(*SHAPE).astype("float32")
        scope.find_var("x").get_tensor().set(start, fluid.CPUPlace())
        exe.naive = naive
        results = [exe.run(main, feed=feed, fetch_list=fetched) for _ in range(steps)]
        return results, np.array(scope.find_var("x").get_tensor())


def loops_of(build: Callable[[Any, Any], Any]) -> tuple[list[TiledLoop], int]:
    """The loops of a program's plan, and the bytes of its buffers."""
    main, startup, fetched = built(build)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        exe.run(main, feed={"a": np.ones(SHAPE, "float32")}, fetch_list=fetched)
        bound = [plan for plan in exe._plans.bounds() if plan.plan.plan.feeds]
    plan = bound[-1].plan.plan
    actions = [step.action for step in flat(plan.steps)]
    found = [action for action in actions if isinstance(action, TiledLoop)]
    found += [loop for action in actions if isinstance(action, CompiledRun) for loop in action.loops]
    return found, plan.layout.pool_bytes


def chain(x: Any, a: Any) -> Any:
    """Twenty groups of ops, a mean, and their gradients."""
    h = x
    for _ in range(20):
        h = layers.scale(
            layers.relu(layers.tanh(layers.elementwise_mul(layers.elementwise_add(h, a), a))), 1.1
        )
    loss = layers.mean(h)
    fluid.optimizer.SGD(0.5).minimize(loss)
    return [loss]


def two_means(x: Any, a: Any) -> Any:
    """A mean that later element-wise ops read, so that it cannot wait for them."""
    h = layers.tanh(layers.elementwise_add(x, a))
    centred = layers.elementwise_sub(h, layers.mean(h))
    loss = layers.mean(layers.square(centred))
    fluid.optimizer.SGD(0.5).minimize(loss)
    return [loss]


def kept_relu(x: Any, a: Any) -> Any:
    """A relu whose output somebody else reads too."""
    h = layers.relu(layers.tanh(layers.elementwise_mul(x, a)))
    loss = layers.mean(h)
    fluid.optimizer.SGD(0.5).minimize(loss)
    return [loss, h]


def one_number(x: Any, a: Any) -> Any:
    """A factor of shape [1, 1], as weights normalised over all dimensions have."""
    # a length of some 9: of 90,300 an element beside 0 would make 6e-4 of a rounding in three steps
    length = layers.scale(layers.reduce_sum(layers.square(a), keep_dim=True), 1e-4)
    loss = layers.mean(layers.tanh(layers.elementwise_mul(x, layers.reshape(length, [1, 1]))))
    fluid.optimizer.SGD(0.5).minimize(loss)
    return [loss]


@pytest.mark.parametrize("build", [chain, two_means, kept_relu, one_number])
@pytest.mark.parametrize("special", [False, True])
def test_loops_equal_interpreter(build: Callable[[Any, Any], Any], special: bool) -> None:
    a = np.random.RandomState(3).randn(*SHAPE).astype("float32")
    if special:
        a[0, :4] = [np.nan, np.inf, -np.inf, 0.0]
    plan, naive = (trained(build, naive, {"a": a}) for naive in (False, True))
    for found, wanted in zip(plan[0], naive[0], strict=True):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(plan[1], naive[1], rtol=2e-5, atol=1e-6)


def test_mean_does_not_end_a_loop() -> None:
    (loop,), pool = loops_of(chain)
    assert len(loop.sums) == 1
    # forward and backward in one loop: none of the forty outputs that backward reads goes to memory
    assert [value.name for value in loop.writes if value.name] == ["x"]
    assert len(loop.registers) < 30
    assert pool < 2 * sum(value.nbytes for value in loop.registers)


def test_sums_do_not_depend_on_threads() -> None:
    a = np.random.RandomState(3).randn(*SHAPE).astype("float32")
    main, startup, fetched = built(chain)
    found = []
    for threads in (1, 2, 3):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.threads = threads
        with fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            fluid.global_scope().find_var("x").get_tensor().set(a, fluid.CPUPlace())
            found.append(exe.run(main, feed={"a": a}, fetch_list=fetched)[0])
    assert found[0] == found[1] == found[2]
