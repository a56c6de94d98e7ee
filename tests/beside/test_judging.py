"""The judge by central differences: numbers of functions whose derivatives are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from beside.compare import Difference, compare, is_nearer, right_by_differences, wrong_by_differences
from beside.kinds import Found, with_consequences
from beside.observe import ROUGH_STEP, STEP, differences, direction_of, shown

CASE: dict[str, Any] = {"feeds": {}}
POINT = np.array([0.3, -0.7, 1.1])


def slopes(function: Callable[[np.ndarray], float], step: float, noise: float = 0.0) -> list[float]:
    """The differences that an Observer finds at `POINT`; sums are off by up to `noise`, in turn."""
    direction = direction_of(POINT.shape)
    sums = {times: function(POINT + step * times * direction) for times in (-2, -1, 0, 1, 2)}
    noisy = {times: value + noise * (times % 2) * times for times, value in sums.items()}
    return [*differences(noisy, step), noisy[0]]


def facts(grad: np.ndarray, part: str, found: list[float]) -> dict[str, Any]:
    kind = "second" if part.endswith("bends") else "grads"
    return {kind: {"x": shown(grad)}, part: {"x": found}}


@pytest.mark.parametrize(
    "part, step, factor", [("rough", ROUGH_STEP, 1.0), ("bends", STEP, 1.0), ("bends", STEP, 1e-6)]
)
def test_a_gradient_that_is_far_off(part: str, step: float, factor: float) -> None:
    found = slopes(lambda x: factor * float((x**3).sum()), step)
    right = facts(factor * 3 * POINT**2, part, found)
    wrong = facts(factor * 2 * POINT**2, part, found)
    assert is_nearer(CASE, right, wrong, part)
    assert not is_nearer(CASE, wrong, right, part)
    assert not is_nearer(CASE, right, right, part)


def test_differences_of_few_digits_tell_zeros_from_a_gradient() -> None:
    found = slopes(lambda x: float((x**3).sum()), ROUGH_STEP, noise=1e-5)
    right, zeros = (facts(grad, "rough", found) for grad in (3 * POINT**2, 0 * POINT))
    nearly = facts(3.01 * POINT**2, "rough", found)
    assert is_nearer(CASE, right, zeros, "rough")
    assert not is_nearer(CASE, right, nearly, "rough")  # less than these differences can tell


def test_between_both_sides_of_a_kink() -> None:
    found = slopes(lambda x: float(np.abs(x - POINT).sum()), STEP)
    assert found[:2] == pytest.approx([-np.abs(direction_of((3,))).sum(), np.abs(direction_of((3,))).sum()])
    for slope, is_right in (([1.0, 0.0, 1.0], True), ([0.0, 0.0, 0.0], True), ([9.0, 0.0, 0.0], False)):
        grad = np.array(slope) * np.sign(direction_of((3,)))
        assert right_by_differences(CASE, facts(grad, "slopes", found), "x") is is_right


def test_kinks_that_nearly_cancel() -> None:
    """Of several kinks, slopes of both sides may be alike by chance: a gradient between them is not wrong."""
    grad = np.array([3.0, 2.0, 2.0])
    kinks = [2.6319, 2.6294, 2.6307, 2.6307, 1.0, 0.0]  # their difference does not shrink with the step
    assert not wrong_by_differences(CASE, facts(grad, "slopes", kinks))
    assert wrong_by_differences(CASE, facts(grad, "slopes", [*kinks[:4], 2.0, 0.0])) == ["x"]


def test_a_system_that_ended_before_its_gradients_is_not_judged() -> None:
    found = {"bends": {"x": slopes(lambda x: float((x**3).sum()), STEP)}}
    assert not wrong_by_differences(CASE, {"fault": "crash", **found}, "bends", none_is_zero=True)


def test_numbers_behind_a_result_of_another_shape_follow_from_it() -> None:
    numbers = (np.zeros(2), np.ones(2))
    shape = Difference("value shape", "output 0: [4, 2], PaddlePaddle [7, 2]")
    behind, refused = Difference("value", "output 1", numbers=numbers), Difference("refused build", "no")
    found = [Found(CASE, shape, row="longer"), Found(CASE, behind), Found(CASE, refused)]
    assert [one.row for one in with_consequences(found)] == ["longer", "longer", ""]
    assert [one.row for one in with_consequences(found[1:])] == ["", ""]


def test_steps_on_two_devices_move_as_those_on_one() -> None:
    """A shaken run tells of one device alone: how far the state behind it moves counts for both."""

    def run(value: float) -> dict[str, Any]:
        return dict(shown(np.array([1.0, value], "float32")), lengths=[])

    def told(alone: float, together: float) -> dict[str, Any]:
        runs = {"first": [], "state behind three": {"w": run(alone)}}
        return {"runs": runs, "parallel": {"first": [], "state": {"w": run(together)}}}

    mine, shaken = told(2.0, 3.0), told(2.1, 3.0)["runs"]
    assert compare(mine, told(2.0, 3.5))
    assert not compare({**mine, "shaken": [{"runs": shaken}]}, told(2.0, 3.5))
    assert compare({**mine, "shaken": [{"runs": shaken}]}, told(2.0, 50.0))
