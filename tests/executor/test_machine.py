"""Calls of machine code that the threads of a team share: each part once, errors, other work in between."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fluidlite.base.addresses import address_of
from fluidlite.executor.fast import machine
from fluidlite.executor.fast.loops.compiler import is_available
from fluidlite.executor.fast.machine import MachineCalls, SharedCalls, share_once
from fluidlite.executor.fast.onednn.library import OneDnnError, available
from fluidlite.executor.fast.onednn.matmul import gemm_of
from fluidlite.executor.run.team import Team, on_team

pytestmark = pytest.mark.skipif(
    not (is_available() and available()), reason="needs llvmlite and oneDNN: the extra 'fast'"
)
RANDOM = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def compiled(flags: Callable[..., None]) -> None:
    """The code is there from the start."""
    flags(fast_loops="background")
    machine._MACHINE.code.compile()


def whole(*shape: int) -> Any:
    """Whole numbers, of which sums are exact in any order."""
    return RANDOM.integers(-4, 5, shape).astype("float32")


class Filling:
    """Rows of an array, each of which a part makes its bias and a term."""

    def __init__(self, rows: int, columns: int) -> None:
        self.bias, self.term, self.out = whole(columns), whole(rows, columns), whole(rows, columns)

    def __call__(self, calls: MachineCalls, part: int) -> None:
        own = slice(part, part + 1)
        calls.begin(self.out[own], self.bias, self.term[own])

    def check(self) -> None:
        """Every row is there; the next run has them all to do."""
        np.testing.assert_array_equal(self.out, self.term + self.bias)
        self.out.fill(np.nan)


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_every_part_is_done_once_by_somebody(threads: int) -> None:
    for rows in (2, 3, 64, 1000):
        filling, shared = Filling(rows, 37), SharedCalls(threads)
        for _ in range(40):
            shared.run("same", rows, filling)
            filling.check()
        assert shared.recording is not None


def test_jobs_of_python_and_of_machine_code_take_turns() -> None:
    filling, shared = Filling(6, 130), SharedCalls(3)
    for number in range(400):
        shared.run(None, 6, filling)
        filling.check()
        if number % 3 == 0:
            done: list[int] = []
            on_team(3, done.append, 7)
            assert sorted(done) == list(range(7))


def test_executors_of_several_threads_share_one_team() -> None:
    failures: list[BaseException] = []

    def train() -> None:
        try:
            filling, shared = Filling(5, 64), SharedCalls(2)
            for _ in range(300):
                shared.run(None, 5, filling)
                filling.check()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_caller_makes_the_calls_that_no_thread_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Team, "_work", lambda self, worker, inbox: None)  # threads that never get to run
    monkeypatch.setattr(machine, "team_of", lambda size: team)
    team = Team(3)
    filling, shared = Filling(9, 20), SharedCalls(3)
    for _ in range(3):
        filling.out.fill(np.nan)
        if shared.runs == 0:
            shared.runs = 1  # what runs once is left to Python
        shared.run(None, 9, filling)
        filling.check()


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("adds", [False, True])
def test_products(lead: tuple[int, ...], adds: bool) -> None:
    left, right = whole(*lead, 24, 50), whole(*lead, 70, 50).swapaxes(-1, -2)
    out, rate = whole(*lead, 24, 70), np.float32([0.5])
    pieces = [slice(0, 40), slice(40, 70)]
    gemms = [gemm_of(left, right[..., piece], out[..., piece], adds=adds) for piece in pieces]
    wanted = out.copy()

    def work(calls: MachineCalls, part: int) -> None:
        gemm, piece = gemms[part], pieces[part]
        assert gemm is not None
        places = map(address_of, (left, right[..., piece], out[..., piece]))
        calls.product(gemm, *places, rate=rate if adds else None)

    shared = SharedCalls(2)
    for run in range(4):
        rate[0] = 0.5 * run
        shared.run(None, 2, work)
        wanted = wanted - rate[0] * (left @ right) if adds else left @ right
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("which", ["bias", "term", "both"])
def test_what_products_are_added_to(which: str) -> None:
    bias, term, out = whole(45), whole(12, 60)[:, :45], whole(12, 50)[:, :45]
    given: tuple[Any, Any] = (None if which == "term" else bias, None if which == "bias" else term)

    def work(calls: MachineCalls, part: int) -> None:
        own = slice(6 * part, 6 * part + 6)
        calls.begin(out[own], given[0], None if given[1] is None else given[1][own])

    around = out.base.copy()
    share_once(2, 2, work)
    wanted = sum(each for each in given if each is not None)
    np.testing.assert_array_equal(out, np.broadcast_to(wanted, out.shape))
    np.testing.assert_array_equal(out.base[:, 45:], around[:, 45:])


def test_a_failure_of_the_library_is_an_error() -> None:
    left, right, out = whole(8, 8), whole(8, 8), whole(8, 8)
    gemm = gemm_of(left, right, out)
    assert gemm is not None
    good = gemm.described
    gemm.described = (*good[:5], 0, *good[6:])  # no stride of rows

    def work(calls: MachineCalls, part: int) -> None:
        assert gemm is not None
        calls.product(gemm, *map(address_of, (left, right, out)))

    try:
        for _ in range(2):
            with pytest.raises(OneDnnError, match="invalid arguments"):
                share_once(2, 2, work)
    finally:
        gemm.described = good
    share_once(2, 2, work)
    np.testing.assert_array_equal(out, left @ right)


def test_arguments_stay_while_somebody_needs_them() -> None:
    out = np.zeros((2, 300), np.float32)

    def work(calls: MachineCalls, part: int) -> None:
        bias = np.full(300, part + 1, np.float32)
        calls.keep(bias)
        calls.begin(out[part : part + 1], bias, None)
        del bias

    for _ in range(20):
        share_once(2, 2, work)
        assert (out == [[1], [2]]).all()


def test_a_forked_process_has_threads_of_its_own() -> None:
    filling, shared = Filling(4, 16), SharedCalls(2)
    for _ in range(3):
        shared.run(None, 4, filling)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in range(3):
                shared.run(None, 4, filling)
                filling.check()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_without_compiled_loops_python_calls(
    monkeypatch: pytest.MonkeyPatch, flags: Callable[..., None]
) -> None:
    def refuse(*_: Any) -> Callable[..., None]:
        raise AssertionError("no machine code is wanted")

    monkeypatch.setattr(machine, "_Recording", refuse)
    flags(fast_loops="off")
    filling, shared = Filling(4, 16), SharedCalls(2)
    for _ in range(3):
        shared.run(None, 4, filling)
        filling.check()
