"""What clusters do to a job over TCP: trainers and servers that go, come late, differ, or send what they
should not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_tcp import KEY, free_ports, processes, raw

import fluidlite as fluid
from fluidlite.errors import CommunicatorError, NanInfError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.session import use
from fluidlite.executor.comm.tcp.handshake import VERSION, introduce
from fluidlite.executor.comm.tcp.session import TcpSession
from fluidlite.executor.comm.tcp.stream import Stream
from fluidlite.executor.comm.wire import encode
from fluidlite.transpiler import Job, make_job
from fluidlite.values.tensor import SelectedRows

SCRIPT = pathlib.Path(__file__).parent / "fault_job.py"
WIDTH, ROWS = 30, 4


@pytest.fixture(autouse=True)
def flags() -> Iterator[Callable[..., None]]:
    """Set flags for one test."""
    before: dict[str, Any] = {}

    def change(**values: Any) -> None:
        for name, value in values.items():
            before.setdefault(f"FLAGS_{name}", fluid.get_flags(f"FLAGS_{name}")[f"FLAGS_{name}"])
            fluid.set_flags({f"FLAGS_{name}": value})

    yield change
    fluid.set_flags(before)


def make(
    sync: bool = True, endpoint: str = "", width: int = WIDTH, trainers: int = 2, name: str = "w"
) -> Job:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.data("x", [None, width]), fluid.data("y", [None, 1])
        initial = fluid.ParamAttr(name, initializer=fluid.initializer.Constant(0.1))
        loss = fluid.layers.mean(
            fluid.layers.square_error_cost(fluid.layers.fc(x, 1, param_attr=initial, bias_attr=False), y)
        )
        fluid.optimizer.SGD(0.01).minimize(loss)
    return make_job(main, startup, "pserver", trainers, [endpoint or f"127.0.0.1:{free_ports(1)[0]}"], sync)


def batch(seed: int, width: int = WIDTH) -> dict[str, Any]:
    random = np.random.RandomState(seed)
    return {"x": random.randn(ROWS, width).astype("float32"), "y": random.randn(ROWS, 1).astype("float32")}


class Cluster:
    """Roles as threads with TCP connections of their own."""

    def __init__(self, job: Job, deadline: float = 10.0) -> None:
        self.job, self.deadline = job, deadline
        self.endpoint = job.slices[0].endpoint
        self.threads: dict[str, threading.Thread] = {}
        self.results: dict[str, Any] = {}
        self.errors: dict[str, BaseException] = {}
        self.sessions: dict[str, TcpSession] = {}

    def start(self, name: str, work: Callable[[TcpSession], Any]) -> None:
        session = self.sessions[name] = TcpSession(self.deadline, KEY)

        def body() -> None:
            try:
                with use(session):
                    self.results[name] = work(session)
            except BaseException as error:
                self.errors[name] = error
                vanish(session)  # as a process does that an error ends
            finally:
                session.leave()

        self.threads[name] = threading.Thread(target=body, name=name)
        self.threads[name].start()

    def serve(self) -> None:
        self.start("server", self._serve)

    def _serve(self, session: TcpSession) -> Any:
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        programs = self.job.programs(self.job.role("pserver0"))
        exe.run(programs.startup, scope=scope)
        exe.run(programs.main, scope=scope)
        return np.array(scope.find_var("w").get_tensor())

    def train(
        self,
        number: int,
        steps: int,
        before: Callable[[int, TcpSession], None] = lambda step, session: None,
        job: Job | None = None,
        feed: Callable[[int], dict[str, Any]] = batch,
    ) -> None:
        """Let a trainer run; `before` is called before each step, and a trainer whose connection is gone
        then just ends.
        """

        def work(session: TcpSession) -> Any:
            programs = (job or self.job).programs((job or self.job).role(f"trainer{number}"))
            scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
            exe.run(programs.startup, scope=scope)
            for step in range(steps):
                before(step, session)
                if not session.contacted:
                    return None
                exe.run(programs.main, feed=feed(step), scope=scope)
            return np.array(scope.find_var("w").get_tensor())

        self.start(f"trainer{number}", work)

    def join(self, limit: float = 20.0) -> None:
        end = time.monotonic() + limit
        for name, thread in self.threads.items():
            thread.join(max(0.1, end - time.monotonic()))
            assert not thread.is_alive(), f"{name} hangs"

    def result(self, name: str) -> Any:
        if name in self.errors:
            raise self.errors[name]
        return self.results[name]


def vanish(session: TcpSession) -> None:
    """What is left of a process that was killed: connections that end without a goodbye."""
    for server in session.tcp.dialer.servers.values():
        server.stream.close()
    session.tcp.dialer.servers.clear()
    session.contacted.clear()


def alone(steps: int) -> Any:
    """The parameter after `steps` steps; trainer 1 has the same batches, so it does not matter in how many
    it takes part.
    """
    w = np.full((WIDTH, 1), 0.1, "float32")
    for step in range(steps):
        feed = batch(step)
        w -= 0.01 * feed["x"].T @ (2 * (feed["x"] @ w - feed["y"]) / ROWS)
    return w


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
    assert time.monotonic() - begin < 8
    if policy == "go_on":
        assert np.allclose(cluster.result("trainer0"), alone(5), atol=1e-5)
        assert (
            "trainer 1 has gone without a word" in caplog.text
            and "the others go on without it" in caplog.text
        )
        return
    with pytest.raises(
        CommunicatorError, match=r"trainer 1 has gone without a word .* FLAGS_rpc_lost_trainer=go_on"
    ):
        cluster.result("server")
    with pytest.raises(CommunicatorError, match=r"the server at .* says: trainer 1 has gone without a word"):
        cluster.result("trainer0")


def test_a_trainer_that_dies_out_of_step(flags: Callable[..., None]) -> None:
    flags(rpc_lost_trainer_wait=300)
    cluster = Cluster(make(sync=False))
    cluster.serve()
    cluster.train(0, 20)
    cluster.train(1, 5, lambda step, session: vanish(session) if step == 2 else None)
    cluster.join()
    assert np.isfinite(cluster.result("trainer0")).all() and np.isfinite(cluster.result("server")).all()


@pytest.mark.slow
def test_a_trainer_with_an_error_is_no_trainer_that_is_done() -> None:
    common = environment(FLAGS_rpc_lost_trainer_wait="500", STEPS="1000", PAUSE="0.01")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        first = started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID="0", **common)
        second = started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID="1", **{**common, "ERROR_AT": "20"})
        assert "a mistake of the user" in started.finished(second, 1)[1]
        assert "says: trainer 1 has gone without a word" in started.finished(first, 1)[1]
        started.finished(server, 1)


def test_a_trainer_that_died_comes_back(flags: Callable[..., None]) -> None:
    flags(rpc_lost_trainer_wait=8000)
    cluster = Cluster(make())
    cluster.serve()
    cluster.train(0, 4)
    cluster.train(1, 5, lambda step, session: vanish(session) if step == 2 else None)
    cluster.threads["trainer1"].join(10)
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
    flags(rpc_deadline=1000)
    cluster = Cluster(make(), deadline=1.0)
    cluster.serve()
    cluster.train(0, 3)
    cluster.train(1, 3, lambda step, session: time.sleep(2.5) if step == 1 else None)
    cluster.join()
    with pytest.raises(
        CommunicatorError, match="trainer 1 has not come to the barrier where the others have been for"
    ):
        cluster.result("trainer0")
    with pytest.raises(CommunicatorError, match="trainer 1 has not come"):
        cluster.result("server")


def test_the_kernel_looks_after_connections() -> None:
    cluster = Cluster(make(trainers=1))
    cluster.serve()
    seen = []

    def look(step: int, session: TcpSession) -> None:
        sock = session.tcp.dialer.servers[cluster.endpoint].stream.sock
        seen.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    cluster.train(0, 2, look)
    cluster.join()
    assert cluster.result("trainer0") is not None and all(seen)


# ---------------------------------------------------------------------- servers that go, or are late
def test_a_server_that_is_late(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(make(trainers=1))
    with caplog.at_level(logging.WARNING):
        cluster.train(0, 2)
        time.sleep(2.6)
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
        CommunicatorError, match=f"no sign of the server at {cluster.endpoint} for 0.5 s: is it started"
    ):
        cluster.result("trainer0")


def test_a_server_that_nobody_comes_to() -> None:
    cluster = Cluster(make(trainers=1), deadline=0.5)
    cluster.serve()
    cluster.join()
    with pytest.raises(CommunicatorError, match="no trainer has said anything for 0.5 s"):
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
            session.tcp.dialer.servers[cluster.endpoint].stream.sock.shutdown(socket.SHUT_RDWR)

    cluster.train(0, 3, cut)
    cluster.join()
    with pytest.raises(CommunicatorError, match="was cut in the middle of a step .* nobody knows"):
        cluster.result("trainer0")


# ---------------------------------------------------------------------- bytes
@contextlib.contextmanager
def known(cluster: Cluster) -> Iterator[socket.socket]:
    """A connection of somebody who holds the key."""
    host, _, port = cluster.endpoint.rpartition(":")
    deadline = time.monotonic() + 5.0
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            sock = socket.create_connection((host, int(port)), timeout=5.0)
            break
        assert time.monotonic() < deadline
    with sock:
        introduce(sock, cluster.endpoint, KEY, 5.0)
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
        (b"\xff" * 5000, "are no message of a job"),
        (piece()[:4] + b"\xee" + piece()[5:], "broken header"),
        (
            HUGE,
            "trainer 1 sends 'w@GRAD.trainer_1' as float32[1073741824, 1], and it is declared as float32[30, "
            "1]",
        ),
        (piece(shape=(WIDTH, 2)), "as float32[30, 2], and it is declared as float32[30, 1]"),
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
            "as float32[1, 1], rows of 50, and it is declared as float32[30, 1]",
        ),
        (spelled(Message(Kind.GET, 1, "w", np.ones(9))), "a value with a question that has none"),
    ],
    ids=["garbage", "header", "huge", "shape", "name", "nothing", "rows", "value"],
)
def test_what_nobody_should_send(sent: bytes, message: str) -> None:
    cluster = Cluster(make())
    cluster.serve()
    with known(cluster) as sock:
        sock.sendall(sent)
        said = Stream(sock, 5.0).next().text
        assert message in said
    cluster.train(0, 2)
    cluster.train(1, 2)
    cluster.join()
    assert np.allclose(cluster.result("trainer0"), alone(2), atol=1e-5)


def test_questions_that_have_no_answer() -> None:
    cluster = Cluster(make(trainers=1))
    cluster.serve()
    with known(cluster) as sock:
        stream = Stream(sock, 5.0)
        for message, answer in (
            (Message(Kind.GET, 0, "u"), "which this server does not hold"),
            (Message(Kind.ROWS, 0, "w", np.array([WIDTH])), "rows 30 to 30 of 'w', which has 30 here"),
            (Message(Kind.ROWS, 0, "w", np.array([-1])), "rows -1 to -1 of 'w'"),
            (Message(Kind.ROWS, 0, "w"), "rows of 'w' without saying which"),
            (Message(Kind.SAVE, 0, "/nowhere"), ""),
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
            match=f"speaks version {VERSION + 1} of the protocol, and this process version {VERSION}",
        ):
            introduce(near, "a:1", KEY, 5.0)


# ---------------------------------------------------------------------- programs that differ
@pytest.mark.parametrize(
    ("other", "number", "message"),
    [
        (
            {"width": WIDTH + 1},
            0,
            r"it asks for 'w' as float32\[31, 1\], and the server has float32\[30, 1\]",
        ),
        ({"name": "v"}, 0, r"it asks for 'v', which the server does not hold"),
        (
            {"sync": False},
            0,
            r"it is asynchronous, and the server synchronous: give `transpile` the same sync_mode",
        ),
        ({"trainers": 3}, 2, r"it sends 'w@GRAD.trainer_2', which the server does not expect; did you mean"),
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
    cluster.threads[f"trainer{number}"].join(10)
    with pytest.raises(CommunicatorError, match=message):
        cluster.result(f"trainer{number}")
    del cluster.errors[f"trainer{number}"]
    cluster.train(0, 2)
    cluster.train(1, 2)
    cluster.join()
    assert np.array_equal(
        cluster.result("trainer0"), cluster.result("trainer1")
    )  # the others are not disturbed


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


# ---------------------------------------------------------------------- processes
def environment(**more: str) -> dict[str, str]:
    return {"ENDPOINTS": f"127.0.0.1:{free_ports(1)[0]}", "TRAINERS": "2", **more}


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    """Read what a process prints until it says `word`."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"a process ended before it said {word!r}")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["stop", "go_on"])
def test_kill_9_of_a_trainer(policy: str) -> None:
    common = environment(
        FLAGS_rpc_lost_trainer=policy, FLAGS_rpc_lost_trainer_wait="1000", STEPS="400", PAUSE="0.01"
    )
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        first, second = (
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        )
        wait_for(second, "step 20")
        second.kill()
        if policy == "go_on":
            assert "step 399" in started.finished(first)[0]
            started.finished(server)
        else:
            assert "says: trainer 1 has gone without a word" in started.finished(first, 1)[1]
            assert "trainer 1 has gone without a word" in started.finished(server, 1)[1]


@pytest.mark.slow
def test_kill_9_of_an_asynchronous_trainer() -> None:
    common = environment(SYNC="0", FLAGS_rpc_lost_trainer_wait="1000", STEPS="300", PAUSE="0.005")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        first, second = (
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        )
        wait_for(second, "step 20")
        second.kill()
        assert "step 299" in started.finished(first)[0]
        started.finished(server)


@pytest.mark.slow
def test_kill_9_of_a_server() -> None:
    common = environment(STEPS="1000", PAUSE="0.01")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        ]
        wait_for(trainers[0], "step 20")
        server.kill()
        begin = time.monotonic()
        for trainer in trainers:
            assert f"the server at {common['ENDPOINTS']} has gone" in started.finished(trainer, 1)[1]
        assert time.monotonic() - begin < 10


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["1", "0"])
def test_a_server_that_comes_back(sync: str) -> None:
    common = environment(SYNC=sync, STEPS="150", PAUSE="0.01", FLAGS_rpc_server_wait="30000")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        ]
        wait_for(trainers[0], "step 20")
        server.kill()
        server.wait(10)
        again = started.start(SCRIPT, ROLE="PSERVER", **common)
        for trainer in trainers:
            out, err = started.finished(trainer)
            assert "step 149" in out and "waiting up to 30 s for it to come back" in err
        started.finished(again)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signals_end_a_server(number: signal.Signals) -> None:
    common = environment(STEPS="1000", PAUSE="0.01")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(index), **common) for index in range(2)
        ]
        wait_for(trainers[0], "step 20")
        assert os.path.exists(f"/tmp/paddle.{server.pid}.port")
        server.send_signal(number)
        out, err = started.finished(server)
        assert (
            not err and "after the server" not in out and not os.path.exists(f"/tmp/paddle.{server.pid}.port")
        )
        for trainer in trainers:
            assert f"says: it was told to stop ({number.name})" in started.finished(trainer, 1)[1]


@pytest.mark.slow
def test_a_stopped_trainer_is_named() -> None:
    common = environment(STEPS="1000", PAUSE="0.01", FLAGS_rpc_deadline="4000")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(index), **common) for index in range(2)
        ]
        wait_for(trainers[0], "step 20")
        trainers[1].send_signal(signal.SIGSTOP)
        assert "says: trainer 1 has not come to the barrier" in started.finished(trainers[0], 1)[1]
        started.finished(server, 1)
