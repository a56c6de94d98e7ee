"""A job on trial: every role as a thread, on the same batches and from the same values as its reference."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fluidlite.distributed.references import Initial, parameters
from fluidlite.distributed.shares import Values, get, put
from fluidlite.executor.comm.local import LocalNetwork, run_roles
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.place import CPUPlace
from fluidlite.scope import Scope
from fluidlite.transpiler import Job, Role

__all__ = ["Outcome", "Trial"]


@dataclass
class Outcome:
    """What a job ended with: parameters of each trainer, parameters put together from the servers, and bytes at the start and in all."""

    trainers: list[Values] = field(default_factory=list)
    servers: Values = field(default_factory=dict)
    started: dict[tuple[str, str], int] = field(default_factory=dict)
    counted: Mapping[tuple[str, str], int] = field(default_factory=dict)


class Trial:
    """A job, each trainer's share of the batches, and the values that all roles start from."""

    def __init__(self, job: Job, initial: Initial, shares: Sequence[Sequence[Values]], network: LocalNetwork) -> None:
        self.job, self.initial, self.shares, self.network = job, initial, shares, network
        self.started: dict[tuple[str, str], int] = {}

    def run(self) -> Outcome:
        """Run all roles to their end."""
        found = run_roles(self.network, [(role.name, self.work(role)) for role in self.job.roles])
        trainers = [found[role.name] for role in self.job.roles if role.kind == "trainer"]
        return Outcome(trainers, self.joined(found), self.started, dict(self.network.bytes))

    def work(self, role: Role) -> Callable[[], Values]:
        """What a role's thread does; gives the variables that it ends with."""
        return (lambda: self.train(role)) if role.kind == "trainer" else (lambda: self.serve(role))

    def train(self, role: Role) -> Values:
        main, startups = programs_of_trainer(self.job, role.index)
        scope, exe = Scope(), Executor(CPUPlace())
        for startup in startups:
            exe.run(startup, scope=scope)
        if not self.job.has_servers:
            put(scope, self.initial.values)
            put(scope, {f"{name}@SNAPSHOT": self.initial.values[name] for name in parameters(self.job)})
        with self.network.changed:
            self.started |= {link: size for link, size in self.network.bytes.items() if role.name in link}
        for feed in self.shares[role.index]:
            exe.run(main, feed=feed, scope=scope)
        exe.close()
        return {name: get(scope, name) for name in parameters(self.job)}

    def serve(self, role: Role) -> Values:
        programs, scope, exe = self.job.programs(role), Scope(), Executor(CPUPlace())
        exe.run(programs.startup, scope=scope)
        mine = [piece for piece in self.job.slices if piece.endpoint == role.endpoint]
        for piece in mine:
            value = self.initial.values[piece.param][piece.first_row:piece.first_row + piece.shape[0]]
            copies = [f"{piece.param_name}.trainer_{trainer}_bak" for trainer in range(self.job.trainers)]
            put(scope, dict.fromkeys([piece.param_name, *copies], value))
        exe.run(programs.main, scope=scope)
        return {piece.param_name: get(scope, piece.param_name) for piece in mine}

    def joined(self, found: Mapping[str, Values]) -> Values:
        """Each parameter, put together from the servers."""
        held: dict[str, Any] = {}
        for role in self.job.roles:
            if role.kind == "pserver":
                held |= found[role.name]
        params = dict.fromkeys(piece.param for piece in self.job.slices)
        return {name: np.concatenate([held[piece.param_name] for piece in self.job.slices if piece.param == name]) for name in params}


def programs_of_trainer(job: Job, index: int) -> tuple[Program, list[Program]]:
    """What a trainer runs step by step, and what it runs once before, in order.

    In mode "nccl2" fluid's runtime reduced the gradients behind the program; here ops are added that do.
    """
    programs = job.trainer(index)
    if job.mode != "nccl2":
        return programs.main, [programs.startup]
    from fluidlite.transpiler.trainers import Trainers, reduce_over_trainers
    config = job.config
    group = config.hierarchical_allreduce_inter_nranks if config.use_hierarchical_allreduce else 0
    made = reduce_over_trainers(programs.main, Trainers(index, job.trainers, config.nccl_comm_num, group))
    return made.main, [programs.startup, made.startup]
