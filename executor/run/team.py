"""A small team of parked threads, and how plans share large work among it.

While a plan runs, BLAS keeps to one thread and large products, convolutions and element-wise loops are split
over the team instead: its threads sleep when idle, where BLAS's own threads spin and slow down everything
else on a busy machine.
"""

from __future__ import annotations

import operator
import queue
import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np

from fluidlite.executor.run.engine import ENGINE, EnginePart

__all__ = ["RecordTeam", "Team", "on_team", "pieces", "team_of"]


class _TeamTask:
    """The parts of one task that nobody has begun, and the workers that are at it.

    Interrupts may end any line of the caller, so nothing here is counted by the caller: a worker says itself
    that it has come and that it has gone, and one that comes after `left` is empty finds nothing to do.
    """

    def __init__(self, task: Callable[[int], None], parts: int) -> None:
        self.task = task
        # the caller does part 0
        self.left = list(range(parts - 1, 0, -1))
        self.come: list[None] = []
        self.gone: list[None] = []
        self.errors: list[tuple[int, BaseException]] = []
        self._someone_goes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def serve(self) -> None:
        """Do parts on a worker until all have begun."""
        self.come.append(None)
        self.help()
        self.gone.append(None)
        self._someone_goes.put(None)

    def help(self) -> None:
        """Do parts until all have begun."""
        while part := self._take():
            self.run(part)

    def _take(self) -> int:
        """A part that nobody else begins; 0 where all have begun."""
        try:
            return self.left.pop()
        except IndexError:
            return 0

    def run(self, part: int) -> None:
        """Do a part; its error is kept."""
        try:
            self.task(part)
        except BaseException as error:
            self.errors.append((part, error))

    def wait(self) -> None:
        """Have nobody begin another part, and wait until no worker is at one."""
        self.left.clear()
        # whoever has come and not gone will still say so: this never waits for nobody
        while len(self.gone) < len(self.come):
            self._someone_goes.get()


class RecordTeam(Protocol):
    """How the threads of a team sleep where they share calls of machine code, too."""

    def share(self, count: int, records: int) -> None:
        """Make the calls of so many records, with the workers that are there in time."""

    def serve(self, worker: int) -> None:
        """Make calls of records, as they come, until Python is wanted."""

    def call_back(self, worker: int) -> None:
        """Have a worker return to Python."""


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
        self.sharing: RecordTeam | None = None
        """How threads share calls of machine code; None as long as they cannot."""
        self._inboxes: list[queue.SimpleQueue[_TeamTask | None]] = [
            queue.SimpleQueue() for _ in range(self.size - 1)
        ]
        # plans of several threads share one team: their work waits in turn
        self._busy = threading.Lock()
        for index, inbox in enumerate(self._inboxes):
            # daemon: a thread that sleeps must not keep the process alive
            threading.Thread(
                target=self._work, args=(index, inbox), daemon=True, name=f"fluidlite-{index + 1}"
            ).start()

    def share_by(self, sharing: RecordTeam) -> None:
        """Share calls of machine code from now on."""
        with self._busy:
            if self.sharing is None:
                self.sharing = sharing
                for inbox in self._inboxes:
                    inbox.put(None)

    def run_records(self, count: int, records: int) -> None:
        """Make calls of machine code that are written down at an address; the team shares them."""
        assert self.sharing is not None
        with self._busy:
            self.sharing.share(count, records)

    def _next(self, worker: int, inbox: queue.SimpleQueue[_TeamTask | None]) -> _TeamTask | None:
        """The next job for Python."""
        while self.sharing is not None:
            try:
                return inbox.get_nowait()
            except queue.Empty:
                self.sharing.serve(worker)
        return inbox.get()

    def _work(self, worker: int, inbox: queue.SimpleQueue[_TeamTask | None]) -> None:
        # NumPy keeps this for each thread by itself
        with np.errstate(all="ignore"):
            while True:
                job = self._next(worker, inbox)
                if job is None:
                    continue  # from now on it sleeps in another way
                job.serve()
                # a job keeps arrays alive, and the next one may be long in coming
                del job

    def __call__(self, task: Callable[[int], None], parts: int | None = None) -> None:
        """Run `task` for every part; the first error that one raised is raised here."""
        job = _TeamTask(task, parts or self.size)
        with self._busy:
            try:
                self._offer(job)
                job.run(0)
                job.help()
            finally:
                # all are waited for, even after an error and an interrupt: they still write to the buffers of
                # the plan. Twice, as the wait may be interrupted, too
                try:
                    job.wait()
                except BaseException:
                    job.wait()
                    raise
        if job.errors:
            raise min(job.errors, key=operator.itemgetter(0))[1]

    def _offer(self, job: _TeamTask) -> None:
        for worker, inbox in enumerate(self._inboxes):
            inbox.put(job)
            if self.sharing is not None:
                self.sharing.call_back(worker)


class Teams(EnginePart):
    """The teams of the process, one of each size."""

    def __init__(self) -> None:
        self._by_size: dict[int, Team] = {}

    def of(self, size: int) -> Team:
        """The team of `size` threads, started at first use."""
        if size not in self._by_size:
            self._by_size[size] = Team(size)
        return self._by_size[size]

    def forked(self) -> None:
        """Start their threads once more."""
        for team in self._by_size.values():
            team.start()


team_of = ENGINE.add(Teams()).of


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
