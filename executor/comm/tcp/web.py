"""HTTP between the processes of a job, over TLS where the environment names certificates (`Encryption`)."""

from __future__ import annotations

import http.client
import http.server
import socket
import ssl
from typing import Any

from fluidlite.executor.comm.tcp.tls import Encryption

__all__ = ["FAILURES", "JobHttpServer", "connection_to"]

# what a request to a process that is gone, or speaks otherwise, may raise
FAILURES = (OSError, http.client.HTTPException)
_PATIENCE = 10.0  # seconds for a peer to introduce itself


class JobHttpServer(http.server.ThreadingHTTPServer):
    """A server at (address, port), with a thread for each connection."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        encryption = Encryption.of_environment()
        self._context = None if encryption is None else encryption.server_context()
        super().__init__(address, handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, in its own thread: a peer that says nothing keeps nobody waiting."""
        if self._context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_PATIENCE)
        try:
            encrypted = self._context.wrap_socket(request, server_side=True)
        except (ssl.SSLError, OSError):
            return  # no certificate of the job's authority: the peer hears so of TLS
        encrypted.settimeout(None)
        try:
            super().finish_request(encrypted, client_address)
        finally:
            self.shutdown_request(encrypted)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """End a connection; one that TLS has taken over ends with it."""
        if isinstance(request, socket.socket) and request.fileno() >= 0:
            super().shutdown_request(request)


def connection_to(host: str, port: int, timeout: float) -> http.client.HTTPConnection:
    """A connection to such a server; it is made at the first request."""
    encryption = Encryption.of_environment()
    if encryption is None:
        return http.client.HTTPConnection(host, port, timeout=timeout)
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=encryption.client_context())
