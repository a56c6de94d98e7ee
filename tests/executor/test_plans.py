"""Plans against the naive interpreter, program by program, and the properties of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden import harness
from hypothesis import given, settings
from hypothesis import strategies as st

import fluidlite as fluid
from fluidlite.errors import EOFException
from fluidlite.executor.passes.place_buffers import layout_of
from fluidlite.executor.plan.actions import Bound, Call, Elementwise, Out
from fluidlite.executor.plan.objects import PlanObject
from fluidlite.executor.plan.steps import Step
from fluidlite.executor.plan.values import Storage, Value, ValueFactory

STEPS = 3


@pytest.fixture(autouse=True)
def _checked(flags: Callable[..., None]) -> None:
    flags(check_buffers=True)


class Side(harness.Replay):
    """One of the two executions of a recorded program."""

    def values(self, index: int, step: int) -> list[Any]:
        feeds = {name: harness.to_feed(fluid, fed) for name, fed in self.golden.feeds(index, step).items()}
        names = [one.name for one in self.golden.fetches(index, step)]
        return list(
            self.exe.run(
                self.programs[index], feed=feeds, fetch_list=names, scope=self.scope, return_numpy=False
            )
        )


def close(what: str, plan: Any, naive: Any) -> None:
    plan, naive = np.asarray(plan), np.asarray(naive)
    assert plan.shape == naive.shape and plan.dtype == naive.dtype, what
    if naive.dtype.kind == "f":
        largest = float(np.abs(naive).max(initial=0))
        np.testing.assert_allclose(plan, naive, rtol=2e-5, atol=2e-5 * largest + 1e-6, err_msg=what)
    else:
        np.testing.assert_array_equal(plan, naive, err_msg=what)


@pytest.mark.parametrize("name", harness.recorded_cases())
def test_plan_equals_interpreter(name: str) -> None:
    golden = harness.Golden(name)
    plan, naive = Side(fluid, golden), Side(fluid, golden)
    naive.exe.naive = True
    for step in range(min(STEPS, golden.meta["steps"])):
        for index in range(golden.step_runs):
            try:
                wanted = naive.values(index, step)
            except EOFException:
                return
            for one, (found, expected) in enumerate(zip(plan.values(index, step), wanted, strict=True)):
                close(f"fetch {one} of run {index} in step {step}", found, expected)
                assert found.recursive_sequence_lengths() == expected.recursive_sequence_lengths()
    for variable, held in naive.scope.variables.items():
        if isinstance(held.value, fluid.LoDTensor) and held.value.array is not None:
            close(variable, plan.scope.find_var(variable).get_tensor(), held.value)


# ---------------------------------------------------------------------- buffers
@st.composite
def step_lists(draw: Any) -> tuple[list[Step], list[Value]]:
    """Random straight lines of element-wise and opaque steps over buffers of a few sizes."""
    values, steps = ValueFactory(), []
    made = [values.make((4,), "float32", Storage.FEED)]
    for _ in range(draw(st.integers(1, 25))):
        reads = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3))
        out = values.make((draw(st.sampled_from([1, 4, 64, 100])),), "float32", Storage.BUFFER)
        if draw(st.booleans()):
            steps.append(Step(None, Elementwise("add", tuple(reads)), (out,)))
        else:
            temps = (values.make((7,), "float32", Storage.BUFFER),) if draw(st.booleans()) else ()
            steps.append(Step(None, Call(Bound("opaque", PlanObject()), (*reads, Out(out))), temps=temps))
        made.append(out)
    return steps, draw(st.lists(st.sampled_from(made), max_size=3))


@settings(max_examples=200, deadline=None)
@given(step_lists())
def test_buffers_that_live_together_do_not_overlap(case: tuple[list[Step], list[Value]]) -> None:
    steps, kept = case
    layout = layout_of(steps, kept)
    held = np.zeros(layout.pool_bytes // 4 + 1, dtype=np.int64)  # which value each word belongs to
    for step in steps:
        for value in step.reads:
            if value.storage == Storage.BUFFER:
                start = layout.offsets[value] // 4
                assert (held[start : start + value.size] == value.number + 1).all(), (
                    "an input was overwritten before it was read"
                )
        for value in (*step.temps, *step.writes):
            start = layout.offsets[value] // 4
            held[start : start + value.size] = value.number + 1
    for value in kept:
        if value.storage == Storage.BUFFER:
            start = layout.offsets[value] // 4
            assert (held[start : start + value.size] == value.number + 1).all(), (
                "a fetched value was overwritten"
            )
