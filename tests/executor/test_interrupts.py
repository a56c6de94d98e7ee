"""Ctrl-C in the middle of shared work: no worker goes on after the exception, and later results are right."""

from __future__ import annotations

import random
import signal
import threading
import time
import timeit

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.run.team import Team

pytestmark = [
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"),
        reason="interrupts reach the main thread only, by a timer that this system lacks",
    ),
    # an interrupt may come while a weak reference is cleared, where Python can only print it
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def interrupted():
    """`interrupted(seconds, work)`: True if an interrupt after so many seconds ended `work()`."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def run(seconds, work):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            work()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            return True
        return False

    yield run
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_workers_have_ended_when_the_interrupt_arrives(interrupted):
    team, at_work = Team(2), []

    def task(part):
        if part:
            at_work.append(part)
            try:
                time.sleep(0.3)
            finally:
                at_work.remove(part)

    team(lambda part: None)
    assert interrupted(0.1, lambda: team(task))
    assert at_work == []


def interrupt_often(interrupted, rounds, work, check):
    """Interrupt `work` at random moments; `check` after each."""
    draws = random.Random(3)
    whole = min(timeit.repeat(work, number=1, repeat=5))
    hits = 0
    for _ in range(rounds):
        hits += interrupted(max(1e-6, draws.random() * whole * 1.2), work)
        check()
    return hits


def shared_sums(team, rows, out):
    def task(part):
        for row in range(part, len(rows), 4):
            np.add(rows[row], rows[row], out=out[row])

    team(task, 4)


@pytest.mark.parametrize("rounds", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_interrupts_at_random_moments_of_a_team(interrupted, rounds):
    team = Team(3)
    rows = np.random.RandomState(0).rand(64, 200)
    out = np.empty_like(rows)

    def check():
        # nobody writes here any more
        out.fill(7)
        time.sleep(0)
        assert np.all(out == 7)

    hits = interrupt_often(interrupted, rounds, lambda: shared_sums(team, rows, out), check)
    assert hits > rounds // 10
    shared_sums(team, rows, out)
    assert np.array_equal(out, rows * 2)


@pytest.mark.parametrize("rounds", [100, pytest.param(3000, marks=pytest.mark.slow)])
def test_interrupts_at_random_moments_of_a_plan(interrupted, rounds):
    """A plan that has been interrupted gives the same bits as before."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 256])
        out = fluid.layers.fc(fluid.layers.fc(x, 256, act="relu"), 64, act="softmax")
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.threads = 2
    exe.run(startup, scope=scope)
    feed = {"x": np.random.RandomState(1).rand(512, 256).astype("float32")}

    def run():
        return exe.run(main, feed=feed, fetch_list=[out], scope=scope)[0]

    wanted = [run() for _ in range(20)][-1]
    hits = interrupt_often(interrupted, rounds, run, lambda: None)
    assert hits > rounds // 10
    assert np.array_equal(run(), wanted)
