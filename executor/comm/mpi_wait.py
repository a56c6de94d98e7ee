"""Waiting under `mpirun`: MPI's own waits have no end and never let go of the core."""
from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fluidlite.errors import CommunicatorError

__all__ = ["Bell", "Waiter"]

GONE = 7                              # the tag of what a process says when it ends
_SPINS = 40                           # looks without a pause: most waits are for something that is nearly there
_ASLEEP = 200e-6                      # seconds between looks where nobody rings
_LOOK_AROUND = 0.05                   # seconds between looks for processes that have ended


class Bell:
    """Wakes a process of the same machine that sleeps until a message comes: who has sent one rings.

    What is rung is a socket of the machine's own; that something arrives is all it says, so that nobody can say anything wrong.
    """

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.name = b""
        self.others: dict[int, bytes] = {}
        if hasattr(socket, "AF_UNIX") and os.path.isdir("/proc/self/ns"):          # names without files are Linux's own
            self.name = b"\0fluidlite" + secrets.token_hex(16).encode()
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.setblocking(False)
            self.socket.bind(self.name)

    def meet(self, names: Iterable[tuple[int, bytes]]) -> None:
        """Learn the names of the others that can be rung."""
        self.others = {rank: name for rank, name in names if name and self.socket is not None}

    def ring(self, rank: int) -> None:
        """Wake a process, if it sleeps; one that has much to read is awake, and one that has ended does not care."""
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
    """Every wait of a process: it ends after `deadline` seconds, or when somebody that it waits for has ended."""

    def __init__(self, mpi: Any, world: Any, deadline: float) -> None:
        self.mpi, self.world, self.deadline = mpi, world, deadline
        self.bell = Bell()
        self.gone: set[int] = set()
        self.alone = True                         # whether a process that sends something here may be one that cannot ring

    @property
    def nap(self) -> float:
        """Seconds to sleep at a time where senders ring; one may have rung just before."""
        return _ASLEEP if self.alone else _LOOK_AROUND

    def until(self, ready: Callable[[], bool], what: Callable[[], str], ranks: Iterable[int] = (), busy: float = 0.0,
              asleep: float = _ASLEEP, within: float | None = None) -> bool:
        """True when `ready()`, False after `within` seconds; CommunicatorError after the deadline, or when one of `ranks` has ended.

        It looks all the time for `busy` seconds, then sleeps `asleep` seconds at a time, or until it rings.
        """
        for _ in range(_SPINS):
            if ready():
                return True
        start = looked = time.monotonic()
        limit = self.deadline if within is None else within
        while not ready():
            now = time.monotonic()
            if now - start < busy:
                os.sched_yield()
                continue
            if now - looked >= _LOOK_AROUND:
                looked = now
                self.look_around(ranks, what, ready)
            if now - start > limit:
                if within is not None:
                    return False
                raise CommunicatorError(f"process {self.world.rank} waits for {what()}: no sign of it for {self.deadline:g} s "
                                        "(FLAGS_rpc_deadline is the limit)")
            self.bell.sleep(min(asleep, limit))
        return True

    def look_around(self, ranks: Iterable[int], what: Callable[[], str], ready: Callable[[], bool]) -> None:
        """CommunicatorError where a process that is waited for has ended, and what is waited for is not there either."""
        status = self.mpi.Status()
        while self.world.Iprobe(self.mpi.ANY_SOURCE, GONE, status):
            self.world.Recv(np.empty(0, np.uint8), status.Get_source(), GONE)
            self.gone.add(status.Get_source())
        lost = sorted(self.gone.intersection(ranks) - {self.world.rank})
        if lost and not ready():
            raise CommunicatorError(f"process {self.world.rank} waits for {what()}, but process {', '.join(map(str, lost))} has ended")

    def leave(self) -> None:
        """Tell all others that this process ends."""
        requests = [self.world.Isend(np.empty(0, np.uint8), rank, GONE) for rank in range(self.world.size) if rank != self.world.rank]
        end = time.monotonic() + 1.0
        while requests and not self.mpi.Request.Testall(requests) and time.monotonic() < end:
            time.sleep(_ASLEEP)
        for rank in range(self.world.size):
            self.bell.ring(rank)
