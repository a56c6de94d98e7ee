"""A whole job in one process: a thread for each role. A wait that nobody can end is found at once, and
says who waits for what.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.local.rings import LocalReduction, LocalRing, Meeting
from fluidlite.executor.comm.local.turns import Turns
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.session import Session
from fluidlite.ir.operator import Operator
from fluidlite.values.tensor import SelectedRows

__all__ = ["Event", "LocalNetwork", "LocalSession"]


What: TypeAlias = (
    "str | Callable[[], str]"  # what is waited for; what takes time to say is said when it is asked for
)


class Event(NamedTuple):
    """A message that a server took: of which role, for what, about which variable. Without a kind: a step
    of a trainer begins.
    """

    endpoint: str
    role: str
    kind: Kind | None
    name: str


class LocalNetwork:
    """The mailboxes of all roles, under one lock; counts the bytes of each link.

    With `turns` one role runs at a time, and every run of the same job is the same; without, they run as
    threads do. `events` are then the messages in the order in which servers took them.
    """

    def __init__(self, turns: Turns | None = None) -> None:
        self.turns = turns
        self.events: list[Event] = []
        self.last: dict[str, dict[str, Event]] = defaultdict(dict)  # by server and trainer
        self.changed = threading.Condition()
        self.inbox: dict[str, deque[tuple[tuple[str, str], Message]]] = defaultdict(deque)  # by server
        self.answers: dict[tuple[str, str], deque[Any]] = defaultdict(deque)  # by (role, server)
        self.meetings: dict[Any, Meeting] = {}  # by what ranks meet for
        self.names: dict[Any, deque[bytes]] = defaultdict(deque)  # of rings, by who takes them
        self.roles: list[str] = []
        self.alive: set[str] = set()
        self.serving: dict[str, str] = {}  # endpoint -> role
        self.waiting: dict[str, tuple[Callable[[], bool], What]] = {}
        self.failure: str | None = None
        self.bytes: dict[tuple[str, str], int] = defaultdict(int)

    def enter(self, role: str) -> LocalSession:
        """The session of a role that takes part from now on."""
        self.alive.add(role)
        self.roles.append(role)
        if self.turns is not None:
            self.turns.enter(role)
        return LocalSession(self, role)

    def leave(self, role: str, failure: str | None = None) -> None:
        """A role has ended, well or with an error; those that wait for it hear of it."""
        with self.changed:
            self.alive.discard(role)
            if failure is not None and self.failure is None:
                self.failure = f"{role} failed: {failure}"
            self._look_for_deadlock()
            self._pass_turn(role)
            self.changed.notify_all()

    def begin(self, role: str) -> None:
        """Return when it is this role's first turn."""
        with self.changed:
            self.changed.wait_for(lambda: self._has_turn(role))

    def pause(self, role: str) -> None:
        """With the lock held: let others have their turn."""
        if self.turns is not None:
            self.wait(role, lambda: True, "its turn")

    def _has_turn(self, role: str) -> bool:
        return self.turns is None or self.turns.holder == role or self.failure is not None

    def _pass_turn(self, role: str) -> None:
        if self.turns is not None and self.turns.holder == role:
            self.turns.pass_on(
                {other for other in self.alive if other not in self.waiting or self.waiting[other][0]()}
            )
            self.changed.notify_all()

    def wait(self, role: str, ready: Callable[[], bool], what: What) -> None:
        """With the lock held: return when `ready()`; CommunicatorError when that can never be."""
        self.waiting[role] = ready, what
        self._look_for_deadlock()
        self._pass_turn(role)
        try:
            while not (ready() and self._has_turn(role)):
                if self.failure is not None:
                    raise CommunicatorError(f"{role} waits for {spelled(what)}, but {self.failure}")
                self.changed.wait()
        finally:
            del self.waiting[role]

    def _look_for_deadlock(self) -> None:
        if (
            self.failure is None
            and self.alive
            and self.alive <= set(self.waiting)
            and not any(ready() for ready, _ in self.waiting.values())
        ):
            lines = "".join(
                f"\n  {role} waits for {spelled(what)}" for role, (_, what) in sorted(self.waiting.items())
            )
            self.failure = f"nobody can go on (deadlock):{lines}"
            self.changed.notify_all()

    def count(self, source: str, target: str, value: Any) -> None:
        """Note that a value went over a link."""
        self.bytes[source, target] += size_of(value)

    def take(self, event: Event) -> None:
        """Note that a server has taken a message."""
        self.last[event.endpoint][event.role] = event
        if self.turns is not None:
            self.events.append(event)

    def begin_step(self, role: str) -> None:
        """Note that a trainer begins a step."""
        if self.turns is not None:
            with self.changed:
                self.events.append(Event("", role, None, ""))

    def heard(self, endpoint: str) -> str:
        """What a server waits for, and what it has heard last of each trainer."""
        last = [
            f"{role} said {event.kind.name} {event.name}".rstrip()
            for role, event in sorted(self.last[endpoint].items())
            if event.kind is not None
        ]
        return (
            f"messages of trainers at {endpoint} ({'last, ' + ', '.join(last) if last else 'none has come'})"
        )


class LocalLink:
    """One role's way to the servers, or a server's to its trainers."""

    def __init__(self, session: LocalSession) -> None:
        self.network, self.role, self._wait = session.network, session.role, session.wait
        self.endpoint = ""

    # ------------------------------------------------------------------ a trainer
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to a server, which may not have started to listen yet."""
        with self.network.changed:
            self.network.count(self.role, endpoint, message.value)
            self.network.inbox[endpoint].append(((self.role, endpoint), copied(message)))
            self.network.changed.notify_all()
            self.network.pause(self.role)

    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The next answer of a server."""
        answers = self.network.answers[self.role, endpoint]
        with self.network.changed:
            self._wait(lambda: bool(answers), f"an answer of the server at {endpoint}")
            value = answers.popleft()
        if isinstance(value, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {value.text}")
        self.network.count(endpoint, self.role, value)
        return value

    # ------------------------------------------------------------------ a server
    def listen(self, endpoint: str, trainers: int = 0) -> None:
        """Be the server at `endpoint`; CommunicatorError where another role is."""
        with self.network.changed:
            owner = self.network.serving.setdefault(endpoint, self.role)
            if owner != self.role:
                raise CommunicatorError(f"{endpoint} is taken: {owner} listens there")
            self.endpoint = endpoint

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """The next message to this server."""
        inbox = self.network.inbox[self.endpoint]
        with self.network.changed:
            self._wait(lambda: bool(inbox), lambda: self.network.heard(self.endpoint))
            to, message = inbox.popleft()
            self.network.take(Event(self.endpoint, to[0], message.kind, message.name))
            return to, message

    def reply(self, to: Any, value: Any) -> None:
        """Answer a message."""
        with self.network.changed:
            self.network.answers[to].append(value.copy() if hasattr(value, "copy") else value)
            self.network.changed.notify_all()


class LocalSession(Session):
    """One role's connections in a `LocalNetwork`."""

    pace = "count"

    def __init__(self, network: LocalNetwork, role: str) -> None:
        self.network, self.role = network, role
        self.joined: dict[tuple[int, bytes], int] = {}  # how often a ring was
        self.started: list[LocalReduction] = []  # to which this role has not given its share yet
        super().__init__(LocalLink(self))

    def wait(self, ready: Callable[[], bool], what: What) -> None:
        """With the network's lock held: return when `ready()`."""
        op = self.doing
        self.network.wait(
            self.role, ready, lambda: spelled(what) + ("" if op is None else f" in {described(op)}")
        )

    def agree_on_id(self, members: Sequence[str], rank: int, make: Callable[[], bytes]) -> bytes:
        """The name of a ring of these members, which rank 0 makes; the others wait for it."""
        key = ("name", tuple(members))
        with self.network.changed:
            box = self.network.names[key, rank]
            if rank == 0:
                box.append(make())
                for other in range(1, len(members)):
                    self.network.names[key, other].append(box[-1])
                self.network.changed.notify_all()
            self.wait(
                lambda: bool(box), f"the name of the ring of {', '.join(members)}, which {members[0]} makes"
            )
            return box.popleft()

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        """Make a ring; the others join it when they will."""
        self.check_place(ring_id, rank, size)
        joined = self.joined[ring_id, name] = self.joined.get((ring_id, name), 0) + 1
        self.rings[ring_id] = LocalRing(self, (ring_id, name or size, joined), ring_id, rank, size)

    def join_devices(self, ring_id: int) -> None:
        """Make a ring of all roles of the network, in the order in which they entered."""
        self.join(ring_id, self.network.roles.index(self.role), len(self.network.roles), b"devices")


def spelled(what: What) -> str:
    """What somebody waits for."""
    return what if isinstance(what, str) else what()


def described(op: Operator) -> str:
    """An op and the user's line that it comes from."""
    return f"op {op.type!r}, " + (
        f"built at {op.where}" if op.where is not None else "which a transpiler added"
    )


def size_of(value: Any) -> int:
    """Bytes of an array or of SelectedRows with their row numbers; 0 for nothing."""
    if isinstance(value, SelectedRows):
        return int(value.array.nbytes + value.ids.nbytes)
    return int(getattr(value, "nbytes", 0))


def copied(message: Message) -> Message:
    """The message with a value of its own: what is sent does not change when the sender goes on."""
    value = message.value
    if isinstance(value, SelectedRows):
        value = SelectedRows(value.ids.copy(), value.height(), value.array.copy())
    elif isinstance(value, np.ndarray):
        value = value.copy()
    return Message(message.kind, message.trainer, message.name, value)


def run_roles(network: LocalNetwork, roles: Sequence[tuple[str, Callable[[], Any]]]) -> dict[str, Any]:
    """Run each role's function in a thread with its session; its results by role. The first error of a
    role is raised.
    """
    from fluidlite.executor.comm.session import use

    results: dict[str, Any] = {}
    errors: dict[str, BaseException] = {}

    def body(role: str, work: Callable[[], Any], session: LocalSession) -> None:
        try:
            with use(session):
                network.begin(role)
                results[role] = work()
                session.leave()  # a trainer may end without exe.close()
            network.leave(role)
        except BaseException as error:  # raised again below, in the caller's thread
            errors[role] = error
            network.leave(role, f"{type(error).__name__}: {error}")

    sessions = {role: network.enter(role) for role, _ in roles}
    threads = [
        threading.Thread(target=body, args=(role, work, sessions[role]), name=role) for role, work in roles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise next(
            (error for error in errors.values() if not isinstance(error, CommunicatorError)),
            next(iter(errors.values())),
        )
    return results
