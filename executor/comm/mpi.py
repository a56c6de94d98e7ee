"""The processes of one `mpirun`: rings are communicators, and trainers and servers send each other messages. Buffers only, no pickle."""
from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.errors import CommunicatorError, MissingExtraError
from fluidlite.executor.comm.messages import Error, Message
from fluidlite.executor.comm.session import Session
from fluidlite.executor.comm.wire import decode, encode
from fluidlite.tensor import host

__all__ = ["MpiSession", "under_mpi"]

_TO_SERVER, _TO_TRAINER, _BETWEEN_RANKS = 1, 2, 3
_NAME_BYTES = 128
_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS")


def under_mpi() -> bool:
    """Whether `mpirun` started this process as one of several."""
    return any(os.environ.get(name, "1").isdigit() and int(os.environ.get(name, "1")) > 1 for name in _SIZE_VARIABLES)


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError("programs under mpirun need mpi4py: pip install 'fluidlite[mpi]'") from error
    return MPI


class MpiSession(Session):
    """This process's place in the world of `mpirun`."""

    def __init__(self, deadline: float) -> None:
        self.mpi = _mpi()
        self.world = self.mpi.COMM_WORLD.Dup()
        super().__init__(MpiLink(self.mpi, self.world, deadline))

    def join(self, ring_id: int, rank: int, size: int) -> None:
        """Make a ring of all processes; CommunicatorError, on all of them, where the program was made for another number."""
        if (rank, size) != (self.world.rank, self.world.size):
            raise CommunicatorError(f"the program is that of rank {rank} of {size}, but this is process {self.world.rank} of "
                                    f"{self.world.size}: start {size} processes, and give each the program of its rank")
        self.rings[ring_id] = MpiRing(self.mpi, self.world.Dup())


class MpiRing:
    """A ring as an MPI communicator."""

    def __init__(self, mpi: Any, comm: Any) -> None:
        self.comm = comm
        self.rank, self.size = comm.rank, comm.size
        self.how = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN, "prod": mpi.PROD}

    def all_reduce(self, value: Any, how: str) -> Any:
        """The reduction over all ranks."""
        source = _sendable(value)
        total = np.empty_like(source)
        self.comm.Allreduce(source, total, self.how[how])
        return total

    def broadcast(self, value: Any, root: int) -> Any:
        """The value of rank `root`."""
        found = _sendable(value).copy()
        self.comm.Bcast(found, root)
        return found

    def all_gather(self, value: Any) -> list[Any]:
        """Every rank's value; they may differ in their first dimension."""
        source = _sendable(value)
        rows = np.empty(self.size, np.int64)
        self.comm.Allgather(np.array([len(source) if source.ndim else 1], np.int64), rows)
        width = int(np.prod(source.shape[1:]))
        found = np.empty(int(rows.sum()) * width, source.dtype)
        self.comm.Allgatherv(source, [found, (rows * width).tolist()])
        return [part.reshape(source.shape if not source.ndim else (-1, *source.shape[1:]))
                for part in np.split(found, np.cumsum(rows * width)[:-1])]

    def send(self, value: Any, peer: int) -> None:
        """Give a value to rank `peer`."""
        _send_frames(self.comm, encode(value), peer, _BETWEEN_RANKS)

    def receive(self, peer: int) -> Any:
        """The next value from rank `peer`."""
        return decode(_receive_frames(self.comm, peer, _BETWEEN_RANKS))


class MpiLink:
    """The way between trainers and servers, by the ranks at which the servers' endpoints are."""

    def __init__(self, mpi: Any, world: Any, deadline: float) -> None:
        self.mpi, self.world, self.deadline = mpi, world, deadline
        self.ranks: dict[str, int] | None = None

    def meet(self, endpoint: str, trainers: int) -> dict[str, int]:
        """Tell all processes who this is, and hear who they are: server -> rank. Every process does so once."""
        mine = np.zeros(_NAME_BYTES + 8, np.uint8)
        spelled = endpoint.encode()
        mine[:len(spelled)] = np.frombuffer(spelled, np.uint8)
        mine[_NAME_BYTES:] = np.array([trainers], np.int64).view(np.uint8)
        everybody = np.empty((self.world.size, len(mine)), np.uint8)
        self.world.Allgather(mine, everybody)
        names = [row[:_NAME_BYTES].tobytes().rstrip(b"\0").decode() for row in everybody]
        self.ranks = {name: rank for rank, name in enumerate(names) if name}
        for rank, name in enumerate(names):
            wanted = int(everybody[rank, _NAME_BYTES:].view(np.int64)[0])
            if name and wanted + len(self.ranks) != self.world.size:
                raise CommunicatorError(f"the server at {name} waits for {wanted} trainers, and there are {len(self.ranks)} servers: start "
                                        f"{wanted + len(self.ranks)} processes, not {self.world.size}")
        return self.ranks

    def rank_of(self, endpoint: str) -> int:
        """The rank of the server at `endpoint`."""
        ranks = self.meet("", 0) if self.ranks is None else self.ranks
        if endpoint not in ranks:
            raise CommunicatorError(f"no process is the server at {endpoint}; servers are {', '.join(ranks) or 'none'}")
        return ranks[endpoint]

    # ------------------------------------------------------------------ a trainer
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to a server."""
        _send_frames(self.world, encode(message), self.rank_of(endpoint), _TO_SERVER)

    def answer(self, endpoint: str) -> Any:
        """The next answer of a server."""
        rank = self.rank_of(endpoint)
        self.wait(rank, _TO_TRAINER, f"an answer of the server at {endpoint}")
        found = decode(_receive_frames(self.world, rank, _TO_TRAINER))
        if isinstance(found, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {found.text}")
        return found

    # ------------------------------------------------------------------ a server
    def listen(self, endpoint: str, trainers: int = 0) -> None:
        """Be the server at `endpoint`."""
        self.meet(endpoint, trainers)

    def next_message(self) -> tuple[Any, Message]:
        """The next message of any trainer."""
        source = self.wait(self.mpi.ANY_SOURCE, _TO_SERVER, "messages of trainers")
        message = decode(_receive_frames(self.world, source, _TO_SERVER))
        assert isinstance(message, Message)
        return source, message

    def reply(self, to: Any, value: Any) -> None:
        """Answer a message."""
        _send_frames(self.world, encode(value), to, _TO_TRAINER)

    def wait(self, source: int, tag: int, what: str) -> int:
        """The rank that has sent something; CommunicatorError after the deadline. Polls, for MPI's own waits have no end."""
        status = self.mpi.Status()
        return _poll(lambda: status.Get_source() if self.world.Iprobe(source, tag, status) else None, self.deadline, what)


def _poll(ready: Callable[[], int | None], deadline: float, what: str) -> int:
    """What `ready` gives once it gives something: asked without a pause at first, then every 50 us."""
    end, spins = time.monotonic() + deadline, 0
    while (found := ready()) is None:
        spins += 1
        if spins > 200:
            time.sleep(50e-6)
            if time.monotonic() > end:
                raise CommunicatorError(f"no sign of {what} for {deadline:g} s")
    return found


def _sendable(value: Any) -> Any:
    """A contiguous host array of a type that MPI can reduce; float16 it would take for something else."""
    array = np.require(host(value), requirements="C")
    if array.dtype == np.float16 or array.dtype.kind not in "fiub":
        raise CommunicatorError(f"arrays of {array.dtype} cannot be reduced over MPI")
    return array


def _send_frames(comm: Any, frames: list[Any], to: int, tag: int) -> None:
    """The sizes of the frames, then the frames: between two processes messages of one tag stay in order."""
    arrays = [np.frombuffer(frame, np.uint8) if memoryview(frame).nbytes else np.empty(0, np.uint8) for frame in frames]
    for array in (np.array([len(array) for array in arrays], np.int64), *arrays):
        comm.Send(array, to, tag)


def _receive_frames(comm: Any, source: int, tag: int) -> list[Any]:
    """What `_send_frames` sent."""
    mpi = _mpi()
    sizes, status = np.empty(4, np.int64), mpi.Status()
    comm.Recv(sizes, source, tag, status)
    frames = []
    for size in sizes[:status.Get_count(mpi.INT64_T)]:
        frame = np.empty(int(size), np.uint8)
        comm.Recv(frame, source, tag)
        frames.append(frame.data)
    return frames
