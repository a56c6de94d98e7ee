"""Trainers and servers that are started one by one, at `ip:port`: messages over TCP, for those who hold the
job's key.

`Dialer` is a trainer's end, `Listener` a server's, `Stream` one connection of either, and `handshake` how
they meet.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from typing import Any

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.session import Session
from fluidlite.executor.comm.tcp.dialer import Dialer
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.executor.comm.tcp.listener import Listener
from fluidlite.executor.comm.terms import Terms, differences
from fluidlite.executor.comm.wire import Incoming

__all__ = ["TcpLink", "TcpSession", "job_key"]


class TcpSession(Session):
    """This process's connections: to servers as a trainer, or from trainers as a server. Every wait ends
    after `deadline` seconds.
    """

    pace = "threads"

    def __init__(self, deadline: float = 180.0, key: bytes | None = None) -> None:
        self.tcp = TcpLink(deadline, job_key() if key is None else key)
        self.agreed: set[tuple[int, int, str]] = (
            set()
        )  # programs, by serial and version, that were held against a server's terms
        super().__init__(self.tcp)

    def post(self, endpoint: str, message: Message) -> None:
        """Send a message; CommunicatorError, before the first one, where the server's program does not fit
        this trainer's.
        """
        if self.doing is not None and message.kind is not Kind.COMPLETE:
            program = self.doing.block.program
            key = program.serial, program.version, endpoint
            if key not in self.agreed:
                self._compare(program, endpoint)
                self.agreed.add(key)
        super().post(endpoint, message)

    def _compare(self, program: Any, endpoint: str) -> None:
        terms = Terms.parse(self.tcp.dialer.server(endpoint).welcome.terms)
        found = differences(program, endpoint, terms)
        if found:
            raise CommunicatorError(
                f"this trainer's program is not one that the server at {endpoint} was made for:\n  "
                + "\n  ".join(found)
            )

    def leave(self) -> None:
        """Tell the servers, and close the connections once they have heard it."""
        self.contacted = {
            endpoint: trainer
            for endpoint, trainer in self.contacted.items()
            if self.tcp.dialer.reaches(endpoint)
        }
        with contextlib.suppress(CommunicatorError):  # a server that has gone needs no goodbye
            super().leave()
        self.tcp.close()


class TcpLink:
    """The way between trainers and servers over TCP."""

    def __init__(self, deadline: float, key: bytes) -> None:
        self.deadline, self.key = deadline, key
        self.dialer = Dialer(
            deadline, key, flags.get_flags("FLAGS_rpc_server_wait")["FLAGS_rpc_server_wait"] / 1000.0
        )
        self.listener: Listener | None = None
        if hasattr(os, "register_at_fork"):
            forget = weakref.WeakMethod(self.dialer.forget)
            os.register_at_fork(after_in_child=lambda: (forget() or int)())  # type: ignore[operator]

    def close(self) -> None:
        """End all connections; what was sent is delivered first."""
        self.dialer.close()
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    # ------------------------------------------------------------------ a trainer
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to a server; the first one waits until the server is up and both have shown that
        they hold the key.
        """
        self.dialer.post(endpoint, message)

    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The next answer of a server, in `into` where it fits; CommunicatorError with what the server
        says is wrong.
        """
        return self.dialer.answer(endpoint, into)

    # ------------------------------------------------------------------ a server
    def listen(self, endpoint: str, trainers: int = 0) -> None:
        """Bind to the address that was given, and to no other; CommunicatorError where the port is taken."""
        self.listener = Listener(endpoint, self.deadline, self.key, b"", lambda _: None)

    def listen_with_terms(self, endpoint: str, terms: Terms, check: Callable[[Incoming], None]) -> None:
        """Like `listen`; trainers hear the terms when they come, and `check` is asked about each message
        before it is read.
        """
        self.listener = Listener(endpoint, self.deadline, self.key, terms.spelled(), check)

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """The next message of somebody who holds the key; None when there is none `within` so many
        seconds.
        """
        assert self.listener is not None
        return self.listener.next_message(within)

    def reply(self, to: Any, value: Any) -> None:
        """Answer a message."""
        assert self.listener is not None
        self.listener.reply(to, value)

    def settle(self) -> None:
        """What was replied stays as it is, although the server's values are about to change."""
        assert self.listener is not None
        self.listener.settle()

    def stop(self, why: str) -> None:
        """Have `next_message` raise."""
        if self.listener is not None:
            self.listener.stop(why)

    def end(self, why: str) -> None:
        """Close the connections; tell the trainers why, where that is not because all have left."""
        if self.listener is not None:
            if why:
                self.listener.end(why)
            self.listener.close()
            self.listener = None
