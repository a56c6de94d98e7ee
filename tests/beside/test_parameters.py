"""Every parameter of a function of both doors is drawn by its generator, or there is a reason why not."""

from __future__ import annotations

import pytest
from ops.draws.undrawn import undrawn

from beside.draw import generators
from beside.parameters import never_drawn, parameters

DRAWS = 300
# "name" is given by the variations of all functions
EVERYWHERE = frozenset(["name"])


def functions(door: str) -> list[str]:
    """All but operators, which have no parameters of their own, and methods, whose functions are drawn."""
    return [name for name in generators(door) if not name.startswith(("fluid.op.", "paddle.Tensor."))]


@pytest.mark.parametrize("door", ["18", "26"])
def test_each_parameter_is_drawn_or_there_is_a_reason(door: str) -> None:
    kept = undrawn()
    left = {
        name: found
        for name in functions(door)
        if (found := never_drawn(door, name, DRAWS, EVERYWHERE | kept.get(name, frozenset())))
    }
    assert left == {}


def test_reasons_are_for_parameters_that_there_are() -> None:
    known = {*functions("18"), *functions("26")}
    assert [
        name for name, kept in undrawn().items() if name not in known or not kept <= {*parameters(name)}
    ] == []


@pytest.mark.parametrize("door", ["18", "26"])
def test_reasons_are_for_what_is_not_drawn(door: str) -> None:
    kept = undrawn()
    drawn = {name: kept[name] - never_drawn(door, name, 40) for name in functions(door) if name in kept}
    assert {name: found for name, found in drawn.items() if found} == {}
