"""A small team of parked threads, and how plans share large work among it.

While a plan runs, BLAS keeps to one thread and large products, convolutions and element-wise loops are split
over the team instead: its threads sleep when idle, where BLAS's own threads spin and slow down everything
else on a busy machine.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

import numpy as np

__all__ = ["Team", "on_team", "pieces", "team_of"]


class _TeamTask:
    """The parts of one task that nobody has begun, and what has become of those that others have done."""

    def __init__(self, task: Callable[[int], None], parts: int) -> None:
        self.task = task
        # the caller does part 0
        self.left = list(range(parts - 1, 0, -1))
        self.done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def take(self) -> int:
        """A part that nobody else begins; 0 where all have begun."""
        try:
            return self.left.pop()
        except IndexError:
            return 0

    def run(self, part: int) -> BaseException | None:
        """Do a part; the error that it raised."""
        try:
            self.task(part)
        except BaseException as error:
            return error
        return None


class Team:
    """`team(f)` runs f(0) here and f(1) ... f(n - 1) on parked threads, and returns when all are done;
    `team(f, parts)` runs as many.

    A part that no thread has begun when the caller is through with its own is the caller's as well: on a busy
    machine, where waking one may take longer than the work, nobody waits for it. What a part computes must
    not depend on the thread that does it, nor wait for another part.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.start()

    def start(self) -> None:
        """Start the threads; again in a forked process, which has none of its parent's."""
        self._inboxes: list[queue.SimpleQueue[_TeamTask]] = [
            queue.SimpleQueue() for _ in range(self.size - 1)
        ]
        # plans of several threads share one team: their work waits in turn
        self._busy = threading.Lock()
        for index, inbox in enumerate(self._inboxes):
            # daemon: a thread that sleeps must not keep the process alive
            threading.Thread(
                target=self._work, args=(inbox,), daemon=True, name=f"fluidlite-{index + 1}"
            ).start()

    def _work(self, inbox: queue.SimpleQueue[_TeamTask]) -> None:
        # NumPy keeps this for each thread by itself
        with np.errstate(all="ignore"):
            while True:
                job = inbox.get()
                while part := job.take():
                    job.done.put(job.run(part))
                # a job keeps arrays alive, and the next one may be long in coming
                del job

    def __call__(self, task: Callable[[int], None], parts: int | None = None) -> None:
        """Run `task` for every part; the first error that one raised is raised here."""
        count = parts or self.size
        job = _TeamTask(task, count)
        with self._busy:
            for inbox in self._inboxes:
                inbox.put(job)
            errors = [job.run(0)]
            while part := job.take():
                errors.append(job.run(part))
            # all are waited for, even after an error: they still write to the buffers of the plan
            errors.extend(job.done.get() for _ in range(count - len(errors)))
        for raised in errors:
            if raised is not None:
                raise raised


_teams: dict[int, Team] = {}


def _revive() -> None:
    for team in _teams.values():
        team.start()


# Windows has no fork
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_revive)


def team_of(size: int) -> Team:
    """The process's team of `size` threads, started at first use."""
    if size not in _teams:
        _teams[size] = Team(size)
    return _teams[size]


def on_team(size: int, task: Callable[[int], None], parts: int | None = None) -> None:
    """task(number of the part) for as many parts as a team has members, or for so many; one member works
    here, without a team.
    """
    if size > 1:
        team_of(size)(task, parts)
        return
    for part in range(parts or 1):
        task(part)


def pieces(count: int, parts: int) -> list[slice]:
    """`count` rows in `parts` almost equal slices."""
    return [slice(i * count // parts, (i + 1) * count // parts) for i in range(parts)]
