"""Listeners at a server's address that are none: after 2 seconds a trainer says whom it waits for and what
it sees there.
"""

from __future__ import annotations

import contextlib
import http.server
import logging
import pathlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from ports import free_endpoint
from waiting import LIMIT

from fluidlite.errors import CommunicatorError, TranspilerError
from fluidlite.executor.comm.tcp import dialer
from fluidlite.executor.comm.tcp.dialer import Dialer
from fluidlite.executor.comm.tcp.tls import Encryption
from fluidlite.transpiler.details import checkport
from fluidlite.transpiler.details.checkport import wait_server_ready

SILENT = "accepts connections, but does not respond as a server of a job"
TLS = pathlib.Path(__file__).with_name("tls")


@contextlib.contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """An address at which `serve` takes each connection."""
    held = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        ends = threading.Event()

        def accept() -> None:
            while not ends.is_set():
                with contextlib.suppress(OSError):
                    sock, _ = server.accept()
                    held.append(sock)
                    sock.settimeout(5.0)
                    serve(sock)

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        ends.set()
        thread.join(LIMIT)
        for sock in held:
            sock.close()


@contextlib.contextmanager
def http_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def encryption() -> Encryption:
    return Encryption(*(str(TLS / name) for name in ("job.pem", "job.key", "authority.pem")))


def speak_tls(sock: socket.socket) -> None:
    encryption().server_context().wrap_socket(sock, server_side=True).close()


LISTENERS = {
    "silent": (lambda: listening(lambda sock: None), SILENT),
    "an HTTP server": (http_server, SILENT),
    "closes at once": (lambda: listening(lambda sock: sock.close()), "accepts the connection and closes it"),
    "a TLS server": (lambda: listening(speak_tls), "accepts the connection and closes it"),
    "nobody": (
        lambda: contextlib.nullcontext(free_endpoint()),
        "check that it is started (Connection refused)",
    ),
}


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("name", LISTENERS)
def test_the_notice_says_what_was_seen(
    name: str, tls: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dialer, "QUIET", 0.3)
    make, seen = LISTENERS[name]
    with make() as endpoint, caplog.at_level(logging.WARNING):
        with pytest.raises(CommunicatorError) as raised:
            Dialer(1.0, b"k" * 32, encryption=encryption() if tls else None).terms(endpoint)
    assert str(raised.value).startswith(f"no response from the server at {endpoint} for 1 s: ")
    assert tls or seen in str(raised.value)
    (notice,) = [record.getMessage() for record in caplog.records]
    assert notice.startswith(f"waiting for the server at {endpoint}, up to 0.7 s more: ")
    assert tls or seen in notice


def test_whoever_says_what_it_is_ends_the_wait() -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with listening(lambda sock: sock.sendall(answer)) as endpoint:
        with pytest.raises(
            CommunicatorError, match=f"{endpoint} is not a server of a job: it answers b'HTTP'"
        ):
            Dialer(20.0, b"k" * 32).terms(endpoint)


def test_waiting_for_ports_is_said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(checkport, "_QUIET", 0.1)
    missing = free_endpoint()
    with listening(lambda sock: None) as there, caplog.at_level(logging.WARNING):
        with pytest.raises(
            TranspilerError, match=f"do not listen after 0.5 s: {missing} .connection refused"
        ):
            wait_server_ready([there, missing], 0.5)
    (notice,) = [record.getMessage() for record in caplog.records]
    assert notice.startswith(f"waiting for the servers at {missing} (connection refused), up to 0.")
