"""Recorded runs in which PaddlePaddle 1.8.5 computes something wrong (docs/DIFFERENCES.md).

Each is computed by hand twice, with 1.8.5's fault and without it. The recording is the first, ours is the
second, and the two differ in exactly the values that are listed: a mistake of ours in these programs is seen
as in any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from golden import harness

import fluidlite as fluid

Values = dict[str, Any]


@dataclass
class Course:
    """All that a run gives: the fetched values of each step, and the persistables after the last."""

    fetched: list[Values] = field(default_factory=list)
    final: Values = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A faulty recording.

    Attributes
    ----------
    by_hand: the run in double precision, with 1.8.5's fault or without.
    first_step: fetched variable -> the step in which it differs first.
    final: persistables that differ at the end; all others are equal.
    """

    by_hand: Callable[[harness.Golden, bool], Course]
    first_step: dict[str, int]
    final: frozenset[str]


def recorded(golden: harness.Golden) -> Course:
    """The course that 1.8.5 took; it lists at the end only what has changed."""
    steps = range(golden.meta["steps"])
    fetched = [{one.name: one.value for one in golden.fetches(0, step)} for step in steps]
    return Course(fetched, golden.persistables("init") | golden.persistables("final"))


def ours(golden: harness.Golden, place: Any = None) -> Course:
    """The course that we take from the same start, with the same feeds."""
    replay = harness.Replay(fluid, golden)
    if place is not None:
        replay.exe = fluid.Executor(place)
    found = Course([replay.fetch(0, step) for step in range(golden.meta["steps"])])
    for name in golden.persistables("init"):
        found.final[name] = np.array(replay.scope.find_var(name).get_tensor())
    return found


def start(golden: harness.Golden) -> Values:
    return {name: value.astype("float64") for name, value in golden.persistables("init").items()}


def feeds(golden: harness.Golden) -> list[Values]:
    steps = range(golden.meta["steps"])
    return [{name: fed.value for name, fed in golden.feeds(0, step).items()} for step in steps]


# ---------------------------------------------------------------------- adam over rows
def sparse_adam(rate: float, beta1: float, beta2: float, epsilon: float, lazy: bool) -> Any:
    """An embedding's mean into a softmax layer, trained by adam (Kingma and Ba, section 2, with the step size
    of its last paragraph). The fault: the table's step is made with the powers of the betas after it.
    """

    def move(values: Values, name: str, grad: Any, rows: Any, early: bool) -> None:
        first, second = (values[f"{name}_beta{number}_pow_acc_0"] for number in (1, 2))
        power1, power2 = (first * beta1, second * beta2) if early else (first, second)
        moment1, moment2 = values[f"{name}_moment1_0"], values[f"{name}_moment2_0"]
        moment1[rows] = beta1 * moment1[rows] + (1 - beta1) * grad[rows]
        moment2[rows] = beta2 * moment2[rows] + (1 - beta2) * grad[rows] ** 2
        length = rate * np.sqrt(1 - power2) / (1 - power1)
        values[name][rows] -= length * moment1[rows] / (np.sqrt(moment2[rows]) + epsilon)
        first *= beta1
        second *= beta2

    def by_hand(golden: harness.Golden, fault: bool) -> Course:
        values, course = start(golden), Course()
        for feed in feeds(golden):
            words, label = feed["words"], feed["label"].ravel()
            pooled = values["table"][words].mean(1)
            logits = pooled @ values["fc_0.w_0"] + values["fc_0.b_0"]
            likely = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            picked = np.arange(len(label)), label
            course.fetched.append({"mean_0.tmp_0": -np.log(likely[picked]).mean(keepdims=True)})

            likely[picked] -= 1
            into_logits = likely / len(label)
            into_rows = np.zeros_like(values["table"])
            each = (into_logits @ values["fc_0.w_0"].T)[:, None] / words.shape[1]
            np.add.at(into_rows, words, np.broadcast_to(each, (*words.shape, each.shape[-1])))
            every = slice(None)
            move(values, "fc_0.w_0", pooled.T @ into_logits, every, False)
            move(values, "fc_0.b_0", into_logits.sum(0), every, False)
            move(values, "table", into_rows, np.unique(words) if lazy else every, fault)
        course.final = values
        return course

    return by_hand


# ---------------------------------------------------------------------- a row that reads as zeros
def padding(golden: harness.Golden, fault: bool) -> Course:
    """A layer over an embedding whose last row is padding, by SGD. The fault: the padding row moves."""
    values, course = start(golden), Course()
    pad = len(values["table"]) - 1
    for feed in feeds(golden):
        words = feed["words"]
        vectors = np.where((words == pad)[..., None], 0.0, values["table"][words])
        out = vectors @ values["fc_0.w_0"] + values["fc_0.b_0"]
        course.fetched.append({"reduce_mean_0.tmp_0": (out**2).mean().reshape(1)})

        into_out = 2 * out / out.size
        into_rows = np.zeros_like(values["table"])
        np.add.at(into_rows, words, into_out @ values["fc_0.w_0"].T)
        if not fault:
            into_rows[pad] = 0
        values["fc_0.w_0"] -= 0.1 * np.einsum("bwi,bwo->io", vectors, into_out)
        values["fc_0.b_0"] -= 0.1 * into_out.sum((0, 1))
        values["table"] -= 0.1 * into_rows
    course.final = values
    return course


# ---------------------------------------------------------------------- a loop variable written again
def loop(golden: harness.Golden, fault: bool) -> Course:
    """Three times `state = tanh(state @ loop_w)` over a layer, by SGD. The fault: only the last time round
    counts, and its `mul` is differentiated at the state that it made instead of the one that it read; the
    layer in front learns nothing. And the gradient of `increment` counts the fetched counter back.
    """
    values, course = start(golden), Course()
    for feed in feeds(golden):
        weight = values["loop_w"]
        states = [feed["x"] @ values["fc_0.w_0"] + values["fc_0.b_0"]]
        for _ in range(3):
            states.append(np.tanh(states[-1] @ weight))
        last = states[-1]
        fetched = {"mean_0.tmp_0": (last**2).mean().reshape(1), "fc_0.tmp_1": last}
        course.fetched.append({**fetched, "fill_constant_0.tmp_0": np.array([0 if fault else 3])})

        into_state, into_weight = 2 * last / last.size, np.zeros_like(weight)
        for before, after in reversed(list(zip(states[:-1], states[1:], strict=True))):
            into_sum = into_state * (1 - after**2)
            into_weight += (last if fault else before).T @ into_sum
            into_state = into_sum @ weight.T
            if fault:
                into_state = np.zeros_like(into_state)
                break
        values["loop_w"] = weight - 0.5 * into_weight
        values["fc_0.w_0"] -= 0.5 * feed["x"].T @ into_state
        values["fc_0.b_0"] -= 0.5 * into_state.sum(0)
    course.final = values
    return course


# ---------------------------------------------------------------------- the comparison
# the powers of the betas are right again after each step; all else follows from the table
AFTER_ADAM = frozenset(
    f"{name}{suffix}"
    for name in ("table", "fc_0.w_0", "fc_0.b_0")
    for suffix in ("", "_moment1_0", "_moment2_0")
)
CASES = {
    "sparse_adam": Case(sparse_adam(0.05, 0.8, 0.95, 1e-3, False), {"mean_0.tmp_0": 1}, AFTER_ADAM),
    "sparse_adam_lazy": Case(sparse_adam(0.05, 0.9, 0.999, 1e-8, True), {"mean_0.tmp_0": 1}, AFTER_ADAM),
    "sparse_padding": Case(padding, {}, frozenset(["table"])),
    "while_loop_gradient": Case(
        loop,
        {"mean_0.tmp_0": 1, "fc_0.tmp_1": 1, "fill_constant_0.tmp_0": 0},
        frozenset(["loop_w", "fc_0.w_0", "fc_0.b_0"]),
    ),
}


def assert_same(found: Course, wanted: Course) -> None:
    for step, values in enumerate(wanted.fetched):
        assert found.fetched[step].keys() == values.keys()
        for name, value in values.items():
            harness.check_close(f"{name} in step {step}", found.fetched[step][name], value)
    assert found.final.keys() == wanted.final.keys()
    for name, value in wanted.final.items():
        harness.check_close(name, found.final[name], value)


def differs(found: Any, wanted: Any) -> bool:
    try:
        harness.check_close("", found, wanted)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_a_faulty_recording(name: str) -> None:
    case, golden = CASES[name], harness.Golden(name)
    theirs, mine = recorded(golden), ours(golden)
    assert_same(theirs, case.by_hand(golden, True))
    assert_same(mine, case.by_hand(golden, False))
    first: dict[str, int] = {}
    for step, (left, right) in enumerate(zip(mine.fetched, theirs.fetched, strict=True)):
        for fetched in left:
            if differs(left[fetched], right[fetched]):
                first.setdefault(fetched, step)
    assert first == case.first_step
    assert {each for each in mine.final if differs(mine.final[each], theirs.final[each])} == case.final


def test_the_padding_row_alone_differs() -> None:
    golden = harness.Golden("sparse_padding")
    mine, theirs = ours(golden).final["table"], recorded(golden).final["table"]
    assert np.allclose(mine[:-1], theirs[:-1], atol=1e-6)
    assert (mine[-1] == golden.persistables("init")["table"][-1]).all()
    assert (mine[-1] != theirs[-1]).all()


def test_the_first_step_of_sparse_adam_is_too_short() -> None:
    """By sqrt(1 + beta2) / (1 + beta1), which is 0.744 with the default betas."""
    golden = harness.Golden("sparse_adam_lazy")
    before = golden.persistables("init")["table"]
    golden.meta["steps"] = 1
    by_hand = CASES["sparse_adam_lazy"].by_hand
    right, wrong = (by_hand(golden, fault).final["table"] for fault in (False, True))
    moved = right != before
    assert np.allclose((wrong - before)[moved] / (right - before)[moved], np.sqrt(1.999) / 1.9)
