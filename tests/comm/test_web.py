"""Requests between processes of a job over HTTP: of those who hold the key, once, and of nobody else."""

from __future__ import annotations

import http.client
import resource
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from waiting import LIMIT, until

from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.tcp import web
from fluidlite.executor.comm.tcp.web import JobHttpClient, JobHttpServer

KEY = b"k" * 32


class Counting:
    """A server that counts what it answers."""

    def __init__(self, purpose: str = "rpc", key: bytes = KEY) -> None:
        self.taken: list[tuple[str, str, bytes]] = []
        self.server = JobHttpServer(("127.0.0.1", 0), key, self.answer, purpose)
        self.server.start("a test's")
        self.address: tuple[str, int] = self.server.server_address[:2]  # type: ignore[assignment]

    def answer(self, method: str, path: str, body: bytes) -> bytes | None:
        self.taken.append((method, path, body))
        return None if path == "/none" else b"answer to " + body

    def client(self, purpose: str = "rpc", key: bytes = KEY) -> JobHttpClient:
        return JobHttpClient(*self.address, key, purpose, "Zoë")


@pytest.fixture
def there() -> Iterator[Counting]:
    counting = Counting()
    yield counting
    counting.server.stop()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The requests that somebody on the wire would see."""
    found: list[tuple[Any, ...]] = []
    ask = http.client.HTTPConnection.request

    def request(self: Any, *arguments: Any) -> None:
        found.append(arguments)
        ask(self, *arguments)

    monkeypatch.setattr(http.client.HTTPConnection, "request", request)
    return found


def status_of(address: tuple[str, int], method: str, url: str, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(*address, timeout=LIMIT)
    connection.request(method, url, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def said(address: tuple[str, int], data: bytes) -> bytes:
    with socket.create_connection(address, LIMIT) as sock:
        sock.sendall(data)
        try:
            return sock.recv(100)
        except ConnectionResetError:
            return b""


def test_requests_and_answers(there: Counting) -> None:
    client = there.client()
    assert client.ask("POST", "/call", b"one", LIMIT) == (200, b"answer to one")
    assert client.ask("GET", "/none", b"", LIMIT) == (404, b"")
    assert there.taken == [("POST", "/call", b"one"), ("GET", "/none", b"")]


def test_a_recorded_request_counts_nowhere_again(there: Counting, heard: list[tuple[Any, ...]]) -> None:
    there.client().ask("POST", "/call", b"one", LIMIT)
    others = [there, Counting("rpc"), Counting("another")]
    recorded = heard[-1]
    for other in others:
        assert status_of(other.address, *recorded) == 403
    assert [len(other.taken) for other in others] == [1, 0, 0]
    for other in others[1:]:
        other.server.stop()


@pytest.mark.parametrize(
    "field", ["method", "url", "body", "X-From", "X-Client", "X-Number", "X-Body", "X-Proof"]
)
def test_a_request_that_was_changed_on_its_way(
    there: Counting, heard: list[tuple[Any, ...]], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = there.client()
    client.ask("GET", "/first", b"", LIMIT)
    monkeypatch.setattr(client, "_exchange", lambda *sent: (recorded.append(sent), (403, b"", ""))[1])
    recorded: list[tuple[Any, ...]] = []
    client.ask("POST", "/call", b"one", LIMIT)
    method, url, body, headers, _ = recorded[0]
    changed = {"method": "PUT", "url": "/other", "body": b"two"}
    method, url, body = (
        changed[field] if field == name else value
        for name, value in (("method", method), ("url", url), ("body", body))
    )
    if field in headers:
        headers[field] = {"X-From": "me", "X-Number": "77"}.get(field, "0" * 64)
    assert status_of(there.address, method, url, body, headers) == 403
    assert len(there.taken) == 1


@pytest.mark.parametrize("key, purpose", [(b"x" * 32, "rpc"), (KEY, "values")])
def test_others_are_not_heard(there: Counting, key: bytes, purpose: str) -> None:
    client = there.client(purpose, key)
    if key == KEY:
        assert client.ask("POST", "/call", b"one", LIMIT) == (403, b"")
    else:
        with pytest.raises(CommunicatorError, match="does not have this job's key"):
            client.ask("POST", "/call", b"one", LIMIT)
    assert not there.taken


def test_an_answer_of_somebody_else_is_not_believed(there: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    client = there.client()
    exchange = client._exchange

    def between(*sent: Any) -> tuple[int, bytes, str]:
        status, data, proof = exchange(*sent)
        return status, data.replace(b"answer to", b"answer of"), proof

    client.ask("POST", "/call", b"one", LIMIT)
    monkeypatch.setattr(client, "_exchange", between)
    with pytest.raises(CommunicatorError, match="without this job's key"):
        client.ask("POST", "/call", b"one", LIMIT)


WORDS = [
    b"",
    b"P",
    b"\xff" * 200,
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET /hello HTTP/1.1\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nX-Nonce: " + b"z" * 64 + b"\r\n\r\n",
    b"POST /call HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
    b"POST /call HTTP/1.1\r\nContent-Length: -5\r\nX-Proof: x\r\nX-Number: 1\r\n\r\n",
    b"POST /call HTTP/1.1\r\nContent-Length: 0\r\nX-Proof: \xe9\r\nX-Number: 1\r\n\r\n",
    b"POST /call HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /call HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n",
]


def test_words_of_strangers(there: Counting, capfd: pytest.CaptureFixture[str]) -> None:
    for words in WORDS:
        with socket.create_connection(there.address, LIMIT) as sock:
            sock.sendall(words)
    random = np.random.RandomState(0)
    for _ in range(200):
        with socket.create_connection(there.address, LIMIT) as sock:
            sock.sendall(random.bytes(random.randint(1, 300)))
    assert there.client().ask("POST", "/call", b"one", LIMIT)[0] == 200
    assert len(there.taken) == 1 and capfd.readouterr().err == ""


def test_a_body_is_not_read_before_the_proof(there: Counting) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for size in (b"1073741824", b"104857600"):
        answer = said(
            there.address, b"POST /call HTTP/1.1\r\nContent-Length: " + size + b"\r\n\r\n" + b"x" * 1000
        )
        assert answer.startswith((b"HTTP/1.0 403", b""))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # kilobytes


def test_silent_peers_are_few_and_not_for_long(there: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [socket.create_connection(there.address, LIMIT) for _ in range(300)]
    until(lambda: len(there.server._unproven) >= web._UNPROVEN)
    until(lambda: threading.active_count() <= web._UNPROVEN + 30)
    assert there.client().ask("POST", "/call", b"one", LIMIT)[0] == 200
    monkeypatch.setattr(web, "_PATIENCE", 0.1)
    until(lambda: not there.server._unproven)
    for sock in held:
        sock.close()


def test_no_call_is_lost_in_a_burst(there: Counting) -> None:
    clients = [there.client() for _ in range(3)]
    with ThreadPoolExecutor(48) as pool:
        asked = [
            pool.submit(clients[number % 3].ask, "POST", "/call", b"%d" % number, LIMIT)
            for number in range(960)
        ]
        answers = [each.result() for each in asked]
    assert answers == [(200, b"answer to %d" % number) for number in range(960)]


def test_numbers_are_taken_once_for_ever() -> None:
    numbers = web._Numbers()
    order = np.random.RandomState(0).permutation(1000)
    assert all(numbers.take("a", int(number)) for number in order)
    assert not any(numbers.take("a", int(number)) for number in order) and numbers.take("b", 7)
    begin = time.monotonic()
    for number in range(1000, 150_000):
        assert numbers.take("a", number)
    assert not any(numbers.take("a", number) for number in range(0, 150_000, 997))
    assert len(numbers._clients["a"][1]) <= web._WINDOW and time.monotonic() - begin < LIMIT
