"""Faults of a cluster in a job over TCP: trainers and servers that go, come late, or are cut off."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tcp_clusters import ROWS, WIDTH, Cluster, alone, batch, make, vanish
from waiting import LIMIT, until

from fluidlite.errors import CommunicatorError, NanInfError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.tcp.session import TcpSession


# ---------------------------------------------------------------------- trainers that go
@pytest.mark.parametrize("early", [0, 1])
def test_a_trainer_with_fewer_batches(early: int) -> None:
    cluster = Cluster(make())
    cluster.serve()
    cluster.train(1 - early, 5)
    cluster.train(early, 2)
    cluster.join()
    assert np.allclose(cluster.result(f"trainer{1 - early}"), alone(5), atol=1e-5)
    assert np.allclose(cluster.result("server"), cluster.result(f"trainer{1 - early}"))


@pytest.mark.parametrize("policy", ["stop", "go_on"])
def test_a_trainer_that_dies_in_step(
    policy: str, flags: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    flags(rpc_lost_trainer=policy, rpc_lost_trainer_wait=300)
    cluster = Cluster(make())
    cluster.serve()
    cluster.train(0, 5)
    cluster.train(1, 5, lambda step, session: vanish(session) if step == 2 else None)
    begin = time.monotonic()
    cluster.join()
    assert time.monotonic() - begin < cluster.deadline / 2  # long before the others lose patience
    if policy == "go_on":
        assert np.allclose(cluster.result("trainer0"), alone(5), atol=1e-5)
        assert (
            "trainer 1 disconnected without notice" in caplog.text
            and "the others continue without it" in caplog.text
        )
        return
    with pytest.raises(
        CommunicatorError, match=r"trainer 1 disconnected without notice .* FLAGS_rpc_lost_trainer=go_on"
    ):
        cluster.result("server")
    with pytest.raises(
        CommunicatorError, match=r"the server at .* says: trainer 1 disconnected without notice"
    ):
        cluster.result("trainer0")


def test_a_trainer_that_dies_out_of_step(flags: Callable[..., None]) -> None:
    flags(rpc_lost_trainer_wait=300)
    cluster = Cluster(make(sync=False))
    cluster.serve()
    cluster.train(0, 20)
    cluster.train(1, 5, lambda step, session: vanish(session) if step == 2 else None)
    cluster.join()
    assert np.isfinite(cluster.result("trainer0")).all() and np.isfinite(cluster.result("server")).all()


def test_a_trainer_that_died_comes_back(flags: Callable[..., None]) -> None:
    flags(rpc_lost_trainer_wait=8000)
    cluster = Cluster(make())
    cluster.serve()
    cluster.train(0, 4)
    cluster.train(1, 5, lambda step, session: vanish(session) if step == 2 else None)
    cluster.threads["trainer1"].join(LIMIT)
    cluster.train(1, 2)  # another process in its place
    cluster.join()
    assert np.isfinite(cluster.result("trainer0")).all()


def test_a_long_step_is_no_death(flags: Callable[..., None]) -> None:
    flags(rpc_lost_trainer_wait=200)
    cluster = Cluster(make())
    cluster.serve()
    cluster.train(0, 3)
    cluster.train(1, 3, lambda step, session: time.sleep(1.0) if step == 1 else None)
    cluster.join()
    assert np.allclose(cluster.result("trainer0"), alone(3), atol=1e-5)
    assert np.array_equal(cluster.result("trainer0"), cluster.result("trainer1"))


def test_a_trainer_that_is_there_and_does_nothing(flags: Callable[..., None]) -> None:
    cluster, both_are_there = Cluster(make()), threading.Barrier(2)

    def wait(step: int, session: TcpSession) -> None:
        if step == 1:  # the limit is short only where it should be reached
            flags(rpc_deadline=1000)
            both_are_there.wait(LIMIT)

    def idle(step: int, session: TcpSession) -> None:
        if step == 1:
            both_are_there.wait(LIMIT)
            until(lambda: "server" in cluster.errors)

    cluster.serve()
    cluster.train(0, 3, wait)
    cluster.train(1, 3, idle)
    cluster.join()
    with pytest.raises(
        CommunicatorError,
        match="trainer 1 has not reached the barrier at which the others have been waiting for",
    ):
        cluster.result("trainer0")
    with pytest.raises(CommunicatorError, match="trainer 1 has not reached"):
        cluster.result("server")


def test_the_kernel_looks_after_connections() -> None:
    cluster = Cluster(make(trainers=1))
    cluster.serve()
    seen = []

    def look(step: int, session: TcpSession) -> None:
        sock = session.dialer.servers[cluster.endpoint].stream.sock
        seen.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    cluster.train(0, 2, look)
    cluster.join()
    assert cluster.result("trainer0") is not None and all(seen)


# ---------------------------------------------------------------------- servers that go, or are late
def test_a_server_that_is_late(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(make(trainers=1))
    with caplog.at_level(logging.WARNING):
        cluster.train(0, 2)
        until(lambda: caplog.records)
        cluster.serve()
        cluster.join()
    assert np.allclose(cluster.result("trainer0"), alone(2), atol=1e-5)
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        f"waiting for the server at {cluster.endpoint}"
    ]


def test_a_server_that_never_comes() -> None:
    cluster = Cluster(make(trainers=1), deadline=0.5)
    cluster.train(0, 2)
    cluster.join()
    with pytest.raises(
        CommunicatorError,
        match=f"no response from the server at {cluster.endpoint} for 0.5 s: check that it is started",
    ):
        cluster.result("trainer0")


def test_a_server_that_nobody_comes_to() -> None:
    cluster = Cluster(make(trainers=1), deadline=0.5)
    cluster.serve()
    cluster.join()
    with pytest.raises(CommunicatorError, match="no trainer has sent a message for 0.5 s"):
        cluster.result("server")


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        cluster = Cluster(make(endpoint=f"127.0.0.1:{other.getsockname()[1]}"))
        cluster.serve()
        cluster.join()
    with pytest.raises(CommunicatorError, match="cannot listen at 127.0.0.1:.*in use"):
        cluster.result("server")


def test_a_connection_that_is_cut(flags: Callable[..., None]) -> None:
    flags(rpc_server_wait=5000, rpc_lost_trainer="go_on", rpc_lost_trainer_wait=300)
    cluster = Cluster(make(trainers=1))
    cluster.serve()

    def cut(step: int, session: TcpSession) -> None:
        if step == 1:
            session.dialer.servers[cluster.endpoint].stream.sock.shutdown(socket.SHUT_RDWR)

    cluster.train(0, 3, cut)
    cluster.join()
    with pytest.raises(CommunicatorError, match="was cut in the middle of a step .* it is unknown"):
        cluster.result("trainer0")


# ---------------------------------------------------------------------- a NaN
def test_a_nan_of_one_trainer(flags: Callable[..., None]) -> None:
    def spoiled(step: int) -> dict[str, Any]:
        return batch(step) if step != 1 else {**batch(step), "y": np.full((ROWS, 1), np.nan, "float32")}

    for check in (False, True):
        cluster = Cluster(make())
        cluster.serve()
        gradients = np.full((WIDTH, 1), np.nan, "float32")

        def send(
            step: int,
            session: TcpSession,
            check: bool = check,
            gradients: Any = gradients,
            endpoint: str = cluster.endpoint,
        ) -> None:
            if check and step == 1:  # as a trainer without the flag would
                session.post(endpoint, Message(Kind.SEND, 1, "w@GRAD.trainer_1", gradients))

        flags(check_nan_inf=check)
        cluster.train(0, 3)
        cluster.train(1, 3, send, feed=batch if check else spoiled)
        cluster.join()
        if not check:
            assert np.isnan(cluster.result("trainer0")).all()
            continue
        with pytest.raises(
            NanInfError, match=r"trainer 1 sends 'w@GRAD.trainer_1' with 30 of 30 elements .*NaN"
        ):
            cluster.result("server")
        with pytest.raises(
            CommunicatorError, match="the server at .* says: trainer 1 sends 'w@GRAD.trainer_1'"
        ):
            cluster.result("trainer0")
