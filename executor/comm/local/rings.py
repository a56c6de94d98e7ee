"""Rings of threads of one process: those who meet do the work together, in the order of the ranks, so that
results never depend on who came when.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.reduction import check_alike, part_of, reduce_part
from fluidlite.executor.comm.rings import BaseRing, Request
from fluidlite.values.tensor import host

if TYPE_CHECKING:
    from fluidlite.executor.comm.local.network import LocalSession

__all__ = ["LocalRing", "Meeting"]


class Meeting:
    """What the ranks bring to one call: (what, value, role) each, what each wants it written to, and how
    many are through.
    """

    def __init__(self, size: int) -> None:
        self.places: list[tuple[str, Any, str] | None] = [None] * size
        self.targets: list[Any] = [None] * size
        self.here = self.through = 0

    def complete(self) -> bool:
        """Whether all ranks have come."""
        return self.here == len(self.places)


class LocalRing(BaseRing):
    """Rank `rank` of a ring whose ranks are threads; `name` is what the threads call it."""

    def __init__(self, session: LocalSession, name: Hashable, ring_id: int, rank: int, size: int) -> None:
        super().__init__(ring_id, rank, size)
        self.session, self.name = session, name
        self.calls = 0
        self.sent: dict[tuple[int, int], int] = defaultdict(int)

    # ------------------------------------------------------------------ meeting
    def _come(self, what: str, value: Any, target: Any = None) -> tuple[Meeting, str]:
        """Be at the next meeting; the others come when they will."""
        network = self.session.network
        self.calls += 1
        with network.changed:
            meeting: Meeting = network.meetings.setdefault((self.name, self.calls), Meeting(self.size))
            if meeting.places[self.rank] is not None:
                raise CommunicatorError(f"two processes are rank {self.rank} of ring {self.ring_id}")
            meeting.places[self.rank] = (what, value, self.session.role)
            meeting.targets[self.rank] = target
            meeting.here += 1
            if meeting.complete():
                del network.meetings[self.name, self.calls]
                network.changed.notify_all()
        return meeting, f"the other ranks of ring {self.ring_id} ({what}, call {self.calls})"

    def _all(self, meeting: Meeting, what: str) -> list[Any]:
        """Every rank's value, once all have come."""
        with self.session.network.changed:
            self.session.wait(meeting.complete, what)
        places = [place for place in meeting.places if place is not None]
        check_alike(self.ring_id, places)
        return [value for _, value, _ in places]

    def _meet(self, what: str, value: Any) -> list[Any]:
        """Every rank's value, in order; nobody changes its own meanwhile, for all have copies of their
        own.
        """
        return self._all(*self._come(what, value.copy()))

    def _count(self, size: int) -> None:
        """Note what this rank would send to its neighbour, were the ring one of machines."""
        self.session.network.bytes[self.session.role, f"ring {self.ring_id}"] += size

    # ------------------------------------------------------------------ what BaseRing asks for
    def _start(self, source: Any, target: Any, how: str) -> Request:
        meeting, what = self._come(f"all-reduce {how}", source, target)
        self._count(source.nbytes * 2 * (self.size - 1) // self.size)
        return LocalReduction(self, meeting, how, what)

    def _broadcast(self, array: Any, root: int) -> Any:
        self._count(array.nbytes)
        return self._meet(f"broadcast from {root}", array)[root].copy()

    def _all_gather(self, array: Any) -> list[Any]:
        self._count(array.nbytes * (self.size - 1))
        return [part.copy() for part in self._meet("all-gather", array)]

    def send(self, value: Any, peer: int) -> None:
        """Put a value where rank `peer` takes it."""
        self.check_peer(peer)
        network = self.session.network
        with network.changed:
            network.answers[repr(self.name), f"{self.rank}>{peer}"].append(host(value).copy())
            network.changed.notify_all()

    def receive(self, peer: int) -> Any:
        """Take what rank `peer` put there."""
        self.check_peer(peer)
        network = self.session.network
        with network.changed:
            box = network.answers[repr(self.name), f"{peer}>{self.rank}"]
            self.session.wait(lambda: bool(box), f"rank {peer} of ring {self.ring_id} to send")
            return box.popleft()


class LocalReduction:
    """A reduction that was started: each rank puts a share of the elements together, for all, when it
    waits for anything.
    """

    def __init__(self, ring: LocalRing, meeting: Meeting, how: str, what: str) -> None:
        self.ring, self.meeting, self.how, self.what = ring, meeting, how, what
        self.shared = False
        ring.session.started.append(self)

    def poll(self) -> None:
        """Nothing goes on behind a thread's back."""

    def ready(self) -> bool:
        """Whether this rank can do its share."""
        return not self.shared and self.meeting.complete()

    def done(self) -> bool:
        """Whether all have done theirs."""
        return self.meeting.through == self.ring.size

    def share(self) -> None:
        """Do this rank's share."""
        self.shared = True
        sources = [source.reshape(-1) for source in self.ring._all(self.meeting, self.what)]
        targets = [target.reshape(-1) for target in self.meeting.targets]
        reduce_part(sources, targets, self.how, part_of(sources[0], self.ring.rank, self.ring.size))
        with self.ring.session.network.changed:
            self.meeting.through += 1
            if self.done():
                self.ring.session.network.changed.notify_all()

    def wait(self) -> None:
        """Return once every element of the target is there. Others may wait for another reduction first:
        they get this rank's share.
        """
        session = self.ring.session
        while not self.done():
            for other in [other for other in session.started if other.ready()]:
                other.share()
            with session.network.changed:
                session.wait(
                    lambda: self.done() or any(other.ready() for other in session.started), self.what
                )
        session.started = [other for other in session.started if not other.shared]
