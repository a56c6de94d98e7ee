"""The connections of one process, or of one thread that stands for a process.

A transport is a subclass of `Session` in a room of its own: it makes rings, a trainer's link to servers and a
server's link to trainers, or says that it has none. `fluidlite.executor.comm.transports` has the list of
those that a process can be started for.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.links import ServerLink, TrainerLink
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.requests import Requests
from fluidlite.executor.comm.rings import Ring
from fluidlite.executor.comm.terms import Terms, differences, servers_named
from fluidlite.executor.comm.traced import traced_trainer_link
from fluidlite.executor.comm.wire import Incoming
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope

__all__ = ["BackgroundCommunicator", "Pace", "Session", "current", "use"]


class Pace(enum.Enum):
    """When a communicator of an asynchronous trainer sends and fetches."""

    THREADS = "threads"  # at once, beside the computation
    CLOCK = "clock"  # in `send` and `recv`, where it is time
    COUNT = "count"  # in `send` and `recv`, where enough has come


class BackgroundCommunicator(Protocol):
    """Stands between an asynchronous trainer's program and the servers while it runs."""

    def before_run(self, scope: Scope) -> None:
        """A program is about to run in `scope`: take over what has come, and raise what went wrong."""

    def send(self, op: Operator, context: Any, values: Sequence[Any]) -> None:
        """Take the values of a `send`."""

    def barrier(self, op: Operator) -> None:
        """A `send_barrier`."""

    def newest(self, op: Operator, again: bool, into: Sequence[Any] = ()) -> Sequence[Any] | None:
        """The newest values for a `recv`, copied `into` arrays; None where none has come since it was asked
        last, unless `again`.
        """

    def flush(self) -> None:
        """Send what has come so far, and write the parameters that result from it into the scope."""

    def restart_from_parameters(self) -> None:
        """The parameters were loaded: count changes from their values."""

    def start(self, session: Session) -> None:
        """Work for `session` from now on."""

    def stop(self) -> None:
        """Send what is left, and end."""


class Session(ABC):
    """The rings that a process has joined, and its links as a trainer or as a server.

    link: a trainer's way to the servers; None where the process has none.
    """

    pace: ClassVar[Pace]
    host_backend: ClassVar[str] = "LOCAL"  # what carries arrays of the host over rings
    lasts_until_exit: ClassVar[bool] = False  # True if the connections outlive the last goodbye to servers

    def __init__(self, link: TrainerLink | None) -> None:
        self.link_or_none = traced_trainer_link(link)
        self.rings: dict[int, Ring] = {}
        self.current_op: Operator | None = None  # that communicates now: reports of deadlocks name it
        self.contacted: dict[str, int] = {}  # endpoint -> the number of the trainer that this process was
        self.turn = threading.RLock()  # devices of one trainer talk to its servers one after another
        self.communicator: BackgroundCommunicator | None = None  # while one runs
        self.served: weakref.ref[Program] | None = None  # the trainer's program that has used servers last
        self.used: set[tuple[int, str]] = set()  # (serial of a program, endpoint) of all that was said
        self._requests: dict[int, Requests] = {}  # by thread
        self._agreed: set[tuple[int, int, str]] = set()  # (serial and version of a program, endpoint)

    # ------------------------------------------------------------------ what a transport defines
    @abstractmethod
    def listen(self, endpoint: str, terms: Terms, check: Callable[[Incoming], None]) -> ServerLink:
        """Be the server at `endpoint`; CommunicatorError where that cannot be.

        Trainers hear the terms when they connect. `check` is called with the header of each message before
        its value is read, and raises FormatError for one that is not to be read. Transports whose trainers
        are threads or processes of the same job may do without both.
        """

    def agree_on_id(self, members: Sequence[str], rank: int, make: Callable[[], bytes]) -> bytes:
        """The name of a new ring, which `make` gives on rank 0. `members` are the endpoints of its ranks,
        and this process is number `rank`. CommunicatorError where ranks are not connected, as here.
        """
        raise CommunicatorError(
            f"this process cannot name a ring of {', '.join(members)}: it has no connection to other ranks"
        )

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        """Make the ring `ring_id` called `name`, in which this process is number `rank` of `size`; without
        a name, of all processes. CommunicatorError where ranks are not connected, as here.
        """
        raise CommunicatorError(
            f"this process cannot join ring {ring_id}: it has no connection to other ranks"
        )

    @abstractmethod
    def join_devices(self, ring_id: int) -> None:
        """Make the ring of the devices of one process, or of all processes that have one each."""

    # ------------------------------------------------------------------ rings
    @property
    def place(self) -> tuple[int, int]:
        """The number of this process among those that rings are made of, and how many they are."""
        return 0, 1

    def ring(self, ring_id: int) -> Ring:
        """A ring that was joined; CommunicatorError for one that was not."""
        if ring_id not in self.rings:
            raise CommunicatorError(
                f"ring {ring_id} is used before it is made: run the startup program, which joins it "
                f"(c_comm_init), or call init_parallel_env or new_group; joined so far: "
                f"{sorted(self.rings) or 'none'}"
            )
        return self.rings[ring_id]

    def replace_ring(self, ring: Ring) -> None:
        """Let another ring do what one of the same number did."""
        self.rings[ring.ring_id] = ring

    def on_device(self, ring_id: int) -> bool:
        """True if a ring reduces arrays of a device without the host."""
        return ring_id in self.rings and self.rings[ring_id].on_device

    @staticmethod
    def check_place(ring_id: int, rank: int, size: int) -> None:
        """CommunicatorError where a ring of `size` has no such rank."""
        if not 0 <= rank < size:
            raise CommunicatorError(f"rank {rank} of ring {ring_id} is not between 0 and {size - 1}")

    # ------------------------------------------------------------------ servers
    @property
    def link(self) -> TrainerLink:
        """The way to the servers; CommunicatorError where there is none."""
        if self.link_or_none is None:
            raise CommunicatorError("this process is not connected to a parameter server")
        return self.link_or_none

    @property
    def server_session(self) -> Session:
        """The session that talks to servers: itself, except that a device's is that of its process."""
        return self

    @property
    def requests(self) -> Requests:
        """The questions of this thread to the servers."""
        thread = threading.get_ident()
        if thread not in self._requests:
            self._requests[thread] = Requests(
                self.post, lambda endpoint, into: self.link.answer(endpoint, into)
            )
        return self._requests[thread]

    def trainer(self, declared: int) -> int:
        """The number of this trainer: fluid's `send` does not always declare it, but a `recv` that ran
        before it did.
        """
        return max(declared, *self.contacted.values(), 0)

    def post(self, endpoint: str, message: Message) -> None:
        """Send a message, and remember to say goodbye.

        CommunicatorError, before the first message of a program, where the server was made for another one.
        """
        if self.current_op is not None:
            self._agree(self.current_op.block.program, endpoint, message.trainer)
        self.contacted[endpoint] = message.trainer
        if message.wants_answer:
            self.requests.collect(endpoint)
        self.link.post(endpoint, message)

    def _agree(self, program: Program, endpoint: str, trainer: int) -> None:
        if (program.serial, program.version, endpoint) in self._agreed:
            return
        if program.distribution.parts is not None:
            self.served = weakref.ref(program)
        # a server that holds nothing is sent nothing, and still waits until every trainer has said goodbye
        for server in dict.fromkeys([endpoint, *servers_named(program)]):
            self._check_terms(program, server)
            self.contacted.setdefault(server, trainer)
            self._agreed.add((program.serial, program.version, server))

    def _check_terms(self, program: Program, endpoint: str) -> None:
        found = differences(program, endpoint, self.link.terms(endpoint))
        if found:
            raise CommunicatorError(
                f"this trainer's program does not fit the program of the server at {endpoint}:\n  "
                + "\n  ".join(found)
            )

    def leave(self) -> None:
        """Tell the servers that this trainer sends nothing more."""
        if self.communicator is not None:
            self.communicator.stop()
        for endpoint, trainer in self.contacted.items():
            if self.link.is_connected(endpoint):
                self.say_goodbye(endpoint, trainer)
        self.forget_servers()

    def goes_on_from(self, session: Session) -> None:
        """Know what an earlier session of this process has said to servers."""
        self.used = session.used

    def say_goodbye(self, endpoint: str, trainer: int) -> None:
        """Tell one server that this trainer leaves."""
        self.link.post(endpoint, Message(Kind.COMPLETE, trainer))

    def forget_servers(self) -> None:
        """Have `leave` say goodbye to nobody."""
        self.contacted.clear()

    # ------------------------------------------------------------------ what runs
    def running(self, op: Operator) -> _OpInProgress:
        """Inside the `with`, `op` is the one that communicates."""
        return _OpInProgress(self, op)

    def run_communicator(self, communicator: BackgroundCommunicator | None) -> None:
        """Let a communicator stand between programs and servers from now on, or none;
        CommunicatorError where another one runs.
        """
        if communicator is not None and self.communicator not in (None, communicator):
            raise CommunicatorError("another communicator of this process is running: stop it first")
        self.communicator = communicator


class _OpInProgress:
    """A context manager; a class, because a generator costs 1 us more for each op of each step."""

    __slots__ = ("op", "session")

    def __init__(self, session: Session, op: Operator) -> None:
        self.session = session
        self.op = op

    def __enter__(self) -> None:
        self.session.current_op = self.op

    def __exit__(self, *error: object) -> None:
        self.session.current_op = None


_current: ContextVar[Session | None] = ContextVar("session", default=None)


def current() -> Session | None:
    """The session of this thread; None where it has none of its own."""
    return _current.get()


@contextlib.contextmanager
def use(session: Session) -> Iterator[Session]:
    """Inside the `with`, programs of this thread talk through `session`."""
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)
