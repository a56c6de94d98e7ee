"""A server's end of the connections: one thread, no waiting for any single trainer."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import selectors
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from fluidlite.base.errors import CommunicatorError, FormatError
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.tcp.handshake import Guard, Welcome
from fluidlite.executor.comm.tcp.stream import Gone, Stream, address_of
from fluidlite.executor.comm.wire import Incoming
from fluidlite.values.serialize import replace_file

__all__ = ["Listener"]

STRANGERS = 64  # connections without a key that are held at once
PATIENCE = 10.0  # seconds that each of them has to show it
FAREWELL = 2.0  # seconds in which trainers can read why a server stops
TURNS = 64  # messages of one trainer before the others are looked at again

_log = logging.getLogger("fluidlite.server")


class Listener:
    """The socket that listens, the strangers, and the trainers.

    check: asked about each message before it is read into memory; raises FormatError for what is not to be
    read.
    """

    def __init__(
        self, endpoint: str, deadline: float, key: bytes, terms: bytes, check: Callable[[Incoming], None]
    ) -> None:
        self.endpoint, self.deadline, self.key, self.check = endpoint, deadline, key, check
        self.welcome = Welcome(secrets.token_bytes(8), terms)
        self.inbox: deque[tuple[Any, Message]] = deque()
        self.trainers: dict[Stream, int] = {}  # connection -> trainer, -1 until it has said something
        self.strangers: deque[Guard] = deque()
        self.unsent: set[Stream] = set()
        self.goodbyes: set[int] = set()  # trainers that have left
        self.ready: deque[Stream] = deque()  # connections that may hold more messages than were taken
        self.selector = selectors.DefaultSelector()
        try:
            host, port = address_of(endpoint)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self.socket = socket.create_server((host, port), family=family, backlog=128)
        except (OSError, ValueError) as error:
            raise CommunicatorError(
                f"cannot listen at {endpoint}: {getattr(error, 'strerror', None) or error}"
            ) from error
        self.socket.setblocking(False)
        self.woken, self.waker = socket.socketpair()
        self.woken.setblocking(False)
        self.selector.register(self.socket, selectors.EVENT_READ, None)
        self.selector.register(self.woken, selectors.EVENT_READ, None)
        self.since = time.monotonic()  # when somebody was here last
        self.stopping = ""
        self._say_where()

    # ------------------------------------------------------------------ where
    def _say_where(self) -> None:
        """Write the port that was bound where fluid's launchers look for it."""
        self.port_file = os.path.join(tempfile.gettempdir(), f"paddle.{os.getpid()}.port")
        replace_file(self.port_file, [str(self.socket.getsockname()[1]).encode()])

    def stop(self, why: str) -> None:
        """Have `next_message` raise: called by signal handlers, so it does next to nothing."""
        self.stopping = why
        with contextlib.suppress(OSError):
            self.waker.send(b"\0")

    def end(self, why: str) -> None:
        """Tell those who are connected why this server stops, as far as they listen.

        What they are sending is read until they have heard it: to close over it would have the kernel take
        the words back.
        """
        until = time.monotonic() + FAREWELL
        for stream in list(self.trainers):
            stream.put(Error(why))
            stream.settle()
        while self.trainers and time.monotonic() < until:
            for stream in list(self.trainers):
                try:
                    if stream.flush():
                        stream.hang_up()
                    stream.skim()
                except Gone:
                    self._drop(stream)
            self.selector.select(0.02)

    def close(self) -> None:
        """End all connections."""
        for stream in list(self.trainers):
            self._drop(stream)
        for guard in self.strangers:
            guard.sock.close()
        for one in (self.socket, self.woken, self.waker):
            one.close()
        self.selector.close()
        with contextlib.suppress(OSError):
            os.unlink(self.port_file)

    # ------------------------------------------------------------------ in
    def next_message(self, within: float | None) -> tuple[Any, Message] | None:
        """The next message of a trainer; None when there is none `within` so many seconds.

        CommunicatorError when nobody has been connected for the deadline, or this server is told to stop.
        """
        end = None if within is None else time.monotonic() + within
        while not self.inbox:
            self._send()
            if self.stopping:
                raise CommunicatorError(self.stopping)
            if not self._poll(0.0 if self.ready else self._patience(end)) and not self.ready:
                if end is not None and time.monotonic() >= end:
                    return None
                if not self.trainers and time.monotonic() - self.since >= self.deadline:
                    raise CommunicatorError(f"no trainer has said anything for {self.deadline:g} s")
        return self.inbox.popleft()

    def _patience(self, end: float | None) -> float | None:
        """How long to wait for the next event; no limit while a trainer is connected, for the kernel looks
        after those.
        """
        limits = [] if end is None else [end]
        if not self.trainers:
            limits.append(self.since + self.deadline)
        limits += [self.strangers[0].born + PATIENCE] if self.strangers else []
        return max(0.0, min(limits) - time.monotonic()) if limits else None

    def _poll(self, limit: float | None) -> bool:
        """Wait for the sockets, and do what they are ready for; True when one was."""
        events = self.selector.select(limit)
        again, self.ready = self.ready, deque()
        for key, mask in events:
            if isinstance(key.data, Stream):
                if mask & selectors.EVENT_WRITE:
                    self._flush(key.data)
                if mask & selectors.EVENT_READ and key.data in self.trainers and key.data not in again:
                    again.append(key.data)
            elif isinstance(key.data, Guard):
                self._advance(key.data)
            elif key.fileobj is self.socket:
                self._accept()
            else:
                self.woken.recv(64)
        for stream in again:
            self._read(stream)
        while self.strangers and time.monotonic() - self.strangers[0].born >= PATIENCE:
            self._turn_away(self.strangers[0])
        return bool(events)

    def _accept(self) -> None:
        try:
            sock, _ = self.socket.accept()
        except OSError:
            return  # gone again, or no descriptor left: the next poll tries anew
        sock.setblocking(False)
        guard = Guard(sock, self.key, self.welcome)
        self.strangers.append(guard)
        self.selector.register(sock, selectors.EVENT_READ, guard)
        if len(self.strangers) > STRANGERS:
            self._turn_away(self.strangers[0])

    def _advance(self, guard: Guard) -> None:
        """A stranger has said something."""
        try:
            known = guard.advance()
        except Gone:
            self._turn_away(guard)
            return
        if known:
            self.strangers.remove(guard)
            stream = Stream(guard.sock, self.deadline, self.check)
            self.trainers[stream] = -1
            self.selector.modify(guard.sock, selectors.EVENT_READ, stream)

    def _turn_away(self, guard: Guard) -> None:
        self.strangers.remove(guard)
        self.selector.unregister(guard.sock)
        guard.sock.close()

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
        except Gone as error:
            self._lose(stream, str(error))
        except FormatError as error:
            stream.put(Error(str(error)))
            with contextlib.suppress(Gone):
                stream.flush()
            self._lose(stream, str(error))

    def _note(self, stream: Stream, message: Message) -> None:
        self.trainers[stream] = message.trainer
        if message.kind is Kind.COMPLETE:
            self.goodbyes.add(message.trainer)
        else:
            self.goodbyes.discard(message.trainer)
        self.inbox.append((stream, message))

    def _lose(self, stream: Stream, why: str) -> None:
        """A connection has ended; the server hears of it where the trainer has not said goodbye and has no
        other one.
        """
        trainer = self._drop(stream)
        if trainer >= 0 and trainer not in self.goodbyes and trainer not in self.trainers.values():
            self.inbox.append((None, Message(Kind.LOST, trainer, why)))

    def _drop(self, stream: Stream) -> int:
        """Forget a connection; whose it was, or -1."""
        if stream not in self.trainers:
            return -1
        self.selector.unregister(stream.sock)
        stream.close()
        self.unsent.discard(stream)
        self.since = time.monotonic()
        return self.trainers.pop(stream)

    # ------------------------------------------------------------------ out
    def reply(self, to: Stream, value: Any) -> None:
        """Answer a message. The memory of `value` is sent as it is: say `settle` before it changes."""
        if to in self.trainers:
            to.put(value, own=True)
            self.unsent.add(to)
            if sum(view.nbytes for view in to.out) >= 1 << 16:
                self._flush(to)

    def settle(self) -> None:
        """Values of this server are about to change: keep what was promised to trainers as it is."""
        for stream in self.unsent:
            stream.settle()

    def _send(self) -> None:
        for stream in list(self.unsent):
            self._flush(stream)

    def _flush(self, stream: Stream) -> None:
        """Send what a trainer has room for; the selector says when there is more."""
        try:
            done = stream.flush()
        except Gone as error:
            self._lose(stream, str(error))
            return
        events = selectors.EVENT_READ if done else selectors.EVENT_READ | selectors.EVENT_WRITE
        if self.selector.get_key(stream.sock).events != events:
            self.selector.modify(stream.sock, events, stream)
        if done:
            self.unsent.discard(stream)
        else:
            self.unsent.add(stream)
