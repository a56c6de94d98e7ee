"""The judge of networks: what rounding alone makes is no difference, and a wrong gradient is one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from beside.compare import compare
from beside.kinds import is_explained, moves_far
from beside.language import Case
from beside.networks import calm, make_network
from beside.observe import Facts, Observer
from beside.worker import System
from fluidlite.executor.run.interpreter import Frame


def observer(case: Case) -> Observer:
    return Observer(System("ours", "18"), case)


def otherwise(case: Case, seed: int) -> Facts:
    """Facts of runs that round otherwise."""
    found = observer(case)
    facts = found.observe([])
    return {**facts, "runs": found.otherwise(seed)}


def with_a_wrong_gradient(case: Case, factor: float) -> Facts:
    """Facts of a system that has another gradient of one parameter."""
    found = observer(case)
    found.exe.naive = True
    write = Frame.set

    def write_wrong(frame: Frame, name: str, value: Any, lod: Any = None) -> None:
        params = [param.name for param in found.parameters() if param.trainable]
        wrong = name == f"{params[len(params) // 2]}@GRAD"
        write(frame, name, value * np.float32(factor) if wrong else value, lod)

    with mock.patch.object(Frame, "set", write_wrong):
        return found.observe(["runs"])


@pytest.mark.parametrize("seed", [20300009, 20300013, 20300025, 20300028, 20300038])
def test_a_gradient_that_is_wrong_by_a_thousandth_is_found(seed: int) -> None:
    case = make_network(seed)
    mine = observer(case).observe(["runs", "shaken"])
    assert compare(mine, with_a_wrong_gradient(case, 1.001)) and not moves_far(mine)


LOST = [16001544, 16001563, 16001581]
"""Networks whose optimizers make steps of gradients that are nothing but rounding."""


@pytest.mark.parametrize("seed", LOST)
def test_what_rounding_makes_of_a_gradient_of_nothing_is_no_difference(seed: int) -> None:
    case = make_network(seed)
    mine = observer(case).observe(["runs", "shaken"])
    for again in (4, 5):
        other = otherwise(case, again)
        assert not compare(mine, other) and is_explained(mine, other, [])


def test_biases_before_a_normalisation_move_far() -> None:
    assert moves_far(observer(make_network(20300283)).observe(["runs", "shaken"]))


@pytest.mark.parametrize("seed", LOST[:2])  # in the third one this gradient is nothing, too
def test_plain_steps_tell_what_is_lost_in_others(seed: int) -> None:
    case = calm(make_network(seed))
    mine = observer(case).observe(["runs", "shaken"])
    assert calm(case) == case
    assert not moves_far(mine) and not is_explained(mine, otherwise(case, 4), [])
    assert compare(mine, with_a_wrong_gradient(case, 0.1))
