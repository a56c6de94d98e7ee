"""A server's end over TCP: one thread serves all trainers, and waits for none of them alone."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import secrets
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from fluidlite.base.errors import CommunicatorError, FormatError
from fluidlite.executor.comm.links import ServerLink
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.tcp.handshake import PendingHandshake, Welcome
from fluidlite.executor.comm.tcp.stream import ConnectionLost, Stream, address_of
from fluidlite.executor.comm.tcp.takeover import LOOK, SILENCE, Claim, Undecided
from fluidlite.executor.comm.tcp.tls import Encryption
from fluidlite.executor.comm.wire import Incoming
from fluidlite.values.serialize import replace_file

__all__ = ["Listener"]

UNAUTHENTICATED = 64  # connections that have not shown the key, held at once
PATIENCE = 10.0  # seconds that each of them has to show it
FAREWELL = 2.0  # seconds in which trainers can read why a server stops
TURNS = 64  # messages of one trainer before those of the others are read
AT_ONCE = 1 << 16  # bytes of replies to one trainer that are not kept until the next wait

_log = logging.getLogger("fluidlite.server")


class Listener(ServerLink):
    """The socket that listens at an endpoint, and the connections that it has accepted.

    check: called with the header of each message before memory is allocated for its value; raises
        FormatError for one that is not to be read.
    trainers: connection -> the number of the trainer, -1 until it has said something.
    tls: the context of encrypted connections; None where they are plain.
    """

    ends_waits = False
    takes_signals = True

    def __init__(
        self,
        endpoint: str,
        deadline: float,
        key: bytes,
        terms: bytes,
        check: Callable[[Incoming], None],
        encryption: Encryption | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.tls = encryption.server_context() if encryption is not None else None
        self.deadline = deadline
        self.key = key
        self.check = check
        self.welcome = Welcome(secrets.token_bytes(8), terms)
        self.inbox: deque[tuple[Any, Message]] = deque()
        self.trainers: dict[Stream, int] = {}
        self.unauthenticated: deque[PendingHandshake] = deque()  # the oldest first
        self.claims: dict[Stream, Claim] = {}  # connections that are not read until it is known who is alive
        self.unsent: set[Stream] = set()
        self.goodbyes: set[int] = set()  # trainers that have left
        self.ready: deque[Stream] = deque()  # connections that may hold more messages than were taken
        self.is_closed = False
        self.socket = _bound(endpoint)
        self.selector = selectors.DefaultSelector()
        self.socket.setblocking(False)
        self.woken, self.waker = socket.socketpair()
        self.woken.setblocking(False)
        self.selector.register(self.socket, selectors.EVENT_READ, None)
        self.selector.register(self.woken, selectors.EVENT_READ, None)
        self.since = time.monotonic()  # when the last trainer was connected
        self.stopping = ""
        # fluid's launchers look here for the port that was bound, whatever TMPDIR says
        self.port_file = f"/tmp/paddle.{os.getpid()}.port"
        replace_file(self.port_file, [str(self.socket.getsockname()[1]).encode()], is_kept=False)

    # ------------------------------------------------------------------ the end
    def interrupt(self, why: str) -> None:
        """Have `next_message` raise. It only sets a text and writes a byte, which a signal handler may do."""
        self.stopping = why
        with contextlib.suppress(OSError):
            self.waker.send(b"\0")

    def close(self, why: str = "") -> None:
        """End all connections; with a reason, tell it to the trainers first."""
        if self.is_closed:
            return
        self.is_closed = True
        if why:
            self._say_goodbye(why)
        for stream in list(self.trainers):
            self._drop(stream)
        for pending in self.unauthenticated:
            pending.sock.close()
        for one in (self.socket, self.woken, self.waker):
            one.close()
        self.selector.close()
        with contextlib.suppress(OSError):
            os.unlink(self.port_file)

    def _say_goodbye(self, why: str) -> None:
        """Tell those who are connected why this server stops, as far as they listen.

        What they are sending is read until they have heard it: to close a socket with unread bytes would
        have the kernel drop the words.
        """
        until = time.monotonic() + FAREWELL
        for stream in list(self.trainers):
            stream.put(Error(why))
            stream.copy_queued()
        while self.trainers and time.monotonic() < until:
            for stream in list(self.trainers):
                try:
                    if stream.flush():
                        stream.hang_up()
                    stream.skim()
                except ConnectionLost:
                    self._drop(stream)
            self.selector.select(0.02)

    # ------------------------------------------------------------------ in
    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """The next message of a trainer; None when there is none `within` so many seconds.

        CommunicatorError when nobody has been connected for the deadline, or this server is told to stop.
        """
        end = None if within is None else time.monotonic() + within
        while not self.inbox:
            self._flush_all()
            if self.stopping:
                raise CommunicatorError(self.stopping)
            if self._poll(0.0 if self.ready else self._patience(end)) or self.ready:
                continue
            if end is not None and time.monotonic() >= end:
                return None
            if not self.trainers and time.monotonic() - self.since >= self.deadline:
                raise CommunicatorError(f"no trainer has sent a message for {self.deadline:g} s")
        return self.inbox.popleft()

    def _patience(self, end: float | None) -> float | None:
        """Seconds to wait for the next event; no limit while a trainer is connected, for the kernel finds out
        when it is no more.
        """
        limits = [] if end is None else [end]
        if not self.trainers:
            limits.append(self.since + self.deadline)
        if self.unauthenticated:
            limits.append(self.unauthenticated[0].since + PATIENCE)
        if self.claims:
            limits.append(time.monotonic() + LOOK)
        return max(0.0, min(limits) - time.monotonic()) if limits else None

    def _poll(self, limit: float | None) -> bool:
        """Wait for the sockets, and do what they are ready for; True when one was."""
        events = self.selector.select(limit)
        readable = self.ready
        self.ready = deque()
        for key, mask in events:
            if isinstance(key.data, Stream):
                if mask & selectors.EVENT_WRITE:
                    self._flush(key.data)
                # a connection that was lost while it was written to is in no list any more
                if mask & selectors.EVENT_READ and key.data in self.trainers and key.data not in readable:
                    readable.append(key.data)
            elif isinstance(key.data, PendingHandshake):
                self._advance(key.data)
            elif key.fileobj is self.socket:
                self._accept()
            else:
                self.woken.recv(64)
        for stream in readable:
            self._read(stream)
        for stream in list(self.claims):
            self.selector.register(stream.sock, selectors.EVENT_READ, stream)
            self._read(stream)
        while self.unauthenticated and time.monotonic() - self.unauthenticated[0].since >= PATIENCE:
            self._refuse(self.unauthenticated[0])
        return bool(events)

    def _accept(self) -> None:
        try:
            sock, _ = self.socket.accept()
        except OSError:
            return  # gone again, or no descriptor left: the next poll tries anew
        try:
            sock.setblocking(False)
            if self.tls is not None:
                sock.getpeername()  # fails where it was reset, which would leave TLS's socket half made
                sock = self.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            pending = PendingHandshake(sock, self.key, self.welcome)
            self.selector.register(sock, selectors.EVENT_READ, pending)
        except (OSError, ValueError):
            sock.close()  # it was reset before it was looked at, of which TLS hears first
            return
        self.unauthenticated.append(pending)
        if len(self.unauthenticated) > UNAUTHENTICATED:
            self._refuse(self.unauthenticated[0])

    def _advance(self, pending: PendingHandshake) -> None:
        """Go on with a handshake whose peer has said something."""
        try:
            is_known = pending.advance()
        except ConnectionLost:
            self._refuse(pending)
            return
        if is_known:
            self.unauthenticated.remove(pending)
            stream = Stream(pending.sock, self.deadline)
            stream.check = functools.partial(self._check, stream)
            self.trainers[stream] = -1
            self.selector.modify(pending.sock, selectors.EVENT_READ, stream)

    def _check(self, stream: Stream, coming: Incoming) -> None:
        """FormatError for a header that is not this connection's to send, or not the server's to take."""
        mine = self.trainers[stream]
        number = coming.trainer
        if mine < 0:
            self._check_number(stream, number)
        elif number != mine:
            raise FormatError(f"a connection of trainer {mine} carries a message of trainer {number}")
        self.check(coming)
        self.trainers[stream] = number

    def _check_number(self, stream: Stream, number: int) -> None:
        """FormatError for a second process that calls itself by the number of one that is alive, `Undecided`
        while that is not known. A process whose host is silent loses its number.
        """
        taken = [other for other, its in self.trainers.items() if its == number >= 0]
        if not taken or number in self.goodbyes:
            self.claims.pop(stream, None)
            return
        old = taken[0]
        claim = self.claims.get(stream)
        if claim is None or claim.old is not old:
            claim = self.claims[stream] = Claim(old)
        both = f"two processes claim to be trainer {number}: that at {_peer_of(old)} "
        if not claim.succeeds():
            del self.claims[stream]
            text = (
                f"{both}is connected, and that at {_peer_of(stream)} is refused (each needs a "
                f"PADDLE_TRAINER_ID of its own)"
            )
            _log.warning("%s", text)
            raise FormatError(text)
        del self.claims[stream]
        self._give_up(
            old, f"{both}did not answer for {SILENCE:g} s, and that at {_peer_of(stream)} took over"
        )

    def _give_up(self, stream: Stream, why: str) -> None:
        """End a connection whose host is silent; should it speak again, it reads why."""
        _log.warning("%s", why)
        stream.put(Error(why))
        with contextlib.suppress(ConnectionLost):
            if stream.flush():
                stream.hang_up()
        self._lose(stream, why)

    def _refuse(self, pending: PendingHandshake) -> None:
        """End a connection that has not shown the key."""
        self.unauthenticated.remove(pending)
        self.selector.unregister(pending.sock)
        pending.sock.close()

    def _read(self, stream: Stream) -> None:
        """Take the messages that have come over a connection."""
        try:
            for _ in range(TURNS):
                found = stream.get()
                if found is None:
                    return
                if isinstance(found[0], Message):
                    self._note(stream, found[0])
            self.ready.append(stream)
        except Undecided:
            self.selector.unregister(stream.sock)
        except ConnectionLost as error:
            self._lose(stream, str(error))
        except FormatError as error:
            stream.put(Error(str(error)))
            # the end of the connection comes after the words, and not before: what has come is read for that
            with contextlib.suppress(ConnectionLost):
                if stream.flush():
                    stream.hang_up()
                    stream.skim()
            self._lose(stream, str(error))

    def _note(self, stream: Stream, message: Message) -> None:
        if message.kind is Kind.COMPLETE:
            self.goodbyes.add(message.trainer)
        else:
            self.goodbyes.discard(message.trainer)
        self.inbox.append((stream, message))

    def _lose(self, stream: Stream, why: str) -> None:
        """A connection has ended: have the server hear of it, unless the trainer has said goodbye or has
        another one.
        """
        trainer = self._drop(stream)
        if trainer >= 0 and trainer not in self.goodbyes and trainer not in self.trainers.values():
            self.inbox.append((None, Message(Kind.LOST, trainer, why)))

    def _drop(self, stream: Stream) -> int:
        """Close a connection, and give the number of its trainer; -1 where it has none."""
        if stream not in self.trainers:
            return -1
        with contextlib.suppress(KeyError):  # one with a claim is not looked at
            self.selector.unregister(stream.sock)
        stream.close()
        self.claims.pop(stream, None)
        self.unsent.discard(stream)
        self.since = time.monotonic()
        return self.trainers.pop(stream)

    # ------------------------------------------------------------------ out
    def reply(self, to: Stream, value: Any) -> None:
        """Queue an answer for a trainer that is still connected. Small ones are sent together, when the
        server waits for the next message.
        """
        if to in self.trainers:
            to.put(value, own=True)
            self.unsent.add(to)
            if sum(view.nbytes for view in to.out) >= AT_ONCE:
                self._flush(to)

    def keep_replies(self) -> None:
        """Copy what is not sent yet."""
        for stream in self.unsent:
            stream.copy_queued()

    def _flush_all(self) -> None:
        for stream in list(self.unsent):
            self._flush(stream)

    def _flush(self, stream: Stream) -> None:
        """Send as much as the kernel takes; the selector says when it takes more."""
        try:
            done = stream.flush()
        except ConnectionLost as error:
            self._lose(stream, str(error))
            return
        events = selectors.EVENT_READ if done else selectors.EVENT_READ | selectors.EVENT_WRITE
        if self.selector.get_key(stream.sock).events != events:
            self.selector.modify(stream.sock, events, stream)
        if done:
            self.unsent.discard(stream)
        else:
            self.unsent.add(stream)


def _peer_of(stream: Stream) -> str:
    """The address of the other end of a connection; "an unknown address" where it has gone meanwhile."""
    try:
        host, port = stream.sock.getpeername()[:2]
    except OSError:
        return "an unknown address"
    return f"{host}:{port}"


def _bound(endpoint: str) -> socket.socket:
    """A socket that listens at an endpoint; CommunicatorError where it cannot."""
    try:
        host, port = address_of(endpoint)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise CommunicatorError(f"cannot listen at {endpoint}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommunicatorError(f"cannot listen at {endpoint}: {error}") from error
