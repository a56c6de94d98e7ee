"""A second connection that calls itself by the number of a trainer that is connected: a process that took
the place of one whose host crashed, or one that should have another number.

The kernel of the first one's host knows. It answers a probe while it runs, whatever its process computes or
waits for, and even one that is stopped; a host that has crashed, or cannot be reached, does not. So the new
connection waits until the probe is answered, and is refused then, or takes over after `SILENCE` seconds.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time

from fluidlite.executor.comm.tcp.stream import Stream, prepare

__all__ = ["SILENCE", "Claim", "Undecided", "silence_of"]

SILENCE = 10.0  # seconds without an answer after which a host is taken for dead
LOOK = 0.1  # seconds between two looks at a claim
_LAST_ACK = struct.Struct("<56xI")  # Linux's tcp_info: milliseconds since the last acknowledgement


class Undecided(Exception):
    """Raised until it is known whether the connection that has the number is alive."""


class Claim:
    """The claim of a new connection on the number of the connection `old`, whose host is asked whether it is
    there.
    """

    def __init__(self, old: Stream) -> None:
        self.old = old
        self.since = time.monotonic()
        with contextlib.suppress(OSError):  # it may end at this moment
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
                if hasattr(socket, name):
                    old.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), 1)

    def succeeds(self) -> bool:
        """True once the old connection has been silent for too long, False once it has answered; `Undecided`
        until then.
        """
        waited = time.monotonic() - self.since
        silence = silence_of(self.old.sock)
        if silence is None or silence < waited:
            with contextlib.suppress(OSError):
                prepare(self.old.sock, self.old.deadline)
            return False
        if waited < SILENCE:
            raise Undecided
        return True


def silence_of(sock: socket.socket) -> float | None:
    """Seconds since the host at the other end acknowledged anything, a probe of the kernel's included; None
    where the system does not say.
    """
    if not hasattr(socket, "TCP_INFO"):
        return None
    try:
        found = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
        return float(_LAST_ACK.unpack(found)[0]) / 1000.0
    except (OSError, struct.error):
        return None
