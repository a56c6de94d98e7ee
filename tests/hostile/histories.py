"""Histories of gradients at a parameter server, the connections that trainers reach it over, and what a
history has to be.

Each gradient has a 1 at a place of its own, so each change of the parameter says which gradients made it.
"""

from __future__ import annotations

import contextlib
import math
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from ports import free_endpoint
from test_tcp import KEY

import fluidlite as fluid
from fluidlite.distributed.trial import communicator_of, first_copies
from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.session import use
from fluidlite.executor.comm.tcp import dialer
from fluidlite.executor.comm.tcp.session import TcpSession
from fluidlite.executor.serving import PlannedBlocks
from fluidlite.transpiler import Job, make_job

TRAINERS = 2
MODES = ("pserver", "async", "geo_sgd")
FAULTS = ("cut", "reset", "delay", "half open")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the connection is reset, not closed


def job_of(mode: str, steps: int) -> Job:
    """A job with a parameter whose gradient is what is fed."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        width = TRAINERS * steps
        x = fluid.data("x", [width])
        w = fluid.layers.create_parameter(
            [width], "float32", name="w", default_initializer=fluid.initializer.Constant(0.0)
        )
        loss = fluid.layers.reduce_sum(fluid.layers.elementwise_mul(x, w))
        fluid.optimizer.SGD(1.0).minimize(loss)
    config = fluid.DistributeTranspilerConfig.make(geo_sgd_need_push_nums=2) if mode == "geo_sgd" else None
    return make_job(main, startup, mode, TRAINERS, [free_endpoint()], config=config)


# ---------------------------------------------------------------------- connections
class Connections:
    """A stand-in for the server that trainers connect to: each connection has a fault after some bytes, as
    the seed says, until `faults` are used up.
    """

    def __init__(self, endpoint: str, seed: int, faults: int) -> None:
        self.random = random.Random(seed)
        self.faults = faults
        self.had: list[str] = []
        host, _, port = endpoint.rpartition(":")
        self.server = host, int(port)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = self.socket.getsockname()[:2]
        self.is_over = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that there are go on."""
        self.is_over = True
        self.socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.socket.accept()
                fault = self.random.choice(FAULTS) if self.faults > 0 else "none"
                self.faults -= fault != "none"
                self.had.append(fault)
                after = int(self.random.choice((60, 200, 400, 800, 1500)) * (0.5 + self.random.random()))
                threading.Thread(target=self._carry, args=(sock, fault, after), daemon=True).start()

    def _carry(self, near: socket.socket, fault: str, after: int) -> None:
        try:
            far = socket.create_connection(self.server)
        except OSError:
            near.close()
            return
        with near, far, contextlib.suppress(OSError):
            self._pump(near, far, fault, after)
            if fault == "reset":
                for sock in (near, far):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _pump(self, near: socket.socket, far: socket.socket, fault: str, after: int) -> None:
        """Carry bytes both ways until one end closes, or the fault ends it."""
        passed = 0
        other = {near: far, far: near}
        while True:
            for sock in select.select([near, far], [], [])[0]:
                data = sock.recv(1 << 12)
                if not data:
                    return
                passed += len(data)
                if fault != "none" and passed > after:
                    if fault == "delay":
                        time.sleep(self.random.random() * 0.05)
                    elif fault == "half open":  # what comes is taken, and goes nowhere
                        time.sleep(0.5)
                        return
                    else:
                        # a part of what came arrives
                        other[sock].sendall(data[: self.random.randrange(len(data) + 1)])
                        return
                other[sock].sendall(data)


# ---------------------------------------------------------------------- what happened
@dataclass
class History:
    """One job.

    Attributes
    ----------
    changes: of the server's parameter, in order: place of the gradient -> how much of it was applied.
    acknowledged: places of the gradients of steps that ended without an error.
    errors: what trainers and the server heard.
    """

    mode: str
    steps: int
    changes: list[dict[int, float]] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def place(self, trainer: int, step: int) -> int:
        """The place at which the gradient of a step has its 1."""
        return trainer * self.steps + step


def mistakes(history: History) -> list[str]:
    """Texts about what cannot be: a gradient that counts twice or in part, later than one that followed it,
    or not at all though its trainer was told so.
    """
    shares: dict[int, list[float]] = {}
    for change in history.changes:
        for place, share in sorted(change.items()):
            shares.setdefault(place, []).append(share)
    is_calm = not history.errors
    wrong = {place: found for place, found in shares.items() if not _may_be(history.mode, found, is_calm)}
    found = [f"gradient {place} counts {each}" for place, each in wrong.items()]
    if history.mode == "pserver":
        found += [f"{change} is no mean" for change in history.changes if sum(change.values()) != 1.0]
    for trainer in range(TRAINERS):
        mine = [place for place in shares if place // history.steps == trainer]
        if mine != sorted(mine):
            found.append(f"trainer {trainer}'s gradients are applied in the order {mine}")
    lost = history.acknowledged - set(shares)
    if lost:
        found.append(f"gradients {sorted(lost)} were acknowledged, and are not applied")
    return found


def _may_be(mode: str, shares: list[float], is_calm: bool) -> bool:
    """True if a gradient may count so much in the changes that it is a part of."""
    if mode == "geo_sgd":
        # a trainer sends 1/n of what it is ahead, and the next time as much of the rest; what was on its way
        # when it heard an error may be lost, and nothing comes twice
        powers = [round(-math.log2(share), 6) for share in shares]
        expected = list(range(1, len(shares) + 1))
        return powers == expected or (not is_calm and powers == sorted({int(power) for power in powers}))
    # the mean of trainers of which some may have gone, or each gradient as it comes
    return shares in ([[1 / TRAINERS], [1.0]] if mode == "pserver" else [[1.0]])


@contextlib.contextmanager
def recorded(history: History) -> Iterator[None]:
    """Inside, changes of servers' parameters are noted."""
    before = np.zeros(TRAINERS * history.steps, "float32")
    run = PlannedBlocks.run

    def noted(blocks: PlannedBlocks, block: Any) -> None:
        run(blocks, block)
        now = np.array(blocks.find("w"))
        where = np.nonzero(now != before)[0]
        if len(where):
            history.changes.append({int(place): float(before[place] - now[place]) for place in where})
        before[:] = now

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlannedBlocks, "run", noted)
        yield


# ---------------------------------------------------------------------- a job
class JobUnderFaults:
    """Roles as threads; a trainer that hears an error begins anew, as another process, with the next step."""

    def __init__(self, mode: str, seed: int, steps: int, faults: int) -> None:
        self.history = History(mode, steps)
        self.job = job_of(mode, steps)
        self.endpoint = self.job.slices[0].endpoint
        self.connections = Connections(self.endpoint, seed, faults)
        self.server = threading.Thread()

    def run(self) -> History:
        """The history of the job."""
        find = dialer.address_of
        with recorded(self.history), pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                dialer,
                "address_of",
                lambda name: self.connections.address if name == self.endpoint else find(name),
            )
            self.server = threading.Thread(target=self._noting, args=(self._serve, 20.0))
            threads = [self.server]
            threads += [threading.Thread(target=self._train, args=(trainer,)) for trainer in range(TRAINERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
                assert not thread.is_alive(), (self.history, self.connections.had)
        self.connections.close()
        return self.history

    def _noting(self, work: Callable[[], None], deadline: float) -> bool:
        """True where the work of a process ends well; its connections end with it."""
        session = TcpSession(deadline, KEY)
        try:
            with use(session):
                work()
            session.leave()
            return True
        except CommunicatorError as error:
            self.history.errors.append(str(error))
            for server in session.dialer.servers.values():
                server.stream.close()
            session.dialer.servers.clear()
            session.forget_servers()
            session.leave()
            return False

    def _serve(self) -> None:
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        programs = self.job.programs(self.job.role("pserver0"))
        exe.run(programs.startup, scope=scope)
        exe.run(programs.main, scope=scope)

    def _train(self, trainer: int) -> None:
        steps = iter(range(self.history.steps))
        # a server that all have left, or were given up, is gone for good
        while self.server.is_alive() and not self._noting(lambda: self._train_on(trainer, steps), 4.0):
            time.sleep(0.05)

    def _train_on(self, trainer: int, steps: Iterator[int]) -> None:
        """Do the steps that are left; those of this process are acknowledged when its communicator has sent
        them all, or, where it has none, when the run of the step ends.
        """
        scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
        role = self.job.role(f"trainer{trainer}")
        main, startups = self.job.mode.trainer(self.job, role.index)
        for startup in startups:
            exe.run(startup, scope=scope)
        communicator = communicator_of(self.job, main)
        if communicator is not None:
            communicator.start()
            exe.run(first_copies(startups[0]), scope=scope)
        done = set()
        for step in steps:
            place = self.history.place(trainer, step)
            x = np.zeros(TRAINERS * self.history.steps, "float32")
            x[place] = 1.0
            exe.run(main, feed={"x": x}, scope=scope)
            done.add(place)
            if communicator is None:
                self.history.acknowledged.add(place)
        if communicator is not None:
            communicator.stop()
        self.history.acknowledged |= done


def summary(histories: Sequence[History]) -> Mapping[str, int]:
    """Counts over some jobs."""
    return {
        "jobs": len(histories),
        "gradients": sum(len(each.acknowledged) for each in histories),
        "changes": sum(len(each.changes) for each in histories),
        "errors": sum(len(each.errors) for each in histories),
    }
