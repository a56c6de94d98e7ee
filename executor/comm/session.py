"""What one process (or one thread that stands for a process) is connected to."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError
from fluidlite.base.mpi_start import under_mpi
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.requests import Requests
from fluidlite.executor.comm.rings import BaseRing
from fluidlite.ir.operator import Operator

__all__ = ["Link", "Ring", "Session", "before_run", "current", "leave", "of_process", "use"]


Ring = BaseRing


class Link(Protocol):
    """The way between trainers and servers, seen from one process."""

    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to the server at `endpoint`; its answer, where it has one, is read by `answer`."""

    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The next answer of the server at `endpoint`; it may be read straight into the array `into`, and
        is `into` then.
        """

    def listen(self, endpoint: str, trainers: int) -> None:
        """Be the server at `endpoint` from now on, for so many trainers."""

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """For a server: the next message, and what `reply` needs to answer it; None where there is none
        `within` so many seconds.
        """

    def reply(self, to: Any, value: Any) -> None:
        """For a server: answer a message."""


class Session:
    """The connections of one process, and the rings that it has joined."""

    def __init__(self, link: Link | None = None) -> None:
        self.link_or_none = link
        self.rings: dict[int, BaseRing] = {}
        self.doing: Operator | None = None  # the op that is talking: what a report of a deadlock names
        self.contacted: dict[
            str, int
        ] = {}  # endpoint -> the number of the trainer that this process was there
        self.by_thread: dict[int, Requests] = {}
        self.turn = threading.RLock()  # devices of one trainer talk to its servers one after another
        self.communicator: Any = (
            None  # what stands between asynchronous programs and the servers while it runs
        )

    @property
    def link(self) -> Link:
        """The way to the servers; CommunicatorError where there is none."""
        if self.link_or_none is None:
            raise CommunicatorError("this process is connected to no parameter server")
        return self.link_or_none

    @property
    def of_process(self) -> Session:
        """What talks to servers for this process: of a device's session, that of the process."""
        return self

    @property
    def requests(self) -> Requests:
        """What this thread has asked of the servers."""
        thread = threading.get_ident()
        if thread not in self.by_thread:
            self.by_thread[thread] = Requests(self)
        return self.by_thread[thread]

    def post(self, endpoint: str, message: Message) -> None:
        """Send a message, and remember to say goodbye."""
        self.contacted[endpoint] = message.trainer
        if message.wants_answer:
            self.requests.collect(endpoint)
        self.link.post(endpoint, message)

    def leave(self) -> None:
        """Tell the servers that this trainer sends nothing more."""
        if self.communicator is not None:
            self.communicator.stop()
        for endpoint, trainer in self.contacted.items():
            self.link.post(endpoint, Message(Kind.COMPLETE, trainer))
        self.contacted.clear()

    pace = "clock"  # when a communicator sends: see `communicator.Pace`
    lasts = False  # whether it is there until the process ends, whoever leaves the servers before

    def on_device(self, ring_id: int) -> bool:
        """Whether a ring reduces arrays of a device without the host."""
        return ring_id in self.rings and self.rings[ring_id].on_device

    def ring(self, ring_id: int) -> BaseRing:
        """A ring that was joined; CommunicatorError for one that was not."""
        if ring_id not in self.rings:
            raise CommunicatorError(
                f"ring {ring_id} is used before it is made: run the startup program, which joins it "
                f"(c_comm_init); "
                f"joined so far: {sorted(self.rings) or 'none'}"
            )
        return self.rings[ring_id]

    def agree_on_id(self, members: Sequence[str], rank: int, make: Callable[[], bytes]) -> bytes:
        """The name of a ring: what `make` gives rank 0. `members` are the endpoints of its ranks, and this
        process is number `rank`.
        """
        raise CommunicatorError(
            f"this process cannot name a ring of {', '.join(members)}: it has no connection to other ranks"
        )

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        """Make the ring `ring_id` called `name`, in which this process is number `rank` of `size`; without
        a name, of all processes.
        """
        raise CommunicatorError(
            f"this process cannot join ring {ring_id}: it has no connection to other ranks"
        )

    def join_devices(self, ring_id: int) -> None:
        """Make the ring of the devices of one process, or of all processes that have one each."""
        raise CommunicatorError(f"this process cannot make ring {ring_id}: it has one device")

    @staticmethod
    def check_place(ring_id: int, rank: int, size: int) -> None:
        """CommunicatorError where a ring of `size` has no such rank."""
        if not 0 <= rank < size:
            raise CommunicatorError(f"rank {rank} of ring {ring_id} is none of 0 to {size - 1}")


_current: ContextVar[Session | None] = ContextVar("session", default=None)


def current() -> Session | None:
    """The session of this process or thread; None where there is none."""
    return _current.get()


_of_process: list[Session] = []
_alone: list[Session] = []  # where there are rings of one rank only
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_of_process.clear)  # the child of a fork is no trainer


def of_process(served: bool) -> Session | None:
    """The session of a whole process, made when it is first needed: MPI under `mpirun`, else TCP, which
    only `served` ops can use.
    """
    if not _of_process:
        from fluidlite.executor.comm.mpi.session import MpiSession
        from fluidlite.executor.comm.tcp.session import TcpSession

        deadline = flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"] / 1000.0
        if under_mpi():
            _of_process.append(MpiSession(deadline))
        elif served:
            _of_process.append(TcpSession(deadline))
            atexit.register(_at_exit)
    return next(iter(_of_process if served else (*_of_process, *_alone)), None)


def alone() -> Session:
    """The session of a process that is the only one of its job: its rings have one rank."""
    from fluidlite.executor.comm.local.network import LocalNetwork

    _alone.append(LocalNetwork().enter("this process"))
    return _alone[0]


def _at_exit() -> None:
    """A process that ends as it should says goodbye; one that an error ends does not, so that the job does
    not go on without it unseen.
    """
    if hasattr(sys, "last_value") and not hasattr(sys, "ps1"):  # at a prompt an error ends nothing
        for session in _of_process:
            session.contacted.clear()
    leave_process()


def leave_process() -> None:
    """Let this process's servers hear that it leaves; connections over TCP end, and under `mpirun` the
    processes stay together.
    """
    for session in list(_of_process):
        if not session.lasts:
            _of_process.remove(session)
        session.leave()


def before_run() -> None:
    """A program is about to run: a communicator may have something for it, or something to complain about."""
    session = _current.get() or (_of_process[0] if _of_process else None)
    if session is not None and session.communicator is not None:
        session.communicator.before_run()


def leave() -> None:
    """Tell the servers of this thread, or of this process, that it sends nothing more."""
    session = current()
    if session is None:
        leave_process()
    else:
        session.leave()


@contextlib.contextmanager
def use(session: Session) -> Iterator[Session]:
    """Inside the `with`, programs of this thread talk through `session`."""
    token = _current.set(session)
    try:
        yield session
    finally:
        _current.reset(token)
