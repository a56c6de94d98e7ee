"""Rings of processes under `mpirun`: each is an MPI communicator. Every call is a request, so that it can be
waited for with a time limit.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.mpi.pairwise import PairwiseReduction
from fluidlite.executor.comm.mpi.wait import SLOWEST, Waiter
from fluidlite.executor.comm.reduction import call_text, reducible
from fluidlite.executor.comm.rings import HostRing, ReductionRequest
from fluidlite.executor.comm.wire import HEAD_SIZE, Incoming, encode
from fluidlite.values.tensor import host

__all__ = ["MpiRing"]

_CHECKED = 256  # calls of a ring that are all checked: those of the first steps
_EVERY = 64  # of the later ones, one in so many
_TEXT = 256  # bytes in which ranks say what they want
_HEADER, _VALUE, _PAIRS = 1, 2, 16  # tags between ranks
_PAIRWISE = 1 << 19  # bytes of each rank's part from which messages between pairs are faster
_BEGIN = 0.01  # seconds in which the others come to a call: they do the same work


class MpiRing(HostRing):
    """A ring as an MPI communicator; `processes` are its ranks' numbers in MPI's world."""

    def __init__(self, mpi: Any, comm: Any, ring_id: int, processes: tuple[int, ...], waiter: Waiter) -> None:
        super().__init__(ring_id, comm.rank, comm.size)
        self.mpi = mpi
        self.comm = comm
        self.waiter = waiter
        self.processes = processes
        self._reduce_ops = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN, "prod": mpi.PROD}
        self._calls = 0
        self._open: list[
            _MpiReduction
        ] = []  # that were started: their memory stays while MPI may write to it
        self._sent: list[tuple[Any, Any]] = []  # requests, and the memory that they send

    # ------------------------------------------------------------------ waiting and agreeing
    def finish(self, request: Any, what: str, nbytes: int = 0) -> None:
        """Wait until a request is done; CommunicatorError after the time limit, or when a member of the ring
        has ended.
        """
        self.waiter.until(
            request.Test,
            lambda: f"the other ranks of ring {self.ring_id} ({what})",
            self.processes,
            busy=_BEGIN + nbytes / SLOWEST,
        )

    def _agree(self, what: str, value: Any, shape: Any = None) -> str:
        """Give the text for waits of the next call. In the calls of the first steps, and now and then later,
        check that all ranks make the same one.

        Each rank has a number h of 56 bits from a hash of its call. The maximum of all h and of all -h is one
        reduction; the ranks agree if max h = min h.
        """
        self._calls += 1
        text = f"{what}, call {self._calls}"
        if self._calls > _CHECKED and self._calls % _EVERY:
            return text
        call = f"{what} {value.dtype}{value.shape if shape is None else shape}"
        number = int.from_bytes(hashlib.sha256(call.encode()).digest()[:7], "little")
        found = np.array([number, -number], np.int64)
        self.finish(self.comm.Iallreduce(self.mpi.IN_PLACE, found, self.mpi.MAX), text)
        if found[0] != -found[1]:
            wishes = self._wishes(call_text(what, value))
            raise CommunicatorError(
                f"the ranks of ring {self.ring_id} do not agree in call {self._calls}: {wishes}"
            )
        return text

    def _wishes(self, mine: str) -> str:
        """The calls that the ranks want to make, each told by itself."""
        found = np.zeros((self.size, _TEXT), np.uint8)
        data = np.frombuffer(mine.encode()[:_TEXT].ljust(_TEXT, b"\0"), np.uint8)
        self.finish(self.comm.Iallgather(data, found), "their wishes")
        texts = [row.tobytes().rstrip(bytes(1)).decode(errors="replace") for row in found]
        return ", ".join(
            f"rank {rank} (process {self.processes[rank]}) wants {text}" for rank, text in enumerate(texts)
        )

    # ------------------------------------------------------------------ reductions
    def _start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        what = self._agree(f"all-reduce {reduce_op}", source)
        if source.nbytes >= self.size * _PAIRWISE:
            # two tags for each call: as many calls as may be open at once, and far more, have their own
            tag = _PAIRS + 2 * (self._calls % 8192)
            request = PairwiseReduction(self.mpi, self.comm, source, target, reduce_op, tag)
        else:  # requests in place take twice as long as a copy (Open MPI 5.0)
            source = source.copy() if source is target else source
            request = self.comm.Iallreduce(source, target, self._reduce_ops[reduce_op])
        started = _MpiReduction(self, request, what, (source, target))
        self._open = [*(other for other in self._open if not other.test()), started]
        return started

    def reduce(self, value: Any, reduce_op: str, root: int) -> Any:
        """The reduction for rank `root`, by MPI's own where it adds such elements."""
        self.check_rank(root, "root")
        if not _is_plain(value):
            return super().reduce(value, reduce_op, root)
        source = np.require(value, requirements="C")
        what = self._agree(f"reduce {reduce_op} to {root}", source)
        total = np.empty_like(source) if self.rank == root else None
        request = self.comm.Ireduce(source, total, self._reduce_ops[reduce_op], root)
        self.finish(request, what, source.nbytes)
        return value if total is None else total

    def reduce_scatter(self, value: Any, reduce_op: str = "sum") -> Any:
        """This rank's rows of the reduction, by MPI's own where it adds such elements."""
        self.check_shares(value)
        if not _is_plain(value):
            return super().reduce_scatter(value, reduce_op)
        source = np.require(value, requirements="C")
        what = self._agree(f"reduce-scatter {reduce_op}", source)
        part = np.empty((source.shape[0] // self.size, *source.shape[1:]), source.dtype)
        self.finish(
            self.comm.Ireduce_scatter_block(source, part, self._reduce_ops[reduce_op]), what, source.nbytes
        )
        return part

    # ------------------------------------------------------------------ moving, as bytes
    def _broadcast(self, array: Any, root: int) -> Any:
        what = self._agree(f"broadcast from {root}", array)
        found = array.copy()
        self.finish(self.comm.Ibcast(_bytes(found), root), what, found.nbytes)
        return found

    def _all_gather(self, array: Any, what: str = "all-gather") -> list[Any]:
        what = self._agree(what, array, array.shape[1:])
        rows = np.zeros(self.size, np.int64)
        mine = np.array([array.shape[0] if array.ndim else 1], np.int64)
        self.finish(self.comm.Iallgather(mine, rows), what)
        row_bytes = array.dtype.itemsize * math.prod(array.shape[1:])
        sizes = rows * row_bytes
        found = np.empty(int(sizes.sum()), np.uint8)
        self.finish(self.comm.Iallgatherv(_bytes(array), [found, sizes.tolist()]), what, found.nbytes)
        return _parts(found, rows, array)

    def gather(self, value: Any, root: int) -> list[Any]:
        """Every rank's value for rank `root`, which alone receives."""
        self.check_rank(root, "root")
        if not isinstance(value, np.ndarray):
            return super().gather(value, root)
        array = np.require(value, requirements="C")
        what = self._agree(f"gather to {root}", array, array.shape[1:])
        is_root = self.rank == root
        rows = np.zeros(self.size if is_root else 0, np.int64)
        mine = np.array([array.shape[0] if array.ndim else 1], np.int64)
        self.finish(self.comm.Igather(mine, rows, root), what)
        sizes = rows * (array.dtype.itemsize * math.prod(array.shape[1:]))
        found = np.empty(int(sizes.sum()), np.uint8)
        target = [found, sizes.tolist()] if is_root else None
        self.finish(self.comm.Igatherv(_bytes(array), target, root), what, found.nbytes)
        return _parts(found, rows, array) if is_root else []

    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """The parts for this rank: each travels once."""
        if not all(isinstance(part, np.ndarray) for part in parts):
            return super().all_to_all(parts)
        self.check_parts(parts)
        first = parts[0]
        what = self._agree("all-to-all", first, first.shape[1:])
        mine = np.array([len(part) for part in parts], np.int64)
        theirs = np.zeros(self.size, np.int64)
        self.finish(self.comm.Ialltoall(mine, theirs), what)
        row_bytes = first.dtype.itemsize * math.prod(first.shape[1:])
        source = _bytes(np.concatenate(parts))
        found = np.empty(int(theirs.sum()) * row_bytes, np.uint8)
        request = self.comm.Ialltoallv(
            [source, (mine * row_bytes).tolist()], [found, (theirs * row_bytes).tolist()]
        )
        self.finish(request, what, source.nbytes + found.nbytes)
        return _parts(found, theirs, first)

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self.finish(self.comm.Ibarrier(), self._agree("barrier", np.zeros(0, np.int8)))

    # ------------------------------------------------------------------ from rank to rank
    def send(self, value: Any, peer: int) -> None:
        """Start to send a copy of a value to rank `peer`."""
        self.check_peer(peer)
        self._sent = [(request, memory) for request, memory in self._sent if not request.Test()]
        head, *frames = encode(host(value).copy())
        header = np.frombuffer(head, np.uint8)
        self._sent.append((self.comm.Isend(header, peer, _HEADER), header))
        for frame in frames:
            if memoryview(frame).nbytes:
                data = np.frombuffer(frame, np.uint8).reshape(-1)
                self._sent.append((self.comm.Isend(data, peer, _VALUE), data))

    def receive(self, peer: int) -> Any:
        """The next value from rank `peer`."""
        self.check_peer(peer)
        comm = self.comm
        process = self.processes[peer : peer + 1]

        def what() -> str:
            return f"rank {peer} of ring {self.ring_id} to send"

        status = self.mpi.Status()
        self.waiter.until(lambda: comm.Iprobe(peer, _HEADER, status), what, process, busy=_BEGIN)
        head = np.empty(status.Get_count(self.mpi.BYTE), np.uint8)
        comm.Recv(head, peer, _HEADER)
        incoming = Incoming(head[:HEAD_SIZE].tobytes())
        incoming.describe(head[HEAD_SIZE:].tobytes())
        _, array = incoming.arrays(None, np.empty)
        if array.nbytes:
            request = comm.Irecv(_bytes(array), peer, _VALUE)
            self.waiter.until(request.Test, what, process, busy=_BEGIN + array.nbytes / SLOWEST)
        return array


class _MpiReduction:
    """A reduction that was started; the memory that it reads and writes is kept until it is done."""

    def __init__(self, ring: MpiRing, request: Any, what: str, memory: tuple[Any, Any]) -> None:
        self.ring = ring
        self.request = request
        self.what = what
        self.memory = memory
        self.test: Callable[[], bool] = request.Test

    def poll(self) -> None:
        """Let MPI make progress, which it does only inside of a call."""
        self.test()

    def wait(self) -> None:
        """Return once the result is there."""
        self.ring.finish(self.request, self.what, self.memory[0].nbytes)


def _is_plain(value: Any) -> bool:
    """True if MPI adds elements of this type, and they lie on the host."""
    if not isinstance(value, np.ndarray):
        return False
    sample = value[:0] if value.ndim else value  # nothing is converted only to see what would be
    return bool(reducible(sample, "sum")[0].dtype == value.dtype)


def _parts(found: Any, rows: Any, like: Any) -> list[Any]:
    """Bytes of several ranks as arrays like one, each with its own number of rows."""
    row_bytes = like.dtype.itemsize * math.prod(like.shape[1:])
    pieces = np.split(found, np.cumsum(rows * row_bytes)[:-1])
    if not like.ndim:
        return [piece.view(like.dtype).reshape(()) for piece in pieces]
    shapes = [(count, *like.shape[1:]) for count in rows.tolist()]
    return [piece.view(like.dtype).reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _bytes(array: Any) -> Any:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8)
