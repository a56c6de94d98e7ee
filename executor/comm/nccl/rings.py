"""Rings of CUDA devices: NCCL moves and reduces what lies on the devices. The ring of the host that each is
made on, of threads or of MPI, does the rest.

Each ring has a stream of its own, tied to the plan's by events: a reduction overlaps the kernels that follow
it, and the whole can be captured into a CUDA graph (events become edges of it). The communicator is made at
first use, by which all ranks have their devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, MissingExtraError
from fluidlite.executor.comm.rings import ReductionRequest, Ring

__all__ = ["NcclRing", "unique_id"]

_TYPES = {
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
    "float16": "NCCL_FLOAT16",
    "int64": "NCCL_INT64",
    "int32": "NCCL_INT32",
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
}
# types that travel from rank to rank, by number; NCCL adds no others than the first, but moves bytes of all
_SENT = (*_TYPES, "bool", "int16")
_REDUCE_OPS = {"sum": "NCCL_SUM", "prod": "NCCL_PROD", "max": "NCCL_MAX", "min": "NCCL_MIN"}


def cupy_and_nccl() -> tuple[Any, Any]:
    """CuPy and its binding of NCCL; MissingExtraError where one is not there."""
    try:
        # optional
        import cupy
        from cupy.cuda import nccl
    except ImportError as error:
        raise MissingExtraError("rings of CUDA devices need CuPy: pip install 'fluidlite[cuda12]'") from error
    if not nccl.available:
        raise MissingExtraError("rings of CUDA devices need NCCL: pip install nvidia-nccl-cu12 (or -cu13)")
    return cupy, nccl


def unique_id() -> bytes:
    """A new name for a communicator."""
    return np.array(cupy_and_nccl()[1].get_unique_id(), np.int8).tobytes()


class NcclRing(Ring):
    """The ring `base` with NCCL for arrays on devices. `name` is NCCL's unique id; without one, rank 0
    makes it at first use.

    NCCL has no time limits: where ranks have to come together first, they do so on `base`.
    """

    on_device = True

    def __init__(self, base: Ring, name: bytes = b"") -> None:
        super().__init__(base.ring_id, base.rank, base.size)
        self.base = base
        self.name = name
        self.cupy, self.nccl = cupy_and_nccl()
        self.made: Any = None
        self.stream: Any = None

    @property
    def comm(self) -> Any:
        """NCCL's communicator, made when all ranks have come here."""
        if self.made is None:
            name = self.name
            if not name:
                given = unique_id() if self.rank == 0 else bytes(128)
                name = self.base.broadcast(np.frombuffer(given, np.int8), 0).tobytes()
            self.base.barrier()  # which has a time limit, and NCCL has none
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
            self.made = self.nccl.NcclCommunicator(
                self.size, tuple(np.frombuffer(name, np.int8).tolist()), self.rank
            )
        return self.made

    # ------------------------------------------------------------------ the ring's stream
    def issue(self, call: Callable[[Any, int], None], *memory: Any) -> ReductionRequest:
        """Have `call(communicator, stream)` run on the ring's stream, after the work that the current stream
        has been given so far. The memory is kept until the request is waited for.
        """
        comm = self.comm
        here = self.cupy.cuda.get_current_stream()
        before, after = (self.cupy.cuda.Event(disable_timing=True) for _ in range(2))
        before.record(here)
        self.stream.wait_event(before)
        try:
            call(comm, self.stream.ptr)
        except self.nccl.NcclError as error:
            raise CommunicatorError(f"NCCL, rank {self.rank} of ring {self.ring_id}: {error}") from error
        after.record(self.stream)
        return NcclRequest(self, after, memory)

    def dtype_of(self, array: Any) -> Any:
        """NCCL's number for the type of an array; None where NCCL does not add that type."""
        return getattr(self.nccl, _TYPES[array.dtype.name]) if array.dtype.name in _TYPES else None

    def nccl_op(self, reduce_op: str) -> Any:
        """NCCL's number for a reduction."""
        return getattr(self.nccl, _REDUCE_OPS[reduce_op])

    # ------------------------------------------------------------------ reductions
    def start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        """Begin a reduction into `target`, on the ring's stream where both lie on the device."""
        dtype = self.dtype_of(source)
        on_devices = _on_device(source) and _on_device(target)
        if not on_devices or dtype is None or source.dtype != target.dtype or not target.flags.c_contiguous:
            return self.base.start_all_reduce(source, target, reduce_op)
        source = self.cupy.ascontiguousarray(source)
        return self.issue(
            lambda comm, stream: comm.allReduce(
                _pointer(source), _pointer(target), source.size, dtype, self.nccl_op(reduce_op), stream
            ),
            source,
            target,
        )

    def all_reduce(self, value: Any, reduce_op: str) -> Any:
        """The reduction over all ranks, as a new array."""
        if not _on_device(value):
            return self.base.all_reduce(value, reduce_op)
        total = self.cupy.empty(value.shape, value.dtype)
        self.start_all_reduce(value, total, reduce_op).wait()
        return total

    def reduce(self, value: Any, reduce_op: str, root: int) -> Any:
        """The reduction for rank `root`."""
        self.check_rank(root, "root")
        dtype = self.dtype_of(value)
        if not _on_device(value) or dtype is None:
            return self.base.reduce(value, reduce_op, root)
        source = self.cupy.ascontiguousarray(value)
        total = self.cupy.empty(value.shape, value.dtype)
        self.issue(
            lambda comm, stream: comm.reduce(
                _pointer(source), _pointer(total), source.size, dtype, self.nccl_op(reduce_op), root, stream
            ),
            source,
            total,
        ).wait()
        return total if self.rank == root else value

    def reduce_scatter(self, value: Any, reduce_op: str = "sum") -> Any:
        """This rank's rows of the reduction."""
        self.check_shares(value)
        dtype = self.dtype_of(value)
        if not _on_device(value) or dtype is None:
            return self.base.reduce_scatter(value, reduce_op)
        source = self.cupy.ascontiguousarray(value)
        part = self.cupy.empty((value.shape[0] // self.size, *value.shape[1:]), value.dtype)
        self.issue(
            lambda comm, stream: comm.reduceScatter(
                _pointer(source), _pointer(part), part.size, dtype, self.nccl_op(reduce_op), stream
            ),
            source,
            part,
        ).wait()
        return part

    # ------------------------------------------------------------------ moving, as bytes
    def broadcast(self, value: Any, root: int) -> Any:
        """The value of rank `root`, as a new array."""
        self.check_rank(root, "root")
        if not _on_device(value):
            return self.base.broadcast(value, root)
        source = self.cupy.ascontiguousarray(value)
        found = self.cupy.empty(value.shape, value.dtype)
        self.issue(
            lambda comm, stream: comm.broadcast(
                _pointer(source), _pointer(found), source.nbytes, self.nccl.NCCL_UINT8, root, stream
            ),
            source,
            found,
        ).wait()
        return found

    def all_gather(self, value: Any) -> list[Any]:
        """Every rank's value; by the ring of the host where they differ in their first dimension."""
        if not _on_device(value):
            return self.base.all_gather(value)
        # NCCL's call is for arrays of one size
        mine = np.array([value.shape[0] if value.ndim else 1])
        if len({int(rows[0]) for rows in self.base.all_gather(mine)}) > 1:
            return self.base.all_gather(value)
        source = self.cupy.ascontiguousarray(value)
        found = self.cupy.empty((self.size, *value.shape), value.dtype)
        self.issue(
            lambda comm, stream: comm.allGather(
                _pointer(source), _pointer(found), source.nbytes, self.nccl.NCCL_UINT8, stream
            ),
            source,
            found,
        ).wait()
        return list(found)

    def gather(self, value: Any, root: int) -> list[Any]:
        """Every rank's value for rank `root`."""
        self.check_rank(root, "root")
        if not _on_device(value):
            return self.base.gather(value, root)
        mine = np.array([value.shape[0] if value.ndim else 1])
        rows = [int(count[0]) for count in self.base.gather(mine, root)]
        source = self.cupy.ascontiguousarray(value)
        found = [
            self.cupy.empty((*([count] * value.ndim)[:1], *value.shape[1:]), value.dtype) for count in rows
        ]
        self._exchange([(root, source)], list(enumerate(found)))
        return found

    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """The parts for this rank; how many rows each has goes ahead over the ring of the host."""
        if not all(map(_on_device, parts)):
            return self.base.all_to_all(parts)
        self.check_parts(parts)
        counts = self.base.all_to_all([np.array([len(part)]) for part in parts])
        rows = parts[0].shape[1:]
        found = [self.cupy.empty((int(count[0]), *rows), parts[0].dtype) for count in counts]
        sources = [self.cupy.ascontiguousarray(part) for part in parts]
        self._exchange(list(enumerate(sources)), list(enumerate(found)))
        return found

    def exchange(self, sent: Sequence[tuple[int, Any]], peers: Sequence[int]) -> list[Any]:
        """Send and receive all at once: two ranks that both send first would hold each other's streams."""
        if not all(_on_device(value) for _, value in sent):
            return super().exchange(sent, peers)
        sources = [(peer, self.cupy.ascontiguousarray(value)) for peer, value in sent]
        for peer, value in sources:
            self.check_peer(peer)
            self.base.send(_form_of(value), peer)
        forms = [self.base.receive(peer).tolist() for peer in peers]
        found = [self.cupy.empty(tuple(shape), _SENT[number]) for _, number, *shape in forms]
        self._exchange(sources, list(zip(peers, found, strict=True)))
        return found

    def _exchange(self, sent: Sequence[tuple[int, Any]], received: Sequence[tuple[int, Any]]) -> None:
        """Send contiguous arrays to ranks, this one among them, and receive some, all at once."""
        byte = self.nccl.NCCL_UINT8

        def call(comm: Any, stream: int) -> None:
            self.nccl.groupStart()
            for rank, array in sent:
                comm.send(_pointer(array), array.nbytes, byte, rank, stream)
            for rank, array in received:
                comm.recv(_pointer(array), array.nbytes, byte, rank, stream)
            self.nccl.groupEnd()

        self.issue(call, *(array for _, array in (*sent, *received))).wait()

    def scatter(self, value: Any, root: int) -> Any:
        """This rank's rows of rank `root`'s value."""
        self.check_shares(value)
        self.check_rank(root, "root")
        if not _on_device(value):
            return self.base.scatter(value, root)
        source = self.cupy.ascontiguousarray(value)
        rows = value.shape[0] // self.size
        part = self.cupy.empty((rows, *value.shape[1:]), value.dtype)
        # NCCL has no scatter: the root sends to all ranks, itself among them
        ranks = range(self.size if self.rank == root else 0)
        self._exchange([(rank, source[rank * rows : (rank + 1) * rows]) for rank in ranks], [(root, part)])
        return part

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self.base.barrier()

    def send(self, value: Any, peer: int) -> None:
        """Send a value to rank `peer`; its form goes ahead over the ring of the host. Between devices NCCL
        holds the stream until the peer receives.
        """
        self.check_peer(peer)
        self.base.send(_form_of(value), peer)
        if not _on_device(value):
            self.base.send(value, peer)
            return
        source = self.cupy.ascontiguousarray(value)
        self.issue(
            lambda comm, stream: comm.send(
                _pointer(source), source.nbytes, self.nccl.NCCL_UINT8, peer, stream
            ),
            source,
        ).wait()

    def receive(self, peer: int) -> Any:
        """The next value from rank `peer`."""
        self.check_peer(peer)
        is_on_device, number, *shape = self.base.receive(peer).tolist()
        if not is_on_device:
            return self.base.receive(peer)
        found = self.cupy.empty(tuple(shape), _SENT[number])
        self.issue(
            lambda comm, stream: comm.recv(_pointer(found), found.nbytes, self.nccl.NCCL_UINT8, peer, stream),
            found,
        ).wait()
        return found


class NcclRequest:
    """Work of the ring's stream; its memory is kept until the plan's stream waits for it."""

    def __init__(self, ring: NcclRing, event: Any, memory: tuple[Any, ...]) -> None:
        self.ring = ring
        self.event = event
        self.memory = memory

    def poll(self) -> None:
        """Raise NCCL's error where it has failed meanwhile; the device makes progress by itself."""
        self.ring.made.check_async_error()

    def wait(self) -> None:
        """Have what the current stream is given from here on run after it; the host does not wait."""
        self.ring.cupy.cuda.get_current_stream().wait_event(self.event)
        self.memory = ()


def _form_of(value: Any) -> Any:
    """The form of a value, which goes ahead of it: where it lies, the number of its type, its shape."""
    if value.dtype.name not in _SENT:
        raise CommunicatorError(f"arrays of {value.dtype} cannot be sent")
    return np.array([_on_device(value), _SENT.index(value.dtype.name), *value.shape], np.int64)


def _on_device(array: Any) -> bool:
    """True if an array lies on a CUDA device: this attribute is how array libraries say so to each other."""
    return hasattr(array, "__cuda_array_interface__")


def _pointer(array: Any) -> int:
    """Address of an array on its device."""
    return int(array.data.ptr)
