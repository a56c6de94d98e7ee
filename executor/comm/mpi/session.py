"""The processes of one `mpirun` as a transport: who they are, and the rings and links among them. Buffers
only, no pickle.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, MissingExtraError
from fluidlite.base.mpi_start import check_not_alone
from fluidlite.executor.comm.links import ServerLink
from fluidlite.executor.comm.mpi.link import MpiChannel, MpiServerLink, MpiTrainerLink
from fluidlite.executor.comm.mpi.rings import MpiRing
from fluidlite.executor.comm.mpi.wait import Waiter
from fluidlite.executor.comm.session import Pace, Session
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.wire import Incoming

__all__ = ["MpiSession"]

_NAMES, _TOKENS = 5, 6  # tags of what makes rings; messages of trainers and servers have 1 to 4
_NAME_BYTES = 512  # more than any name of a ring has
_BEGIN = 0.01  # seconds in which other processes come to a meeting
# what each process tells all others once: see `MpiSession.meet`
_ENTRY = np.dtype(
    [
        ("endpoint", "S128"),
        ("host", "S64"),
        ("wakeup", "S64"),
        ("trainers", "i8"),
        ("ranks", "i8"),
        ("ring", "S16"),
    ]
)


def _mpi() -> Any:
    try:
        # optional; and to import it starts MPI
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError("programs under mpirun need mpi4py: pip install 'fluidlite[mpi]'") from error
    return MPI


class MpiSession(Session):
    """This process's connections in the world of `mpirun`; every wait ends after `deadline` seconds."""

    pace = Pace.CLOCK  # MPI may be used by one thread only
    host_backend = "MPI"
    lasts_until_exit = True

    def __init__(self, deadline: float) -> None:
        self.mpi = _mpi()
        check_not_alone(self.mpi.COMM_WORLD.size)
        self.waiter = Waiter(self.mpi, deadline)
        super().__init__(MpiTrainerLink(self.waiter, self._meet_servers))
        self.world = self.mpi.COMM_WORLD  # a communicator of our own, once all have met
        self._channel: MpiChannel | None = None
        self._server: MpiServerLink | None = None
        self._processes: dict[str, int] = {}  # endpoint -> process, once all have met
        self._members: dict[bytes, tuple[int, ...]] = {}  # name of a ring -> its processes
        self._made: dict[tuple[int, tuple[int, ...]], MpiRing] = {}
        atexit.register(self.end)

    def end(self) -> None:
        """Tell the servers that this trainer leaves, and the others that this process ends."""
        if not self.mpi.Is_finalized():
            self.leave()
            if self._server is not None:
                self._server.finish()
            self.waiter.leave(self._channel is not None)

    # ------------------------------------------------------------------ servers
    def listen(self, endpoint: str, terms: Terms, check: Callable[[Incoming], None]) -> ServerLink:
        """Be the server at `endpoint`, which is only a name here. Of the terms the number of trainers is
        checked; messages are not, for they come from processes of the same job.
        """
        self.meet(endpoint, terms.trainers)
        assert self._channel is not None
        self._server = MpiServerLink(self._channel)
        return self._server

    def _meet_servers(self) -> tuple[MpiChannel, dict[str, int]]:
        processes = self.meet()
        assert self._channel is not None
        return self._channel, processes

    # ------------------------------------------------------------------ who is who
    def meet(
        self, endpoint: str = "", trainers: int = 0, ring: Sequence[str] = (), ranks: int = 0
    ) -> dict[str, int]:
        """Endpoint -> process. At the first call all processes tell each other who they are; an error of one
        is one of all.

        A server says for how many `trainers` it is there, a member of a ring the endpoints of all, or how
        many `ranks` there are.
        """
        if self._channel is not None:
            return self._processes
        mine = np.zeros(1, _ENTRY)
        mine[0] = (
            endpoint.encode(),
            os.uname().nodename.encode()[:64] if hasattr(os, "uname") else b"",  # not on Windows
            self.waiter.wakeup.name[1:],
            trainers,
            len(ring) or ranks,
            _digest(ring) if ring else b"",
        )
        self.world = self._own_world()
        found = np.zeros(self.world.size, _ENTRY)
        request = self.world.Iallgather(mine.view(np.uint8), found.view(np.uint8))
        self.waiter.until(request.Test, lambda: "the other processes to report their roles", busy=_BEGIN)
        self.waiter.learn(
            (rank, b"\0" + entry["wakeup"])
            for rank, entry in enumerate(found)
            if entry["wakeup"] and entry["host"] == mine[0]["host"] and rank != self.world.rank
        )
        _check_entries(found)
        self._channel = MpiChannel(self.mpi, self.world, self.waiter)
        self._processes = {name: rank for rank, name in enumerate(_endpoints(found)) if name}
        return self._processes

    def _own_world(self) -> Any:
        """A communicator of all processes on which no other library talks."""
        world, request = self.mpi.COMM_WORLD.Idup()
        text = "the other processes, none of which has sent a message yet"
        self.waiter.until(request.Test, lambda: text, busy=_BEGIN)
        return world

    # ------------------------------------------------------------------ names of rings
    def agree_on_id(self, members: Sequence[str], rank: int, make: Callable[[], bytes]) -> bytes:
        """The name of a ring, from its rank 0; all members have to be processes of this job."""
        self.check_place(0, rank, len(members))
        known = self.meet(members[rank], ring=members)
        missing = [endpoint for endpoint in members if endpoint not in known]
        if missing:
            raise CommunicatorError(
                f"no process has the program of {', '.join(missing)} (there are "
                f"{', '.join(known) or 'none'}): start {len(members)} processes, and give each the program "
                f"of its rank"
            )
        processes = tuple(known[endpoint] for endpoint in members)
        if processes[rank] != self.world.rank:
            raise CommunicatorError(
                f"process {self.world.rank} names a ring as {members[rank]}, but that is process "
                f"{processes[rank]}"
            )
        if rank == 0:
            name = make()
            self._send_name(processes, members, name)
        else:
            name = self._receive_name(processes[0], members)
        self._members[name] = processes
        return name

    def _send_name(self, processes: tuple[int, ...], members: Sequence[str], name: bytes) -> None:
        data = np.frombuffer(_digest(members) + name, np.uint8)
        requests = [self.world.Isend(data, process, _NAMES) for process in processes[1:]]
        self._wait_for_all(requests, processes, lambda: "a ring to be named")

    def _receive_name(self, source: int, members: Sequence[str]) -> bytes:
        data = np.zeros(len(_digest(members)) + _NAME_BYTES, np.uint8)
        status = self.mpi.Status()
        request = self.world.Irecv(data, source, _NAMES)
        self.waiter.until(
            lambda: request.Test(status),
            lambda: f"the name of the ring of {', '.join(members)}",
            (source,),
            busy=_BEGIN,
        )
        found = data[: status.Get_count(self.mpi.BYTE)].tobytes()
        digest = _digest(members)
        if not found.startswith(digest):
            raise CommunicatorError(
                f"process {source} names a ring with other members than {', '.join(members)}"
            )
        return found[len(digest) :]

    def _wait_for_all(self, requests: list[Any], processes: Sequence[int], what: Callable[[], str]) -> None:
        self.waiter.until(lambda: bool(self.mpi.Request.Testall(requests)), what, processes, busy=_BEGIN)

    # ------------------------------------------------------------------ rings
    @property
    def place(self) -> tuple[int, int]:
        """This process's rank in the world of `mpirun`, and that world's size."""
        return self.world.rank, self.world.size

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        """Make a ring of the processes that agreed on its name; without a name, of all."""
        self.check_place(ring_id, rank, size)
        processes = self._members.get(name)
        if processes is None:
            self.meet(ranks=size)
            processes = tuple(range(self.world.size))
        if size != len(processes) or processes[rank] != self.world.rank:
            raise CommunicatorError(
                f"the program is that of rank {rank} of {size}, but this is process {self.world.rank} of "
                f"{self.world.size}: start {size} processes, and give each the program of its rank"
            )
        self.rings[ring_id] = self._ring_of(ring_id, processes)

    def join_devices(self, ring_id: int) -> None:
        """Make a ring of all processes, each of which has one device."""
        self.meet()
        self.rings[ring_id] = self._ring_of(ring_id, tuple(range(self.world.size)))

    def _ring_of(self, ring_id: int, processes: tuple[int, ...]) -> MpiRing:
        """The ring of these processes: the same one for those who join it again."""
        key = ring_id, processes
        if key not in self._made:
            self._wait_for_members(ring_id, processes)
            comm = self.world.Create_group(self.world.group.Incl(processes), ring_id % 1000)
            self._made[key] = MpiRing(self.mpi, comm, ring_id, processes, self.waiter)
        return self._made[key]

    def _wait_for_members(self, ring_id: int, processes: tuple[int, ...]) -> None:
        """Return when all members have come to join, for MPI makes a communicator without a time limit."""

        def what() -> str:
            return f"all of processes {', '.join(map(str, processes))} to join ring {ring_id}"

        mine = np.array([ring_id, len(processes)], np.int64)
        theirs = np.zeros((len(processes), 2), np.int64)
        others = [(number, process) for number, process in enumerate(processes) if process != self.world.rank]
        requests = [self.world.Irecv(theirs[number], process, _TOKENS) for number, process in others]
        requests += [self.world.Isend(mine, process, _TOKENS) for _, process in others]
        self._wait_for_all(requests, processes, what)
        wrong = [process for number, process in others if (theirs[number] != mine).any()]
        if wrong:
            raise CommunicatorError(
                f"process {self.world.rank} joins ring {ring_id}, but process {', '.join(map(str, wrong))} "
                f"joins another"
            )


def _digest(members: Sequence[str]) -> bytes:
    """Sixteen bytes that are the same for the same list of endpoints, and hold no zero: NumPy's texts end
    there.
    """
    return hashlib.sha256("\n".join(members).encode()).digest()[:16].replace(b"\0", b"\1")


# ---------------------------------------------------------------------- checks of what all have told
def _endpoints(found: Any) -> list[str]:
    return [entry["endpoint"].decode() for entry in found]


def _check_entries(found: Any) -> None:
    """CommunicatorError, the same on all processes, where the programs are not those of one job of so many
    processes.
    """
    _check_servers(found)
    size = len(found)
    most = int(found["ranks"].max())
    is_one_ring = len(set(found["ring"].tolist())) == 1
    if most > size or (most and is_one_ring and most != size):
        raise CommunicatorError(
            f"the program is made for {most} ranks, but there are {size} processes: start {most} processes, "
            f"and give each the program of its rank"
        )


def _check_servers(found: Any) -> None:
    """Each server waits for all processes that are none, and no two processes are the same one."""
    names = _endpoints(found)
    trainers = found["trainers"].tolist()
    servers = sum(1 for count in trainers if count)
    for name, wanted in zip(names, trainers, strict=True):
        if wanted and wanted + servers != len(found):
            raise CommunicatorError(
                f"the server at {name} waits for {wanted} trainers, and there are {servers} servers: start "
                f"{wanted + servers} processes, not {len(found)}"
            )
        same = [rank for rank, other in enumerate(names) if other and other == name]
        if len(same) > 1:
            raise CommunicatorError(
                f"processes {' and '.join(map(str, same))} have the program of the same rank, {name}: give "
                f"each the program of its rank"
            )
