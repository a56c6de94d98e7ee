"""The levels of detail that functions of the 2.x door give, beside those that PaddlePaddle 2.6.2 gives."""

from __future__ import annotations

import pytest
from recorded import levels_2x

import fluidlite as fluid
import fluidlite.paddle as paddle

RECORDED = levels_2x.load()
CALLS = levels_2x.calls()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("name", RECORDED)
def test_levels_are_those_of_paddle(name: str, naive: bool) -> None:
    assert levels_2x.observe(paddle, fluid, CALLS[name], naive) == RECORDED[name]


def test_all_calls_are_recorded() -> None:
    assert list(RECORDED) == list(CALLS)
