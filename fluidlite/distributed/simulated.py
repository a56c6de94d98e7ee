"""Simulation of a job's trainers: what asynchronous servers and geo-SGD have in common."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.place import CPUPlace
from fluidlite.distributed.references import Initial, parameters
from fluidlite.distributed.shares import Values, get
from fluidlite.executor.comm.local.network import JobEvent
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.transpiler.modes import Job

__all__ = ["SimulatedJob", "SimulatedTrainer", "draws_of", "keep"]


def draws_of(trainer: int) -> np.random.Generator:
    """The random numbers of a trainer, in a job on trial and in what it is compared with."""
    return np.random.default_rng(trainer)


def keep(program: Program, names: Iterable[str]) -> None:
    """Have a scope keep what a program computes, for another to read."""
    for name in names:
        program.global_block().var(name).persistable = True


class SimulatedTrainer(abc.ABC):
    """One trainer, which takes a step only when a message shows that it must have been taken.

    Attributes
    ----------
    begun, done: the number of steps that have begun, and of those that have been computed.
    """

    def __init__(self, program: Program, initial: Initial, feeds: Sequence[Values], index: int) -> None:
        self.scope = initial.scope()
        self.exe = Executor(CPUPlace())
        self.exe.random = draws_of(index)
        self.exe.naive = True
        self.program = program
        self.feeds = feeds
        self.begun = self.done = 0

    def begin(self) -> None:
        """Begin the next step, if there is one: first it looks up rows, if any."""
        self.compute()
        # the event behind the last step begins none
        if self.begun < len(self.feeds):
            self.begun += 1

    def compute(self) -> None:
        """Take the step that was begun; all that it looks up has been fetched."""
        # a step is computed as late as possible: what it reads may still be fetched after it has begun
        if self.done == self.begun:
            return
        self.exe.run(self.program, feed=self.feeds[self.done], scope=self.scope)
        self.done += 1
        self.note()

    def value(self, name: str) -> Any:
        """A variable's LoDTensor or SelectedRows after the last step."""
        held = self.scope.find_var(name)
        assert held is not None
        return held.value

    @abc.abstractmethod
    def note(self) -> None:
        """Remember what a step has computed."""

    @abc.abstractmethod
    def check_complete(self, index: int) -> None:
        """TranspilerError where trainer number `index` has not sent all that it should have."""


class SimulatedJob(abc.ABC):
    """The servers and trainers of a job, brought to where it ended.

    Attributes
    ----------
    servers: parameter -> its value, put together from the servers that hold it.
    trainers: of each trainer, its parameters by name.
    remote: the tables of which trainers have only the rows that they ask for.
    """

    servers: Mapping[str, Any]
    remote: set[str]

    def __init__(self, job: Job) -> None:
        self.job = job
        self.by_param = {piece.param_name: piece for piece in job.slices}
        self.trainers: list[Values] = []

    def replay(self, trainers: Sequence[SimulatedTrainer], events: Sequence[JobEvent]) -> None:
        """Handle the messages of a run, in their order."""
        numbers = {role.name: role.index for role in self.job.roles if role.trains}
        for event in events:
            index = numbers[event.role]
            if event.kind is None:
                trainers[index].begin()
            else:
                self.handle(event, index)
        for index, trainer in enumerate(trainers):
            trainer.check_complete(index)
        names = parameters(self.job)
        self.trainers = [{name: get(trainer.scope, name) for name in names} for trainer in trainers]

    @abc.abstractmethod
    def handle(self, event: JobEvent, index: int) -> None:
        """Do what a message of trainer number `index` does."""
