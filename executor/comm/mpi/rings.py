"""Rings of processes under `mpirun`: each is a communicator. Every operation is a request, so that it can
be waited for with a limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.mpi.pairwise import PairwiseReduction
from fluidlite.executor.comm.mpi.wait import Waiter
from fluidlite.executor.comm.reduction import reducible, said
from fluidlite.executor.comm.rings import BaseRing, Request
from fluidlite.executor.comm.wire import HEAD_SIZE, Incoming, encode
from fluidlite.values.tensor import host

__all__ = ["MpiRing"]

_CHECKED = 256  # calls of a ring that are all checked: those of the first steps
_EVERY = 64  # of the later ones, one in so many
_TEXT = 256  # bytes in which ranks say what they want
_SLOWEST = 2e8  # bytes a second: until so little can be through, waiting does not let go of the core
_HEADER, _VALUE, _PAIRS = 1, 2, 16  # tags between ranks
_PAIRWISE = 1 << 19  # bytes of each rank's part from which messages between pairs are faster


class MpiRing(BaseRing):
    """A ring as an MPI communicator; `processes` are its ranks' numbers in the world."""

    def __init__(self, mpi: Any, comm: Any, ring_id: int, processes: tuple[int, ...], waiter: Waiter) -> None:
        super().__init__(ring_id, comm.rank, comm.size)
        self.mpi, self.comm, self.waiter, self.processes = mpi, comm, waiter, processes
        self.how = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN, "prod": mpi.PROD}
        self.calls = 0
        self.open: list[MpiRequest] = []  # what was started: its memory stays while MPI may write to it
        self.sent: list[tuple[Any, Any]] = []  # requests, and the memory that they send

    # ------------------------------------------------------------------ waiting and agreeing
    def finish(self, request: Any, what: str, nbytes: int = 0) -> None:
        """Return when a request is done; CommunicatorError after the time limit, or when a member of the
        ring has ended.
        """
        self.waiter.until(
            request.Test,
            lambda: f"the other ranks of ring {self.ring_id} ({what})",
            self.processes,
            busy=0.01 + nbytes / _SLOWEST,
        )

    def agree(self, what: str, value: Any, shape: Any = None) -> str:
        """Hear whether all ranks are here for the same thing, in the calls of the first steps and now and
        then later.
        """
        self.calls += 1
        text = f"{what}, call {self.calls}"
        if self.calls > _CHECKED and self.calls % _EVERY:
            return text
        spelled = f"{what} {value.dtype}{value.shape if shape is None else shape}"
        mine = int.from_bytes(hashlib.sha256(spelled.encode()).digest()[:7], "little")
        found = np.array([mine, -mine], np.int64)
        self.finish(self.comm.Iallreduce(self.mpi.IN_PLACE, found, self.mpi.MAX), text)
        if found[0] != -found[1]:
            raise CommunicatorError(
                f"the ranks of ring {self.ring_id} do not agree in call {self.calls}: "
                + self.texts(said(what, value))
            )
        return text

    def texts(self, mine: str) -> str:
        """What each rank wants, told by itself."""
        found = np.zeros((self.size, _TEXT), np.uint8)
        spelled = np.frombuffer(mine.encode()[:_TEXT].ljust(_TEXT, b"\0"), np.uint8)
        self.finish(self.comm.Iallgather(spelled, found), "their wishes")
        return ", ".join(
            f"rank {rank} (process {self.processes[rank]}) wants "
            f"{row.tobytes().rstrip(bytes(1)).decode(errors='replace')}"
            for rank, row in enumerate(found)
        )

    # ------------------------------------------------------------------ what BaseRing asks for
    def _start(self, source: Any, target: Any, how: str) -> Request:
        what = self.agree(f"all-reduce {how}", source)
        if source.nbytes >= self.size * _PAIRWISE:
            tag = _PAIRS + 2 * (self.calls % 8192)
            request = PairwiseReduction(self.mpi, self.comm, source, target, how, tag)
        else:  # requests in place take twice as long as a copy (Open MPI 5.0)
            source = source.copy() if source is target else source
            request = self.comm.Iallreduce(source, target, self.how[how])
        self.open = [
            *(other for other in self.open if not other.test()),
            MpiRequest(self, request, what, (source, target)),
        ]
        return self.open[-1]

    def reduce(self, value: Any, how: str, root: int) -> Any:
        """The reduction for rank `root`; the others get what they gave."""
        self.check_rank(root, "root")
        if not _plain(value):
            return super().reduce(value, how, root)
        source = np.require(value, requirements="C")
        what = self.agree(f"reduce {how} to {root}", source)
        total = np.empty_like(source) if self.rank == root else None
        self.finish(self.comm.Ireduce(source, total, self.how[how], root), what, source.nbytes)
        return value if total is None else total

    def reduce_scatter(self, value: Any) -> Any:
        """This rank's part of the sum."""
        self.check_shares(value)
        if not _plain(value):
            return super().reduce_scatter(value)
        source = np.require(value, requirements="C")
        what = self.agree("reduce-scatter", source)
        part = np.empty((source.shape[0] // self.size, *source.shape[1:]), source.dtype)
        self.finish(self.comm.Ireduce_scatter_block(source, part, self.mpi.SUM), what, source.nbytes)
        return part

    def _broadcast(self, array: Any, root: int) -> Any:
        what = self.agree(f"broadcast from {root}", array)
        found = array.copy()
        self.finish(self.comm.Ibcast(_bytes(found), root), what, found.nbytes)
        return found

    def _all_gather(self, array: Any) -> list[Any]:
        what = self.agree("all-gather", array, array.shape[1:])
        rows = np.zeros(self.size, np.int64)
        mine = np.array([array.shape[0] if array.ndim else 1], np.int64)
        self.finish(self.comm.Iallgather(mine, rows), what)
        width = (
            array.nbytes // int(mine[0])
            if mine[0]
            else array.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
        )
        found = np.empty(int(rows.sum()) * width, np.uint8)
        self.finish(
            self.comm.Iallgatherv(_bytes(array), [found, (rows * width).tolist()]), what, found.nbytes
        )
        return [
            part.view(array.dtype).reshape((count, *array.shape[1:]) if array.ndim else ())
            for count, part in zip(rows.tolist(), np.split(found, np.cumsum(rows * width)[:-1]), strict=True)
        ]

    def barrier(self) -> None:
        """Return when all ranks have come here."""
        self.finish(self.comm.Ibarrier(), self.agree("barrier", np.zeros(0, np.int8)))

    # ------------------------------------------------------------------ from rank to rank
    def send(self, value: Any, peer: int) -> None:
        """Give a copy of a value to rank `peer`, which takes it when it will."""
        self.check_peer(peer)
        self.sent = [(request, memory) for request, memory in self.sent if not request.Test()]
        head, *frames = encode(host(value).copy())
        for frame, tag in (
            (np.frombuffer(head, np.uint8), _HEADER),
            *(
                (_bytes(np.frombuffer(frame, np.uint8)), _VALUE)
                for frame in frames
                if memoryview(frame).nbytes
            ),
        ):
            self.sent.append((self.comm.Isend(frame, peer, tag), frame))

    def receive(self, peer: int) -> Any:
        """The next value from rank `peer`."""
        self.check_peer(peer)

        def what() -> str:
            return f"rank {peer} of ring {self.ring_id} to send"

        status = self.mpi.Status()
        self.waiter.until(
            lambda: self.comm.Iprobe(peer, _HEADER, status), what, self.processes[peer : peer + 1], busy=0.01
        )
        head = np.empty(status.Get_count(self.mpi.BYTE), np.uint8)
        self.comm.Recv(head, peer, _HEADER)
        incoming = Incoming(head[:HEAD_SIZE].tobytes())
        incoming.describe(head[HEAD_SIZE:].tobytes())
        _, array = incoming.arrays(None, np.empty)
        if array.nbytes:
            request = self.comm.Irecv(_bytes(array), peer, _VALUE)
            self.waiter.until(
                request.Test, what, self.processes[peer : peer + 1], busy=0.01 + array.nbytes / _SLOWEST
            )
        return array


class MpiRequest:
    """A reduction that was started; the memory that it reads and writes is kept until it is done."""

    def __init__(self, ring: MpiRing, request: Any, what: str, memory: tuple[Any, Any]) -> None:
        self.ring, self.request, self.what, self.memory = ring, request, what, memory
        self.test: Callable[[], bool] = request.Test

    def poll(self) -> None:
        """Let MPI get on with it."""
        self.test()

    def wait(self) -> None:
        """Return once the result is there."""
        self.ring.finish(self.request, self.what, self.memory[0].nbytes)


def _plain(value: Any) -> bool:
    """Whether MPI adds such elements, where they lie."""
    return (
        isinstance(value, np.ndarray)
        and reducible(value[:0] if value.ndim else value, "sum")[0].dtype == value.dtype
    )


def _bytes(array: Any) -> Any:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)
