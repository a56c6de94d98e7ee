"""Trainers and servers that are started one by one, at `ip:port`: messages over TCP, for those who hold the
job's key.

`Dialer` is a trainer's end, `Listener` a server's, `Stream` one connection of either, `handshake` how they
recognise each other, and `tls` what encrypts their words where certificates are given.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.links import ServerLink
from fluidlite.executor.comm.messages import Message
from fluidlite.executor.comm.session import Pace, Session
from fluidlite.executor.comm.tcp.dialer import Dialer
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.executor.comm.tcp.listener import Listener
from fluidlite.executor.comm.tcp.tls import Encryption
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.wire import Incoming

__all__ = ["TcpSession"]


class TcpSession(Session):
    """The connections of this process: to servers as a trainer, or from trainers as a server. Every wait ends
    after `deadline` seconds.
    """

    pace = Pace.THREADS

    def __init__(self, deadline: float = 180.0, key: bytes | None = None) -> None:
        self.deadline = deadline
        self.key = job_key() if key is None else key
        patience = flags.get_flags("FLAGS_rpc_server_wait")["FLAGS_rpc_server_wait"] / 1000.0
        self.encryption = Encryption.of_environment()
        self.dialer = Dialer(deadline, self.key, patience, self.encryption)
        self.listener: Listener | None = None
        super().__init__(self.dialer)

    def listen(self, endpoint: str, terms: Terms, check: Callable[[Incoming], None]) -> ServerLink:
        """Bind to the address that was given, and to no other; CommunicatorError where the port is taken."""
        self.listener = Listener(endpoint, self.deadline, self.key, terms.to_json(), check, self.encryption)
        sys.stderr.write(f"listening at {endpoint}\n")
        sys.stderr.flush()
        return self.listener

    def post(self, endpoint: str, message: Message) -> None:
        """Send a message; one of a program that has not used this server yet begins another job."""
        if self.current_op is not None:
            use = self.current_op.block.program.serial, endpoint
            if use not in self.used:
                self.used.add(use)
                self.dialer.left.discard(endpoint)
        super().post(endpoint, message)

    def goes_on_from(self, session: Session) -> None:
        """Know the servers that an earlier session has left, and the programs that used them."""
        super().goes_on_from(session)
        if isinstance(session, TcpSession):
            self.dialer.left.update(session.dialer.left)

    def leave(self) -> None:
        """Tell the servers, and close the connections once they have heard it."""
        with contextlib.suppress(CommunicatorError):  # of a communicator that cannot send what is left
            super().leave()
        self.forget_servers()
        self.dialer.close()
        if self.listener is not None:
            self.listener.close()

    def say_goodbye(self, endpoint: str, trainer: int) -> None:
        """Tell one server; one that has gone needs no goodbye, and the others shall hear theirs."""
        with contextlib.suppress(CommunicatorError):
            super().say_goodbye(endpoint, trainer)

    def join_devices(self, ring_id: int) -> None:
        """CommunicatorError: TCP connects trainers with servers only."""
        raise CommunicatorError(f"this process cannot make ring {ring_id}: it has one device")
