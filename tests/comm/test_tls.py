"""Connections with TLS: jobs train as without, and whoever does not show the right certificate is told so."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tcp_clusters
from ports import free_endpoint
from test_tcp import KEY
from waiting import LIMIT

from fluidlite.cli import doctor
from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.tcp.dialer import Dialer
from fluidlite.executor.comm.tcp.listener import Listener
from fluidlite.executor.comm.tcp.session import TcpSession
from fluidlite.executor.comm.tcp.tls import VARIABLES, Encryption, TlsSocket
from fluidlite.executor.comm.terms import Terms

FOLDER = pathlib.Path(__file__).parent / "tls"


def files(name: str, authority: str = "authority") -> Encryption:
    """The files of one end, and the authority that it trusts."""
    return Encryption(*(str(FOLDER / file) for file in (f"{name}.pem", f"{name}.key", f"{authority}.pem")))


@pytest.fixture
def encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = files("job")
    for name, file in zip(VARIABLES, (mine.certificate, mine.key, mine.authority), strict=True):
        monkeypatch.setenv(name, file)


@pytest.fixture
def endpoint() -> str:
    return free_endpoint()


TERMS = Terms(trainers=1, synchronous=False, takes={}, gives={}, resumed=False, steps=0).to_json()


@contextlib.contextmanager
def echo_server(endpoint: str, encryption: Encryption | None) -> Iterator[None]:
    """A server that answers every question with what it was told last, while the `with` lasts."""
    listener = Listener(endpoint, 60.0, KEY, TERMS, lambda _: None, encryption)

    def serve() -> None:
        told: Any = None
        with contextlib.suppress(CommunicatorError):  # that it was told to stop
            while (found := listener.next_message(LIMIT)) is not None:
                to, message = found
                if message.kind is Kind.SEND:
                    told = message.value
                elif message.kind is Kind.GET:
                    listener.reply(to, told)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listener.interrupt("the test is over")
        thread.join(LIMIT)
        listener.close()


@pytest.fixture
def echo(endpoint: str) -> Iterator[None]:
    with echo_server(endpoint, files("job")):
        yield


def ask(endpoint: str, mine: Encryption | None, limit: float = 20.0) -> Any:
    """One question of a trainer."""
    dialer = Dialer(limit, KEY, encryption=mine)
    try:
        dialer.post(endpoint, Message(Kind.SEND, 0, "x", np.arange(3)))
        dialer.post(endpoint, Message(Kind.GET, 0, "x"))
        return dialer.answer(endpoint)
    finally:
        dialer.close()


# ---------------------------------------------------------------------- what gets through
@pytest.mark.parametrize("size", [1, 5_000, 3_000_000])
@pytest.mark.usefixtures("echo")
def test_values_of_any_size_travel(endpoint: str, size: int) -> None:
    value = np.random.RandomState(0).randn(size)
    dialer = Dialer(20.0, KEY, encryption=files("job"))
    for step in range(3):
        dialer.post(endpoint, Message(Kind.SEND, 0, "x", value + step))
        dialer.post(endpoint, Message(Kind.GET, 0, "x"))
        assert (dialer.answer(endpoint) == value + step).all()
    stream = dialer.servers[endpoint].stream
    assert isinstance(stream.sock, TlsSocket) and stream.sock.version() == "TLSv1.3"
    dialer.close()


@pytest.mark.usefixtures("echo")
def test_many_messages_at_once(endpoint: str) -> None:
    """More than both ends take at one time, so that each has to wait for the other."""
    dialer = Dialer(20.0, KEY, encryption=files("job"))
    values = [np.full((50_000,), number, "float32") for number in range(40)]
    for value in values:
        dialer.post(endpoint, Message(Kind.SEND, 0, "x", value))
        dialer.post(endpoint, Message(Kind.GET, 0, "x"))
    for value in values:
        assert (dialer.answer(endpoint) == value).all()
    dialer.close()


@pytest.mark.usefixtures("encrypted")
def test_a_job_trains_as_without() -> None:
    cluster = tcp_clusters.Cluster(tcp_clusters.make())
    cluster.serve()
    for number in range(2):
        cluster.train(number, 3)
    cluster.join()
    assert all(session.encryption == files("job") for session in cluster.sessions.values())
    for name in ("server", "trainer0", "trainer1"):
        np.testing.assert_allclose(cluster.result(name), tcp_clusters.alone(3), rtol=1e-5)


def test_nothing_can_be_read_on_the_way(endpoint: str) -> None:
    """The bytes on the way hold neither the value of a message, nor its name, nor the terms."""
    taken = bytearray()
    middle = socket.create_server(("127.0.0.1", 0))
    outside = f"127.0.0.1:{middle.getsockname()[1]}"
    relay = threading.Thread(target=_relay, args=(middle, endpoint, taken))
    relay.start()
    dialer = Dialer(20.0, KEY, encryption=files("job"))
    secret = b"a name that nobody else should read"
    with echo_server(endpoint, files("job")):
        dialer.post(outside, Message(Kind.SEND, 0, secret.decode(), np.frombuffer(secret * 9, "uint8")))
        dialer.post(outside, Message(Kind.GET, 0, secret.decode()))
        assert dialer.answer(outside).tobytes() == secret * 9
        dialer.close()
        relay.join(LIMIT)
    assert len(taken) > 700 and secret not in taken and b"synchronous" not in taken


def _relay(listening: socket.socket, endpoint: str, taken: bytearray) -> None:
    host, port = endpoint.split(":")
    inner, outer = listening.accept()[0], socket.create_connection((host, int(port)))

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the end of a process resets what nobody reads any more
            while data := source.recv(1 << 16):
                taken.extend(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=pass_on, args=(outer, inner))
    back.start()
    pass_on(inner, outer)
    back.join()
    for one in (inner, outer, listening):
        one.close()


# ---------------------------------------------------------------------- what does not
@pytest.mark.parametrize(
    ("mine", "message"),
    [
        (files("stranger"), "refuses this process's certificate"),
        (files("job", "stranger"), "is not trusted: unable to get local issuer|self.signed"),
        (None, "uses TLS: set FLUIDLITE_TLS_CERTIFICATE, FLUIDLITE_TLS_KEY"),
    ],
    ids=["a stranger's certificate", "a server of a stranger", "without"],
)
@pytest.mark.usefixtures("echo")
def test_a_trainer_that_does_not_fit(endpoint: str, mine: Encryption | None, message: str) -> None:
    with pytest.raises(CommunicatorError, match=message):
        ask(endpoint, mine, 3.0)
    assert ask(endpoint, files("job")).tolist() == [0, 1, 2]  # others are served all the same


def test_a_certificate_of_another_host(endpoint: str) -> None:
    with (
        echo_server(endpoint, files("elsewhere")),
        pytest.raises(CommunicatorError, match="is not trusted: IP address mismatch"),
    ):
        ask(endpoint, files("job"), 3.0)


def test_a_server_without(endpoint: str) -> None:
    with (
        echo_server(endpoint, None),
        pytest.raises(CommunicatorError, match="the server may not use TLS; set FLUIDLITE_TLS_CERT"),
    ):
        ask(endpoint, files("job"), 1.0)


@pytest.mark.usefixtures("encrypted")
@pytest.mark.parametrize("missing", VARIABLES)
def test_half_a_configuration(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.delenv(missing)
    with pytest.raises(CommunicatorError, match=f"^{missing} should be set too"):
        TcpSession(LIMIT, KEY)


@pytest.mark.parametrize(
    ("name", "why"), [("nowhere", "No such file"), ("make", "")], ids=["no file", "no certificate"]
)
def test_files_that_are_no_good(tmp_path: pathlib.Path, name: str, why: str) -> None:
    (tmp_path / "make").write_text("#!/bin/sh\n")
    wrong = Encryption(str(tmp_path / name), str(FOLDER / "job.key"), str(FOLDER / "authority.pem"))
    with pytest.raises(CommunicatorError, match=f"cannot use .*{name}' for TLS: {why}"):
        wrong.client_context()


def test_no_older_protocol() -> None:
    for context in (files("job").server_context(), files("job").client_context()):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_3
        assert context.verify_mode == ssl.CERT_REQUIRED
    assert files("job").client_context().check_hostname


# ---------------------------------------------------------------------- `fluidlite doctor`
def test_the_doctor_tries_the_certificates(encrypted: None) -> None:
    assert doctor._tls() == "TLSv1.3, each end accepts the other's certificate"


def test_the_doctor_finds_a_certificate_of_another_authority(
    encrypted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUIDLITE_TLS_AUTHORITY", files("job", "stranger").authority)
    with pytest.raises(ssl.SSLError):
        doctor._tls()
