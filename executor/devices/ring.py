"""Rings of the devices of one process: they share memory, so each sums its piece of everybody's buffers."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.links import ServerLink
from fluidlite.executor.comm.reduction import call_text, part_of, reduce_part
from fluidlite.executor.comm.rings import HostRing, ReductionRequest, Ring
from fluidlite.executor.comm.session import Pace, Session
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.transports import process_session
from fluidlite.executor.comm.wire import Incoming

__all__ = ["DeviceRing", "DeviceSession", "DeviceBarrier", "Stopped"]

_NO_PEERS = "the devices of one process cannot send to each other, because every device runs the same program"
LEAST_PIECE = 4096  # elements from which it pays that every device sums a piece of its own


class Stopped(CommunicatorError):
    """This device was waiting when another one failed: the other's error is the one to raise."""


class _Contribution(NamedTuple):
    """A device's part in a collective call: `call` names it, and must be the same on all devices."""

    call: str
    source: Any
    target: Any = None  # the array that gets the result
    reduce_op: str = ""


class DeviceBarrier:
    """A barrier of the threads of all devices, with a time limit on every wait, and boards for what they
    bring to a ring.

    In each round a device tells one other that it and all those it has heard of are there; after
    log2(devices) rounds all know.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self.count = count
        self.seconds = seconds
        self.doing = [""] * count  # the op that each device waits in
        self.at_barrier = [False] * count  # for each device whether it does what was posted at a barrier
        self._boards: dict[int, list[list[_Contribution]]] = {}
        self._open()

    def _open(self) -> None:
        steps = [1 << number for number in range((self.count - 1).bit_length())]
        self._rounds: list[tuple[int, list[queue.SimpleQueue[bool]]]] = [
            (step, [queue.SimpleQueue() for _ in range(self.count)]) for step in steps
        ]

    def wait(self, rank: int) -> None:
        """Return when all devices have called this; Stopped where one has failed, CommunicatorError where
        one does not come.
        """
        for step, boxes in self._rounds:
            # a queue for each device and round: a `put` wakes the one thread that waits there and no others
            boxes[(rank + step) % self.count].put(True)
            try:
                going_on = boxes[rank].get(timeout=self.seconds)
            except queue.Empty:
                raise CommunicatorError(self._late(rank), names_op=True) from None
            if not going_on:
                raise Stopped(f"device {rank} was stopped because another one failed")

    def board(self, ring_id: int) -> list[list[_Contribution]]:
        """Of each device, what it has brought to a ring and not all have used."""
        # the devices ask at the same time: `setdefault` gives all the one that came first
        return self._boards.setdefault(ring_id, [[] for _ in range(self.count)])

    def _late(self, rank: int) -> str:
        others = "; ".join(
            f"device {index} waits in {what}" if what else f"device {index} is not in a communication op"
            for index, what in enumerate(self.doing)
            if index != rank
        )
        return (
            f"waited for {self.seconds:.0f} s for the other devices: {others} "
            "(FLAGS_rpc_deadline is the limit)"
        )

    def stop(self) -> None:
        """Let all who wait, now or later, raise Stopped."""
        for _, boxes in self._rounds:
            for box in boxes:
                for _ in range(2):
                    box.put(False)

    def clear(self) -> None:
        """Forget a run that was stopped; nobody may be waiting."""
        self._open()
        self._boards.clear()
        self.doing = [""] * self.count


class _Posted:
    """A reduction of which this device has brought its part."""

    def __init__(self, ring: DeviceRing, number: int) -> None:
        self.ring = ring
        self.number = number

    def wait(self) -> None:
        """Return once the result is there."""
        self.ring.finish(self.number)

    def poll(self) -> None:
        """Do nothing: the devices reduce when all of them wait."""


class DeviceRing(HostRing):
    """The ranks are the devices of this process. `outer` is the ring of the processes, where there are
    several.
    """

    def __init__(
        self,
        together: DeviceBarrier,
        ring_id: int,
        rank: int,
        doing: Callable[[], str],
        outer: Ring | None = None,
    ) -> None:
        super().__init__(ring_id, rank, together.count)
        self.together = together
        self.doing = doing
        self.outer = outer
        self.board = together.board(ring_id)
        self.posted = self.finished = 0

    def _meet(self) -> None:
        self.together.doing[self.rank] = self.doing() or f"ring {self.ring_id}"
        self.together.wait(self.rank)

    def _leave(self) -> None:
        """Wait until all devices have read what was brought, and take this device's part away."""
        self.together.wait(self.rank)
        self.together.doing[self.rank] = ""
        del self.board[self.rank][0]

    # ------------------------------------------------------------------ reductions
    def _start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        call = call_text(f"all-reduce {reduce_op}", source)
        self.board[self.rank].append(_Contribution(call, source, target, reduce_op))
        self.posted += 1
        return _Posted(self, self.posted)

    def finish(self, number: int, at_barrier: bool = False) -> bool:
        """Do what was posted, one after the other, up to number `number`: devices may wait for it at
        different ops. True if the last of it was done by all devices at a barrier.
        """
        all_at_barrier = False
        while self.finished < number:
            self.together.at_barrier[self.rank] = at_barrier and self.finished + 1 == number
            self._meet()
            # read before any device leaves, and so before any of them writes it again
            all_at_barrier = all(self.together.at_barrier)
            brought = self._brought()
            reduce_op = brought[0].reduce_op
            sources = [each.source.reshape(-1) for each in brought]
            targets = [each.target.reshape(-1) for each in brought]
            if self.outer is None:
                self._reduce(sources, targets, reduce_op)
            else:
                self._reduce_further(sources, targets, reduce_op, self.outer)
            self.finished += 1
            self._leave()
        return all_at_barrier

    def _reduce(self, sources: list[Any], targets: list[Any], reduce_op: str) -> None:
        """This device's piece, for everybody; of a small array all of it, by the first."""
        size = sources[0].size
        # everybody's buffers are in reach, so each device sums one piece straight into all results
        if size >= LEAST_PIECE:
            reduce_part(sources, targets, reduce_op, part_of(sources[0], self.rank, self.size))
        elif self.rank == 0:
            reduce_part(sources, targets, reduce_op, slice(0, size))

    def _reduce_further(self, sources: list[Any], targets: list[Any], reduce_op: str, outer: Ring) -> None:
        """The sum of the devices, then that of the processes, which device 0 talks to."""
        self._reduce(sources, targets[:1], reduce_op)
        self.together.wait(self.rank)
        if self.rank == 0:
            targets[0][...] = outer.all_reduce(targets[0], reduce_op)
        self.together.wait(self.rank)
        if self.rank > 0:
            np.copyto(targets[self.rank], targets[0])

    def _brought(self) -> list[_Contribution]:
        """The first contribution of each device; CommunicatorError where these are not to the same call."""
        brought = [waiting[0] for waiting in self.board]
        if any(each.call != brought[0].call for each in brought):
            texts = "; ".join(f"device {index} wants {each.call}" for index, each in enumerate(brought))
            raise CommunicatorError(f"the devices do not agree: {texts}")
        return brought

    def reduce(self, value: Any, reduce_op: str, root: int) -> Any:
        """The reduction for device `root`; the others get what they gave."""
        if self.outer is not None or not isinstance(value, np.ndarray):
            return super().reduce(value, reduce_op, root)
        self.check_rank(root, "root")
        found = np.empty_like(value, order="C")

        def into_found(values: list[Any]) -> None:
            if self.rank == root:
                reduce_part(values, [found.reshape(-1)], reduce_op, slice(0, value.size))

        call = call_text(f"reduce {reduce_op}", value)
        self._exchange(call, np.ascontiguousarray(value).reshape(-1), into_found)
        return found if self.rank == root else value

    # ------------------------------------------------------------------ moving
    def _exchange(self, call: str, value: Any, use: Callable[[list[Any]], Any]) -> Any:
        """`use` of all devices' values, which stay as they are meanwhile."""
        self.finish(self.posted)
        self.board[self.rank].append(_Contribution(call, value))
        self._meet()
        found = use([each.source for each in self._brought()])
        self._leave()
        return found

    def _broadcast(self, array: Any, root: int) -> Any:
        found = self._exchange(f"broadcast from {root}", array, lambda values: values[root].copy())
        return found if self.outer is None else self._from_first(lambda outer: outer.broadcast(found, 0))

    def _all_gather(self, array: Any, what: str = "all-gather") -> list[Any]:
        found: list[Any] = self._exchange(what, array, lambda values: [value.copy() for value in values])
        if self.outer is None:
            return found
        heard: list[Any] = self._from_first(lambda outer: outer.all_gather(np.concatenate(found)))
        return heard

    def _from_first(self, talk: Callable[[Ring], Any]) -> Any:
        """The result of device 0's talk with the other processes, for every device."""
        assert self.outer is not None
        heard = talk(self.outer) if self.rank == 0 else None
        return self._exchange("a message of the other processes", heard, lambda values: values[0])

    def barrier(self) -> None:
        """Return when all devices have come here, and everything that was posted is done."""
        # the last reduction has brought all together, unless one of them needed it before it came here
        if not self.finish(self.posted, at_barrier=True):
            self._exchange("barrier", None, lambda _: None)

    def send(self, value: Any, peer: int) -> None:
        """CommunicatorError: the devices of one process run the same program."""
        raise CommunicatorError(_NO_PEERS)

    def receive(self, peer: int) -> Any:
        """CommunicatorError: the devices of one process run the same program."""
        raise CommunicatorError(_NO_PEERS)


class _Rings(dict[int, Ring]):
    """Rings by number, each made when it is first used: the devices of a process need not join one."""

    def __init__(self, make: Callable[[int], Ring]) -> None:
        super().__init__()
        self.make = make

    def __contains__(self, ring_id: object) -> bool:
        return True

    def __missing__(self, ring_id: int) -> Ring:
        self[ring_id] = found = self.make(ring_id)
        return found


class DeviceSession(Session):
    """The connections of one device: rings of all devices, and beyond them those of its process."""

    pace = Pace.COUNT

    def __init__(self, together: DeviceBarrier, rank: int, outer: Session | None = None) -> None:
        super().__init__(outer.link_or_none if outer is not None else None)
        self.together = together
        self.rank = rank
        self.outer = outer
        self.rings = _Rings(self._make)

    @property
    def server_session(self) -> Session:
        """The session of the process: servers know its trainer, not the devices of that."""
        found = self.outer or process_session(needs_servers=True)
        assert found is not None
        return found

    def _make(self, ring_id: int) -> Ring:
        """The ring of all devices, and of those of the other processes where the process has joined a ring
        of that number.
        """
        beyond = self.outer.rings.get(ring_id) if self.outer is not None else None
        return DeviceRing(self.together, ring_id, self.rank, self._doing, beyond)

    def finish(self) -> None:
        """Do what was posted and nobody on this device waited for."""
        for ring in self.rings.values():
            if isinstance(ring, DeviceRing):
                ring.finish(ring.posted)

    def _doing(self) -> str:
        op = self.current_op
        return "" if op is None else f"op {op.type!r}, built at {op.where}"

    def join_devices(self, ring_id: int) -> None:
        """The devices are joined already."""

    def listen(self, endpoint: str, terms: Terms, check: Callable[[Incoming], None]) -> ServerLink:
        """CommunicatorError: a server is a process."""
        raise CommunicatorError(f"a device of a process cannot be the server at {endpoint}")
