"""A job on trial: every role as a thread, on the same batches and from the same values as its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from fluidlite.base.place import CPUPlace
from fluidlite.base.records import dataclass
from fluidlite.communicator import Communicator
from fluidlite.distributed.references import Initial, parameters, part_of
from fluidlite.distributed.shares import Values, get, put
from fluidlite.distributed.simulated import draws_of
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole
from fluidlite.values.scope import Scope

__all__ = ["Outcome", "Trial", "communicator_of"]


@dataclass
class Outcome:
    """The end of a job: parameters of each trainer, parameters put together from the servers, and
    bytes of all steps and in all.
    """

    trainers: list[Values] = field(default_factory=list)
    servers: Values = field(default_factory=dict)
    in_steps: dict[tuple[str, str], int] = field(default_factory=dict)
    counted: Mapping[tuple[str, str], int] = field(default_factory=dict)


class Trial:
    """A job, each trainer's share of the batches, and the values that all roles start from."""

    def __init__(
        self, job: Job, initial: Initial, shares: Sequence[Sequence[Values]], network: LocalNetwork
    ) -> None:
        self.job = job
        self.initial = initial
        self.shares = shares
        self.network = network
        self.in_steps: dict[tuple[str, str], int] = {}

    def run(self) -> Outcome:
        """Run all roles to their end."""
        found = run_roles(self.network, [(role.name, self.work(role)) for role in self.job.roles])
        trainers = [found[role.name] for role in self.job.roles if role.trains]
        return Outcome(trainers, self.joined(found), self.in_steps, dict(self.network.bytes))

    def work(self, role: JobRole) -> Callable[[], Values]:
        """The work of a role's thread, which returns the variables that it ends with."""
        return (lambda: self.train(role)) if role.trains else (lambda: self.serve(role))

    def train(self, role: JobRole) -> Values:
        main, startups = self.job.mode.trainer(self.job, role.index)
        scope = Scope()
        exe = Executor(CPUPlace())
        for startup in startups:
            exe.run(startup, scope=scope)
        # ranks draw numbers of their own: those of the reference take their place; servers hand theirs out
        if not self.job.has_servers:
            put(scope, self.initial.values)
            for name, copies in self.job.mode.copies(self.job, role).items():
                put(scope, dict.fromkeys(copies, self.initial.values[name]))
        communicator = communicator_of(self.job, main)
        if communicator is not None:
            # nobody sends those
            tables = dict.fromkeys(piece.param for piece in self.job.slices if piece.sparse)
            put(scope, {name: self.initial.values[name] for name in tables})
            communicator.start()
            exe.run(first_copies(startups[0]), scope=scope)
        exe.random = draws_of(role.index)
        before = self.bytes_of(role)
        for feed in self.shares[role.index]:
            self.network.begin_step(role.name)
            exe.run(main, feed=feed, scope=scope)
        self.in_steps |= {link: size - before.get(link, 0) for link, size in self.bytes_of(role).items()}
        # one that never comes: the last one is over
        self.network.begin_step(role.name)
        if communicator is not None:
            communicator.stop()
        exe.close()
        return {name: get(scope, name) for name in parameters(self.job)}

    def bytes_of(self, role: JobRole) -> dict[tuple[str, str], int]:
        """Bytes that have gone over the links of a trainer so far."""
        with self.network.changed:
            return {link: size for link, size in self.network.bytes.items() if role.name in link}

    def serve(self, role: JobRole) -> Values:
        programs = self.job.programs(role)
        scope = Scope()
        exe = Executor(CPUPlace())
        exe.run(programs.startup, scope=scope)
        mine = [piece for piece in self.job.slices if piece.endpoint == role.endpoint]
        copies = self.job.mode.copies(self.job, role)
        for piece in mine:
            value = self.initial.values[piece.param][piece.first_row : piece.end_row]
            put(scope, dict.fromkeys([piece.param_name, *copies.get(piece.param_name, ())], value))
        shared = [name for name, endpoint in self.job.placement.shared if endpoint == role.endpoint]
        put(scope, {name: self.initial.values[name] for name in shared})
        exe.run(programs.main, scope=scope)
        return {piece.param_name: get(scope, piece.param_name) for piece in mine}

    def joined(self, found: Mapping[str, Values]) -> Values:
        """Each parameter, put together from the servers."""
        held: dict[str, Any] = {}
        for role in self.job.roles:
            if not role.trains:
                held |= found[role.name]
        params = dict.fromkeys(piece.param for piece in self.job.slices)
        return {
            name: np.concatenate([held[piece.param_name] for piece in self.job.slices if piece.param == name])
            for name in params
        }


def first_copies(startup: Program) -> Program:
    """The part of a startup program that has geo-SGD's communicator take its first copies."""
    return part_of(startup, [op for op in startup.global_block().ops if op.type == "send"])


def communicator_of(job: Job, main: Program, envs: Mapping[str, Any] | None = None) -> Communicator | None:
    """The communicator between a trainer and the servers while it trains; None where its ops talk to them by
    themselves.
    """
    needed = job.mode.communicator(job)
    return None if needed is None else Communicator(main, int(needed.kind), needed.facts, envs or {})
