"""One TCP connection: messages in and out of a socket, large values straight from and into the memory of
their arrays.

Why plain sockets: a value is copied by nobody but the kernel, a peer that dies is known at once, no other
threads run, and the kernel itself asks whether a silent peer is still there. docs/BENCHMARKS.md has what was
measured beside ZeroMQ and gRPC.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.wire import HEAD_SIZE, Incoming, encode, receive_buffer

__all__ = ["ConnectionLost", "TimedOut", "Stream", "address_of"]

STAGE = 1 << 16  # bytes of the buffer that headers and small values are read through
PIECES = 64  # frames that one system call sends: below the kernel's limit of 1024, and enough for a step
PORTION = 1 << 18  # bytes of a large value that the kernel collects before it wakes this process
SMALL = 1 << 14  # bytes of a frame that is rather copied than kept as it is until it is sent
PROBE_IDLE, PROBE_EVERY, PROBES = 10, 5, 4  # a silent peer is given up after 30 s, by the kernel


class ConnectionLost(Exception):
    """The peer has ended the connection, or it broke."""


class TimedOut(Exception):
    """No byte has moved within the time limit."""


def address_of(endpoint: str) -> tuple[str, int]:
    """Host and port of `host:port`; ValueError where they are not there."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{endpoint!r} is not an address: write host:port, such as 127.0.0.1:6174")
    return host.strip("[]"), int(port)


def prepare(sock: socket.socket, deadline: float) -> None:
    """Set a socket's options: send at once, and have the kernel find out when the peer is no more, which
    needs no thread here and no answer from the peer's Python.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", PROBE_IDLE),
        ("TCP_KEEPINTVL", PROBE_EVERY),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", int(deadline * 1000)),
    ):
        if hasattr(socket, name):  # each system has some of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Stream:
    """A connected socket that messages go over. Only `next` and `send_all` wait.

    out: frames that are not sent yet.
    check: called with the header of each message before memory is allocated for its value; raises for one
        that is not to be read.
    """

    def __init__(
        self, sock: socket.socket, deadline: float, check: Callable[[Incoming], None] = lambda _: None
    ) -> None:
        prepare(sock, deadline)
        sock.setblocking(False)
        self.sock = sock
        self.deadline = deadline
        self.check = check
        self.out: deque[memoryview] = deque()
        self._into: Any = None  # an array that the next value is read into where it fits
        self._stage = memoryview(bytearray(STAGE))
        self._start = self._stop = 0  # the bytes of the stage that are not used yet
        self._incoming: Incoming | None = None  # the message whose values are being read
        self._arrays: tuple[Any, Any] = (None, None)  # its row numbers and elements
        self._left: list[memoryview] = []  # the memory of these that is still to be filled
        self._low_water = 1  # bytes from which the kernel calls the socket readable

    def close(self) -> None:
        """End the connection."""
        self.sock.close()

    # ------------------------------------------------------------------ out
    def put(self, item: Any, own: bool = False) -> None:
        """Queue a message or an answer. With `own`, frames up to SMALL are copied, since their memory may
        change before `flush` sends them.
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
                raise ConnectionLost(reason(error)) from error
            while sent:
                if sent < out[0].nbytes:
                    out[0] = out[0][sent:]
                    break
                sent -= out.popleft().nbytes
        return True

    def copy_queued(self) -> None:
        """Copy the frames that are not sent yet: their memory is about to change."""
        for index, view in enumerate(self.out):
            self.out[index] = memoryview(bytes(view))

    # ------------------------------------------------------------------ in
    def get(self) -> Any:
        """The next complete message or answer, in a tuple, for an answer may be None; None where there is
        none yet.
        """
        while self._incoming is None and not self._header():
            if not self._fill():
                return None
        if not self._values():
            return None
        incoming = self._incoming
        self._incoming = None
        arrays = self._arrays
        self._arrays = (None, None)
        assert incoming is not None
        return (incoming.item(*arrays),)

    def _header(self) -> bool:
        """Read a header, if all of it is staged."""
        have = self._stop - self._start
        if have < HEAD_SIZE:
            return False
        incoming = Incoming(self._stage[self._start : self._start + HEAD_SIZE])
        end = self._start + HEAD_SIZE + incoming.rest
        if end > self._stop:
            if HEAD_SIZE + incoming.rest > STAGE:
                raise ConnectionLost("a header that is too long")
            return False
        incoming.describe(self._stage[self._start + HEAD_SIZE : end])
        self.check(incoming)
        self._start = end
        self._arrays = incoming.arrays(self._into, receive_buffer)
        filled = [array for array in self._arrays if array is not None and array.nbytes]
        self._left = [memoryview(array).cast("B") for array in filled]
        self._incoming = incoming
        return True

    def _values(self) -> bool:
        """Read the values of the message whose header is here; True when they are complete."""
        left = self._left
        while left:
            count = min(self._stop - self._start, left[0].nbytes)
            if count:
                left[0][:count] = self._stage[self._start : self._start + count]
                self._start += count
            else:
                count = self._receive(left[0])
                if not count:
                    self._set_low_water(min(sum(view.nbytes for view in left), PORTION))
                    return False
            if count == left[0].nbytes:
                del left[0]
            else:
                left[0] = left[0][count:]
        self._set_low_water(1)
        return True

    def _set_low_water(self, count: int) -> None:
        """Have the kernel call the socket readable when so many bytes are there: to wake up for each packet
        of a large value takes half of the time.
        """
        if count != self._low_water and hasattr(socket, "SO_RCVLOWAT"):
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._low_water = count

    def _fill(self) -> bool:
        """Stage what has come; False when nothing has."""
        if self._start:
            kept = self._stop - self._start
            self._stage[:kept] = bytes(self._stage[self._start : self._stop])
            self._start = 0
            self._stop = kept
        count = self._receive(self._stage[self._stop :])
        self._stop += count
        return count > 0

    def _receive(self, target: memoryview) -> int:
        """Bytes read; 0 when none have come. ConnectionLost at the end of the connection."""
        try:
            count = self.sock.recv_into(target)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionLost(reason(error)) from error
        if not count:
            is_cut = self._incoming is not None or self._stop > self._start
            raise ConnectionLost("closed in the middle of a message" if is_cut else "closed")
        return count

    def skim(self) -> None:
        """Read what has come, and drop it; ConnectionLost at the end."""
        while self._receive(self._stage):
            pass

    def hang_up(self) -> None:
        """Send nothing more: the peer sees the end of the connection after what was sent."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise ConnectionLost(reason(error)) from error

    # ------------------------------------------------------------------ waiting
    def send_all(self, limit: float | None = None) -> None:
        """Send what is queued; TimedOut when no byte moves for `limit` seconds (default: the deadline)."""
        while not self.flush():
            wait_for(self.sock, select.POLLOUT, self.deadline if limit is None else limit)

    def next(self, limit: float | None = None, into: Any = None) -> Any:
        """The next message or answer, waited for, and read straight into the array `into` where it fits.
        TimedOut when no byte moves for `limit` seconds (default: the deadline).
        """
        self._into = into
        try:
            while (found := self.get()) is None:
                wait_for(self.sock, select.POLLIN, self.deadline if limit is None else limit)
        finally:
            self._into = None
        return found[0]


def wait_for(sock: socket.socket, events: int, limit: float) -> None:
    """Wait until `sock` is ready for one of the events; TimedOut after `limit` seconds."""
    poll = select.poll()
    poll.register(sock, events)
    if not poll.poll(max(0, int(limit * 1000))):
        raise TimedOut(f"{limit:g} s")


def read_exactly(sock: socket.socket, count: int, limit: float) -> bytes:
    """The next `count` bytes of a socket, for the handshake; ConnectionLost or TimedOut where they do not
    come.
    """
    found = b""
    end = time.monotonic() + limit
    while len(found) < count:
        # what an encrypted socket has decrypted already, the kernel does not know of
        if not (isinstance(sock, ssl.SSLSocket) and sock.pending()):
            wait_for(sock, select.POLLIN, end - time.monotonic())
        try:
            piece = sock.recv(count - len(found))
        except BlockingIOError:
            continue
        except ssl.SSLError as error:  # a server's word on a certificate comes with its first answer
            raise CommunicatorError(
                f"the peer refuses this process's certificate ({reason(error)})"
            ) from error
        except OSError as error:
            raise ConnectionLost(reason(error)) from error
        if not piece:
            raise ConnectionLost("closed")
        found += piece
    return found


def reason(error: OSError) -> str:
    """The system's words for an error."""
    return (error.strerror or str(error)).lower()
