"""The threads of one process as a transport: each role has a session, and a link is a mailbox."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.links import ServerLink, TrainerLink
from fluidlite.executor.comm.local.network import JobEvent, LocalNetwork, LocalRole
from fluidlite.executor.comm.local.rings import LocalRing
from fluidlite.executor.comm.messages import Error, Kind, Message, copied, nbytes_of
from fluidlite.executor.comm.session import Pace, Session, use
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.wire import Incoming

__all__ = ["LocalSession", "run_roles"]


class LocalSession(Session):
    """The connections of one role of a `LocalNetwork`."""

    pace = Pace.COUNT  # neither clocks nor threads: a job whose roles take turns is the same in every run

    def __init__(self, network: LocalNetwork, role: str) -> None:
        self.network, self.role = network, LocalRole(network, role, self._doing)
        self._joined: dict[tuple[int, bytes], int] = {}  # (ring, name) -> how often it was joined
        super().__init__(LocalTrainerLink(self.role))

    def _doing(self) -> str:
        """The op that communicates, for the report of a deadlock."""
        op = self.current_op
        if op is None:
            return ""
        where = "which a transpiler added" if op.where is None else f"built at {op.where}"
        return f" in op {op.type!r}, {where}"

    # ------------------------------------------------------------------ servers
    def listen(self, endpoint: str, terms: Terms, check: Callable[[Incoming], None]) -> ServerLink:
        """Be the server at `endpoint`. Terms and checks are not used: threads send no bytes, and the roles
        of a cluster were transpiled together.
        """
        with self.network.changed:
            owner = self.network.serving.setdefault(endpoint, self.role.name)
        if owner != self.role.name:
            raise CommunicatorError(f"{endpoint} is taken: {owner} listens there")
        return LocalServerLink(self.role, endpoint)

    # ------------------------------------------------------------------ rings
    @property
    def place(self) -> tuple[int, int]:
        """This role's number in the order in which roles entered the network, and how many there are."""
        return self.network.roles.index(self.role.name), len(self.network.roles)

    def agree_on_id(self, members: Sequence[str], rank: int, make: Callable[[], bytes]) -> bytes:
        """The name of a ring of these members, which rank 0 makes; the others wait for it."""
        names = self.network.ring_names
        key = tuple(members)
        with self.network.changed:
            if rank == 0:
                name = make()
                for other in range(len(members)):
                    names[key, other].append(name)
                self.network.changed.notify_all()
            mine = names[key, rank]
            text = f"the name of the ring of {', '.join(members)}, which {members[0]} makes"
            self.role.wait(lambda: bool(mine), text)
            return mine.popleft()

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        """Make a ring. Its first collective call waits for the others to join."""
        self.check_place(ring_id, rank, size)
        # who joins again makes another ring: its calls are not those of the ring before
        joined = self._joined[ring_id, name] = self._joined.get((ring_id, name), 0) + 1
        key = (ring_id, name or size, joined)
        self.rings[ring_id] = LocalRing(self.role, key, ring_id, rank, size)

    def join_devices(self, ring_id: int) -> None:
        """Make a ring of all roles of the network, in the order in which they entered."""
        roles = self.network.roles
        self.join(ring_id, roles.index(self.role.name), len(roles), b"devices")


class LocalTrainerLink(TrainerLink):
    """A role's mailboxes at the servers."""

    def __init__(self, role: LocalRole) -> None:
        self.role = role
        self.network = role.network

    def post(self, endpoint: str, message: Message) -> None:
        """Put a copy of a message into the mailbox of a server."""
        with self.network.changed:
            self.role.count(endpoint, nbytes_of(message.value))
            self.network.inbox[endpoint].append(((self.role.name, endpoint), message.copy()))
            self.network.changed.notify_all()
            self.network.pause(self.role.name)

    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The next answer of a server; never read into `into`: it is a copy already."""
        with self.network.changed:
            # looked up under the lock: a server that answers at the same time must not make another mailbox
            answers = self.network.answers[self.role.name, endpoint]
            self.role.wait(lambda: bool(answers), f"an answer of the server at {endpoint}")
            value = answers.popleft()
        if isinstance(value, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {value.text}")
        self.network.count(endpoint, self.role.name, nbytes_of(value))
        return value

    def terms(self, endpoint: str) -> Terms | None:
        """None: see `LocalSession.listen`."""
        return None

    def is_connected(self, endpoint: str) -> bool:
        """True: a mailbox is always there."""
        return True

    def close(self) -> None:
        """Do nothing: the network hears of a role's end from `run_roles`."""


class LocalServerLink(ServerLink):
    """The mailbox of the server at an endpoint."""

    ends_waits = True  # the network finds deadlocks
    takes_signals = False

    def __init__(self, role: LocalRole, endpoint: str) -> None:
        self.role = role
        self.network = role.network
        self.endpoint = endpoint
        self._interrupted = ""

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """The next message to this server; the error of a deadlock where none can come."""
        network = self.network

        def ready() -> bool:
            return bool(inbox or self._interrupted)

        with network.changed:
            inbox = network.inbox[self.endpoint]
            if not self.role.wait(ready, lambda: network.server_waits_for(self.endpoint), within):
                return None
            if not inbox:
                raise CommunicatorError(self._interrupted)
            to, message = inbox.popleft()
            rows = tuple(message.value.tolist()) if message.kind is Kind.ROWS else None
            network.take(JobEvent(self.endpoint, to[0], message.kind, message.name, rows))
            return to, message

    def reply(self, to: Any, value: Any) -> None:
        """Put a copy of a value where the trainer takes it."""
        with self.network.changed:
            self.network.answers[to].append(copied(value))
            self.network.changed.notify_all()

    def keep_replies(self) -> None:
        """Do nothing: replies are copies."""

    def interrupt(self, why: str) -> None:
        """Have `next_message` raise."""
        with self.network.changed:
            self._interrupted = why
            self.network.changed.notify_all()

    def close(self, why: str = "") -> None:
        """Do nothing: trainers that wait for a role that has ended hear of it from the network."""


def run_roles(network: LocalNetwork, roles: Sequence[tuple[str, Callable[[], Any]]]) -> dict[str, Any]:
    """Run each role's function in a thread with its session; its results by role.

    The first error of a role is raised; one that is not a CommunicatorError, which mostly follows from
    another role's, comes first.
    """
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

    sessions = {role: LocalSession(network, role) for role, _ in roles}
    threads = [
        threading.Thread(target=body, args=(role, work, sessions[role]), name=role) for role, work in roles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        causes = [error for error in errors.values() if not isinstance(error, CommunicatorError)]
        raise causes[0] if causes else next(iter(errors.values()))
    return results
