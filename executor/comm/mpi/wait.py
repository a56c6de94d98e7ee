"""Waiting under `mpirun`: MPI's own waits have no end and never let go of the core."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError

__all__ = ["Bell", "Waiter"]

_GONE, _ASKS, _SAYS = (
    31744,
    31745,
    31746,
)  # tags on the world's own communicator: what processes say of themselves
_TEXT = 300  # bytes in which one says what it waits for
_PATIENCE = 1.0  # seconds for the others to say what they do, when a time limit is over
_SPINS = 20  # looks without a pause: most waits are for something that is nearly there
_ALONE = 50e-6  # seconds of looking before others get the core: on a busy machine it may not come back soon
_ASLEEP = 200e-6  # seconds between looks where nobody rings
_RUNG = 5e-3  # and where senders do
_LOOK_AROUND = 0.05  # seconds between looks for processes that have ended


class Bell:
    """Wakes a process of the same machine that sleeps until a message comes: who has sent one rings.

    What is rung is a socket of the machine's own; that something arrives is all it says, so that nobody can
    say anything wrong.
    """

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.name = b""
        self.others: dict[int, bytes] = {}
        if hasattr(socket, "AF_UNIX") and os.path.isdir(
            "/proc/self/ns"
        ):  # names without files are Linux's own
            self.name = b"\0fluidlite" + secrets.token_hex(16).encode()
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.setblocking(False)
            self.socket.bind(self.name)

    def meet(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Learn the names of the others that can be rung."""
        self.others = {rank: name for rank, name in names if name and self.socket is not None}

    def ring(self, rank: int) -> None:
        """Wake a process, if it sleeps; one that has much to read is awake, and one that has ended does
        not care.
        """
        name = self.others.get(rank)
        if name is not None and self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.sendto(b"\0", name)

    def sleep(self, seconds: float) -> None:
        """Until it rings, or for so long."""
        if self.socket is None:
            time.sleep(min(seconds, _ASLEEP))
        elif select.select([self.socket], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.socket.recv(1)

    def close(self) -> None:
        """Be rung no more."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class Waiter:
    """Every wait of a process: it ends after `deadline` seconds, or when somebody that it waits for has
    ended.
    """

    def __init__(self, mpi: Any, deadline: float) -> None:
        self.mpi, self.everybody, self.deadline = mpi, mpi.COMM_WORLD, deadline
        self.rank: int = self.everybody.rank
        self.sent: list[tuple[Any, Any]] = []
        self.bell = Bell()
        self.gone: set[int] = set()
        self.alone = True  # whether a process that sends something here may be one that cannot ring

    @property
    def nap(self) -> float:
        """Seconds to sleep at a time where senders ring; one may have rung just before."""
        return _ASLEEP if self.alone else _RUNG

    def until(
        self,
        ready: Callable[[], bool],
        what: Callable[[], str],
        ranks: Iterable[int] = (),
        busy: float = 0.0,
        asleep: float = _ASLEEP,
        within: float | None = None,
    ) -> bool:
        """True when `ready()`, False after `within` seconds; CommunicatorError after the deadline, or when
        one of `ranks` has ended.

        It looks all the time for `busy` seconds, then sleeps `asleep` seconds at a time, or until it rings.
        """
        start = looked = time.monotonic()
        limit = self.deadline if within is None else within
        while True:
            for _ in range(_SPINS):  # a message may be seen only when MPI looks for the second time
                if ready():
                    return True
            now = time.monotonic()
            if now - start < busy:
                if now - start > _ALONE:
                    os.sched_yield()
                continue
            if now - looked >= _LOOK_AROUND:
                looked = now
                self.look_around(ranks, what, ready)
            if now - start > limit:
                if within is not None:
                    return False
                raise CommunicatorError(
                    f"process {self.rank} waits for {what()}: no sign of it for {self.deadline:g} s "
                    f"(FLAGS_rpc_deadline "
                    f"is the limit){self.ask(what, ranks)}"
                )
            self.bell.sleep(min(asleep, limit))

    def look_around(self, ranks: Iterable[int], what: Callable[[], str], ready: Callable[[], bool]) -> None:
        """CommunicatorError where a process that is waited for has ended, and what is waited for is not
        there either.
        """
        self.gone.update(source for source, _ in self.letters(_GONE))
        for source, _ in self.letters(_ASKS):
            self.say(what(), source, _SAYS)
        lost = sorted(self.gone.intersection(ranks) - {self.rank})
        if lost and not ready():
            raise CommunicatorError(
                f"process {self.rank} waits for {what()}, but process {', '.join(map(str, lost))} has ended"
            )

    def ask(self, what: Callable[[], str], ranks: Iterable[int]) -> str:
        """What the processes that should have come wait for themselves; those that wait for nothing say
        nothing.
        """
        others = [rank for rank in ranks if rank != self.rank]
        for rank in others:
            self.say("", rank, _ASKS)
        heard: dict[int, str] = {}
        end = time.monotonic() + _PATIENCE
        while len(heard) < len(others) and time.monotonic() < end:
            for source, _ in self.letters(_ASKS):
                self.say(what(), source, _SAYS)
            heard.update(self.letters(_SAYS))
            time.sleep(_ASLEEP)
        silent = [rank for rank in others if rank not in heard]
        said = "".join(
            f"; process {rank} waits for {text}" for rank, text in sorted(heard.items()) if text != what()
        )
        return said + (
            f"; process {', '.join(map(str, silent))} does not wait, and has not come" if silent else ""
        )

    # ------------------------------------------------------------------ what processes say of themselves
    def say(self, text: str, rank: int, tag: int) -> None:
        """Send a few words, without waiting until they are read."""
        letter = np.frombuffer(text.encode()[:_TEXT], np.uint8)
        self.sent = [(request, memory) for request, memory in self.sent if not request.Test()]
        self.sent.append((self.everybody.Isend(letter, rank, tag), letter))

    def letters(self, tag: int) -> Iterator[tuple[int, str]]:
        """The words that have come."""
        status = self.mpi.Status()
        while self.everybody.Iprobe(self.mpi.ANY_SOURCE, tag, status):
            letter = np.empty(status.Get_count(self.mpi.BYTE), np.uint8)
            self.everybody.Recv(letter, status.Get_source(), tag)
            yield status.Get_source(), letter.tobytes().decode(errors="replace")

    def leave(self, met: bool) -> None:
        """Tell all others that this process ends, and, where they have `met`, hear it of them: MPI ends only
        when all end.

        What is still on its way when a process ends may kill it (MPICH 5).
        """
        others = {rank for rank in range(self.everybody.size) if rank != self.rank}
        for rank in others:
            self.say("", rank, _GONE)
            self.bell.ring(rank)
        end = time.monotonic() + (self.deadline if met else _PATIENCE)
        while (self.sent or not others <= self.gone) and time.monotonic() < end:
            self.gone.update(source for source, _ in self.letters(_GONE))
            for tag in (_ASKS, _SAYS):
                list(self.letters(tag))
            self.sent = [(request, memory) for request, memory in self.sent if not request.Test()]
            time.sleep(_ASLEEP)
