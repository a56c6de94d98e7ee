"""TLS under the connections of a job, where the environment names certificates.

Both ends show a certificate of the job's authority, and a server's has to be for the host that trainers call
it by. The handshake of the job's key follows inside, as without TLS.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any

from fluidlite.base.errors import CommunicatorError
from fluidlite.base.records import dataclass

__all__ = ["VARIABLES", "Encryption", "TlsSocket"]

VARIABLES = ("FLUIDLITE_TLS_CERTIFICATE", "FLUIDLITE_TLS_KEY", "FLUIDLITE_TLS_AUTHORITY")
CHUNK = 1 << 16  # bytes that are encrypted by one call: four records


@dataclass(frozen=True)
class Encryption:
    """PEM files of this process: its certificate, the private key of that, and the authority whose
    certificates it trusts.
    """

    certificate: str
    key: str
    authority: str

    @classmethod
    def of_environment(cls) -> Encryption | None:
        """The files that the environment names; None where it names none. CommunicatorError where it names
        some but not all: a job that looks encrypted and is not would be worse than one that is plainly not.
        """
        given = [os.environ.get(name, "") for name in VARIABLES]
        if not any(given):
            return None
        missing = [name for name, value in zip(VARIABLES, given, strict=True) if not value]
        if missing:
            raise CommunicatorError(
                f"{' and '.join(missing)} should be set too: TLS needs all of {', '.join(VARIABLES)}"
            )
        return cls(*given)

    def _context(self, purpose: int) -> ssl.SSLContext:
        context = ssl.SSLContext(purpose)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.sslsocket_class = TlsSocket
        with _naming(self.certificate):
            context.load_cert_chain(self.certificate, self.key)
        with _naming(self.authority):
            context.load_verify_locations(self.authority)
        return context

    def server_context(self) -> ssl.SSLContext:
        """The context of one that listens."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        # sessions are not taken up again; a ticket that nobody reads would reset a connection that ends
        context.num_tickets = 0
        return context

    def client_context(self) -> ssl.SSLContext:
        """The context of one that connects."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT)


class TlsSocket(ssl.SSLSocket):
    """An encrypted socket that is used like a plain one: what has to wait raises BlockingIOError."""

    _chunk = b""  # what is being sent: OpenSSL asks to be given the same bytes again

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Up to `buflen` bytes."""
        with _blocking():
            return super().recv(buflen, flags)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """Bytes read into a buffer."""
        with _blocking():
            return super().recv_into(buffer, nbytes, flags)

    def sendmsg(self, buffers: Iterable[Any], *_: Any) -> int:  # type: ignore[override]  # refused there
        """Send what the buffers begin with; the number of bytes."""
        self._chunk = self._chunk or _beginning(buffers)
        with _blocking():
            sent = self.send(self._chunk)
        self._chunk = b""
        return sent

    def setsockopt(self, level: int, name: int, value: Any, *more: Any) -> None:
        """OSError for the number of bytes from which the socket is readable: how many encrypted ones are
        still to come, nobody here knows.
        """
        if level == socket.SOL_SOCKET and name == socket.SO_RCVLOWAT:
            raise OSError("not supported for an encrypted socket")
        super().setsockopt(level, name, value, *more)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """CommunicatorError, with the path, for a file that cannot be read, or is not what it should be."""
    try:
        yield
    except OSError as error:
        raise CommunicatorError(
            f"cannot use {path!r} for TLS: {error.strerror or error} ({', '.join(VARIABLES)})"
        ) from error


def _beginning(buffers: Iterable[Any]) -> bytes:
    found: list[bytes] = []
    room = CHUNK
    for buffer in buffers:
        found.append(bytes(buffer[:room]))
        room -= len(found[-1])
        if not room:
            break
    return b"".join(found)


@contextlib.contextmanager
def _blocking() -> Iterator[None]:
    try:
        yield
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
        raise BlockingIOError(str(error)) from None
