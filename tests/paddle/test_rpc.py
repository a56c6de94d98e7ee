"""Calls of other workers, and processes that wait for each other without MPI."""

from __future__ import annotations

import http.client
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import rpc_work
from ports import free_endpoint
from waiting import LIMIT

from fluidlite import paddle
from fluidlite.errors import ArgumentError, CommunicatorError
from fluidlite.executor.comm.objects import encode
from fluidlite.executor.comm.tcp.tls import VARIABLES
from fluidlite.paddle.distributed import rpc

HERE = pathlib.Path(__file__).parent
BARRIERS = """
import sys
from fluidlite.paddle import distributed as dist
rank, size, endpoint = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.gloo_init_parallel_env(rank, size, endpoint)
for _ in range(3):
    dist.gloo_barrier()
dist.gloo_release()
print(rank, "is done")
"""


def greet() -> str:
    return "from here"


def run(size: int, *script: str, **more: str) -> list[str]:
    """The output of each of `size` processes, which know their number and where they meet."""
    env = {**os.environ, **more, "FLAGS_rpc_deadline": "200000", "FLUIDLITE_JOB_KEY": "of this test"}
    place = free_endpoint()
    started = [
        subprocess.Popen(
            [sys.executable, *script, str(rank), str(size), place],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    return [process.communicate(timeout=300)[0] for process in started]


def test_workers_call_each_other() -> None:
    assert run(3, str(HERE / "rpc_job.py")) == [f"{rank} is done\n" for rank in range(3)]


def certificates(name: str) -> dict[str, str]:
    files = HERE.parent / "comm" / "tls"
    paths = (files / f"{name}.pem", files / f"{name}.key", files / "authority.pem")
    return dict(zip(VARIABLES, map(str, paths), strict=True))


def test_calls_over_tls() -> None:
    found = run(2, str(HERE / "rpc_job.py"), **certificates("job"))
    assert found == [f"{rank} is done\n" for rank in range(2)]
    assert run(2, "-c", BARRIERS, **certificates("job")) == [f"{rank} is done\n" for rank in range(2)]


def test_whoever_has_no_certificate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in certificates("job").items():
        monkeypatch.setenv(name, value)
    rpc.init_rpc("alone", 0, 1)
    rpc.register(rpc_work)
    here = rpc.get_current_worker_info()
    try:
        for others in ("stranger", "elsewhere", ""):
            for name, value in (certificates(others) if others else dict.fromkeys(VARIABLES, "")).items():
                monkeypatch.setenv(name, value)
            if others == "elsewhere":  # of the authority: as a server it would have to be at its own host
                assert rpc.rpc_sync("alone", rpc_work.double, (2,)) == 4
                continue
            with pytest.raises(CommunicatorError, match=f"'alone' at {here.ip}:{here.port} does not answer"):
                rpc.rpc_sync("alone", rpc_work.double, (2,), timeout=LIMIT)
        monkeypatch.setenv(VARIABLES[0], "some.pem")
        with pytest.raises(CommunicatorError, match=f"{VARIABLES[1]} and {VARIABLES[2]} should be set too"):
            rpc.rpc_sync("alone", rpc_work.double, (2,), timeout=LIMIT)
    finally:
        for name, value in certificates("job").items():
            monkeypatch.setenv(name, value)
        rpc.shutdown()


def test_barriers_without_mpi() -> None:
    assert run(3, "-c", BARRIERS) == [f"{rank} is done\n" for rank in range(3)]
    with pytest.raises(AssertionError, match="gloo context is not initialized"):
        paddle.distributed.gloo_barrier()
    with pytest.raises(ArgumentError, match="greater than or equal to 2"):
        paddle.distributed.gloo_init_parallel_env(0, 1, "127.0.0.1:1")


@pytest.fixture
def alone() -> rpc.WorkerInfo:
    rpc.init_rpc("alone", 0, 1)
    yield rpc.get_current_worker_info()
    rpc.shutdown()


def test_a_worker_alone_calls_itself(alone: rpc.WorkerInfo) -> None:
    rpc.register(__name__)
    assert rpc.rpc_sync("alone", greet) == "from here"
    with pytest.raises(ArgumentError, match="is worker 'alone' already"):
        rpc.init_rpc("again", 0, 1)


@pytest.mark.parametrize("proof", ["", "0" * 64])
def test_calls_without_the_key_are_refused(alone: rpc.WorkerInfo, proof: str) -> None:
    body = encode({"module": "__main__", "name": "main", "args": [], "kwargs": {}})
    connection = http.client.HTTPConnection(alone.ip, alone.port, timeout=LIMIT)
    connection.request("POST", "/call", body, {"X-Call": "1", "X-Proof": proof})
    assert connection.getresponse().status == 403
    connection.close()


def test_a_call_is_not_taken_twice(alone: rpc.WorkerInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    rpc.register(__name__)
    heard: list[tuple[bytes, dict[str, str]]] = []
    ask = http.client.HTTPConnection.request

    def request(self: Any, method: str, url: str, body: Any = None, headers: Any = None, **more: Any) -> None:
        if url == "/call":
            heard.append((body, dict(headers)))
        ask(self, method, url, body, headers, **more)

    monkeypatch.setattr(http.client.HTTPConnection, "request", request)
    assert rpc.rpc_sync("alone", greet) == "from here"
    (body, headers) = heard[0]
    connection = http.client.HTTPConnection(alone.ip, alone.port, timeout=LIMIT)
    connection.request("POST", "/call", body, headers)
    assert connection.getresponse().status == 403
    connection.close()


def test_workers_that_cannot_be() -> None:
    with pytest.raises(ArgumentError, match="worker 2 of 2"):
        rpc.init_rpc("x", 2, 2, "127.0.0.1:1")
    with pytest.raises(ArgumentError, match="call init_rpc first"):
        rpc.rpc_sync("x", greet)
