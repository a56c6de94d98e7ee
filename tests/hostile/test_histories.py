"""Jobs whose connections are cut, reset, delayed or half open: each gradient that a trainer was told about is
applied once, none twice, and in the order in which its trainer made them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from histories import MODES, History, JobUnderFaults, mistakes, summary

ROUNDS = int(os.environ.get("HOSTILE_ROUNDS", "1"))
STEPS = 12


@pytest.fixture(autouse=True)
def patience(flags: Callable[..., None]) -> None:
    """A trainer that has gone is not waited for long, and comes back."""
    flags(rpc_lost_trainer="go_on", rpc_lost_trainer_wait=2000, rpc_deadline=20_000)


@pytest.mark.parametrize("waits", [0, 5000])
@pytest.mark.parametrize("mode", MODES)
def test_under_faults(mode: str, waits: int, flags: Callable[..., None]) -> None:
    flags(rpc_server_wait=waits)
    histories = []
    for seed in range(2 * ROUNDS):
        job = JobUnderFaults(mode, seed, STEPS, faults=8)
        history = job.run()
        wrong = mistakes(history)
        assert not wrong, (mode, seed, wrong, job.connections.had, history)
        histories.append(history)
    counts = summary(histories)
    print(mode, waits, counts)
    assert counts["gradients"] and counts["changes"]


@pytest.mark.parametrize("mode", MODES)
def test_without_faults(mode: str) -> None:
    history = JobUnderFaults(mode, 0, STEPS, faults=0).run()
    assert not mistakes(history) and not history.errors
    assert len(history.acknowledged) == 2 * STEPS


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ([{0: 1.0}, {0: 1.0}], "counts [1.0, 1.0]"),
        ([{1: 1.0}, {0: 1.0}], "in the order"),
        ([{0: 1.0}], "not applied"),
        ([{0: 2.0}, {1: 1.0}], "counts [2.0]"),
    ],
)
def test_mistakes_are_found(changes: list[dict[int, float]], word: str) -> None:
    assert any(word in text for text in mistakes(History("async", STEPS, changes, {0, 1})))
