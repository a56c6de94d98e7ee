"""Parameter servers over TCP: processes started one by one, and what must not get in."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ports import free_endpoint, free_endpoints
from waiting import LIMIT

from fluidlite.errors import CommunicatorError, FormatError
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.tcp.handshake import VERSION
from fluidlite.executor.comm.tcp.session import TcpSession
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.wire import decode, encode
from fluidlite.values.tensor import SelectedRows

SCRIPT = pathlib.Path(__file__).parent / "tcp_job.py"
KEY = b"k" * 32


class Processes:
    """Processes of a job, none of which outlives the test; what they said is in the report of one that
    fails.
    """

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, script: pathlib.Path = SCRIPT, **env: str) -> subprocess.Popen[str]:
        given = {
            **os.environ,
            "FLUIDLITE_JOB_KEY": "test",
            "OMP_NUM_THREADS": "1",
            "FLAGS_rpc_deadline": "200000",
            **env,
        }
        self.started.append(
            subprocess.Popen(
                [sys.executable, str(script)],
                env=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self.started[-1]

    def finished(self, process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
        """Output and errors of a process, once it has ended as it should."""
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise AssertionError("\n".join(self.words())) from None
        assert process.returncode == code, err
        return out, err

    def words(self) -> list[str]:
        """End all, and give what they wrote to stderr."""
        for process in self.started:
            process.kill()
        return [
            process.communicate()[1]
            for process in self.started
            if process.stderr is not None and not process.stderr.closed
        ]


@contextlib.contextmanager
def processes() -> Iterator[Processes]:
    found = Processes()
    try:
        yield found
    finally:
        found.words()


def job(optimizer: str, sync: str) -> list[dict[str, Any]]:
    """The parameters of both trainers after a job of two trainers and two servers."""
    endpoints = free_endpoints(2)
    common = {"ENDPOINTS": ",".join(endpoints), "TRAINERS": "2", "OPTIMIZER": optimizer, "SYNC": sync}
    with processes() as started:
        trainers = [started.start(ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)]
        servers = [started.start(ROLE="PSERVER", ENDPOINT=endpoint, **common) for endpoint in endpoints]
        found = [json.loads(started.finished(process)[0]) for process in trainers]
        for process in servers:
            started.finished(process)  # they stop when both trainers have left
        return found


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad"])
def test_processes_compute_what_one_does(optimizer: str) -> None:
    with processes() as started:
        alone = started.start(ROLE="LOCAL", OPTIMIZER=optimizer)
        first, second = job(optimizer, "1")
        wanted = json.loads(started.finished(alone)[0])
    for name, values in wanted.items():
        assert first[name] == second[name]
        assert np.abs(np.subtract(first[name], values)).max() <= 1e-5 * np.abs(values).max()


def test_asynchronous_processes_learn() -> None:
    first, _ = job("SGD", "0")
    assert all(np.isfinite(values).all() for values in first.values())
    assert np.abs(np.array(first["w"]) - 0.02).max() > 1e-6


# ---------------------------------------------------------------------- one server, in a thread
@pytest.fixture
def endpoint() -> Iterator[str]:
    place = free_endpoint()
    ready = threading.Event()

    def serve() -> None:
        session = TcpSession(LIMIT, KEY)
        link = session.listen(place, Terms(), lambda header: None)
        ready.set()
        value: Any = None
        while True:
            to, message = link.next_message()
            if message.kind is Kind.SEND:
                value = message.value
            elif message.kind is Kind.GET:
                link.reply(to, value if message.name != "wrong" else Error("no such variable"))
            elif message.kind is Kind.COMPLETE:
                break
        session.leave()

    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait(LIMIT)
    yield place
    session = TcpSession(LIMIT, KEY)
    session.post(place, Message(Kind.COMPLETE, 0))
    session.leave()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_values_come_back_as_they_went(endpoint: str) -> None:
    session = TcpSession(LIMIT, KEY)
    for value in (
        np.arange(6, dtype="int64").reshape(2, 3),
        np.zeros((0, 4), "float32"),
        np.float32(1.5) * np.ones(()),
        None,
    ):
        session.post(endpoint, Message(Kind.SEND, 1, "v", value))
        session.post(endpoint, Message(Kind.GET, 1, "v"))
        back = session.link.answer(endpoint)
        assert back is None if value is None else back.dtype == value.dtype and np.array_equal(back, value)
    session.post(endpoint, Message(Kind.GET, 1, "wrong"))
    with pytest.raises(CommunicatorError, match="says: no such variable"):
        session.link.answer(endpoint)
    session.forget_servers()
    session.leave()


@contextlib.contextmanager
def stranger(deadline: float = 60.0, key: bytes = KEY) -> Iterator[TcpSession]:
    session = TcpSession(deadline, key)
    yield session
    session.forget_servers()
    session.leave()


def test_only_those_with_the_key_get_in(endpoint: str) -> None:
    with (
        stranger(key=b"x" * 32) as session,
        pytest.raises(CommunicatorError, match="does not have this job's key"),
    ):
        session.post(endpoint, Message(Kind.GET, 0, "v"))


def raw(endpoint: str, *pieces: bytes) -> bytes:
    """A server's answer to bytes that somebody sends it."""
    host, _, port = endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=300.0) as bare, contextlib.suppress(OSError):
        for piece in pieces:
            bare.sendall(piece)
        bare.shutdown(socket.SHUT_WR)
        return bare.recv(4096)
    return b""


def test_garbage_does_not_hurt(endpoint: str) -> None:
    for pieces in (
        [b"\0"],
        [b"FLTH"],
        [b"FLTP" + b"0" * 32],
        encode(Message(Kind.COMPLETE, 0)),
        [b"x" * 100_000] * 3,
        [b"GET / HTTP/1.0\r\n\r\n" + bytes(range(256))],
    ):
        assert raw(endpoint, *pieces) == b""  # nobody has shown a key here: none of it is listened to
    hello = b"FLTH" + (VERSION).to_bytes(2, "little") + b"n" * 32
    assert raw(endpoint, hello, b"FLTP" + b"0" * 32)[:4] == b"FLTC"  # the challenge, and no welcome
    test_values_come_back_as_they_went(endpoint)


def test_a_port_in_use_and_a_server_that_is_not_there(endpoint: str) -> None:
    with (
        stranger() as session,
        pytest.raises(CommunicatorError, match=f"cannot listen at {endpoint}: .*in use"),
    ):
        session.listen(endpoint, Terms(), lambda header: None)
    with (
        stranger(0.2) as session,
        pytest.raises(
            CommunicatorError,
            match=r"no response from the server at 127.0.0.1:\d+ for 0.2 s: check that it is started",
        ),
    ):
        session.post(free_endpoint(), Message(Kind.GET, 0, "v"))


# ---------------------------------------------------------------------- bytes
def test_rows_survive() -> None:
    rows = SelectedRows(np.array([3, 1]), 10, np.ones((2, 4), "float32"))
    back = decode([bytes(frame) for frame in encode(Message(Kind.SEND, 7, "table@GRAD", rows))])
    assert (back.kind, back.trainer, back.name) == (Kind.SEND, 7, "table@GRAD")
    assert (
        back.value.rows() == [3, 1]
        and back.value.height() == 10
        and np.array_equal(back.value.array, rows.array)
    )


@given(st.data())
def test_broken_messages_are_refused(data: st.DataObject) -> None:
    whole = [
        bytes(frame)
        for frame in encode(Message(Kind.SEND, 1, "w@GRAD", np.arange(12, dtype="float32").reshape(3, 4)))
    ]
    frame = data.draw(st.integers(0, len(whole) - 1))
    how = data.draw(st.sampled_from(["cut", "flip", "drop", "grow"]))
    if how == "cut":
        whole[frame] = whole[frame][: data.draw(st.integers(0, len(whole[frame]) - 1))]
    elif how == "drop":
        del whole[frame]
    elif how == "grow":
        whole[frame] += b"\1" * data.draw(st.integers(1, 9))
    else:
        place = data.draw(st.integers(0, len(whole[frame]) - 1))
        whole[frame] = (
            whole[frame][:place]
            + bytes([whole[frame][place] ^ data.draw(st.integers(1, 255))])
            + whole[frame][place + 1 :]
        )
    try:
        found = decode(whole)
    except FormatError:
        return
    assert how == "flip" and isinstance(
        found, (Message, Error, np.ndarray)
    )  # another name or other numbers: well formed
