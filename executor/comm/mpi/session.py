"""The processes of one `mpirun`: who they are, the rings among them, and what happens when one of them
fails. Buffers only, no pickle.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, MissingExtraError
from fluidlite.base.mpi_start import under_mpi
from fluidlite.executor.comm.mpi.link import MpiLink
from fluidlite.executor.comm.mpi.rings import MpiRing
from fluidlite.executor.comm.mpi.wait import Waiter
from fluidlite.executor.comm.session import Session

__all__ = ["MpiSession", "under_mpi"]

_NAMES, _TOKENS = 4, 5  # tags of what makes rings
_ENTRY = np.dtype(
    [
        ("endpoint", "S128"),
        ("host", "S64"),
        ("bell", "S64"),
        ("trainers", "i8"),
        ("ranks", "i8"),
        ("ring", "S16"),
    ]
)


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError("programs under mpirun need mpi4py: pip install 'fluidlite[mpi]'") from error
    return MPI


class MpiSession(Session):
    """This process's place in the world of `mpirun`."""

    lasts = True

    def __init__(self, deadline: float) -> None:
        self.mpi = _mpi()
        self.world = self.mpi.COMM_WORLD
        self.waiter = Waiter(self.mpi, deadline)
        self.link_to = MpiLink(self.mpi, self.waiter, self.meet)
        super().__init__(self.link_to)
        self.everybody: dict[str, int] | None = None  # endpoint -> process, once all have met
        self.members: dict[bytes, tuple[int, ...]] = {}  # the processes of a ring, by its name
        self.made: dict[tuple[int, tuple[int, ...]], MpiRing] = {}
        atexit.register(self.end)

    def end(self) -> None:
        """Tell the servers that this trainer leaves, and the others that this process ends."""
        if not self.mpi.Is_finalized():
            self.leave()
            self.link_to.finish()
            self.waiter.leave(self.everybody is not None)

    # ------------------------------------------------------------------ meeting
    def meet(
        self, endpoint: str = "", trainers: int = 0, ring: Sequence[str] = (), ranks: int = 0
    ) -> dict[str, int]:
        """Endpoint -> process. At the first call all processes tell each other who they are; an error of one
        is one of all.

        A server says for how many `trainers` it is there, a member of a ring the endpoints of all, or how
        many `ranks` there are.
        """
        if self.everybody is not None:
            return self.everybody
        mine = np.zeros(1, _ENTRY)
        mine[0] = (
            endpoint.encode(),
            os.uname().nodename.encode()[:64] if hasattr(os, "uname") else b"",
            self.waiter.bell.name[1:],
            trainers,
            len(ring) or ranks,
            digest(ring) if ring else b"",
        )
        self.world = self.link_to.world = self._own_world()
        found = np.zeros(self.world.size, _ENTRY)
        request = self.world.Iallgather(mine.view(np.uint8), found.view(np.uint8))
        self.waiter.until(request.Test, lambda: "the other processes, to hear who they are", busy=0.01)
        self.waiter.bell.meet(
            (rank, b"\0" + entry["bell"])
            for rank, entry in enumerate(found)
            if entry["bell"] and entry["host"] == mine[0]["host"] and rank != self.world.rank
        )
        self.waiter.alone = len(self.waiter.bell.others) < self.world.size - 1
        self._check(found)
        self.everybody = {
            entry["endpoint"].decode(): rank for rank, entry in enumerate(found) if entry["endpoint"]
        }
        return self.everybody

    def _own_world(self) -> Any:
        """A communicator of all processes that nobody else talks on."""
        world, request = self.mpi.COMM_WORLD.Idup()
        self.waiter.until(
            request.Test, lambda: "the other processes, none of which has come to talk yet", busy=0.01
        )
        return world

    def _check(self, found: Any) -> None:
        """CommunicatorError, the same on all processes, where the programs are not those of a job of so
        many.
        """
        size = self.world.size
        names = [entry["endpoint"].decode() for entry in found]
        servers = [name for name, entry in zip(names, found, strict=True) if entry["trainers"]]
        for name, entry in zip(names, found, strict=True):
            wanted = int(entry["trainers"])
            if wanted and wanted + len(servers) != size:
                raise CommunicatorError(
                    f"the server at {name} waits for {wanted} trainers, and there are {len(servers)} "
                    f"servers: start "
                    f"{wanted + len(servers)} processes, not {size}"
                )
            twice = [rank for rank, other in enumerate(names) if other and other == name]
            if len(twice) > 1:
                raise CommunicatorError(
                    f"processes {' and '.join(map(str, twice))} have the program of the same rank, {name}: "
                    f"give each "
                    "the program of its rank"
                )
        most = int(found["ranks"].max())
        rings = set(found["ring"].tolist())
        if most > size or (most and len(rings) == 1 and most != size):
            raise CommunicatorError(
                f"the program is made for {most} ranks, but there are {size} processes: start {most} "
                f"processes, and "
                "give each the program of its rank"
            )

    # ------------------------------------------------------------------ rings
    def agree_on_id(self, members: Sequence[str], rank: int, make: Callable[[], bytes]) -> bytes:
        """The name of a ring, from its rank 0; all members have to be processes of this job."""
        self.check_place(0, rank, len(members))
        known = self.meet(members[rank], ring=members)
        missing = [endpoint for endpoint in members if endpoint not in known]
        if missing:
            raise CommunicatorError(
                f"no process has the program of {', '.join(missing)} (there are "
                f"{', '.join(known) or 'none'}): start "
                f"{len(members)} processes, and give each the program of its rank"
            )
        ranks = tuple(known[endpoint] for endpoint in members)
        if ranks[rank] != self.world.rank:
            raise CommunicatorError(
                f"process {self.world.rank} names a ring as {members[rank]}, which is process {ranks[rank]}"
            )
        name = self._named(ranks, members, make() if rank == 0 else b"")
        self.members[name] = ranks
        return name

    def _named(self, ranks: tuple[int, ...], members: Sequence[str], name: bytes) -> bytes:
        """Send the name to the others, or receive it."""
        if name:
            letter = np.frombuffer(digest(members) + name, np.uint8)
            self._all(
                [self.world.Isend(letter, rank, _NAMES) for rank in ranks[1:]], ranks, "a ring to be named"
            )
            return name
        letter = np.zeros(16 + 512, np.uint8)
        status = self.mpi.Status()
        request = self.world.Irecv(letter, ranks[0], _NAMES)
        self.waiter.until(
            lambda: request.Test(status),
            lambda: f"the name of the ring of {', '.join(members)}",
            ranks[:1],
            busy=0.01,
        )
        found = letter[: status.Get_count(self.mpi.BYTE)].tobytes()
        if found[:16] != digest(members):
            raise CommunicatorError(
                f"process {ranks[0]} names a ring of other members than {', '.join(members)}"
            )
        return found[16:]

    def _all(self, requests: list[Any], ranks: Sequence[int], what: str) -> None:
        self.waiter.until(lambda: bool(self.mpi.Request.Testall(requests)), lambda: what, ranks, busy=0.01)

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        """Make a ring of the processes that agreed on its name; without a name, of all."""
        self.check_place(ring_id, rank, size)
        ranks = self.members.get(name)
        if ranks is None:
            self.meet(ranks=size)
            ranks = tuple(range(self.world.size))
        if size != len(ranks) or ranks[rank] != self.world.rank:
            raise CommunicatorError(
                f"the program is that of rank {rank} of {size}, but this is process {self.world.rank} of "
                f"{self.world.size}: start {size} processes, and give each the program of its rank"
            )
        self.rings[ring_id] = self._made(ring_id, ranks)

    def join_devices(self, ring_id: int) -> None:
        """Make a ring of all processes, each of which has one device."""
        self.meet()
        self.rings[ring_id] = self._made(ring_id, tuple(range(self.world.size)))

    def _made(self, ring_id: int, ranks: tuple[int, ...]) -> MpiRing:
        """The ring of these processes: the same one again for those who join it again."""
        key = ring_id, ranks
        if key not in self.made:
            self._gather(ring_id, ranks)
            comm = self.world.Create_group(self.world.group.Incl(ranks), ring_id % 1000)
            self.made[key] = MpiRing(self.mpi, comm, ring_id, ranks, self.waiter)
        return self.made[key]

    def _gather(self, ring_id: int, ranks: tuple[int, ...]) -> None:
        """Return when all members have come to join, for MPI makes a communicator without a time limit."""

        def what() -> str:
            return f"all of processes {', '.join(map(str, ranks))} to join ring {ring_id}"

        mine, theirs = np.array([ring_id, len(ranks)], np.int64), np.zeros((len(ranks), 2), np.int64)
        others = [(number, rank) for number, rank in enumerate(ranks) if rank != self.world.rank]
        requests = [self.world.Irecv(theirs[number], rank, _TOKENS) for number, rank in others]
        requests += [self.world.Isend(mine, rank, _TOKENS) for _, rank in others]
        self.waiter.until(lambda: bool(self.mpi.Request.Testall(requests)), what, ranks, busy=0.01)
        wrong = [rank for number, rank in others if (theirs[number] != mine).any()]
        if wrong:
            raise CommunicatorError(
                f"process {self.world.rank} joins ring {ring_id}, but process {', '.join(map(str, wrong))} "
                f"joins another"
            )


def digest(members: Sequence[str]) -> bytes:
    """What says of a list of endpoints that it is the same."""
    return hashlib.sha256("\n".join(members).encode()).digest()[:16].replace(b"\0", b"\1")
