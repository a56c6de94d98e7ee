"""Random and hostile messages of peers that hold the key, to the servers of all modes: none of them ends a
server, and none that is refused changes what it holds.
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from ports import free_endpoint
from tcp_clusters import Cluster
from test_tcp import KEY
from waiting import LIMIT, until

import fluidlite as fluid
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.tcp.handshake import introduce
from fluidlite.executor.comm.tcp.stream import Stream
from fluidlite.transpiler import Job, make_job

MODES = ("pserver", "async", "half_async", "geo_sgd")
HEAD = struct.Struct("<4sBBiBBqH")  # as docs/SERVERS.md has it
SIZES = (4, 8, 2, 8, 4, 2, 1, 1, 1)  # bytes of an element, by the code of its type
EDGES = (-(2**62), -1, 0, 1, 2, 3, 4, 7, 50, 200, 2**31 - 1, 2**31, 2**40, 2**62)
NUMBERS = (-(2**31), -7, -1, 0, 0, 0, 0, 2, 99, 2**31 - 1)
SHORT, LONG = 60, 4000  # messages to the server of each mode


def table_job(mode: str) -> Job:
    """A job whose server holds a table and parameters."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 7
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
        ids = fluid.data("i", [None, 1], "int64")
        rows = fluid.layers.embedding(ids, [50, 4], is_sparse=True, param_attr="table")
        joined = fluid.layers.concat([x, fluid.layers.reshape(rows, [-1, 4])], 1)
        out = fluid.layers.fc(joined, 1, param_attr="w", bias_attr="b")
        rate = fluid.layers.exponential_decay(0.1, 10, 0.5)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(out, y))
        fluid.optimizer.SGD(rate).minimize(loss)
    return make_job(main, startup, mode, 2, [free_endpoint()])


@contextlib.contextmanager
def peer(endpoint: str) -> Iterator[socket.socket]:
    """A connection of somebody who holds the key."""
    host, _, port = endpoint.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT) as sock:
        introduce(sock, endpoint, KEY, LIMIT)
        yield sock


def hostile(random: np.random.RandomState, names: list[str]) -> bytes:
    """A message some of whose fields are right."""
    pick: Callable[..., Any] = lambda values: values[random.randint(len(values))]
    what = pick((0, 0, 0, 0, 0, 0, 1, 2, 3))
    kind = pick(range(16))
    value, dtype = pick((0, 1, 1, 2)), pick((0, 0, 0, 3, 7, *range(10)))
    odd = tuple(pick(EDGES) for _ in range(pick(range(5))))
    shape = pick(((4, 1), (50, 4), (1, 4), (1,), (3,), (8, 1), odd))
    height = pick((50, 8, 1, *EDGES))
    name = pick((*names, "", "x" * pick((5, 9000, 65535)), pick(names)[:-1])).encode()
    size = SIZES[min(dtype, 8)]
    for dim in shape:
        size *= dim
    rows = 8 * shape[0] if value == 2 and shape else 0
    length = min(max(0, size), 4096) + min(max(0, rows), 4096) if value else 0
    body = pick((random.bytes(length), bytes(length), bytes(length // 2)))
    trainer, dims = pick(NUMBERS), len(shape)
    head = HEAD.pack(b"FLT2", what * 16 + kind, value, trainer, dtype, dims, height, len(name))
    found = head + struct.pack(f"<{len(shape)}q", *shape) + name + body
    return found if random.rand() < 0.9 else random.bytes(pick((3, 24, 200)))


def attack(endpoint: str, random: np.random.RandomState, names: list[str]) -> None:
    """Send some messages over one connection, and go: with or without a word, or in the middle of one."""
    with peer(endpoint) as sock, contextlib.suppress(OSError):
        for _ in range(random.randint(1, 5)):
            sock.sendall(hostile(random, names))
        sock.settimeout(0.02)
        sock.recv(1 << 16)


def names_of(job: Job) -> list[str]:
    server = next(role for role in job.roles if not role.trains)
    return sorted(job.programs(server).main.global_block().vars)


def survives(mode: str, count: int, seed: int) -> None:
    job = table_job(mode)
    cluster = Cluster(job, deadline=LIMIT)
    cluster.serve()
    until(lambda: cluster.sessions["server"].listener is not None)
    random, names = np.random.RandomState(seed), names_of(job)
    with peer(cluster.endpoint) as sock:
        stream = Stream(sock, LIMIT)
        for number in range(count):
            assert cluster.threads["server"].is_alive(), (number, seed, cluster.errors)
            attack(cluster.endpoint, random, names)
            if number % 10 == 9 or number == count - 1:
                stream.put(Message(Kind.GET, 1, "w"))
                stream.send_all()
                said = stream.next()
                assert not isinstance(said, Error), f"after connection {number} of seed {seed}: {said}"
    listener = cluster.sessions["server"].listener
    assert listener is not None
    listener.interrupt("the test ends")
    cluster.join()
    assert "the test ends" in str(cluster.errors["server"])


@pytest.fixture(autouse=True)
def patient(flags: Callable[..., None], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags(rpc_lost_trainer="go_on", rpc_lost_trainer_wait=3_600_000)
    monkeypatch.chdir(tmp_path)  # a message may ask for tables in a folder


@pytest.mark.parametrize("mode", MODES)
def test_a_server_survives(mode: str) -> None:
    survives(mode, SHORT, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 5))
@pytest.mark.parametrize("mode", MODES)
def test_a_server_survives_long(mode: str, seed: int) -> None:
    survives(mode, LONG, seed)


# ---------------------------------------------------------------------- results
def test_messages_that_are_refused_change_nothing() -> None:
    """Peers that call themselves by the number of a trainer that is there, or by none, between its steps."""
    results = []
    for is_attacked in (False, True):
        cluster = Cluster(table_job("pserver"), deadline=LIMIT)
        between = functools.partial(attack_between, cluster, np.random.RandomState(5), is_attacked)
        cluster.serve()
        cluster.train(0, 4, before=between, feed=feed)
        cluster.train(1, 4, feed=feed)
        cluster.join()
        results.append(cluster.result("server"))
    assert np.array_equal(*results)


def attack_between(
    cluster: Cluster, random: np.random.RandomState, is_attacked: bool, step: int, session: Any
) -> None:
    for _ in range(5 if is_attacked and step else 0):
        attack(cluster.endpoint, random, names_of(cluster.job))


def feed(step: int) -> dict[str, Any]:
    random = np.random.RandomState(step)
    x, y = (random.rand(4, width).astype("float32") for width in (4, 1))
    return {"x": x, "y": y, "i": random.randint(0, 50, (4, 1))}


def test_a_step_without_gradients_is_refused_and_another_one_done() -> None:
    cluster = Cluster(table_job("pserver"), deadline=LIMIT)
    cluster.serve()
    until(lambda: cluster.sessions["server"].listener is not None)
    with peer(cluster.endpoint) as first, peer(cluster.endpoint) as second:
        streams = [Stream(first, LIMIT), Stream(second, LIMIT)]
        for number, stream in enumerate(streams):
            stream.put(Message(Kind.BARRIER, number))
            stream.send_all()
        for stream in streams:
            said = stream.next()
            assert isinstance(said, Error) and "ended a step, and no trainer has sent 'b@GRAD'" in said.text
        for number, stream in enumerate(streams):
            stream.put(Message(Kind.COMPLETE, number))
            stream.send_all()
        cluster.join()
    assert "server" not in cluster.errors, cluster.errors


def test_a_second_trainer_of_a_number_is_refused_by_name() -> None:
    cluster = Cluster(table_job("pserver"), deadline=LIMIT)
    cluster.serve()
    until(lambda: cluster.sessions["server"].listener is not None)
    with peer(cluster.endpoint) as first:
        stream = Stream(first, LIMIT)
        stream.put(Message(Kind.GET, 0, "w"))
        stream.send_all()
        assert stream.next().shape == (8, 1)
        with peer(cluster.endpoint) as second:
            other = Stream(second, LIMIT)
            other.put(Message(Kind.GET, 0, "w"))
            other.send_all()
            assert "two processes claim to be trainer 0: that at 127.0.0.1:" in other.next().text
        stream.put(Message(Kind.SEND, 0, "w@GRAD.trainer_1", np.ones((8, 1), "float32")))
        stream.send_all()
        assert "which only trainer 1 may send" in stream.next().text
    cluster.sessions["server"].listener.interrupt("the test ends")  # type: ignore[union-attr]
    cluster.join()
