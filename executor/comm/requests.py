"""The questions of a trainer to its servers, arranged so that a synchronous step costs one round trip.

After a barrier a program asks for the same parameters again and again. So the next barrier says beforehand
which ones it will ask for (WANT), and servers send each as soon as it is updated; a program that then asks
for something else gets that too.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.ir.operator import Operator

__all__ = ["Requests", "Wanted", "wanted_by"]

Post: TypeAlias = "Callable[[str, Message], None]"
Answer: TypeAlias = "Callable[[str, Any], Any]"


class Wanted(NamedTuple):
    """A variable of a server; `into` is an array that its value may be read into."""

    endpoint: str
    name: str
    into: Any = None


def wanted_by(op: Operator) -> list[Wanted]:
    """The variables of servers that a `recv` asks for."""
    names = op.attrs["recv_varnames"] or op.output("Out")
    return [Wanted(*pair) for pair in zip(op.attrs["epmap"], names, strict=True)]


class Requests:
    """The questions of one thread, which `post` sends and `answer` reads the answers to."""

    def __init__(self, post: Post, answer: Answer) -> None:
        self._post = post
        self._answer_of = answer
        self._asked: dict[str, dict[str, None]] = defaultdict(dict)  # since the last barrier, by server
        self._owed: dict[str, deque[str | None]] = {}  # answers that are on their way; None: to the barrier
        self._early: dict[tuple[str, str], Any] = {}  # answers that came before they were asked for

    def end_step(self, endpoints: Sequence[str], trainer: int) -> None:
        """All gradients are sent: have the servers update. Returns at once where parameters are asked for
        next, as they mostly are.
        """
        self.collect_all()
        self._early.clear()
        for endpoint in endpoints:
            names = self._asked.pop(endpoint, {})
            for name in names:
                self._post(endpoint, Message(Kind.WANT, trainer, name))
            self._post(endpoint, Message(Kind.BARRIER, trainer))
            self._owed[endpoint] = deque([*names, None])
        for endpoint in endpoints:
            if len(self._owed[endpoint]) == 1:
                self.collect(endpoint)

    def fetch(self, wanted: Sequence[Wanted], trainer: int, again: bool = True) -> list[Any]:
        """The values of variables: those that are on their way, and the others asked for all at once. Those
        that are needed `again` come with the end of the step.
        """
        is_new = []
        for item in wanted:
            known = (
                item.name in self._owed.get(item.endpoint, ()) or (item.endpoint, item.name) in self._early
            )
            is_new.append(not known)
            if again:
                self._asked[item.endpoint][item.name] = None
            if not known:
                self._post(item.endpoint, Message(Kind.GET, trainer, item.name))
        return [
            self._answer(item.endpoint, item.into) if new else self._take(item)
            for item, new in zip(wanted, is_new, strict=True)
        ]

    def _take(self, wanted: Wanted) -> Any:
        """A value that was asked for beforehand."""
        owed = self._owed.get(wanted.endpoint, deque())
        while (wanted.endpoint, wanted.name) not in self._early:
            name = owed.popleft()
            value = self._answer(wanted.endpoint, wanted.into if name == wanted.name else None)
            if name == wanted.name:
                return value
            if name is not None:
                self._early[wanted.endpoint, name] = value
        return self._early.pop((wanted.endpoint, wanted.name))

    def collect(self, endpoint: str) -> None:
        """Read what a server still owes, before it is asked something else."""
        owed = self._owed.pop(endpoint, None)
        while owed:
            name = owed.popleft()
            value = self._answer(endpoint)
            if name is not None:
                self._early[endpoint, name] = value

    def collect_all(self) -> None:
        """Read what all servers still owe: the step is over when this returns."""
        for endpoint in list(self._owed):
            self.collect(endpoint)

    def _answer(self, endpoint: str, into: Any = None) -> Any:
        try:
            return self._answer_of(endpoint, into)
        except CommunicatorError:
            # the connection is of no use any more: what was on its way does not come
            self._owed.clear()
            self._early.clear()
            self._asked.clear()
            raise
