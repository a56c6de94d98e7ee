"""What a trainer asks of its servers, so that a synchronous step costs one round trip.

After a barrier a program asks for the same parameters again and again. So the next barrier says beforehand
which ones it will ask for (WANT), and servers send each as soon as it is updated; a program that then asks
for something else gets that too.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message

__all__ = ["Requests", "Wanted"]


class Wanted(NamedTuple):
    """A variable of a server; `into` is an array that its value may be read into."""

    endpoint: str
    name: str
    into: Any = None


class Requests:
    """The questions of one thread. `session` sends them."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.asked: dict[str, dict[str, None]] = defaultdict(dict)  # since the last barrier, by server
        self.owed: dict[str, deque[str | None]] = {}  # answers that are on their way; None: to the barrier
        self.early: dict[tuple[str, str], Any] = {}  # answers that came before they were asked for

    def end_step(self, endpoints: Sequence[str], trainer: int) -> None:
        """All gradients are sent: have the servers update. Returns at once where parameters are asked for
        next, as they mostly are.
        """
        self.collect_all()
        self.early.clear()
        for endpoint in endpoints:
            names = self.asked.pop(endpoint, {})
            for name in names:
                self.session.post(endpoint, Message(Kind.WANT, trainer, name))
            self.session.post(endpoint, Message(Kind.BARRIER, trainer))
            self.owed[endpoint] = deque([*names, None])
        for endpoint in endpoints:
            if len(self.owed[endpoint]) == 1:
                self.collect(endpoint)

    def fetch(self, wanted: Sequence[Wanted], trainer: int) -> list[Any]:
        """The values of variables: those that are on their way, and the others asked for all at once."""
        asked = []
        for item in wanted:
            known = item.name in self.owed.get(item.endpoint, ()) or (item.endpoint, item.name) in self.early
            asked.append(not known)
            self.asked[item.endpoint][item.name] = None
            if not known:
                self.session.post(item.endpoint, Message(Kind.GET, trainer, item.name))
        return [
            self._answer(item.endpoint, item.into) if new else self._take(item)
            for item, new in zip(wanted, asked, strict=True)
        ]

    def _take(self, wanted: Wanted) -> Any:
        """A value that was asked for beforehand."""
        owed = self.owed.get(wanted.endpoint, deque())
        while (wanted.endpoint, wanted.name) not in self.early:
            name = owed.popleft()
            value = self._answer(wanted.endpoint, wanted.into if name == wanted.name else None)
            if name == wanted.name:
                return value
            if name is not None:
                self.early[wanted.endpoint, name] = value
        return self.early.pop((wanted.endpoint, wanted.name))

    def collect(self, endpoint: str) -> None:
        """Read what a server still owes: other questions come after it."""
        owed = self.owed.pop(endpoint, None)
        while owed:
            name = owed.popleft()
            value = self._answer(endpoint)
            if name is not None:
                self.early[endpoint, name] = value

    def collect_all(self) -> None:
        """Read what all servers still owe: the step is over when this returns."""
        for endpoint in list(self.owed):
            self.collect(endpoint)

    def _answer(self, endpoint: str, into: Any = None) -> Any:
        try:
            return self.session.link.answer(endpoint, into)
        except CommunicatorError:
            self.owed.clear()
            self.early.clear()
            self.asked.clear()
            raise
