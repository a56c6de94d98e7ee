"""Branches that a device chooses between: steps with them are captured, and leave what an `if` leaves."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.contrib import mixed_precision
from fluidlite.executor.run.cuda import CapturedStep

pytestmark = pytest.mark.gpu
START = fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=3))


def feeds(count: int, broken: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Batches of a classifier; the `broken` ones hold an infinity."""
    random = np.random.default_rng(0)
    made = [{"x": random.random((7, 6), "float32"), "y": random.integers(0, 3, (7, 1))} for _ in range(count)]
    for number in broken:
        made[number]["x"][2, 3] = np.inf
    return made


def classifier() -> Any:
    """The loss of one."""
    x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
    h = fluid.layers.fc(x, 8, act="relu", param_attr=START)
    scores = fluid.layers.fc(h, 3, param_attr=START)
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(scores, y))


def trained(place: Any, batches: list[dict[str, Any]]) -> tuple[dict[str, Any], list[bool]]:
    """The states of the program after its steps, and which of the steps with a graph have one."""
    steps: list[CapturedStep] = []
    before = CapturedStep.__init__

    def made(self: CapturedStep, *args: Any) -> None:
        before(self, *args)
        steps.append(self)

    exe, scope = fluid.Executor(place), fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=scope)
    exe.naive = isinstance(place, fluid.CPUPlace)
    with mock.patch.object(CapturedStep, "__init__", made):
        for batch in batches:
            exe.run(feed=batch, scope=scope)
    names = [var.name for var in fluid.default_main_program().list_vars() if var.persistable]
    states = {name: np.array(scope.find_var(name).get_tensor()) for name in names}
    return states, [step.graph is not None for step in steps]


def check_on_both(batches: list[dict[str, Any]], rtol: float) -> dict[str, Any]:
    """Captured steps leave what the naive interpreter leaves; counters and scales are the same numbers."""
    wanted, _ = trained(fluid.CPUPlace(), batches)
    found, captured = trained(fluid.CUDAPlace(0), batches)
    assert captured == [True]
    for name, state in wanted.items():
        exact = state.size == 1 and "pow" not in name
        np.testing.assert_allclose(found[name], state, 0 if exact else rtol, rtol, err_msg=name)
    return wanted


@pytest.mark.parametrize("broken", [(), (3,), (2, 3, 6)], ids=str)
def test_the_scale_of_a_loss(broken: tuple[int, ...]) -> None:
    optimizer = mixed_precision.decorate(
        fluid.optimizer.Adam(0.01), init_loss_scaling=64.0, incr_every_n_steps=2, decr_every_n_nan_or_inf=1
    )
    optimizer.minimize(classifier())
    states = check_on_both(feeds(9, broken), 4e-3)
    wanted = {(): 64 * 2**3, (3,): 64 * 2**2, (2, 3, 6): 64 * 0.8}[broken]
    assert states[optimizer.get_loss_scaling().name] == pytest.approx(wanted)


def classifier_of_words(lookups: int, padding: int | None) -> Any:
    """The loss of one, over words of a table with row-sparse gradients; y is the first word, too."""
    x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
    table = fluid.ParamAttr(name="table", initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=4))
    words = [
        fluid.layers.embedding(y, (9, 6), is_sparse=True, padding_idx=padding, param_attr=table)
        for _ in range(lookups)
    ]
    scores = fluid.layers.fc(fluid.layers.sums([x, *words]), 3, param_attr=START)
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(scores, y))


@pytest.mark.parametrize("lookups, padding", [(1, None), (2, None), (2, 1)], ids=str)
@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam"])
def test_the_scale_of_rows(kind: str, lookups: int, padding: int | None) -> None:
    """In a step whose gradients are not finite no row of a table moves but by momentum."""
    more = {"momentum": 0.9} if kind == "Momentum" else {}
    optimizer = mixed_precision.decorate(
        getattr(fluid.optimizer, kind)(0.01, **more),
        init_loss_scaling=64.0,
        incr_every_n_steps=2,
        decr_every_n_nan_or_inf=1,
    )
    optimizer.minimize(classifier_of_words(lookups, padding))
    states = check_on_both(feeds(7, (3, 4)), 4e-3)
    assert states[optimizer.get_loss_scaling().name] == pytest.approx(64 * 2 * 0.8)
    assert np.isfinite(states["table"]).all()


def test_a_scale_that_would_not_be_finite() -> None:
    optimizer = mixed_precision.decorate(
        fluid.optimizer.SGD(0.01), init_loss_scaling=1.0, incr_every_n_steps=1, incr_ratio=1e20
    )
    optimizer.minimize(classifier())
    check_on_both(feeds(8), 4e-3)


def test_rates_that_fall_in_steps() -> None:
    rate = fluid.layers.piecewise_decay([2, 5], [0.5, 0.25, 0.125])
    fluid.optimizer.SGD(rate).minimize(classifier())
    check_on_both(feeds(8), 1e-4)


def test_rates_that_rise_first() -> None:
    rate = fluid.layers.linear_lr_warmup(fluid.layers.exponential_decay(0.5, 4, 0.5), 3, 0.0, 0.5)
    fluid.optimizer.SGD(rate).minimize(classifier())
    check_on_both(feeds(6), 1e-4)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_updates_every_few_steps(kind: str) -> None:
    inner = getattr(fluid.optimizer, kind)(0.01)
    fluid.optimizer.GradientMergeOptimizer(inner, 3).minimize(classifier())
    check_on_both(feeds(8), 1e-3)


@pytest.mark.parametrize("rows, is_choice", [((60 << 20) // 1024, True), ((68 << 20) // 1024, False)])
def test_a_branch_of_large_states_stays_one(rows: int, is_choice: bool) -> None:
    """Copies of up to 64 MB of states are made in each step."""
    x = fluid.data("x", [1])
    table = fluid.layers.create_global_var([rows, 256], 0.5, "float32", persistable=True)
    with fluid.layers.Switch() as switch, switch.case(fluid.layers.reduce_sum(x) > 1.0):
        fluid.layers.assign(table * 2.0, table)
    scope = fluid.Scope()
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program(), scope=scope)
    exe = fluid.Executor(fluid.CUDAPlace(0))
    text = exe.explain(feed={"x": np.ones(1, "float32")}, fetch_list=[], scope=scope, full=True)
    assert ("\ngraph: " in text) == is_choice
    assert ("no graph: loops and branches (conditional_block x 1)" in text) == (not is_choice)


def test_a_branch_that_draws_or_gives_another_shape_stays_one() -> None:
    """Numbers are drawn where the branch is taken alone."""
    x = fluid.data("x", [4], "float32")
    is_large = fluid.layers.reduce_sum(x) > 2.0
    drawn = fluid.layers.cond(is_large, lambda: fluid.layers.uniform_random([4], "float32"), lambda: x * 2)
    exe = fluid.Executor(fluid.CUDAPlace(0))
    for number in (0.25, 1.0, 0.25):
        batch = {"x": np.full(4, number, "float32")}
        (found,) = exe.run(feed=batch, fetch_list=[drawn])
        assert (found == 0.5).all() == (number < 1)
    assert "if " in exe.explain(feed=batch, fetch_list=[drawn], full=True)


def test_explain_names_what_keeps_a_step_from_being_a_graph() -> None:
    x = fluid.data("x", [4, 3])
    exe = fluid.Executor(fluid.CUDAPlace(0))
    feed = {"x": np.ones((4, 3), "float32")}
    whole, found = fluid.layers.tanh(x), fluid.layers.where(x > 0.5)
    assert "\ngraph: the whole step is one launch\n" in exe.explain(feed=feed, fetch_list=[whole], full=True)
    assert "no graph: portable kernels (where_index x 1)" in exe.explain(
        feed=feed, fetch_list=[found], full=True
    )
    assert "graph: " not in fluid.Executor(fluid.CPUPlace()).explain(feed=feed, fetch_list=[whole], full=True)


def test_explain_counts_kernels_as_they_are_launched() -> None:
    """The updates of four parameters are one launch; what NumPy has no part in does not bear its name."""
    fluid.optimizer.SGD(0.1).minimize(classifier())
    (feed,) = feeds(1)
    text = fluid.Executor(fluid.CUDAPlace(0)).explain(feed=feed, scope=initial_states(), full=True)
    assert text.count("fused: one kernel for sgd") == 1 and "one kernel for sgd x" not in text
    assert "dot = cupy.dot" in text and "np." not in text


def initial_states() -> fluid.Scope:
    """The scope that the startup program leaves."""
    scope = fluid.Scope()
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program(), scope=scope)
    return scope
