"""References for jobs, computed plainly: by one process, or by processes that average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.place import CPUPlace
from fluidlite.distributed.shares import Values, get, max_relative_difference, put
from fluidlite.executor.executor import Executor
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.modes import Job
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor

__all__ = ["Initial", "averaging_processes", "one_process", "parameters", "rounding_of"]


class Initial:
    """A program's variables as its startup program makes them: what every role begins with."""

    def __init__(self, job: Job) -> None:
        self.job = job
        # nothing to put in yet: the first scope is where the values come from
        self.values: Values = {}
        scope = self.scope()
        found = {name: get(scope, name) for name in scope.local_var_names()}
        self.values = {name: value for name, value in found.items() if value is not None}

    def scope(self) -> Scope:
        """A scope that is initialised so."""
        scope = Scope()
        Executor(CPUPlace()).run(self.job.startup, scope=scope)
        put(scope, self.values)
        return scope


def parameters(job: Job) -> list[str]:
    """The names of a job's parameters; in a program that was read from a file nothing marks them but their
    updates.
    """
    updated = [
        op.inputs["Param"][0]
        for op in job.main.global_block().ops
        if op.role & OpRole.Optimize and op.inputs.get("Param")
    ]
    return [param.name for param in job.main.all_parameters()] or list(dict.fromkeys(updated))


def one_process(
    job: Job, initial: Initial, feeds: Sequence[Mapping[str, Any]], nudged: Values | None = None
) -> Values:
    """The parameters after all steps of one process on the whole batches, from the initial values or from
    `nudged` ones.
    """
    scope = initial.scope()
    exe = Executor(CPUPlace())
    put(scope, nudged or {})
    for feed in feeds:
        exe.run(job.main, feed=feed, scope=scope)
    return {name: get(scope, name) for name in parameters(job)}


def rounding_of(job: Job, initial: Initial, feeds: Sequence[Mapping[str, Any]]) -> float:
    """How far one process ends from itself when it rounds otherwise, the largest of three tries.

    The rows of each batch come in another order, which changes no mean, and the parameters begin a rounding
    away; sequences stay in their order.
    """
    wanted = one_process(job, initial, feeds)
    random = np.random.RandomState(0)
    found = 0.0
    for _ in range(3):
        turned = [_in_another_order(feed, random) for feed in feeds]
        nudged = {name: _nudged(initial.values[name], random) for name in wanted}
        again = one_process(job, initial, turned, nudged)
        found = max(found, *(max_relative_difference(value, wanted[name]) for name, value in again.items()))
    return found


def _in_another_order(feed: Mapping[str, Any], random: np.random.RandomState) -> Values:
    if any(isinstance(value, LoDTensor) for value in feed.values()):
        return dict(feed)
    order = random.permutation(len(next(iter(feed.values()))))
    return {
        name: np.asarray(value)[order] if len(value) == len(order) else value for name, value in feed.items()
    }


def _nudged(value: Any, random: np.random.RandomState) -> Any:
    """Floats a rounding up or down, or as they are."""
    if value.dtype.kind != "f":
        return value
    steps = random.randint(-1, 2, value.shape)
    factors = 1 + np.finfo(value.dtype).eps * steps
    return (value * factors).astype(value.dtype)


def averaging_processes(job: Job, initial: Initial, shares: Sequence[Sequence[Values]]) -> list[Values]:
    """For each process the parameters after all steps, of one process a share. They take the mean of their
    parameters after each step, or after those that the mode says.
    """
    scopes = [initial.scope() for _ in shares]
    exe = Executor(CPUPlace())
    rhythm = job.mode.rhythm(job)
    watched = [] if rhythm is None else list(rhythm.periods.watched)
    for step in range(len(shares[0])):
        seen = [
            exe.run(job.main, feed=share[step], fetch_list=watched, scope=scope) or []
            for scope, share in zip(scopes, shares, strict=True)
        ]
        if rhythm is not None and not rhythm.due([np.mean(parts) for parts in zip(*seen, strict=True)]):
            continue
        means = {name: np.mean([get(scope, name) for scope in scopes], axis=0) for name in parameters(job)}
        for scope in scopes:
            put(scope, means)
    return [{name: get(scope, name) for name in parameters(job)} for scope in scopes]


def part_of(program: Program, kept: Sequence[Operator]) -> Program:
    """A copy of a program with some of the ops of its first block."""
    wanted = {op.idx for op in kept}
    new = program.clone()
    block = new.global_block()
    block.set_ops([op for index, op in enumerate(block.ops) if index in wanted])
    return new
