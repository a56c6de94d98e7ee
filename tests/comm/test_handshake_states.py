"""Peers that go, in each state of the handshake and in each way, with TLS and without: the server stays."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from ports import free_endpoint
from test_tls import ask, echo_server, files

from fluidlite.executor.comm.tcp.handshake import VERSION

HELLO = struct.pack("<4sH32s", b"FLTH", VERSION, b"n" * 32)
WRONG = struct.pack("<4s32s", b"FLTP", b"0" * 32)
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"r" * 40  # the beginning of one
SECONDS = 5.0
# a reset between two system calls leaves the socket of TLS half made, which is closed when it is dropped
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# words, each sent when the last has been answered, or not
STATES = {
    "nothing": [],
    "a byte": [b"F"],
    "half a hello": [HELLO[:20]],
    "a hello": [HELLO],
    "half a proof": [HELLO, WRONG[:9]],
    "a wrong proof": [HELLO, WRONG],
    "another protocol": [b"GET / HTTP/1.1\r\n\r\n"],
    "the beginning of TLS": [CLIENT_HELLO],
}


def reset(sock: socket.socket) -> None:
    """End a connection by a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def garbage(sock: socket.socket) -> None:
    sock.sendall(np.random.RandomState(0).bytes(2000))


WAYS: dict[str, Callable[[socket.socket], None]] = {
    "closed": lambda sock: None,
    "reset": reset,
    "garbage": garbage,
    "no more words": lambda sock: sock.shutdown(socket.SHUT_WR),
}


@contextlib.contextmanager
def connected(endpoint: str, tls: bool) -> Iterator[socket.socket]:
    host, _, port = endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), SECONDS) as sock:
        if not tls:
            yield sock
            return
        context = files("job").client_context()
        with context.wrap_socket(sock, server_hostname=host) as encrypted:
            encrypted.settimeout(SECONDS)
            yield encrypted


def go(endpoint: str, tls: bool, state: str, way: str) -> None:
    """Say the words of a state, and go."""
    with connected(endpoint, tls) as sock, contextlib.suppress(OSError):
        for number, words in enumerate(STATES[state]):
            if number:
                sock.recv(200)
            sock.sendall(words)
        WAYS[way](sock)


@pytest.mark.parametrize("server", ["plain", "tls"])
def test_a_server_stays_whoever_goes(server: str) -> None:
    endpoint = free_endpoint()
    mine = files("job") if server == "tls" else None
    with echo_server(endpoint, mine):
        for tls in (False, True) if mine else (False,):
            for state in STATES:
                for way in WAYS:
                    go(endpoint, tls, state, way)
        assert ask(endpoint, mine).tolist() == [0, 1, 2]


def test_resets_in_a_storm_and_silent_peers() -> None:
    endpoint = free_endpoint()
    host, _, port = endpoint.rpartition(":")
    with echo_server(endpoint, files("job")), contextlib.ExitStack() as silent:
        for _ in range(40):
            silent.enter_context(socket.create_connection((host, int(port)), SECONDS))

        def storm() -> None:
            for number in range(200):
                sock = socket.create_connection((host, int(port)), SECONDS)
                reset(sock)
                with contextlib.suppress(OSError):
                    sock.sendall(CLIENT_HELLO[: number % 30])
                sock.close()

        threads = [threading.Thread(target=storm) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ask(endpoint, files("job")).tolist() == [0, 1, 2]
