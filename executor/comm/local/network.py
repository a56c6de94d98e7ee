"""A whole job in one process: a thread for each role, and mailboxes between them.

A wait that can never end is found at once, and the error says who waits for what. With a `TurnScheduler` one
role runs at a time, and every run of the same job is the same.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Container, Hashable
from typing import Any, NamedTuple, TypeAlias

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message

__all__ = ["JobEvent", "LocalNetwork", "LocalRole", "TurnScheduler"]

WaitedFor: TypeAlias = "str | Callable[[], str]"  # a function where the text takes time to make


class _Wait(NamedTuple):
    """A role's wait: whether it can end, what it is for, and whether a time limit ends it."""

    can_go_on: Callable[[], bool]
    waited_for: WaitedFor
    has_limit: bool


class JobEvent(NamedTuple):
    """A message that the server at `endpoint` took from a role, about the variable `name`. Without a kind:
    the role, a trainer, begins a step. `rows` are the ids that it asks for, where it asks for rows.
    """

    endpoint: str
    role: str
    kind: Kind | None
    name: str
    rows: tuple[int, ...] | None = None


def _text_of(waited_for: WaitedFor) -> str:
    return waited_for if isinstance(waited_for, str) else waited_for()


class TurnScheduler:
    """Chooses the role that runs next wherever one communicates or waits: the next one in their order that
    can go on, or, with a seed, one of those drawn at random.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.order: list[str] = []
        self.holder = ""
        self.random = None if seed is None else random.Random(seed)

    def enter(self, role: str) -> None:
        """A role takes part; the first one has the first turn."""
        self.order.append(role)
        self.holder = self.holder or role

    def pass_on(self, ready: Container[str]) -> None:
        """Give the turn to one of the roles that can go on; it stays where it is when none can."""
        start = self.order.index(self.holder) + 1
        found = [role for role in (*self.order[start:], *self.order[:start]) if role in ready]
        if found:
            self.holder = found[0] if self.random is None else self.random.choice(found)


class LocalNetwork:
    """The mailboxes of all roles, under the lock of `changed`; counts the bytes of each link.

    Attributes
    ----------
    inbox: messages to the server at an endpoint, each with its sender.
    answers: of a server to a role, by (role, endpoint).
    rank_values: values from one rank of a ring to another, by (ring, sender, receiver).
    ring_calls: the collective calls that not all ranks have made yet, by (ring, number of the call).
    ring_names: names of rings, by (endpoints of the members, rank that takes it).
    events: with a scheduler, the messages in the order in which servers took them, and trainers' steps.
    bytes: sent so far, by (sender, receiver); of collective calls by (role, ring).
    """

    def __init__(self, turns: TurnScheduler | None = None) -> None:
        self.turns = turns
        self.changed = threading.Condition()
        self.inbox: dict[str, deque[tuple[tuple[str, str], Message]]] = defaultdict(deque)
        self.answers: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self.rank_values: dict[tuple[Hashable, int, int], deque[Any]] = defaultdict(deque)
        self.ring_calls: dict[tuple[Hashable, int], Any] = {}
        self.ring_names: dict[tuple[tuple[str, ...], int], deque[bytes]] = defaultdict(deque)
        self.roles: list[str] = []
        self.serving: dict[str, str] = {}  # endpoint -> role
        self.failure: str | None = None
        self.events: list[JobEvent] = []
        self.bytes: dict[tuple[str, str], int] = defaultdict(int)
        self._alive: set[str] = set()
        self._waiting: dict[str, _Wait] = {}
        self._last: dict[str, dict[str, JobEvent]] = defaultdict(dict)  # by server and trainer

    # ------------------------------------------------------------------ roles
    def enter(self, role: str) -> None:
        """A role takes part from now on."""
        self._alive.add(role)
        self.roles.append(role)
        if self.turns is not None:
            self.turns.enter(role)

    def begin(self, role: str) -> None:
        """Return when it is this role's first turn."""
        with self.changed:
            self.changed.wait_for(lambda: self._has_turn(role))

    def leave(self, role: str, failure: str | None = None) -> None:
        """A role has ended, well or with an error; those that wait for it hear of it."""
        with self.changed:
            self._alive.discard(role)
            if failure is not None and self.failure is None:
                self.failure = f"{role} failed: {failure}"
            self._look_for_deadlock()
            self._pass_turn(role)
            self.changed.notify_all()

    # ------------------------------------------------------------------ waiting
    def wait(
        self, role: str, ready: Callable[[], bool], waited_for: WaitedFor, within: float | None = None
    ) -> bool:
        """With the lock held: True when `ready()`, False after `within` seconds; CommunicatorError when it
        can never be.
        """
        end = None if within is None else time.monotonic() + within

        def can_go_on() -> bool:
            return ready() or (end is not None and time.monotonic() >= end)

        self._waiting[role] = _Wait(can_go_on, waited_for, has_limit=end is not None)
        self._look_for_deadlock()
        self._pass_turn(role)
        try:
            while not (can_go_on() and self._has_turn(role)):
                if self.failure is not None:
                    text = f"{role} waits for {_text_of(waited_for)}, but {self.failure}"
                    raise CommunicatorError(text, names_op=True)
                self.changed.wait(None if end is None else max(0.0, end - time.monotonic()))
        finally:
            del self._waiting[role]
        return ready()

    def pause(self, role: str) -> None:
        """With the lock held: let other roles have their turn."""
        if self.turns is not None:
            self.wait(role, lambda: True, "its turn")

    def _has_turn(self, role: str) -> bool:
        return self.turns is None or self.turns.holder == role or self.failure is not None

    def _pass_turn(self, role: str) -> None:
        if self.turns is not None and self.turns.holder == role:
            waiting = self._waiting
            ready = {other for other in self._alive if other not in waiting or waiting[other].can_go_on()}
            self.turns.pass_on(ready)
            self.changed.notify_all()

    def _look_for_deadlock(self) -> None:
        """Fail the job where all roles wait, and none of them can go on."""
        if self.failure is not None or not self._alive or not self._alive <= set(self._waiting):
            return
        if any(wait.has_limit or wait.can_go_on() for wait in self._waiting.values()):
            return
        lines = "".join(
            f"\n  {role} waits for {_text_of(wait.waited_for)}"
            for role, wait in sorted(self._waiting.items())
        )
        self.failure = f"deadlock: every process waits for another one:{lines}"
        self.changed.notify_all()

    # ------------------------------------------------------------------ records
    def count(self, source: str, target: str, nbytes: int) -> None:
        """Note that so many bytes went over a link."""
        self.bytes[source, target] += nbytes

    def take(self, event: JobEvent) -> None:
        """Note that a server has taken a message."""
        self._last[event.endpoint][event.role] = event
        if self.turns is not None:
            self.events.append(event)

    def begin_step(self, role: str) -> None:
        """Note that a trainer begins a step."""
        if self.turns is not None:
            with self.changed:
                self.events.append(JobEvent("", role, None, ""))

    def server_waits_for(self, endpoint: str) -> str:
        """The messages that a server waits for, with the last one that it has taken of each trainer."""
        last = [
            f"{role} said {event.kind.name} {event.name}".rstrip()
            for role, event in sorted(self._last[endpoint].items())
            if event.kind is not None
        ]
        heard = "last, " + ", ".join(last) if last else "none has arrived"
        return f"messages of trainers at {endpoint} ({heard})"


class LocalRole:
    """A thread of the network, under its role's name. `doing` says what it does, such as " in op 'recv'"."""

    def __init__(self, network: LocalNetwork, name: str, doing: Callable[[], str]) -> None:
        self.network = network
        self.name = name
        self._doing = doing
        self.reductions: list[Any] = []  # of all rings, to which this role has not given its share yet
        network.enter(name)

    def wait(self, ready: Callable[[], bool], waited_for: WaitedFor, within: float | None = None) -> bool:
        """With the network's lock held: True when `ready()`, False after `within` seconds; CommunicatorError
        when it can never be.
        """
        doing = self._doing
        return self.network.wait(self.name, ready, lambda: _text_of(waited_for) + doing(), within)

    def count(self, target: str, nbytes: int) -> None:
        """Note that this role sends so many bytes."""
        self.network.count(self.name, target, nbytes)
