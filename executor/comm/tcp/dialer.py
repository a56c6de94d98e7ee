"""A trainer's end over TCP: one connection to each server, which any thread of the process may use."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from fluidlite.base.errors import CommunicatorError, FormatError
from fluidlite.base.forks import ChildRLock, in_child
from fluidlite.base.records import dataclass
from fluidlite.executor.comm.links import TrainerLink
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.tcp.handshake import Welcome, encrypted, introduce
from fluidlite.executor.comm.tcp.stream import SMALL, ConnectionLost, Stream, TimedOut, address_of
from fluidlite.executor.comm.tcp.tls import Encryption
from fluidlite.executor.comm.terms import Terms

__all__ = ["Dialer"]

QUIET = 2.0  # seconds that a server may take to come up before that is said
FAREWELL = 10.0  # seconds that the end of a process may take
RETRY = 0.05, 0.5  # seconds between attempts to reach a server, the first and the longest

_log = logging.getLogger("fluidlite.trainer")


@dataclass(eq=False)
class _Question:
    """A message that a thread waits for the answer of; `answer` is a tuple of it once it is here."""

    thread: int
    kind: Kind
    answer: tuple[Any] | None = None


class _ServerConnection:
    """The connection to one server, and what was asked over it.

    sending: held while a message is queued and sent.
    turn: held by the thread that reads the next answer, whosever that is; the others wait for it.
    asked: the questions in the order in which the server will answer; `by_thread` those of each thread.
    unanswered: with patience, what a server that comes back has to hear again.
    ends_steps: True once this trainer has sent a barrier; `steps_done` that the server has answered.
    failure: the error that every thread hears from now on.
    """

    def __init__(self, endpoint: str, stream: Stream, welcome: Welcome) -> None:
        self.endpoint = endpoint
        self.stream = stream
        self.welcome = welcome
        self.sending = threading.RLock()
        self.turn = threading.Condition()
        self.is_read = False
        self.asked: deque[_Question] = deque()
        self.by_thread: dict[int, deque[_Question]] = {}
        self.unanswered: list[tuple[Message, _Question | None]] = []
        self.ends_steps = False
        self.steps_done = 0
        self.failure = ""

    def ask(self, kind: Kind) -> _Question:
        """Note a question of this thread."""
        question = _Question(threading.get_ident(), kind)
        with self.turn:
            self.asked.append(question)
            self.by_thread.setdefault(question.thread, deque()).append(question)
        return question

    def put(self, message: Message) -> None:
        """Queue a message, and send what is queued unless something is sure to follow soon: a question
        follows a WANT, and a barrier a small gradient of a trainer that ends its steps.
        """
        stream = self.stream
        stream.put(message, own=True)
        is_small_gradient = message.kind is Kind.SEND and stream.out[-1].nbytes <= SMALL
        waits = message.kind is Kind.WANT or (self.ends_steps and is_small_gradient)
        if not waits or len(stream.out) > 4 * SMALL:
            stream.send_all()

    def answered(self, question: _Question, answer: tuple[Any]) -> None:
        """With `turn` held: the answer to the oldest question is here. What was said before it need not be
        said again, for a server answers in order, except that it holds back what is WANTed.
        """
        self.asked.popleft().answer = answer
        self.steps_done += question.kind is Kind.BARRIER
        if self.unanswered and question.kind is not Kind.WANT:
            numbers = (number for number, (_, asked) in enumerate(self.unanswered) if asked is question)
            del self.unanswered[: next(numbers) + 1]

    def last_words(self, why: str) -> str:
        """The reason that a server which has gone gave before; else how the connection ended."""
        with contextlib.suppress(ConnectionLost, FormatError):
            while (found := self.stream.get()) is not None:
                if isinstance(found[0], Error):
                    return f"the server at {self.endpoint} says: {found[0].text}"
        return f"the server at {self.endpoint} disconnected ({why})"

    def resume(self, stream: Stream, welcome: Welcome) -> None:
        """Go on over a new connection: say again what the server has not answered."""
        self.stream = stream
        self.welcome = welcome
        self.steps_done = 0
        for message, question in self.unanswered:
            if question is None or question.answer is None:
                stream.put(message, own=True)
        with contextlib.suppress(ConnectionLost):  # the next use finds that it is lost again
            stream.send_all()


class Dialer(TrainerLink):
    """The connections of this process to all its servers; every wait ends after `deadline` seconds.

    patience: seconds in which a server that has gone may come back, as another process at the same address;
    what it has not answered is said again. 0: a server that goes is an error.
    tls: the context of encrypted connections; None where they are plain.
    left: servers that were told that this process leaves: one that is gone then is not waited for.
    """

    def __init__(
        self, deadline: float, key: bytes, patience: float = 0.0, encryption: Encryption | None = None
    ) -> None:
        self.deadline = deadline
        self.tls = encryption.client_context() if encryption is not None else None
        self.key = key
        self.patience = patience
        self.servers: dict[str, _ServerConnection] = {}
        self.left: set[str] = set()
        self._connecting = ChildRLock()
        _dialers.add(self)

    # ------------------------------------------------------------------ connections
    def _server(self, endpoint: str) -> _ServerConnection:
        """The connection to a server, made when it is first needed."""
        found = self.servers.get(endpoint)
        if found is None:
            with self._connecting:
                found = self.servers.get(endpoint)  # another thread may have been faster
                if found is None:
                    stream, welcome = self._connect(endpoint, self.deadline)
                    found = self.servers[endpoint] = _ServerConnection(endpoint, stream, welcome)
        return found

    def _connect(self, endpoint: str, limit: float) -> tuple[Stream, Welcome]:
        """Reach a server that may not be up yet; CommunicatorError after `limit` seconds."""
        end = time.monotonic() + limit
        pause = RETRY[0]
        with _Notice(endpoint, limit) as notice:
            while True:
                try:
                    return self._attempt(endpoint, max(RETRY[0], end - time.monotonic()), notice)
                except (OSError, ConnectionLost, TimedOut) as error:
                    notice.failed(error)
                    if endpoint in self.left:
                        raise CommunicatorError(
                            "this process has left the job (stop_worker, or exe.close()), and the "
                            f"server at {endpoint} has stopped since: save, fetch and train before "
                            "leaving"
                        ) from error
                    if time.monotonic() + pause > end:
                        text = f"no response from the server at {endpoint} for {limit:g} s: {notice.seen}"
                        raise CommunicatorError(text) from error
                time.sleep(pause)
                pause = min(pause * 1.5, RETRY[1])

    def _attempt(self, endpoint: str, limit: float, notice: _Notice) -> tuple[Stream, Welcome]:
        try:
            address = address_of(endpoint)
        except ValueError as error:
            raise CommunicatorError(str(error)) from error
        sock = socket.create_connection(address, timeout=limit)
        try:
            # the kernel may give a port at which nobody listens to the process that calls it
            if sock.getsockname() == sock.getpeername():
                raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
            notice.connected()
            if self.tls is not None:
                sock = encrypted(sock, self.tls, endpoint)
            welcome = introduce(sock, endpoint, self.key, min(limit, self.deadline))
        except BaseException:
            sock.close()
            raise
        return Stream(sock, self.deadline), welcome

    def terms(self, endpoint: str) -> Terms | None:
        """The terms of a server's welcome."""
        return Terms.from_json(self._server(endpoint).welcome.terms)

    def is_connected(self, endpoint: str) -> bool:
        """True if there is a connection to a server."""
        return endpoint in self.servers

    def close(self) -> None:
        """End all connections. The kernel delivers what was sent."""
        for server in self.servers.values():
            with contextlib.suppress(ConnectionLost, TimedOut):
                server.stream.send_all(min(self.deadline, FAREWELL))
            server.stream.close()
        self.servers.clear()

    def forget(self) -> None:
        """In the child of a fork: leave the connections to the parent."""
        for server in self.servers.values():
            server.stream.close()
        self.servers.clear()

    # ------------------------------------------------------------------ out
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to a server. The first one waits until the server is up and both have shown that
        they hold the key; a small gradient waits for the barrier that follows, and travels with it.
        """
        server = self._server(endpoint)
        if message.kind is Kind.COMPLETE:
            self.left.add(endpoint)
        with server.sending:
            question = server.ask(message.kind) if message.wants_answer else None
            if self.patience:
                server.unanswered.append((message.copy(), question))
            server.ends_steps |= message.kind is Kind.BARRIER
            self._guarded(server, lambda: server.put(message))

    def _guarded(self, server: _ServerConnection, work: Callable[[], Any]) -> Any:
        """The result of `work` on a connection; None where that was lost, and the server has come back and
        heard everything again.
        """
        try:
            return work()
        except TimedOut as error:
            text = f"no answer from the server at {server.endpoint} for {error}"
            raise self._failed(server, text) from error
        except FormatError as error:
            raise self._failed(server, f"the server at {server.endpoint}: {error}") from error
        except ConnectionLost as error:
            if server.failure or not self.patience:
                raise self._failed(server, server.last_words(str(error))) from error
            self._come_back(server, str(error))
            return None

    def _failed(self, server: _ServerConnection, text: str) -> CommunicatorError:
        """The error for a connection that is of no use any more: every thread that uses it hears the same."""
        server.failure = server.failure or text
        server.stream.close()
        if self.servers.get(server.endpoint) is server:
            del self.servers[server.endpoint]
        return CommunicatorError(server.failure)

    # ------------------------------------------------------------------ in
    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The answer to this thread's oldest question, read straight into `into` where it fits."""
        server = self.servers.get(endpoint)
        mine = server.by_thread.get(threading.get_ident()) if server is not None else None
        if server is None or not mine:
            raise CommunicatorError(f"the server at {endpoint} disconnected: there is no answer to wait for")
        question = mine.popleft()
        while question.answer is None:
            self._read_or_wait(server, question, into)
        found = question.answer[0]
        if isinstance(found, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {found.text}")
        return found

    def _read_or_wait(self, server: _ServerConnection, question: _Question, into: Any) -> None:
        """Read the next answer, whosever it is, unless another thread reads."""
        with server.turn:
            if server.failure:
                raise CommunicatorError(server.failure)
            if server.is_read:
                server.turn.wait(1.0)
                return
            server.is_read = True
        found = None
        try:
            head = server.asked[0]
            target = into if head is question else None
            found = self._guarded(server, lambda: (server.stream.next(into=target),))
        finally:
            with server.turn:
                if found is not None:
                    server.answered(head, found)
                server.is_read = False
                server.turn.notify_all()

    # ------------------------------------------------------------------ a server that comes back
    def _come_back(self, server: _ServerConnection, why: str) -> None:
        """Connect anew, and say again what the server has not answered; CommunicatorError where that
        cannot be right.
        """
        endpoint = server.endpoint
        text = "the server at %s disconnected (%s): waiting up to %g s for it to come back"
        _log.warning(text, endpoint, why, self.patience)
        with server.sending:
            server.stream.close()
            try:
                stream, welcome = self._connect(endpoint, self.patience)
            except CommunicatorError as error:
                text = f"the server at {endpoint} disconnected ({why}), and has not come back: {error}"
                raise self._failed(server, text) from error
            wrong = _cannot_resume(server, welcome, why)
            if wrong:
                stream.close()
                raise self._failed(server, wrong)
            server.resume(stream, welcome)


_dialers: weakref.WeakSet[Dialer] = weakref.WeakSet()


@in_child
def _forget_connections() -> None:
    for dialer in _dialers:
        dialer.forget()


class _Notice:
    """Inside the `with`, a process connects to a server, which may not be up, or something else: after QUIET
    seconds it is said once for whom it waits, and what it has seen there, also while an attempt still waits.
    """

    def __init__(self, endpoint: str, limit: float) -> None:
        self.endpoint = endpoint
        self.limit = limit
        self.seen = _NOT_STARTED
        self._timer = threading.Timer(QUIET, self._say)
        self._timer.daemon = True

    def __enter__(self) -> _Notice:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def connected(self) -> None:
        """Something has taken the connection."""
        self.seen = (
            "the process that listens there accepts connections, but does not respond as a server of a job"
        )

    def failed(self, error: Exception) -> None:
        """An attempt has failed."""
        words = _text_of(error)
        if isinstance(error, ConnectionLost):
            self.seen = f"the process that listens there accepts the connection and closes it ({words})"
        elif not isinstance(error, TimedOut):
            self.seen = f"{_NOT_STARTED} ({words})"

    def _say(self) -> None:
        text = "waiting for the server at %s, up to %g s more: %s"
        _log.warning(text, self.endpoint, self.limit - QUIET, self.seen)


_NOT_STARTED = "check that it is started"


def _text_of(error: Exception) -> str:
    """The system's words for an error, where it has some."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _cannot_resume(server: _ServerConnection, welcome: Welcome, why: str) -> str:
    """The reason why a trainer cannot go on with a server that welcomes it again; "" if it can.

    The same run of a server may have heard gradients that it has not answered: to say them again could apply
    them twice. Another run has to hold the parameters of as many steps as this trainer has done.
    """
    endpoint = server.endpoint
    is_unsure = any(message.kind in (Kind.SEND, Kind.BARRIER) for message, _ in server.unanswered)
    if welcome.run == server.welcome.run and is_unsure:
        return (
            f"the connection to the server at {endpoint} was cut in the middle of a step ({why}): "
            "it is unknown whether the server has received the gradients"
        )
    before = Terms.from_json(server.welcome.terms)
    now = Terms.from_json(welcome.terms)
    if before is None or now is None or not now.resumed or not now.synchronous:
        return ""
    done = before.steps + server.steps_done
    if now.steps == done:
        return ""
    return (
        f"the server at {endpoint} was restored from a checkpoint of step {now.steps}, but this "
        f"trainer has completed {done} steps: start the whole job again from its last checkpoint"
    )
