"""HTTP between the processes of a job that hold its key, over TLS where the environment names certificates
(`Encryption`).

    client    GET /hello: a number used once
    server    its number, made when it started, and a proof for both
    client    a request: the numbers of server, client and request, the length and digest of the body, and a
              proof for all of it
    server    an answer, and a proof for it and the request's

A proof is a keyed hash. The server reads no byte of a body, and remembers nothing of a peer, before it has
seen the proof; a request counts once, at one server, and an answer for one request.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import http.server
import itertools
import json
import secrets
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.tcp.tls import Encryption

__all__ = ["FAILURES", "MOST_BYTES", "JobHttpClient", "JobHttpServer"]

# what a request to a process that is gone, or speaks otherwise, may raise
FAILURES = (OSError, http.client.HTTPException)
MOST_BYTES = 1 << 30  # of one body
_PATIENCE = 10.0  # seconds for a peer to show that it holds the key, and between bytes that it sends
_ANSWER = 180.0  # seconds in which a peer takes an answer
_UNPROVEN = 128  # connections that have shown nothing, held at once
_WINDOW = 1 << 16  # numbers of requests of one client that may overtake each other
_HEX = frozenset("0123456789abcdef")

Answer = Callable[[str, str, bytes], "bytes | None"]
"""Method, path and body of a request -> the answer; None where there is none."""


def _proof(key: bytes, *parts: Any) -> str:
    return hmac.new(key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _same(shown: str, right: str) -> bool:
    return hmac.compare_digest(shown.encode(errors="replace"), right.encode())


class _Numbers:
    """The numbers of requests that were taken, by client: each is taken once, and none that is far behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[str, tuple[int, set[int]]] = {}  # below the first number all count as taken

    def take(self, client: str, number: int) -> bool:
        """True for a number that was not taken before."""
        with self._lock:
            low, taken = self._clients.get(client, (0, set()))
            if number < low or number in taken:
                return False
            taken.add(number)
            if len(taken) > _WINDOW:
                ordered = sorted(taken)
                low = ordered[len(ordered) // 2]
                taken = {each for each in taken if each >= low}
            self._clients[client] = low, taken
            return True


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection to a `JobHttpServer`, which carries one request."""

    server: JobHttpServer
    timeout = _PATIENCE

    def do_GET(self) -> None:
        if self.command == "GET" and self.path == "/hello":
            self._say_hello()
            return
        proof = self._proven()
        if proof is None:
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        self.server.prove(self.connection)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if _digest(body) != self.headers["X-Body"]:
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        answer = self.server.answer(self.command, self.path, body)
        status = HTTPStatus.NOT_FOUND if answer is None else HTTPStatus.OK
        data = answer or b""
        self._send(status, data, _proof(self.server.key, "answer", proof, int(status), _digest(data)))

    do_POST = do_PUT = do_DELETE = do_GET

    def _say_hello(self) -> None:
        nonce = self._hex("X-Nonce")
        if not nonce:
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        number = self.server.number
        self._send(HTTPStatus.OK, number.encode(), _proof(self.server.key, "hello", nonce, number))

    def _proven(self) -> str | None:
        """The proof of the request; None where it is not right, or not for this server, or not for now."""
        length, number = self._count("Content-Length"), self._count("X-Number")
        client, body = self._hex("X-Client"), self._hex("X-Body")
        if not 0 <= length <= MOST_BYTES or number < 0 or not client or not body:
            return None
        server = self.server
        about = self.headers.get("X-From", ""), self.command, self.path, length, body
        right = _proof(server.key, "request", server.number, server.purpose, client, number, *about)
        if not _same(self.headers.get("X-Proof", ""), right) or not server.numbers.take(client, number):
            return None
        return right

    def _hex(self, name: str) -> str:
        """A header of 32 to 64 hexadecimal digits; "" for others."""
        text: str = self.headers.get(name, "")
        return text if 32 <= len(text) <= 64 and _HEX.issuperset(text) else ""

    def _count(self, name: str) -> int:
        """A header that is a number; -1 for others."""
        text = self.headers.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1

    def _send(self, status: HTTPStatus, data: bytes, proof: str) -> None:
        self.connection.settimeout(_ANSWER)
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Proof", proof)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: whoever does not hold the key could fill the log."""


class JobHttpServer(http.server.ThreadingHTTPServer):
    """A server at (address, port) for those who hold the key, with a thread for each connection.

    purpose: names the part of the job that it serves, and the process; clients have to mean the same.
    """

    daemon_threads = True
    request_queue_size = 1024  # callers that connect at once; the kernel may have a lower limit

    def __init__(self, address: tuple[str, int], key: bytes, answer: Answer, purpose: str = "") -> None:
        encryption = Encryption.of_environment()
        self.key = key
        self.answer = answer
        self.purpose = purpose
        self.number = secrets.token_hex(16)
        self.numbers = _Numbers()
        self._context = None if encryption is None else encryption.server_context()
        self._lock = threading.Lock()
        self._unproven: dict[socket.socket, float] = {}  # since when; the oldest first
        super().__init__(address, _Handler)

    def start(self, name: str) -> None:
        """Serve in a thread of this process, until `stop`."""
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True, name=name).start()

    def stop(self) -> None:
        """Take no request any more."""
        self.shutdown()
        self.server_close()

    # ------------------------------------------------------------------ peers that have shown nothing
    def prove(self, peer: socket.socket) -> None:
        """A peer has shown that it holds the key: it may take its time."""
        with self._lock:
            self._unproven.pop(peer, None)

    def _watch(self, peer: socket.socket) -> None:
        """End the oldest of too many connections that have shown nothing."""
        with self._lock:
            self._unproven[peer] = time.monotonic()
            if len(self._unproven) > _UNPROVEN:
                oldest = next(iter(self._unproven))
                del self._unproven[oldest]
                _end(oldest)

    def service_actions(self) -> None:
        """Called between requests: end connections that have shown nothing in their time."""
        now = time.monotonic()
        with self._lock:
            for peer in [each for each, since in self._unproven.items() if now - since > _PATIENCE]:
                del self._unproven[peer]
                _end(peer)

    # ------------------------------------------------------------------ connections
    def finish_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, in its own thread: a peer that says nothing keeps nobody waiting."""
        request.settimeout(_PATIENCE)
        peer = request
        try:
            self._watch(request)
            if self._context is not None:
                # no certificate of the job's authority: the peer hears so of TLS
                peer = self._context.wrap_socket(request, server_side=True)
                self.prove(request)
                self._watch(peer)
            super().finish_request(peer, client_address)
        except (OSError, ValueError):
            pass  # it was reset, or ended for saying nothing
        finally:
            self.prove(request)
            self.prove(peer)
            if peer is not request:
                self.shutdown_request(peer)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """End a connection; one that TLS has taken over ends with it."""
        if isinstance(request, socket.socket) and request.fileno() >= 0:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that failed: whoever does not hold the key could fill the log."""


def _end(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)  # its thread hears of it, and closes it


class JobHttpClient:
    """The way to such a server at `host:port`, for any thread; `sender` is what this process calls itself."""

    def __init__(self, host: str, port: int, key: bytes, purpose: str = "", sender: str = "") -> None:
        self.host, self.port, self.key = host, port, key
        self.purpose = purpose
        self.sender = urllib.parse.quote(sender)  # a header is ASCII
        self._client = secrets.token_hex(16)
        self._numbers = itertools.count()
        self._server = ""  # its number, once it has said hello

    def ask(self, method: str, path: str, body: bytes, limit: float) -> tuple[int, bytes]:
        """Status and body of the answer to one request; 403, which anybody could have said, for a server that
        does not take it.

        CommunicatorError where what answers does not hold the key; one of FAILURES where nobody does.
        """
        server = self._server or self._hello(limit)
        number = next(self._numbers)
        digest = _digest(body)
        about = self.sender, method, path, len(body), digest
        proof = _proof(self.key, "request", server, self.purpose, self._client, number, *about)
        headers = {
            "Content-Length": str(len(body)),
            "X-Client": self._client,
            "X-Number": str(number),
            "X-From": self.sender,
            "X-Body": digest,
            "X-Proof": proof,
        }
        status, data, shown = self._exchange(method, path, body, headers, limit)
        if status == HTTPStatus.FORBIDDEN:
            self._server = ""  # another process may be there by now
            return status, b""
        if not _same(shown, _proof(self.key, "answer", proof, status, _digest(data))):
            raise CommunicatorError(f"an answer from {self.host}:{self.port} without this job's key")
        return status, data

    def _hello(self, limit: float) -> str:
        nonce = secrets.token_hex(16)
        _, data, shown = self._exchange("GET", "/hello", b"", {"X-Nonce": nonce}, limit)
        number = data[:64].decode(errors="replace")
        if not _same(shown, _proof(self.key, "hello", nonce, number)):
            raise CommunicatorError(
                f"the process that listens at {self.host}:{self.port} does not have this job's key"
            )
        self._server = number
        return number

    def _exchange(
        self, method: str, path: str, body: bytes, headers: dict[str, str], limit: float
    ) -> tuple[int, bytes, str]:
        with contextlib.closing(_connection_to(self.host, self.port, limit)) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            length = answer.length
            if length is None or length > MOST_BYTES:
                raise http.client.HTTPException("an answer without a length, or with too many bytes")
            return answer.status, answer.read(), answer.headers.get("X-Proof", "")


def _connection_to(host: str, port: int, timeout: float) -> http.client.HTTPConnection:
    """A connection to a server of the job; it is made at the first request."""
    encryption = Encryption.of_environment()
    if encryption is None:
        return http.client.HTTPConnection(host, port, timeout=timeout)
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=encryption.client_context())
