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

__all__ = ["SLOWEST", "Waiter", "Wakeup"]

# bytes a second: until a value can be through at this pace, waiting for it does not let go of the core
SLOWEST = 2e8
_GONE, _ASKS, _SAYS = 31744, 31745, 31746  # tags on MPI's own world: what processes say of themselves
_TEXT = 300  # bytes in which one says what it waits for
_PATIENCE = 1.0  # seconds for the others to say what they do, when a time limit is over
_SPINS = 20  # looks without a pause: most waits are for something that is nearly there
_ALONE = 50e-6  # seconds of looking before others get the core: on a busy machine it may not come back soon
_ASLEEP = 200e-6  # seconds between looks where no sender can wake this process
_WOKEN = 5e-3  # and where senders do
_LOOK_AROUND = 0.05  # seconds between looks for processes that have ended


class Wakeup:
    """Wakes processes of the same machine that sleep until a message comes.

    A process that sends something writes a byte to a datagram socket of the receiver; the byte says only
    that something has come, so that nobody can say anything wrong.
    """

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.name = b""
        self.others: dict[int, bytes] = {}
        # names of sockets without files are Linux's own
        if hasattr(socket, "AF_UNIX") and os.path.isdir("/proc/self/ns"):
            self.name = b"\0fluidlite" + secrets.token_hex(16).encode()
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.setblocking(False)
            self.socket.bind(self.name)

    def learn(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Learn the names of the processes that can be woken."""
        self.others = {rank: name for rank, name in names if name and self.socket is not None}

    def wake(self, rank: int) -> None:
        """Wake a process, if it sleeps; one that has much to read is awake, and one that has ended needs
        nothing.
        """
        name = self.others.get(rank)
        if name is not None and self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.sendto(b"\0", name)

    def sleep(self, seconds: float) -> None:
        """Sleep until somebody wakes this process, or for so long."""
        if self.socket is None:
            time.sleep(min(seconds, _ASLEEP))
        elif select.select([self.socket], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self.socket.recv(1)

    def close(self) -> None:
        """End: nobody can wake this process any more."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class Waiter:
    """All waits of a process: each ends after `deadline` seconds, or when a process that it waits for has
    ended.

    gone: the processes that have ended.
    all_wake: True if every process that sends something here can wake this one.
    """

    def __init__(self, mpi: Any, deadline: float) -> None:
        self.mpi = mpi
        self.everybody = mpi.COMM_WORLD
        self.deadline = deadline
        self.rank: int = self.everybody.rank
        self.sent: list[tuple[Any, Any]] = []
        self.wakeup = Wakeup()
        self.gone: set[int] = set()
        self.all_wake = False

    def learn(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Learn the processes of this machine, each with the name under which it can be woken."""
        self.wakeup.learn(names)
        self.all_wake = len(self.wakeup.others) >= self.everybody.size - 1

    @property
    def nap(self) -> float:
        """Seconds to sleep at a time. One that could wake this process may have done so just before."""
        return _WOKEN if self.all_wake else _ASLEEP

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

        It asks all the time for `busy` seconds, then sleeps `asleep` seconds at a time, or until it is woken.
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
                    f"process {self.rank} waits for {what()}: nothing has arrived for "
                    f"{self.deadline:g} s (the limit is FLAGS_rpc_deadline){self.ask(what, ranks)}"
                )
            self.wakeup.sleep(min(asleep, limit))

    def look_around(self, ranks: Iterable[int], what: Callable[[], str], ready: Callable[[], bool]) -> None:
        """Answer the questions of other processes; CommunicatorError where a process that is waited for has
        ended, and what is waited for is not there either.
        """
        self.gone.update(source for source, _ in self.texts(_GONE))
        for source, _ in self.texts(_ASKS):
            self.say(what(), source, _SAYS)
        lost = sorted(self.gone.intersection(ranks) - {self.rank})
        if lost and not ready():
            raise CommunicatorError(
                f"process {self.rank} waits for {what()}, but process {', '.join(map(str, lost))} has ended"
            )

    def ask(self, what: Callable[[], str], ranks: Iterable[int]) -> str:
        """For an error: what each process that should have come waits for, or that it does not wait."""
        others = [rank for rank in ranks if rank != self.rank]
        for rank in others:
            self.say("", rank, _ASKS)
        heard: dict[int, str] = {}
        end = time.monotonic() + _PATIENCE
        while len(heard) < len(others) and time.monotonic() < end:
            for source, _ in self.texts(_ASKS):
                self.say(what(), source, _SAYS)
            heard.update(self.texts(_SAYS))
            time.sleep(_ASLEEP)
        silent = [rank for rank in others if rank not in heard]
        waits = [
            f"; process {rank} waits for {text}" for rank, text in sorted(heard.items()) if text != what()
        ]
        if silent:
            waits.append(f"; process {', '.join(map(str, silent))} is not waiting and has not arrived")
        return "".join(waits)

    # ------------------------------------------------------------------ what processes say of themselves
    def say(self, text: str, rank: int, tag: int) -> None:
        """Send a text, without waiting until it is read."""
        data = np.frombuffer(text.encode()[:_TEXT], np.uint8)
        self.sent = [(request, memory) for request, memory in self.sent if not request.Test()]
        self.sent.append((self.everybody.Isend(data, rank, tag), data))

    def texts(self, tag: int) -> Iterator[tuple[int, str]]:
        """The texts that have come, each with its sender."""
        status = self.mpi.Status()
        while self.everybody.Iprobe(self.mpi.ANY_SOURCE, tag, status):
            data = np.empty(status.Get_count(self.mpi.BYTE), np.uint8)
            self.everybody.Recv(data, status.Get_source(), tag)
            yield status.Get_source(), data.tobytes().decode(errors="replace")

    def leave(self, have_met: bool) -> None:
        """Tell all others that this process ends and, where they have met, wait to hear it of them: MPI ends
        only when all end, and a message that is still on its way then may kill the process (MPICH 5).
        """
        others = {rank for rank in range(self.everybody.size) if rank != self.rank}
        for rank in others:
            self.say("", rank, _GONE)
            self.wakeup.wake(rank)
        end = time.monotonic() + (self.deadline if have_met else _PATIENCE)
        while (self.sent or not others <= self.gone) and time.monotonic() < end:
            self.gone.update(source for source, _ in self.texts(_GONE))
            for tag in (_ASKS, _SAYS):
                list(self.texts(tag))
            self.sent = [(request, memory) for request, memory in self.sent if not request.Test()]
            time.sleep(_ASLEEP)
