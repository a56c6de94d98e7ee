"""Free ports of this host, kept for the processes that will listen there."""

from __future__ import annotations

import contextlib
import socket
import sys

__all__ = ["HeldPorts"]

# elsewhere a bound socket keeps out those who are meant to have the port, too
_CAN_HOLD = sys.platform == "linux"


class HeldPorts(contextlib.ExitStack):
    """Free ports of 127.0.0.1. Inside the `with` nobody gets one of them by chance: neither who asks for any
    port nor who connects from one; who binds to it by number, with SO_REUSEADDR as servers do, gets it.
    """

    def find(self, count: int) -> list[int]:
        """Free ports, all different."""
        held = [socket.socket() for _ in range(count)]
        for one in held:
            self.enter_context(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
        found = [one.getsockname()[1] for one in held]
        if not _CAN_HOLD:
            self.close()
        return found
