"""Bytes that a server should not get, and programs that differ from what it expects."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tcp_clusters import WIDTH, Cluster, alone, batch, make
from test_tcp import KEY, raw
from waiting import LIMIT, until

from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.tcp.handshake import VERSION, introduce
from fluidlite.executor.comm.tcp.stream import Stream
from fluidlite.executor.comm.wire import encode
from fluidlite.values.tensor import SelectedRows


# ---------------------------------------------------------------------- bytes
@contextlib.contextmanager
def known(cluster: Cluster) -> Iterator[socket.socket]:
    """A connection of somebody who holds the key."""
    host, _, port = cluster.endpoint.rpartition(":")
    until(lambda: cluster.sessions["server"].listener is not None)
    with socket.create_connection((host, int(port)), timeout=LIMIT) as sock:
        introduce(sock, cluster.endpoint, KEY, LIMIT)
        yield sock


def spelled(message: Message) -> bytes:
    return b"".join(bytes(memoryview(frame).cast("B")) for frame in encode(message))


def piece(name: str = "w@GRAD.trainer_1", shape: tuple[int, ...] = (WIDTH, 1), trainer: int = 1) -> bytes:
    return spelled(Message(Kind.SEND, trainer, name, np.ones(shape, "float32")))


def test_a_message_cut_in_half(flags: Callable[..., None]) -> None:
    flags(rpc_lost_trainer="go_on", rpc_lost_trainer_wait=200)
    cluster = Cluster(make())
    cluster.serve()
    with known(cluster) as sock:
        sock.sendall(piece() + piece()[:70])  # a whole gradient, then half of one
    cluster.train(0, 3)
    cluster.join()
    assert np.allclose(cluster.result("trainer0"), alone(3), atol=1e-5)  # none of it counts


HUGE = piece().replace(WIDTH.to_bytes(8, "little"), (1 << 30).to_bytes(8, "little"), 1)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"\xff" * 5000, "are not a message of a job"),
        (piece()[:4] + b"\xee" + piece()[5:], "broken header"),
        (
            HUGE,
            (
                "trainer 1 sends 'w@GRAD.trainer_1' as float32[1073741824, 1], "
                "but it is declared as float32[30, 1]"
            ),
        ),
        (piece(shape=(WIDTH, 2)), "as float32[30, 2], but it is declared as float32[30, 1]"),
        (piece("w@GRAD.trainer_7"), "which this server does not expect; did you mean 'w@GRAD.trainer_1'"),
        (spelled(Message(Kind.SEND, 1, "w@GRAD.trainer_1")), "sends 'w@GRAD.trainer_1' as nothing"),
        (
            spelled(
                Message(
                    Kind.SEND,
                    1,
                    "w@GRAD.trainer_1",
                    SelectedRows(np.array([40]), 50, np.ones((1, 1), "float32")),
                )
            ),
            "as float32[1, 1], rows of 50, but it is declared as float32[30, 1]",
        ),
        (spelled(Message(Kind.GET, 1, "w", np.ones(9))), "a value with a request that takes none"),
    ],
    ids=["garbage", "header", "huge", "shape", "name", "nothing", "rows", "value"],
)
def test_what_nobody_should_send(sent: bytes, message: str) -> None:
    cluster = Cluster(make())
    cluster.serve()
    with known(cluster) as sock:
        sock.sendall(sent)
        said = Stream(sock, LIMIT).next().text
        assert message in said
    cluster.train(0, 2)
    cluster.train(1, 2)
    cluster.join()
    assert np.allclose(cluster.result("trainer0"), alone(2), atol=1e-5)


def test_questions_that_have_no_answer() -> None:
    cluster = Cluster(make(trainers=1))
    cluster.serve()
    with known(cluster) as sock:
        stream = Stream(sock, LIMIT)
        for message, answer in (
            (Message(Kind.GET, 0, "u"), "which this server does not hold"),
            (
                Message(Kind.ROWS, 0, "w", np.array([WIDTH])),
                "rows 30 to 30 of 'w', which has 30 rows on this server",
            ),
            (Message(Kind.ROWS, 0, "w", np.array([-1])), "rows -1 to -1 of 'w'"),
            (Message(Kind.ROWS, 0, "w"), "rows of 'w' without naming the rows"),
            (Message(Kind.SAVE, 0, "/nowhere"), "this server holds no table"),
        ):
            stream.put(message)
            stream.send_all()
            assert answer in stream.next().text
    cluster.train(0, 2)
    cluster.join()
    assert np.allclose(cluster.result("trainer0"), alone(2), atol=1e-5)


def test_another_version_of_the_protocol() -> None:
    cluster = Cluster(make(trainers=1))
    cluster.serve()
    with known(cluster):
        pass
    answer = raw(cluster.endpoint, b"FLTH" + (VERSION + 1).to_bytes(2, "little") + b"n" * 32)
    assert answer[:6] == b"FLTC" + VERSION.to_bytes(2, "little")
    cluster.train(0, 1)
    cluster.join()
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"FLTC" + (VERSION + 1).to_bytes(2, "little") + b"n" * 64)
        with pytest.raises(
            CommunicatorError,
            match=f"uses version {VERSION + 1} of the protocol, but this process uses version {VERSION}",
        ):
            introduce(near, "a:1", KEY, LIMIT)


# ---------------------------------------------------------------------- programs that differ
@pytest.mark.parametrize(
    ("other", "number", "message"),
    [
        (
            {"width": WIDTH + 1},
            0,
            r"it asks for 'w' as float32\[31, 1\], but the server has float32\[30, 1\]",
        ),
        ({"name": "v"}, 0, r"it asks for 'v', which the server does not hold"),
        (
            {"sync": False},
            0,
            r"it is asynchronous, but the server is synchronous: give `transpile` the same sync_mode",
        ),
        ({"trainers": 3}, 2, r"a message of trainer 2, but this job has 2 trainers, numbered from 0"),
    ],
    ids=["shape", "name", "mode", "number"],
)
def test_a_program_that_differs(other: dict[str, Any], number: int, message: str) -> None:
    cluster = Cluster(make())
    cluster.serve()
    cluster.train(
        number,
        1,
        job=make(endpoint=cluster.endpoint, **other),
        feed=lambda step: batch(step, other.get("width", WIDTH)),
    )
    cluster.threads[f"trainer{number}"].join(LIMIT)
    with pytest.raises(CommunicatorError, match=message):
        cluster.result(f"trainer{number}")
    del cluster.errors[f"trainer{number}"]
    cluster.train(0, 2)
    cluster.train(1, 2)
    cluster.join()
    assert np.array_equal(
        cluster.result("trainer0"), cluster.result("trainer1")
    )  # the others are not disturbed
