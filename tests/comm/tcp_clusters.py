"""Parameter-server jobs whose roles are threads with TCP connections of their own, to be hurt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ports import free_endpoint
from test_tcp import KEY
from waiting import LIMIT

import fluidlite as fluid
from fluidlite.executor.comm.session import use
from fluidlite.executor.comm.tcp.session import TcpSession
from fluidlite.transpiler import Job, make_job

WIDTH, ROWS = 30, 4


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
    return make_job(main, startup, "pserver", trainers, [endpoint or free_endpoint()], sync)


def batch(seed: int, width: int = WIDTH) -> dict[str, Any]:
    random = np.random.RandomState(seed)
    return {"x": random.randn(ROWS, width).astype("float32"), "y": random.randn(ROWS, 1).astype("float32")}


class Cluster:
    """Roles as threads with TCP connections of their own."""

    def __init__(self, job: Job, deadline: float = 60.0) -> None:
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

    def join(self, limit: float = LIMIT) -> None:
        end = time.monotonic() + limit
        for name, thread in self.threads.items():
            thread.join(max(0.1, end - time.monotonic()))
            assert not thread.is_alive(), f"{name} hangs"

    def result(self, name: str) -> Any:
        if name in self.errors:
            raise self.errors[name]
        return self.results[name]


def vanish(session: TcpSession) -> None:
    """End the connections without a goodbye, as those of a process end that was killed."""
    for server in session.dialer.servers.values():
        server.stream.close()
    session.dialer.servers.clear()
    session.forget_servers()


def alone(steps: int) -> Any:
    """The parameter after `steps` steps; trainer 1 has the same batches, so it does not matter in how many
    it takes part.
    """
    w = np.full((WIDTH, 1), 0.1, "float32")
    for step in range(steps):
        feed = batch(step)
        w -= 0.01 * feed["x"].T @ (2 * (feed["x"] @ w - feed["y"]) / ROWS)
    return w
