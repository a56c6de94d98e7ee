"""Gradients, and gradients of gradients, where an input is 0, 1 or equal to its neighbours.

A formula such as `where(x == 0, 0, ...)` may give a right value there and a wrong derivative. A function that
has the same slope on both sides of such a point has that gradient; others have a bend, and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from optest import Case, _loss
from second import differentiated, is_refused, runner
from test_ops import CASES

import fluidlite as fluid
from fluidlite.base.errors import FluidError
from fluidlite.values.tensor import LoDTensor

WITH_GRADIENT = [case for case in CASES if case.grad]
FIRST_OF_EACH = list({case.op: case for case in reversed(WITH_GRADIENT)}.values())
STEP = 1e-5
NO_DERIVATIVE = {
    ("group_norm", "zeros"): "by a scale of 0: its gradient op reads the output, as in both PaddlePaddles",
    ("inplace_abn", "zeros"): "by a scale of 0: the input, which the output overwrites, is lost: NaN",
    ("bce_loss", "zeros"): "a probability of 0 of a label of 0: as in both PaddlePaddles",
    ("kthvalue", "equal"): "several elements are the one: the first gets the gradient",
    ("nanmedian", "equal"): "several elements are the one: they share the gradient",
}
SPECIAL: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "equal": lambda found: np.full_like(found, found.flat[0]),
}


def with_special(
    case: Case, feeds: Mapping[str, Any], name: str, kind: str
) -> tuple[dict[str, Any], list[int]]:
    """The feeds with some special elements in the feed `name`, and the numbers of these."""
    held = feeds[name]
    found = np.array(held)
    chosen = np.random.RandomState(len(case.op)).permutation(found.size)[: max(1, min(4, found.size // 2))]
    found.flat[chosen] = SPECIAL[kind](found).flat[chosen]
    return {**feeds, name: LoDTensor(found, held._lod) if isinstance(held, LoDTensor) else found}, list(
        chosen
    )


def moved(feeds: Mapping[str, Any], name: str, number: int, by: float) -> dict[str, Any]:
    held = feeds[name]
    found = np.array(held)
    found.flat[number] += by
    return {**feeds, name: LoDTensor(found, held._lod) if isinstance(held, LoDTensor) else found}


def slope(loss: Callable[[Mapping[str, Any]], float], feeds: Any, name: str, number: int) -> float | None:
    """The slope by one element where it is the same on both sides, and for a smaller step; else None."""
    here = loss(feeds)
    if abs(here) * 1e-16 > 1e-4 * STEP:  # its digits end before the difference begins
        return None
    ways = [(loss(moved(feeds, name, number, step)) - here) / step for step in (STEP, -STEP, 10 * STEP)]
    return ways[0] if max(ways) - min(ways) < 2e-3 * max(1.0, abs(ways[0])) else None


def wrong_slopes(
    loss: Callable[[Mapping[str, Any]], float], gradient: Any, feeds: Any, name: str, chosen: list[int]
) -> list[str]:
    wrong = []
    for number in chosen:
        wanted = slope(loss, feeds, name, number)
        found = 0.0 if gradient is None else float(np.asarray(gradient).flat[number])
        if wanted is not None and not abs(found - wanted) < 5e-3 * max(1.0, abs(wanted)):
            wrong.append(f"{name}[{number}]: {found} instead of {wanted}")
    return wrong


def wrong_gradients(case: Case, kind: str, order: int) -> list[str]:
    program, feeds, loss, variables = _loss(case)
    if order == 2:
        slopes = differentiated(program, feeds, loss, variables)
        names, target, feeds = slopes.gradients, slopes.loss, slopes.feeds
    else:
        with fluid.program_guard(program):
            names = [g and g.name for g in fluid.gradients([loss], variables)]
        target = loss.name
    run = runner(program, feeds, False)
    wrong = []
    for var, gradient in zip(variables, names, strict=True):
        special, chosen = with_special(case, feeds, var.name, kind)
        try:
            value = None if gradient is None else run(special, gradient)
            wrong += wrong_slopes(lambda fed: float(run(fed, target).sum()), value, special, var.name, chosen)
        except FluidError:
            continue
    return wrong


ALL = [(case, order, kind) for case in FIRST_OF_EACH for order in (1, 2) for kind in SPECIAL]


def check_special(case: Case, order: int, kind: str) -> None:
    is_left = (order == 2 and is_refused(case)) or (case.op, kind) in NO_DERIVATIVE
    assert is_left or wrong_gradients(case, kind, order) == []


@pytest.mark.parametrize("case, order, kind", ALL[::5])
def test_special_points(case: Case, order: int, kind: str) -> None:
    check_special(case, order, kind)


@pytest.mark.slow
@pytest.mark.parametrize("case, order, kind", ALL)
def test_all_special_points(case: Case, order: int, kind: str) -> None:
    check_special(case, order, kind)
