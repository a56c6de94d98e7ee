"""Rings: ranks that make the same collective calls in the same order.

`Ring` declares the operations that every ring has. `HostRing` makes them of four that a transport does
on contiguous arrays of the host; a transport that can do more of them itself overrides those.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from fluidlite.base.errors import CommunicatorError, ShapeError
from fluidlite.base.place import CUDAPlace, array_module
from fluidlite.executor.comm.reduction import reducible
from fluidlite.values.tensor import host, on

__all__ = ["HostRing", "ReductionRequest", "Ring"]


class ReductionRequest(Protocol):
    """A reduction that was started."""

    def wait(self) -> None:
        """Return once the result is there; CommunicatorError where it cannot come, or not within the time
        limit.
        """

    def poll(self) -> None:
        """Let the transport make progress, without waiting."""


class Ring(ABC):
    """Ranks 0 to size - 1. Arrays may be of any memory layout, on the host or on a device, and results are
    where the arguments are.

    A reduction is one of "sum", "max", "min" and "prod". A value that ranks do not agree on, or a rank that
    does not come within the time limit, is a CommunicatorError on every rank.
    """

    on_device: ClassVar[bool] = False  # True if arrays of a device are reduced without the host

    def __init__(self, ring_id: int, rank: int, size: int) -> None:
        self.ring_id = ring_id
        self.rank = rank
        self.size = size

    # ------------------------------------------------------------------ reductions
    @abstractmethod
    def start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        """Begin a reduction into `target`, which may be `source`; both belong to the ring until `wait` has
        returned.
        """

    @abstractmethod
    def all_reduce(self, value: Any, reduce_op: str) -> Any:
        """The reduction over all ranks, as a new array."""

    @abstractmethod
    def reduce(self, value: Any, reduce_op: str, root: int) -> Any:
        """The reduction for rank `root`; the others get `value` back."""

    @abstractmethod
    def reduce_scatter(self, value: Any, reduce_op: str = "sum") -> Any:
        """This rank's rows of the reduction; ShapeError where the ranks cannot share the rows evenly."""

    # ------------------------------------------------------------------ moving
    @abstractmethod
    def broadcast(self, value: Any, root: int) -> Any:
        """The value of rank `root`, as a new array; the others give one of the same shape and type."""

    @abstractmethod
    def all_gather(self, value: Any) -> list[Any]:
        """Every rank's value; they may differ in their first dimension."""

    @abstractmethod
    def gather(self, value: Any, root: int) -> list[Any]:
        """Every rank's value for rank `root`; they may differ in their first dimension. The others get
        nothing: [].
        """

    @abstractmethod
    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """The parts that the ranks have for this one, in their order; `parts[r]` goes to rank r. Parts may
        differ in their first dimension. ShapeError unless there is one for each rank.
        """

    @abstractmethod
    def scatter(self, value: Any, root: int) -> Any:
        """This rank's rows of rank `root`'s value; ShapeError where the ranks cannot share them evenly."""

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have called it."""

    # ------------------------------------------------------------------ from rank to rank
    @abstractmethod
    def send(self, value: Any, peer: int) -> None:
        """Send a copy of a value to rank `peer`, without waiting until it is received."""

    @abstractmethod
    def receive(self, peer: int) -> Any:
        """The next value from rank `peer`."""

    def exchange(self, sent: Sequence[tuple[int, Any]], peers: Sequence[int]) -> list[Any]:
        """Send values, each to a rank, and receive the next value from each of `peers`, in any order: two
        ranks may both send first.
        """
        for peer, value in sent:
            self.send(value, peer)
        return [self.receive(peer) for peer in peers]

    # ------------------------------------------------------------------ checks that all rings make
    def check_rank(self, rank: int, what: str) -> None:
        """CommunicatorError where there is no such rank."""
        if not 0 <= rank < self.size:
            raise CommunicatorError(
                f"{what} {rank} is not a rank of ring {self.ring_id}, whose ranks are 0 to {self.size - 1}"
            )

    def check_peer(self, peer: int) -> None:
        """CommunicatorError where there is no such other rank."""
        self.check_rank(peer, "peer")
        if peer == self.rank:
            raise CommunicatorError(f"rank {peer} of ring {self.ring_id} cannot be its own peer")

    def check_shares(self, value: Any) -> None:
        """ShapeError where the ranks cannot share the rows of a value evenly."""
        if not value.shape or value.shape[0] % self.size:
            raise ShapeError(
                f"X is {value.dtype}{list(value.shape)}, whose rows cannot be divided evenly among "
                f"the {self.size} ranks of ring {self.ring_id}"
            )

    def check_parts(self, parts: Sequence[Any]) -> None:
        """ShapeError unless there is a part for each rank, of one dtype and with rows of one shape."""
        forms = {(part.dtype, part.shape[1:]) for part in parts}
        if len(parts) != self.size or len(forms) > 1:
            found = ", ".join(f"{part.dtype}{list(part.shape)}" for part in parts)
            raise ShapeError(
                f"an exchange on ring {self.ring_id} needs {self.size} parts of one dtype, with rows of one "
                f"shape, but was given {found or 'none'}"
            )


class HostRing(Ring):
    """A ring that works on the host: what lies on a device is copied there and back.

    A transport defines `_start_all_reduce`, `_broadcast` and `_all_gather`, which get contiguous arrays of
    types that it can add, and `send` and `receive`.
    """

    @abstractmethod
    def _start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        """Begin a reduction into `target`, which may be `source`; nobody else touches them meanwhile."""

    @abstractmethod
    def _broadcast(self, array: Any, root: int) -> Any:
        """The array of rank `root`, as a new one."""

    @abstractmethod
    def _all_gather(self, array: Any, what: str = "all-gather") -> list[Any]:
        """Every rank's array, as new ones; they may differ in their first dimension. `what` is the call that
        this is part of, for errors.
        """

    # ------------------------------------------------------------------ reductions
    def start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        """Begin a reduction: straight into `target` where it has the layout and type of what is reduced."""
        array = host(source)
        work, work_op = reducible(array, reduce_op)
        is_plain = isinstance(target, np.ndarray) and target.flags.c_contiguous
        if work is array and is_plain and target.dtype == work.dtype:
            return self._start_all_reduce(work, target, work_op)
        if isinstance(source, np.ndarray) and np.may_share_memory(work, source):
            work = work.copy()  # the source keeps its value
        total = work.view(np.bool_) if array.dtype == np.bool_ else work
        request = self._start_all_reduce(work, work, work_op)
        return _CopiedReduction(request, lambda: _write(target, total))

    def all_reduce(self, value: Any, reduce_op: str) -> Any:
        """The reduction over all ranks, as a new array."""
        array = host(value)
        total = np.empty(array.shape, array.dtype)
        self.start_all_reduce(array, total, reduce_op).wait()
        return moved_to(value, total)

    def reduce(self, value: Any, reduce_op: str, root: int) -> Any:
        """The reduction for rank `root`, made of an all-reduce."""
        self.check_rank(root, "root")
        total = self.all_reduce(value, reduce_op)
        return total if self.rank == root else value

    def reduce_scatter(self, value: Any, reduce_op: str = "sum") -> Any:
        """This rank's rows of the reduction, made of an all-reduce."""
        self.check_shares(value)
        return self._rows_of(self.all_reduce(value, reduce_op))

    # ------------------------------------------------------------------ moving
    def broadcast(self, value: Any, root: int) -> Any:
        """The value of rank `root`, as a new array."""
        self.check_rank(root, "root")
        return moved_to(value, self._broadcast(_contiguous(value), root))

    def all_gather(self, value: Any) -> list[Any]:
        """Every rank's value."""
        return [moved_to(value, part) for part in self._all_gather(_contiguous(value))]

    def gather(self, value: Any, root: int) -> list[Any]:
        """Every rank's value for rank `root`, made of an all-gather."""
        self.check_rank(root, "root")
        found = self._all_gather(_contiguous(value), f"gather to {root}")
        return [moved_to(value, part) for part in found] if self.rank == root else []

    def all_to_all(self, parts: Sequence[Any]) -> list[Any]:
        """The parts for this rank, made of all-gathers of all parts."""
        self.check_parts(parts)
        arrays = [_contiguous(part) for part in parts]
        rows = np.array([len(array) for array in arrays], np.int64)
        starts = [np.cumsum(counts) - counts for counts in self._all_gather(rows, "sizes of an all-to-all")]
        found = self._all_gather(np.concatenate(arrays), "all-to-all")
        mine = [
            everything[begin[self.rank] :][: self._next(begin, len(everything))]
            for begin, everything in zip(starts, found, strict=True)
        ]
        return [moved_to(parts[0], part) for part in mine]

    def _next(self, starts: Any, rows: int) -> int:
        """The number of rows that a rank, whose parts begin at `starts` of `rows`, has for this one."""
        ends = [*starts.tolist()[1:], rows]
        return int(ends[self.rank] - starts[self.rank])

    def scatter(self, value: Any, root: int) -> Any:
        """This rank's rows of rank `root`'s value, made of a broadcast."""
        self.check_shares(value)
        return self._rows_of(self.broadcast(value, root))

    def barrier(self) -> None:
        """Return when all ranks have called it: each waits for an empty array of the others."""
        self._all_gather(np.zeros(0, np.int8), "barrier")

    def _rows_of(self, value: Any) -> Any:
        """This rank's share of the rows of a value."""
        rows = value.shape[0] // self.size
        return value[self.rank * rows : (self.rank + 1) * rows].copy()


class _CopiedReduction:
    """A reduction in an array of its own, which `copy` writes to the target when it is done."""

    def __init__(self, request: ReductionRequest, copy: Callable[[], None]) -> None:
        self.request = request
        self.copy = copy

    def poll(self) -> None:
        """Let the transport make progress."""
        self.request.poll()

    def wait(self) -> None:
        """Return once the result is in the target."""
        self.request.wait()
        self.copy()


def _contiguous(value: Any) -> Any:
    return np.require(host(value), requirements="C")


def moved_to(value: Any, result: Any) -> Any:
    """A result of the host, where `value` lies."""
    if isinstance(value, (np.ndarray, np.generic)):
        return result
    return on(array_module(CUDAPlace(0)), result)


def _write(target: Any, result: Any) -> None:
    """Write a result of the host over an array of the host or of a device."""
    if isinstance(target, np.ndarray):
        target[...] = result
    else:
        target.set(result.astype(target.dtype))
