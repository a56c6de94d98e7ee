"""Executors, scopes, and steps of sizes that do not come again, are freed when a process lets go of them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers
from fluidlite.base import process
from fluidlite.values.scope import Scope


@pytest.fixture
def by_counts_alone() -> Iterator[None]:
    """No collector comes by."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def trained(exe: Any, scope: Scope) -> Any:
    """The bound plan of a step on that scope."""
    x = fluid.data("x", [None, 3])
    loss = layers.mean(layers.dropout(layers.fc(x, 4, act="relu"), 0.5))
    fluid.optimizer.Adam(0.01).minimize(loss)
    exe.run(fluid.default_startup_program(), scope=scope)
    for rows in (4, 5):
        exe.run(feed={"x": np.ones((rows, 3), "float32")}, fetch_list=[loss], scope=scope)
    return exe._plans.bounds()[-1]


@pytest.mark.usefixtures("by_counts_alone")
def test_buffers_go_with_their_executor() -> None:
    exe, scope = fluid.Executor(fluid.CPUPlace()), Scope()
    pool = weakref.ref(trained(exe, scope).binding.buffers.pool)
    assert pool() is not None
    del exe
    assert pool() is None


@pytest.mark.usefixtures("by_counts_alone")
def test_buffers_and_parameters_go_with_their_scope() -> None:
    exe, scope = fluid.Executor(fluid.CPUPlace()), Scope()
    held = weakref.ref(scope), weakref.ref(trained(exe, scope).binding.buffers.pool)
    array = weakref.ref(scope.find_var("fc_0.w_0").get_tensor())
    del scope
    assert [found() for found in (*held, array)] == [None] * 3


@pytest.mark.usefixtures("by_counts_alone")
def test_plans_of_other_scopes_are_bounded_in_bytes() -> None:
    exe, first, second = fluid.Executor(fluid.CPUPlace()), Scope(), Scope()
    plan = trained(exe, first)
    loss = plan.plan.plan.fetches[0].name
    pool = weakref.ref(plan.binding.buffers.pool)
    exe._plans.max_bytes = plan.nbytes + 60
    del plan
    exe.run(fluid.default_startup_program(), scope=second)
    exe.run(feed={"x": np.ones((4, 3), "float32")}, fetch_list=[loss], scope=second)
    assert pool() is None and first.find_var("fc_0.w_0").is_initialized()
    assert all(bound.is_of(second) for bound in exe._plans.bounds())


@pytest.fixture
def unfrozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in which nobody keeps objects frozen, as most are; conftest keeps the collected tests so."""
    gc.unfreeze()
    for name, value in {"LEAST": 100, "count": 0, "enough": 0, "frozen": 0}.items():
        monkeypatch.setattr(process._unseen, name, value)
    yield
    gc.freeze()


@pytest.mark.usefixtures("unfrozen")
def test_cycles_among_old_objects_are_collected() -> None:
    class Cycle:
        """Refers to itself."""

    cycle: Any = Cycle()
    cycle.itself = cycle
    held = weakref.ref(cycle)
    del cycle
    with process.without_collector():
        kept = [[] for _ in range(len(gc.get_objects()))]
    assert held() is not None and kept
    with process.without_collector():
        assert held() is None


@pytest.mark.usefixtures("unfrozen")
def test_objects_are_counted_without_a_list_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # such a list broke `tuple(generator)` in other threads: "bad argument to internal function"
    monkeypatch.setattr(gc, "get_objects", lambda: pytest.fail("all objects are held"))
    gc.freeze()
    process._unseen.count = 101
    with process.without_collector():
        assert process._unseen.enough > gc.get_freeze_count() // 4
    # those that somebody keeps stay where they are
    assert gc.get_freeze_count()
    process._unseen.count = 10 * gc.get_freeze_count()
    with process.without_collector():
        assert process._unseen.count == 0


@pytest.mark.usefixtures("unfrozen")
def test_frozen_objects_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.freeze()
    with process.without_collector():
        pass
    # to count them walks over all: 20 ms for a million, at each plan
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("they are counted again"))
    with process.without_collector():
        pass
