"""A trainer's end of the connections: one to each server, which any of its threads may use."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fluidlite.base.errors import CommunicatorError, FormatError
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.tcp.handshake import Welcome, introduce
from fluidlite.executor.comm.tcp.stream import SMALL, Gone, Late, Stream, address_of
from fluidlite.executor.comm.terms import Terms
from fluidlite.values.tensor import SelectedRows

__all__ = ["Dialer"]

QUIET = 2.0  # seconds that a server may take to come up before that is said
FAREWELL = 10.0  # seconds that the end of a process may take
RETRY = 0.05, 0.5  # seconds between attempts to reach a server, the first and the longest

_log = logging.getLogger("fluidlite.trainer")


@dataclass(eq=False)
class Ticket:
    """A question that a thread has asked; `answer` is a tuple of the answer once it is here."""

    thread: int
    kind: Kind
    answer: tuple[Any] | None = None


class Server:
    """The connection to one server, and what was asked over it."""

    def __init__(self, endpoint: str, stream: Stream, welcome: Welcome) -> None:
        self.endpoint, self.stream, self.welcome = endpoint, stream, welcome
        self.sending = threading.RLock()
        self.turn = threading.Condition()
        self.reading = False
        self.asked: deque[Ticket] = deque()  # in the order in which the server will answer
        self.mine: dict[int, deque[Ticket]] = {}  # by thread
        self.kept: list[tuple[Message, Ticket | None]] = []  # what a server that comes back has to hear again
        self.steps = False  # whether this trainer ends its steps with barriers
        self.done = 0  # steps that the server has done for this trainer
        self.failure = ""


class Dialer:
    """All servers that this process talks to.

    patience: seconds in which a server that has gone may come back, as another process at the same address;
    what it has not answered is said again. 0: a server that goes is an error.
    """

    def __init__(self, deadline: float, key: bytes, patience: float = 0.0) -> None:
        self.deadline, self.key, self.patience = deadline, key, patience
        self.servers: dict[str, Server] = {}
        self.connecting = threading.RLock()

    # ------------------------------------------------------------------ connections
    def server(self, endpoint: str) -> Server:
        """The connection to a server, made when it is first needed."""
        found = self.servers.get(endpoint)
        if found is None:
            with self.connecting:
                found = self.servers.get(endpoint)
                if found is None:
                    found = self.servers[endpoint] = Server(endpoint, *self._connect(endpoint, self.deadline))
        return found

    def _connect(self, endpoint: str, limit: float) -> tuple[Stream, Welcome]:
        """Reach a server that may not be up yet; CommunicatorError after `limit` seconds."""
        begin, pause, said = time.monotonic(), RETRY[0], False
        while True:
            try:
                return self._attempt(endpoint, limit)
            except (OSError, Gone, Late) as error:
                gone = time.monotonic() - begin
                if gone + pause > limit:
                    raise CommunicatorError(
                        f"no sign of the server at {endpoint} for {limit:g} s: is it started? "
                        f"({getattr(error, 'strerror', None) or error})"
                    ) from error
                if gone > QUIET and not said:
                    _log.warning(
                        "waiting for the server at %s, up to %g s more: is it started?",
                        endpoint,
                        limit - gone,
                    )
                    said = True
            time.sleep(pause)
            pause = min(pause * 1.5, RETRY[1])

    def _attempt(self, endpoint: str, limit: float) -> tuple[Stream, Welcome]:
        try:
            address = address_of(endpoint)
        except ValueError as error:
            raise CommunicatorError(str(error)) from error
        sock = socket.create_connection(address, timeout=limit)
        try:
            if (
                sock.getsockname() == sock.getpeername()
            ):  # a port that nobody listens at may be given to whoever calls it
                raise Gone("connection refused")
            welcome = introduce(sock, endpoint, self.key, min(limit, self.deadline))
        except BaseException:
            sock.close()
            raise
        return Stream(sock, self.deadline), welcome

    def close(self) -> None:
        """End all connections. What was sent is delivered by the kernel."""
        for server in self.servers.values():
            with contextlib.suppress(Gone, Late):
                server.stream.deadline = min(self.deadline, FAREWELL)
                server.stream.send_all()
            server.stream.close()
        self.servers.clear()

    def reaches(self, endpoint: str) -> bool:
        """Whether there is a connection to a server."""
        return endpoint in self.servers

    def forget(self) -> None:
        """In the child of a fork: the connections are the parent's."""
        for server in self.servers.values():
            server.stream.close()
        self.servers.clear()

    # ------------------------------------------------------------------ out
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message. A small gradient waits for the barrier that is sure to follow, and travels with
        it.
        """
        server = self.server(endpoint)
        ticket = Ticket(threading.get_ident(), message.kind) if message.wants_answer else None
        with server.sending:
            if ticket is not None:
                with server.turn:
                    server.asked.append(ticket)
                    server.mine.setdefault(ticket.thread, deque()).append(ticket)
            if self.patience:
                server.kept.append((_copied(message), ticket))
            server.steps |= message.kind is Kind.BARRIER
            self._guarded(server, lambda: self._put(server, message))

    @staticmethod
    def _put(server: Server, message: Message) -> None:
        stream = server.stream
        stream.put(message, own=True)
        waits = message.kind is Kind.WANT or (
            message.kind is Kind.SEND and server.steps and stream.out[-1].nbytes <= SMALL
        )
        if not waits or len(stream.out) > 4 * SMALL:
            stream.send_all()

    def _guarded(self, server: Server, work: Callable[[], Any]) -> Any:
        """Do something with a connection; None where it was lost and the server has come back and heard
        everything again.
        """
        try:
            return work()
        except Late as error:
            raise self._failed(
                server, f"no sign of an answer of the server at {server.endpoint} for {error}"
            ) from error
        except FormatError as error:
            raise self._failed(server, f"the server at {server.endpoint}: {error}") from error
        except Gone as error:
            if server.failure or not self.patience:
                raise self._failed(server, self._last_words(server, str(error))) from error
            self._come_back(server, str(error))
            return None

    def _failed(self, server: Server, text: str) -> CommunicatorError:
        """The error for a connection that is of no use any more: every thread that uses it hears the same."""
        server.failure = server.failure or text
        server.stream.close()
        if self.servers.get(server.endpoint) is server:
            del self.servers[server.endpoint]
        return CommunicatorError(server.failure)

    @staticmethod
    def _last_words(server: Server, why: str) -> str:
        """What a server that has gone said before; else how it went."""
        with contextlib.suppress(Gone, FormatError):
            while (found := server.stream.get()) is not None:
                if isinstance(found[0], Error):
                    return f"the server at {server.endpoint} says: {found[0].text}"
        return f"the server at {server.endpoint} has gone ({why})"

    # ------------------------------------------------------------------ in
    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The answer to this thread's oldest question; CommunicatorError with what the server says is wrong.

        An array that fits is read straight into `into`, and is `into`.
        """
        server = self.servers.get(endpoint)
        mine = server.mine.get(threading.get_ident()) if server is not None else None
        if server is None or not mine:
            raise CommunicatorError(f"the server at {endpoint} has gone: there is no answer to wait for")
        ticket = mine.popleft()
        while ticket.answer is None:
            self._read_or_wait(server, ticket, into)
        found = ticket.answer[0]
        if isinstance(found, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {found.text}")
        return found

    def _read_or_wait(self, server: Server, ticket: Ticket, into: Any) -> None:
        """Read the next answer, whosever it is, unless another thread is at it."""
        with server.turn:
            if server.failure:
                raise CommunicatorError(server.failure)
            if server.reading:
                server.turn.wait(1.0)
                return
            server.reading = True
        found = None
        try:
            stream, head = server.stream, server.asked[0]
            stream.into = into if head is ticket else None
            found = self._guarded(server, lambda: (stream.next(),))
            stream.into = None
        finally:
            with server.turn:
                if found is not None:
                    server.asked.popleft().answer = found
                    server.done += head.kind is Kind.BARRIER
                    self._heard(server, head)
                server.reading = False
                server.turn.notify_all()

    @staticmethod
    def _heard(server: Server, ticket: Ticket) -> None:
        """A server answers in order: what was said before a question that it has answered need not be said
        again.
        """
        if server.kept and ticket.kind is not Kind.WANT:
            index = next(index for index, (_, asked) in enumerate(server.kept) if asked is ticket)
            del server.kept[: index + 1]

    # ------------------------------------------------------------------ a server that comes back
    def _come_back(self, server: Server, why: str) -> None:
        """Connect anew, and say again what the server has not answered; CommunicatorError where that
        cannot be right.
        """
        _log.warning(
            "the server at %s has gone (%s): waiting up to %g s for it to come back",
            server.endpoint,
            why,
            self.patience,
        )
        with server.sending:
            server.stream.close()
            try:
                stream, welcome = self._connect(server.endpoint, self.patience)
            except CommunicatorError as error:
                raise self._failed(
                    server,
                    f"the server at {server.endpoint} has gone ({why}), and has not come back: {error}",
                ) from error
            unsure = any(message.kind in (Kind.SEND, Kind.BARRIER) for message, _ in server.kept)
            if welcome.run == server.welcome.run and unsure:
                stream.close()
                raise self._failed(
                    server,
                    f"the connection to the server at {server.endpoint} was cut in the middle of a step "
                    f"({why}): "
                    "whether it has heard the gradients, nobody knows",
                )
            wrong = _too_old(server, welcome)
            if wrong:
                stream.close()
                raise self._failed(server, wrong)
            server.stream, server.welcome, server.done = stream, welcome, 0
            for message, ticket in server.kept:
                if ticket is None or ticket.answer is None:
                    stream.put(message, own=True)
            with contextlib.suppress(Gone):  # whoever uses it next finds that it is lost again
                stream.send_all()


def _too_old(server: Server, welcome: Welcome) -> str:
    """What is wrong with a server that has come back from a checkpoint of other steps than this trainer
    has done; "" if nothing is.
    """
    before, now = Terms.parse(server.welcome.terms), Terms.parse(welcome.terms)
    if (
        before is None
        or now is None
        or not now.resumed
        or not now.synchronous
        or now.steps == before.steps + server.done
    ):
        return ""
    return (
        f"the server at {server.endpoint} has come back from a checkpoint of step {now.steps}, but this "
        f"trainer has done "
        f"{before.steps + server.done} steps: start the whole job again from its last checkpoint"
    )


def _copied(message: Message) -> Message:
    """The message with a value of its own."""
    value = message.value
    if isinstance(value, SelectedRows):
        value = SelectedRows(value.ids.copy(), value.height(), value.array.copy())
    elif value is not None:
        value = value.copy()
    return Message(message.kind, message.trainer, message.name, value)
