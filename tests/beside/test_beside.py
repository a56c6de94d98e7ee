"""Kept cases, each as it was recorded, and fresh ones on our engines beside each other."""

from __future__ import annotations

import os

import pytest

from beside.backends import engine
from beside.fuzz import Run, report
from beside.kept import kept, replay
from beside.kinds import Engines

SEED = int(os.environ.get("FUZZ_SEED", "1"))
COUNT = int(os.environ.get("FUZZ_COUNT", "2000"))


@pytest.mark.parametrize("name", ["plan", "naive", "fast"])
@pytest.mark.parametrize("door", ["18", "26"])
def test_kept_cases(door: str, name: str) -> None:
    backend = engine(name)
    try:
        assert replay(backend, kept(door)) == []
    finally:
        backend.close()


def check_engines(door: str, names: tuple[str, str], seeds: range) -> None:
    """Two engines agree on the cases of these seeds."""
    run = Run(Engines(engine(names[0]), engine(names[1]), door, []))
    try:
        run.go(seeds)
    finally:
        run.beside.close()
    assert not run.mine, report(run)


@pytest.mark.parametrize(("door", "count"), [("18", 60), ("26", 60), ("networks", 12)])
def test_plans_beside_the_interpreter(door: str, count: int) -> None:
    check_engines(door, ("plan", "naive"), range(count))


@pytest.mark.slow
@pytest.mark.parametrize("names", [("plan", "naive"), ("fast", "numpy"), ("fast", "threads")])
@pytest.mark.parametrize("door", ["18", "26", "networks"])
def test_engines_beside_each_other(door: str, names: tuple[str, str]) -> None:
    check_engines(door, names, range(SEED, SEED + COUNT))
