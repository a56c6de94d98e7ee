"""What the rings of all transports have in common: types that a transport cannot add, and operations made
of simpler ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from fluidlite.base.errors import CommunicatorError, ShapeError
from fluidlite.executor.comm.reduction import reducible
from fluidlite.values.tensor import host, on

__all__ = ["BaseRing", "Done", "Request"]


class Request(Protocol):
    """A reduction that was started."""

    def wait(self) -> None:
        """Return once the result is there; CommunicatorError where it cannot come, or not within the time
        limit.
        """

    def poll(self) -> None:
        """Let the transport get on with it."""


class Done:
    """A request that has nothing left to do."""

    def wait(self) -> None:
        """The result is there."""

    def poll(self) -> None:
        """There is nothing to get on with."""


class Then:
    """A request whose result has to be brought where it belongs."""

    def __init__(self, request: Request, finish: Callable[[], None]) -> None:
        self.request, self.finish = request, finish
        self.poll = request.poll

    def wait(self) -> None:
        """Return once the result is in its place."""
        self.request.wait()
        self.finish()


class BaseRing:
    """Ranks 0 to size - 1 that do the same things in the same order. Arrays may be of any memory layout, and
    live on a device.

    A transport defines `_start`, `_broadcast`, `_all_gather`, `send` and `receive` for contiguous arrays on
    the host.
    """

    on_device = False  # whether arrays of a device stay there

    def __init__(self, ring_id: int, rank: int, size: int) -> None:
        self.ring_id, self.rank, self.size = ring_id, rank, size

    # ------------------------------------------------------------------ what a transport does
    def _start(self, source: Any, target: Any, how: str) -> Request:
        """Begin to put the sources of all ranks together into `target`, which may be `source`; both stay
        untouched until then.
        """
        raise AssertionError

    def _broadcast(self, array: Any, root: int) -> Any:
        """The array of rank `root`."""
        raise AssertionError

    def _all_gather(self, array: Any) -> list[Any]:
        """Every rank's array; they may differ in their first dimension."""
        raise AssertionError

    # ------------------------------------------------------------------ reductions
    def start_all_reduce(self, source: Any, target: Any, how: str) -> Request:
        """Begin a reduction ("sum", "max", "min", "prod") into `target`; both belong to the ring until
        `wait` has returned.
        """
        array = host(source)
        work, meant = reducible(array, how)
        if (
            work is array
            and isinstance(target, np.ndarray)
            and target.flags.c_contiguous
            and target.dtype == work.dtype
        ):
            return self._start(work, target, meant)
        if isinstance(source, np.ndarray) and np.may_share_memory(work, source):
            work = work.copy()
        total = work.view(np.bool_) if array.dtype == np.bool_ else work
        return Then(self._start(work, work, meant), lambda: _put(target, total))

    def all_reduce(self, value: Any, how: str) -> Any:
        """The reduction over all ranks, as a new array."""
        found = host(value)
        total = np.empty(found.shape, found.dtype)
        self.start_all_reduce(found, total, how).wait()
        return _like(value, total)

    def reduce(self, value: Any, how: str, root: int) -> Any:
        """The reduction for rank `root`; the others get what they gave."""
        self.check_rank(root, "root")
        total = self.all_reduce(value, how)
        return total if self.rank == root else value

    def reduce_scatter(self, value: Any) -> Any:
        """This rank's part of the sum."""
        self.check_shares(value)
        return self.share(self.all_reduce(value, "sum"))

    # ------------------------------------------------------------------ moving
    def broadcast(self, value: Any, root: int) -> Any:
        """The value of rank `root`, as a new array."""
        self.check_rank(root, "root")
        return _like(value, self._broadcast(_contiguous(value), root))

    def all_gather(self, value: Any) -> list[Any]:
        """Every rank's value; they may differ in their first dimension."""
        return [_like(value, part) for part in self._all_gather(_contiguous(value))]

    def scatter(self, value: Any, root: int) -> Any:
        """This rank's part of what rank `root` has."""
        self.check_shares(value)
        return self.share(self.broadcast(value, root))

    def barrier(self) -> None:
        """Return when all ranks have come here."""
        self._all_gather(np.zeros(0, np.int8))

    def send(self, value: Any, peer: int) -> None:
        """Give a value to rank `peer`, which takes it when it will."""
        raise AssertionError

    def receive(self, peer: int) -> Any:
        """The next value from rank `peer`."""
        raise AssertionError

    # ------------------------------------------------------------------ guards
    def check_rank(self, rank: int, what: str) -> None:
        """CommunicatorError where there is no such rank."""
        if not 0 <= rank < self.size:
            raise CommunicatorError(
                f"{what} {rank} is none of the ranks of ring {self.ring_id}, which are 0 to {self.size - 1}"
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
                f"X is {value.dtype}{list(value.shape)}, whose rows the {self.size} ranks of ring "
                f"{self.ring_id} cannot "
                "share evenly"
            )

    def share(self, value: Any) -> Any:
        """This rank's rows of a value."""
        rows = value.shape[0] // self.size
        return value[self.rank * rows : (self.rank + 1) * rows].copy()


def _contiguous(value: Any) -> Any:
    return np.require(host(value), requirements="C")


def _like(value: Any, found: Any) -> Any:
    """What a ring made on the host, where `value` is."""
    return found if isinstance(value, np.ndarray) else on(_module_of(value), found)


def _module_of(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return np
    import cupy

    return cupy


def _put(target: Any, found: Any) -> None:
    """Write a result of the host over an array, wherever that is."""
    if isinstance(target, np.ndarray):
        target[...] = found
    else:
        target.set(found.astype(target.dtype))
