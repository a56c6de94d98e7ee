"""One TCP connection: messages in and out of a socket, large values straight from and into the memory of
their arrays.

Why plain sockets: a value is copied by nobody but the kernel, a peer that dies is known at once, no other
threads run, and the kernel itself asks whether a silent peer is still there. docs/BENCHMARKS.md has what was
measured beside ZeroMQ and gRPC.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.executor.comm.wire import HEAD_SIZE, Incoming, encode
from fluidlite.values.recycling import RecycledArrays

__all__ = ["Gone", "Late", "Stream", "address_of"]

STAGE = 1 << 16  # bytes that are read at once: small messages come together, large values go around it
PIECES = 64  # pieces of memory that one call sends
PORTION = 1 << 18  # bytes of a large value that are waited for at once
SMALL = 1 << 14  # bytes up to which what is to be sent later is copied
SHAPES = 256  # of large values whose memory is kept
PROBE_IDLE, PROBE_EVERY, PROBES = 10, 5, 4  # a silent peer is given up after 30 s, by the kernel


class Gone(Exception):
    """The peer has ended the connection, or it was lost."""


class Late(Exception):
    """Nothing has moved within the time limit."""


def address_of(endpoint: str) -> tuple[str, int]:
    """Host and port of `host:port`; ValueError where they are not there."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{endpoint!r} is no address: write host:port, such as 127.0.0.1:6174")
    return host.strip("[]"), int(port)


def prepare(sock: socket.socket, deadline: float) -> None:
    """Send at once, and have the kernel find out when the peer is no more: it needs nobody's Python for
    that.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", PROBE_IDLE),
        ("TCP_KEEPINTVL", PROBE_EVERY),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", int(deadline * 1000)),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_large: dict[tuple[tuple[int, ...], Any], RecycledArrays] = {}


def recycled(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array for a value that comes. New memory is mapped page by page, which takes as long as to
    receive it: take what is free again.
    """
    if math.prod(shape) * dtype.itemsize < STAGE:
        return np.empty(shape, dtype)
    if len(_large) >= SHAPES and (shape, dtype) not in _large:
        _large.clear()
    return _large.setdefault((shape, dtype), RecycledArrays(np, shape, dtype))()


class Stream:
    """A connected socket that messages go over. Never blocks, except in `wait`.

    check: asked about each message before its value is allocated; raises for one that is not to be read.
    """

    def __init__(
        self, sock: socket.socket, deadline: float, check: Callable[[Incoming], None] = lambda _: None
    ) -> None:
        prepare(sock, deadline)
        sock.setblocking(False)
        self.sock, self.deadline, self.check = sock, deadline, check
        self.out: deque[memoryview] = deque()
        self.stage = memoryview(bytearray(STAGE))
        self.start = self.stop = 0  # what of it is not used yet
        self.coming: Incoming | None = None  # the message that is being read, once its header is here
        self.arrays: tuple[Any, Any] = (None, None)
        self.left: list[memoryview] = []  # what of its values is still to be filled
        self.wakes_at = 1  # bytes from which the kernel says that something has come
        self.into: Any = None  # where the next value may be read into

    def close(self) -> None:
        """End the connection."""
        self.sock.close()

    # ------------------------------------------------------------------ out
    def put(self, item: Any, own: bool = False) -> None:
        """Queue a message or answer for `flush`. With `own`, small values are copied: their memory may
        change before.
        """
        for frame in encode(item):
            view = memoryview(frame)
            if view.nbytes:
                view = view.cast("B")
                self.out.append(memoryview(bytes(view)) if own and view.nbytes <= SMALL else view)

    def flush(self) -> bool:
        """Send what is queued, as far as it goes without waiting; True when all is sent."""
        out = self.out
        while out:
            try:
                sent = self.sock.sendmsg([out[index] for index in range(min(len(out), PIECES))])
            except BlockingIOError:
                return False
            except OSError as error:
                raise Gone(reason(error)) from error
            while sent:
                if sent < out[0].nbytes:
                    out[0] = out[0][sent:]
                    break
                sent -= out.popleft().nbytes
        return True

    def settle(self) -> None:
        """Copy what is queued: its memory is about to change."""
        for index, view in enumerate(self.out):
            self.out[index] = memoryview(bytes(view))

    # ------------------------------------------------------------------ in
    def get(self) -> Any:
        """The next message or answer that is complete; None inside of a tuple is a value, a bare None says
        that none is.
        """
        while True:
            if self.coming is None and not self._header():
                if not self._fill():
                    return None
            elif self.coming is not None:
                if not self._values():
                    return None
                coming, self.coming = self.coming, None
                arrays, self.arrays = self.arrays, (None, None)
                return (coming.item(*arrays),)

    def _header(self) -> bool:
        """Read a header, if all of it is staged."""
        have = self.stop - self.start
        if have < HEAD_SIZE:
            return False
        coming = Incoming(self.stage[self.start : self.start + HEAD_SIZE])
        end = self.start + HEAD_SIZE + coming.rest
        if end > self.stop:
            if HEAD_SIZE + coming.rest > STAGE:
                raise Gone("a header that is too long")
            return False
        coming.describe(self.stage[self.start + HEAD_SIZE : end])
        self.check(coming)
        self.start = end
        self.arrays = coming.arrays(self.into, recycled)
        self.left = [
            memoryview(array).cast("B") for array in self.arrays if array is not None and array.nbytes
        ]
        self.coming = coming
        return True

    def _values(self) -> bool:
        """Read the values of the message whose header is here; True when they are complete."""
        left = self.left
        while left:
            count = min(self.stop - self.start, left[0].nbytes)
            if count:
                left[0][:count] = self.stage[self.start : self.start + count]
                self.start += count
            else:
                count = self._receive(left[0])
                if not count:
                    self._wake_at(min(sum(view.nbytes for view in left), PORTION))
                    return False
            if count == left[0].nbytes:
                del left[0]
            else:
                left[0] = left[0][count:]
        self._wake_at(1)
        return True

    def _wake_at(self, count: int) -> None:
        """Have the kernel call the socket readable when so many bytes are there: to wake up for each
        packet takes half of the time.
        """
        if count != self.wakes_at and hasattr(socket, "SO_RCVLOWAT"):
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self.wakes_at = count

    def _fill(self) -> bool:
        """Stage what has come; False when nothing has."""
        if self.start:
            kept = self.stop - self.start
            self.stage[:kept] = bytes(self.stage[self.start : self.stop])
            self.start, self.stop = 0, kept
        count = self._receive(self.stage[self.stop :])
        self.stop += count
        return count > 0

    def _receive(self, target: memoryview) -> int:
        """Bytes read; 0 when none have come. Gone at the end of the connection."""
        try:
            count = self.sock.recv_into(target)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Gone(reason(error)) from error
        if not count:
            raise Gone(
                "cut in the middle of a message"
                if self.coming is not None or self.stop > self.start
                else "closed"
            )
        return count

    def skim(self) -> None:
        """Read what has come, and forget it; Gone at the end."""
        while self._receive(self.stage):
            pass

    def hang_up(self) -> None:
        """Send nothing more: the peer sees the end of the connection behind what was sent."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Gone(reason(error)) from error

    # ------------------------------------------------------------------ waiting
    def send_all(self) -> None:
        """Send what is queued; Late when nothing moves for the time limit."""
        while not self.flush():
            self.wait(select.POLLOUT, self.deadline)

    def next(self, limit: float | None = None) -> Any:
        """The next message or answer, waited for; Late when nothing moves for the time limit (or `limit`)."""
        while (found := self.get()) is None:
            self.wait(select.POLLIN, self.deadline if limit is None else limit)
        return found[0]

    def wait(self, events: int, limit: float) -> None:
        """Until the socket can be read from, or written to, again; Late after `limit` seconds."""
        wait_for(self.sock, events, limit)


def wait_for(sock: socket.socket, events: int, limit: float) -> None:
    """Until `sock` is ready; Late after `limit` seconds."""
    poll = select.poll()
    poll.register(sock, events)
    if not poll.poll(max(0, int(limit * 1000))):
        raise Late(f"{limit:g} s")


def read_exactly(sock: socket.socket, count: int, limit: float) -> bytes:
    """So many bytes of a socket, for the handshake; Gone or Late where they do not come."""
    found, end = b"", time.monotonic() + limit
    while len(found) < count:
        wait_for(sock, select.POLLIN, end - time.monotonic())
        try:
            piece = sock.recv(count - len(found))
        except BlockingIOError:
            continue
        except OSError as error:
            raise Gone(reason(error)) from error
        if not piece:
            raise Gone("closed")
        found += piece
    return found


def reason(error: OSError) -> str:
    """What the system says is wrong."""
    return (error.strerror or str(error)).lower()
