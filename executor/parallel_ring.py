"""How the devices of one process reduce together: they share memory, so each sums its piece of everybody's buffers."""
from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.reduction import REDUCE
from fluidlite.executor.comm.rings import BaseRing, Done, Request
from fluidlite.executor.comm.session import Session
from fluidlite.tensor import on

__all__ = ["DeviceRing", "DeviceSession", "Meeting", "Stopped"]

LEAST_PIECE = 4096            # elements from which it pays that every device sums a piece of its own


class Stopped(CommunicatorError):
    """This device was waiting when another one failed: the other's error is the one to raise."""


class Meeting:
    """Where the threads of all devices meet: nobody leaves before everybody has come, and a time limit ends every wait.

    Each round a device tells one other that it and all those it has heard of are there; after log2(devices) rounds all know.
    """

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds
        self.places: list[tuple[str, Any, Any]] = [("", None, None)] * count      # what for, and the arrays, of each device
        self.doing: list[str] = [""] * count
        steps = [1 << number for number in range(max(count - 1, 0).bit_length())]
        self._rounds = [(step, [queue.SimpleQueue[bool]() for _ in range(count)]) for step in steps]

    def wait(self, rank: int) -> None:
        """Return when all devices have called this; Stopped where one has failed, CommunicatorError where one does not come."""
        for step, boxes in self._rounds:
            boxes[(rank + step) % self.count].put(True)
            try:
                going_on = boxes[rank].get(timeout=self.seconds)
            except queue.Empty:
                raise CommunicatorError(self._late(rank)) from None
            if not going_on:
                raise Stopped(f"device {rank} was stopped because another one failed")

    def _late(self, rank: int) -> str:
        others = "; ".join(f"device {index} is {'in ' + what if what else 'in no op that communicates'}"
                           for index, what in enumerate(self.doing) if index != rank)
        return (f"device {rank} has waited for {self.seconds:.0f} s in {self.doing[rank]} for the other devices: {others} "
                "(FLAGS_rpc_deadline is the limit)")

    def stop(self) -> None:
        """Let all who wait, now or later, raise Stopped."""
        for _, boxes in self._rounds:
            for box in boxes:
                for _ in range(2):
                    box.put(False)

    def clear(self) -> None:
        """Forget a run that was stopped; nobody may be waiting."""
        self._rounds = [(step, [queue.SimpleQueue() for _ in range(self.count)]) for step, _ in self._rounds]
        self.places = [("", None, None)] * self.count

    def gather(self, rank: int, what: str, source: Any, target: Any = None) -> list[tuple[str, Any, Any]]:
        """What each device has brought; CommunicatorError where they are not here for the same thing."""
        self.places[rank] = (what, source, target)
        self.wait(rank)
        places = self.places
        for index, place in enumerate(places):
            if place[0] != what:
                raise CommunicatorError(f"the devices do not agree: device {rank} is in {what}, device {index} in {place[0]}")
        return places


def _flat(array: Any) -> Any:
    return array.reshape(-1)


def _sum_pieces(places: Sequence[tuple[str, Any, Any]], rank: int, how: str) -> None:
    """Reduce this device's piece of all sources into the first target."""
    size = places[0][1].size
    count = len(places) if size >= LEAST_PIECE else 1
    if rank >= count:
        return
    piece = slice(rank * size // count, (rank + 1) * size // count)
    sources = [_flat(source)[piece] for _, source, _ in places]
    out = _flat(places[0][2])[piece]
    if len(sources) == 1:
        np.copyto(out, sources[0])
    for index, source in enumerate(sources[1:]):
        REDUCE[how](sources[0] if index == 0 else out, source, out=out)


def _spread_pieces(places: Sequence[tuple[str, Any, Any]], rank: int) -> None:
    """Copy this device's piece of the first target into the others."""
    size = places[0][1].size
    count = len(places) if size >= LEAST_PIECE else 1
    if rank >= count:
        return
    piece = slice(rank * size // count, (rank + 1) * size // count)
    for _, _, target in places[1:]:
        np.copyto(_flat(target)[piece], _flat(places[0][2])[piece])


class DeviceRing(BaseRing):
    """The ranks are the devices of this process. `outer` is the ring of the processes, where there are several."""

    def __init__(self, meeting: Meeting, rank: int, xp: Any, doing: Callable[[], str], outer: BaseRing | None = None) -> None:
        super().__init__(0 if outer is None else outer.ring_id, rank, meeting.count)
        self.meeting, self.xp, self.doing, self.outer = meeting, xp, doing, outer

    def _meet(self, what: str, source: Any, target: Any = None) -> list[tuple[str, Any, Any]]:
        self.meeting.doing[self.rank] = self.doing() or what
        if self.xp is not np:
            self.xp.cuda.get_current_stream().synchronize()
        return self.meeting.gather(self.rank, what, source, target)

    def _leave(self) -> None:
        """Nobody changes what others may still read before all have gone."""
        if self.xp is not np:
            self.xp.cuda.get_current_stream().synchronize()
        self.meeting.wait(self.rank)
        self.meeting.doing[self.rank] = ""

    def start_all_reduce(self, source: Any, target: Any, how: str) -> Request:
        """The reduction, done at once: the devices come here at the same time."""
        self.all_reduce_into(source, target, how)
        return Done()

    def barrier(self) -> None:
        """Return when all devices have come here."""
        self.all_gather(self.xp.zeros(1))

    def all_reduce_into(self, source: Any, target: Any, how: str) -> None:
        """The reduction over all devices, taken in their order, into `target`, which may be `source` itself."""
        if self.xp is not np or not (source.flags.c_contiguous and target.flags.c_contiguous):
            target[...] = self.all_reduce(source, how)
            return
        places = self._meet(f"all-reduce {how} of {source.dtype}{list(source.shape)}", source, target)
        _sum_pieces(places, self.rank, how)
        if self.outer is not None:
            self.meeting.wait(self.rank)
            if self.rank == 0:
                target[...] = self.outer.all_reduce(target, how)
            self.meeting.wait(self.rank)
        _spread_pieces(places, self.rank)
        self._leave()

    def all_reduce(self, value: Any, how: str) -> Any:
        """The reduction over all devices, taken in their order."""
        places = self._meet(f"all-reduce {how} of {value.dtype}{list(value.shape)}", value)
        total = on(self.xp, places[0][1]).copy()
        for _, other, _ in places[1:]:
            getattr(self.xp, REDUCE[how].__name__)(total, self.xp.asarray(other), out=total)
        self._leave()
        return total if self.outer is None else self._through_first(lambda ring: ring.all_reduce(total, how))

    def _through_first(self, talk: Callable[[BaseRing], Any]) -> Any:
        """What device 0 hears from the other processes, for every device."""
        assert self.outer is not None
        heard = talk(self.outer) if self.rank == 0 else None
        value = self._meet("news of the other processes", heard)[0][1]
        value = [item.copy() for item in value] if isinstance(value, list) else self.xp.array(value)
        self._leave()
        return value

    def reduce(self, value: Any, how: str, root: int) -> Any:
        """The reduction for device `root`; the others keep what they have."""
        places = self._meet(f"reduce {how} of {value.dtype}{list(value.shape)} to {root}", value)
        total = value
        if self.rank == root:
            total = places[0][1].copy() if self.xp is np else self.xp.array(places[0][1])
            for _, other, _ in places[1:]:
                getattr(self.xp, REDUCE[how].__name__)(total, self.xp.asarray(other), out=total)
        self._leave()
        return total

    def broadcast(self, value: Any, root: int) -> Any:
        """The value of device `root`."""
        places = self._meet(f"broadcast from {root}", value)
        found = value if self.rank == root else self.xp.array(places[root][1])
        self._leave()
        return found

    def all_gather(self, value: Any) -> list[Any]:
        """Every device's value, those of each process together."""
        places = self._meet("all-gather", value)
        found = [self.xp.array(place[1]) for place in places]
        self._leave()
        if self.outer is None:
            return found
        whole, sizes = self.xp.concatenate(found), self.xp.asarray([len(item) for item in found])
        heard: list[Any] = self._through_first(lambda ring: [ring.all_gather(whole), ring.all_gather(sizes)][0])
        return heard

    def send(self, value: Any, peer: int) -> None:
        """Devices of one process do not send to each other: CommunicatorError."""
        raise CommunicatorError("the devices of one process have no send and receive: every device runs the same program")

    def receive(self, peer: int) -> Any:
        """Devices of one process do not receive from each other: CommunicatorError."""
        raise CommunicatorError("the devices of one process have no send and receive: every device runs the same program")


class DeviceSession(Session):
    """The connections of one device: rings of all devices, and beyond them those of its process."""

    def __init__(self, meeting: Meeting, rank: int, xp: Any, outer: Session | None = None) -> None:
        super().__init__(outer.link_or_none if outer is not None else None)
        self.meeting, self.rank, self.xp, self.outer = meeting, rank, xp, outer
        self.devices: dict[int, DeviceRing] = {}

    def ring(self, ring_id: int) -> DeviceRing:
        """The ring of all devices, and of those of the other processes where the process has joined a ring of that number."""
        found = self.devices.get(ring_id)
        if found is None:
            beyond = self.outer.rings.get(ring_id) if self.outer is not None else None
            found = self.devices[ring_id] = DeviceRing(self.meeting, self.rank, self.xp, self._doing, beyond)
        return found

    def _doing(self) -> str:
        return f"op {self.doing.type!r}, built at {self.doing.where}" if self.doing is not None else ""

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        """Let the process join, once for all devices."""
        if self.outer is None:
            super().join(ring_id, rank, size, name)
        elif self.rank == 0:
            self.outer.join(ring_id, rank, size, name)
            self.devices.pop(ring_id, None)

    def join_devices(self, ring_id: int) -> None:
        """The devices are joined already."""
