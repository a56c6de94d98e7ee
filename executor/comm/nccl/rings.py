"""Rings of CUDA devices: NCCL moves and adds what lies on the devices; the ring beneath, of threads or of
MPI, carries what it cannot.

Each ring has a stream of its own, tied to the plan's by events: a reduction overlaps the kernels that follow
it, and the whole can be captured into a CUDA graph (events become edges of it). The communicator is made at
first use, by which all ranks have their devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, MissingExtraError
from fluidlite.executor.comm.rings import BaseRing, Request

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
_SENT = (*_TYPES, "bool", "int16")  # types that travel from rank to rank, by number
_HOW = {"sum": "NCCL_SUM", "prod": "NCCL_PROD", "max": "NCCL_MAX", "min": "NCCL_MIN"}


def cupy_and_nccl() -> tuple[Any, Any]:
    """CuPy and its binding of NCCL; MissingExtraError where one is not there."""
    try:
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


class NcclRing(BaseRing):
    """The ring `base` with NCCL for arrays on devices. `name` is NCCL's unique id; without one, rank 0
    makes it at first use.
    """

    on_device = True

    def __init__(self, base: BaseRing, name: bytes = b"") -> None:
        super().__init__(base.ring_id, base.rank, base.size)
        self.base, self.name = base, name
        self.cupy, self.nccl = cupy_and_nccl()
        self.made: Any = None
        self.stream: Any = None

    @property
    def comm(self) -> Any:
        """The communicator, made when all ranks have come here."""
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
    def issue(self, call: Callable[[Any, int], None], *memory: Any) -> Request:
        """Let `call(communicator, stream)` run behind what the current stream has been given so far."""
        comm, here = self.comm, self.cupy.cuda.get_current_stream()
        before, after = (self.cupy.cuda.Event(disable_timing=True) for _ in range(2))
        before.record(here)
        self.stream.wait_event(before)
        try:
            call(comm, self.stream.ptr)
        except self.nccl.NcclError as error:
            raise CommunicatorError(f"NCCL, rank {self.rank} of ring {self.ring_id}: {error}") from error
        after.record(self.stream)
        return NcclRequest(self, after, memory)

    def kind(self, array: Any) -> Any:
        """NCCL's number for the type of an array; None where it has none."""
        return getattr(self.nccl, _TYPES[array.dtype.name]) if array.dtype.name in _TYPES else None

    # ------------------------------------------------------------------ reductions
    def start_all_reduce(self, source: Any, target: Any, how: str) -> Request:
        """Begin a reduction into `target`, on the ring's stream where both lie on the device."""
        kind = self.kind(source)
        if (
            not (_device(source) and _device(target))
            or kind is None
            or source.dtype != target.dtype
            or not target.flags.c_contiguous
        ):
            return self.base.start_all_reduce(source, target, how)
        source = self.cupy.ascontiguousarray(source)
        return self.issue(
            lambda comm, stream: comm.allReduce(
                _at(source), _at(target), source.size, kind, getattr(self.nccl, _HOW[how]), stream
            ),
            source,
            target,
        )

    def all_reduce(self, value: Any, how: str) -> Any:
        """The reduction over all ranks, as a new array."""
        if not _device(value):
            return self.base.all_reduce(value, how)
        total = self.cupy.empty(value.shape, value.dtype)
        self.start_all_reduce(value, total, how).wait()
        return total

    def reduce(self, value: Any, how: str, root: int) -> Any:
        """The reduction for rank `root`; the others get what they gave."""
        self.check_rank(root, "root")
        kind = self.kind(value)
        if not _device(value) or kind is None:
            return self.base.reduce(value, how, root)
        source, total = self.cupy.ascontiguousarray(value), self.cupy.empty(value.shape, value.dtype)
        self.issue(
            lambda comm, stream: comm.reduce(
                _at(source), _at(total), source.size, kind, getattr(self.nccl, _HOW[how]), root, stream
            ),
            source,
            total,
        ).wait()
        return total if self.rank == root else value

    def reduce_scatter(self, value: Any) -> Any:
        """This rank's part of the sum."""
        self.check_shares(value)
        kind = self.kind(value)
        if not _device(value) or kind is None:
            return self.base.reduce_scatter(value)
        source = self.cupy.ascontiguousarray(value)
        part = self.cupy.empty((value.shape[0] // self.size, *value.shape[1:]), value.dtype)
        self.issue(
            lambda comm, stream: comm.reduceScatter(
                _at(source), _at(part), part.size, kind, self.nccl.NCCL_SUM, stream
            ),
            source,
            part,
        ).wait()
        return part

    # ------------------------------------------------------------------ moving, as bytes
    def broadcast(self, value: Any, root: int) -> Any:
        """The value of rank `root`, as a new array."""
        self.check_rank(root, "root")
        if not _device(value):
            return self.base.broadcast(value, root)
        source, found = self.cupy.ascontiguousarray(value), self.cupy.empty(value.shape, value.dtype)
        self.issue(
            lambda comm, stream: comm.broadcast(
                _at(source), _at(found), source.nbytes, self.nccl.NCCL_UINT8, root, stream
            ),
            source,
            found,
        ).wait()
        return found

    def all_gather(self, value: Any) -> list[Any]:
        """Every rank's value; the ring beneath where they differ in their first dimension."""
        if not _device(value):
            return self.base.all_gather(value)
        rows = [
            int(count[0]) for count in self.base.all_gather(np.array([value.shape[0] if value.ndim else 1]))
        ]
        if len(set(rows)) > 1:
            return self.base.all_gather(value)
        source, found = (
            self.cupy.ascontiguousarray(value),
            self.cupy.empty((self.size, *value.shape), value.dtype),
        )
        self.issue(
            lambda comm, stream: comm.allGather(
                _at(source), _at(found), source.nbytes, self.nccl.NCCL_UINT8, stream
            ),
            source,
            found,
        ).wait()
        return list(found)

    def scatter(self, value: Any, root: int) -> Any:
        """This rank's part of what rank `root` has."""
        self.check_shares(value)
        self.check_rank(root, "root")
        if not _device(value):
            return self.base.scatter(value, root)
        source = self.cupy.ascontiguousarray(value)
        part = self.cupy.empty((value.shape[0] // self.size, *value.shape[1:]), value.dtype)

        def call(comm: Any, stream: int) -> None:
            self.nccl.groupStart()
            for rank in range(self.size if self.rank == root else 0):
                comm.send(_at(source) + rank * part.nbytes, part.nbytes, self.nccl.NCCL_UINT8, rank, stream)
            comm.recv(_at(part), part.nbytes, self.nccl.NCCL_UINT8, root, stream)
            self.nccl.groupEnd()

        self.issue(call, source, part).wait()
        return part

    def barrier(self) -> None:
        """Return when all ranks have come here."""
        self.base.barrier()

    def send(self, value: Any, peer: int) -> None:
        """Give a value to rank `peer`. Between devices NCCL holds the stream until the peer receives."""
        self.check_peer(peer)
        if value.dtype.name not in _SENT:
            raise CommunicatorError(f"arrays of {value.dtype} cannot be sent")
        self.base.send(
            np.array([_device(value), _SENT.index(value.dtype.name), *value.shape], np.int64), peer
        )
        if not _device(value):
            self.base.send(value, peer)
            return
        source = self.cupy.ascontiguousarray(value)
        self.issue(
            lambda comm, stream: comm.send(_at(source), source.nbytes, self.nccl.NCCL_UINT8, peer, stream),
            source,
        ).wait()

    def receive(self, peer: int) -> Any:
        """The next value from rank `peer`, whose form comes over the ring beneath."""
        self.check_peer(peer)
        device, number, *shape = self.base.receive(peer).tolist()
        if not device:
            return self.base.receive(peer)
        found = self.cupy.empty(tuple(shape), _SENT[number])
        self.issue(
            lambda comm, stream: comm.recv(_at(found), found.nbytes, self.nccl.NCCL_UINT8, peer, stream),
            found,
        ).wait()
        return found


class NcclRequest:
    """Something that the ring's stream does; its memory is kept until the plan's stream waits for it."""

    def __init__(self, ring: NcclRing, event: Any, memory: tuple[Any, ...]) -> None:
        self.ring, self.event, self.memory = ring, event, memory

    def poll(self) -> None:
        """The device gets on with it by itself; CommunicatorError where NCCL has failed meanwhile."""
        self.ring.made.check_async_error()

    def wait(self) -> None:
        """Let what the current stream is given from here on run behind it; the host does not wait."""
        self.ring.cupy.cuda.get_current_stream().wait_event(self.event)
        self.memory = ()


def _device(array: Any) -> bool:
    return hasattr(array, "__cuda_array_interface__")


def _at(array: Any) -> int:
    """Where an array lies on the device."""
    return int(array.data.ptr)
