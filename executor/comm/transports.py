"""The session of this process: which transport it was started for, and how it ends."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable

from fluidlite.base import flags
from fluidlite.base.forks import in_child
from fluidlite.base.mpi_start import under_mpi
from fluidlite.base.records import dataclass
from fluidlite.executor.comm.session import Session, current
from fluidlite.values.scope import Scope

__all__ = [
    "TRANSPORTS",
    "Transport",
    "before_run",
    "existing_session",
    "find_session",
    "has_session",
    "leave",
    "process_session",
    "single_session",
]


@dataclass(frozen=True)
class Transport:
    """A transport that a process can be started for.

    serves: True if it was, for ops that need servers or for others.
    connect: its session, in which every wait ends after so many seconds.
    """

    name: str
    serves: Callable[[bool], bool]
    connect: Callable[[float], Session]


# each imports its own room when it is asked for: a process is started for one of them at the most
def _over_mpi(deadline: float) -> Session:
    from fluidlite.executor.comm.mpi.session import MpiSession

    return MpiSession(deadline)


def _over_tcp(deadline: float) -> Session:
    from fluidlite.executor.comm.tcp.session import TcpSession

    return TcpSession(deadline)


# the first that serves is taken
TRANSPORTS = (
    Transport("mpi", lambda needs_servers: under_mpi(), _over_mpi),
    # a process that was started by hand can reach servers at their addresses, but no other ranks
    Transport("tcp", lambda needs_servers: needs_servers, _over_tcp),
)

_sessions: list[Session] = []  # of this process: one at the most
_single: list[Session] = []  # where there are rings of one rank only
_left: list[Session] = []  # the last session that this process has ended
in_child(_sessions.clear)  # the child of a fork is no trainer


def process_session(needs_servers: bool) -> Session | None:
    """The session of the whole process, made when it is first needed; None where the process was started for
    no transport.

    needs_servers: True for ops that talk to parameter servers, which a process started by hand can do.
    """
    if not _sessions:
        found = next((row for row in TRANSPORTS if row.serves(needs_servers)), None)
        if found is not None:
            session = found.connect(flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"] / 1000.0)
            if _left:
                session.goes_on_from(_left.pop())
            _sessions.append(session)
            if not session.lasts_until_exit:
                atexit.register(_at_exit)
    return next(iter(_sessions if needs_servers else (*_sessions, *_single)), None)


def has_session() -> bool:
    """True if this process has connected itself with others, or is the only one of its job."""
    return bool(_sessions or _single)


def existing_session() -> Session | None:
    """The session of this thread, or of the process where it has one already: asking makes none."""
    return current() or next(iter(_sessions), None)


def find_session(needs_servers: bool) -> Session | None:
    """The session of this thread, else that of the process; None where there is neither."""
    return current() or process_session(needs_servers)


def single_session() -> Session:
    """The session of a process that is the only one of its job: its rings have one rank."""
    from fluidlite.executor.comm.local.network import LocalNetwork
    from fluidlite.executor.comm.local.session import LocalSession

    _single.append(LocalSession(LocalNetwork(), "this process"))
    return _single[0]


def _at_exit() -> None:
    """Say goodbye at the end of the process, unless an error ends it: then the servers find that it is lost,
    and the job does not go on without it unseen.
    """
    ended_by_error = hasattr(sys, "last_value") and not hasattr(sys, "ps1")  # at a prompt errors end nothing
    for session in _sessions if ended_by_error else ():
        session.forget_servers()
    leave_process()


def leave_process() -> None:
    """Tell this process's servers that it leaves, and end its connections unless they last until its exit."""
    for session in list(_sessions):
        if not session.lasts_until_exit:
            _sessions.remove(session)
            _left[:] = [session]
        session.leave()


def before_run(scope: Scope) -> None:
    """A program is about to run in `scope`: a communicator may have parameters for it, or an error."""
    session = current() or (_sessions[0] if _sessions else None)
    if session is not None and session.communicator is not None:
        session.communicator.before_run(scope)


def leave() -> None:
    """Tell the servers of this thread, or else of this process, that it sends nothing more."""
    session = current()
    if session is None:
        leave_process()
    else:
        session.leave()
