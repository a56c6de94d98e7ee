"""A whole job in one process, held against the program that one process would run."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.errors import TranspilerError
from fluidlite.executor.comm.local import LocalNetwork, run_roles
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.place import CPUPlace
from fluidlite.scope import Scope
from fluidlite.tensor import LoDTensor
from fluidlite.transpiler import DistributeTranspilerConfig, Job, Role, make_job

__all__ = ["Proof", "verify"]

Values = dict[str, Any]


@dataclass(frozen=True)
class Proof:
    """What came of running a job beside the program that it was made from.

    Attributes
    ----------
    differences: parameter -> largest difference after the last step, divided by the parameter's largest value.
    tolerance: what `ok` allows for them.
    traffic: (role or endpoint, role or endpoint) -> bytes that went that way, startup included.
    """

    mode: str
    steps: int
    trainers: int
    differences: Mapping[str, float]
    tolerance: float
    traffic: Mapping[tuple[str, str], int]

    @property
    def ok(self) -> bool:
        """Whether the job computes what one process computes."""
        return all(difference <= self.tolerance for difference in self.differences.values())

    def __str__(self) -> str:
        worst = max(self.differences, key=self.differences.__getitem__)
        head = (f"{self.mode}, {self.trainers} trainers, {self.steps} steps: {'equal to' if self.ok else 'NOT EQUAL to'} one process "
                f"(largest relative difference {self.differences[worst]:.1e} in {worst}, allowed {self.tolerance:.0e})")
        links = [f"  {source} -> {target}: {count} bytes" for (source, target), count in sorted(self.traffic.items()) if count]
        return "\n".join([head, *links])


def verify(program: Program, startup: Program, feeds: Sequence[Mapping[str, Any]], mode: str = "pserver", trainers: int = 2,
           pservers: int | str | Sequence[str] = 2, config: DistributeTranspilerConfig | None = None, tolerance: float = 1e-5) -> Proof:
    """Run the job that `program` becomes, a thread for each role, and compare its parameters with those of one process.

    Parameters
    ----------
    program, startup: a training program that is not transpiled yet, and its startup program; both stay as they are.
    feeds: the whole batches, one a step; trainer i of n gets rows [i * B / n, (i + 1) * B / n) of each, so n must divide B.
    mode: one of `fluidlite.transpiler.MODES` that keeps the trainers in step; "local_sgd" is compared with n processes that take
        the mean of their parameters after each step.

    TranspilerError where the job cannot be made, or what it computes depends on who comes first (asynchronous modes).
    """
    if mode == "geo_sgd" or (config is not None and not config.sync_mode):
        raise TranspilerError("what asynchronous trainers compute depends on who comes first: there is nothing to compare it with")
    job = make_job(program, startup, mode, trainers, pservers, True, config)
    return _Trial(job, [dict(feed) for feed in feeds]).proof(tolerance)


class _Trial:
    """A job, the whole batches, and the initial values that all roles start from."""

    def __init__(self, job: Job, feeds: Sequence[Mapping[str, Any]]) -> None:
        self.job, self.feeds = job, feeds
        self.params = [param.name for param in job.main.all_parameters()]
        self.shares = [[_share(feed, index, job.trainers) for feed in feeds] for index in range(job.trainers)]
        self.initial: Values = {}

    def proof(self, tolerance: float) -> Proof:
        wanted = self.one_process()
        network = LocalNetwork()
        found = run_roles(network, [(role.name, self.work(role)) for role in self.job.roles])
        return Proof(self.job.mode, len(self.feeds), self.job.trainers,
                     {name: _difference(self.found(name, found), value) for name, value in wanted.items()}, tolerance, dict(network.bytes))

    # ------------------------------------------------------------------ what it should be
    def one_process(self) -> Values:
        """The parameters after all steps of one process."""
        scope, exe = Scope(), Executor(CPUPlace())
        exe.run(self.job.startup, scope=scope)
        self.initial = {name: _get(scope, name) for name in scope.local_var_names()}
        if self.job.mode == "local_sgd":
            return self.averaging_processes()
        for feed in self.feeds:
            exe.run(self.job.main, feed=feed, scope=scope)
        return {name: _get(scope, name) for name in self.params}

    def averaging_processes(self) -> Values:
        """The parameters after all steps of as many processes as there are trainers, which average after each step."""
        scopes = [Scope() for _ in self.shares]
        exe = Executor(CPUPlace())
        for scope in scopes:
            exe.run(self.job.startup, scope=scope)
            _set(scope, self.initial)
        for step in range(len(self.feeds)):
            for scope, share in zip(scopes, self.shares, strict=True):
                exe.run(self.job.main, feed=share[step], scope=scope)
            means = {name: np.mean([_get(scope, name) for scope in scopes], axis=0) for name in self.params}
            for scope in scopes:
                _set(scope, means)
        return {name: _get(scopes[0], name) for name in self.params}

    # ------------------------------------------------------------------ the roles
    def work(self, role: Role) -> Callable[[], Values]:
        """What a role's thread does; gives the variables that it ends with."""
        return (lambda: self.train(role)) if role.kind == "trainer" else (lambda: self.serve(role))

    def train(self, role: Role) -> Values:
        programs, scope, exe = self.job.programs(role), Scope(), Executor(CPUPlace())
        exe.run(programs.startup, scope=scope)
        if not self.job.has_servers:
            _set(scope, self.initial)
        for feed in self.shares[role.index]:
            exe.run(programs.main, feed=feed, scope=scope)
        exe.close()
        return {name: _get(scope, name) for name in self.params}

    def serve(self, role: Role) -> Values:
        programs, scope, exe = self.job.programs(role), Scope(), Executor(CPUPlace())
        exe.run(programs.startup, scope=scope)
        mine = [piece for piece in self.job.slices if piece.endpoint == role.endpoint]
        _set(scope, {piece.param_name: self.initial[piece.param][piece.first_row:piece.first_row + piece.shape[0]] for piece in mine})
        exe.run(programs.main, scope=scope)
        return {piece.param_name: _get(scope, piece.param_name) for piece in mine}

    def found(self, name: str, results: Mapping[str, Values]) -> Any:
        """A parameter after the job: of the first trainer, or put together from the servers where trainers never have it."""
        pieces = [piece for piece in self.job.slices if piece.param == name and piece.sparse]
        if not pieces:
            return results["trainer0"][name]
        holder = {role.endpoint: results[role.name] for role in self.job.roles if role.kind == "pserver"}
        return np.concatenate([holder[piece.endpoint][piece.param_name] for piece in pieces])


def _share(feed: Mapping[str, Any], index: int, count: int) -> Values:
    """The rows of a batch that trainer `index` of `count` gets."""
    share = {}
    for name, value in feed.items():
        rows = len(value)
        if rows % count:
            raise TranspilerError(f"{count} trainers cannot share the {rows} rows of {name!r} evenly: the mean of their gradients would "
                                  "not be that of the whole batch")
        share[name] = np.asarray(value)[index * rows // count:(index + 1) * rows // count]
    return share


def _get(scope: Scope, name: str) -> Any:
    held = scope.find_var(name)
    return np.array(held.value) if held is not None and isinstance(held.value, LoDTensor) else None


def _set(scope: Scope, values: Values) -> None:
    for name, value in values.items():
        held = scope.find_var(name)
        if held is not None and value is not None:
            held.get_tensor().set(value, CPUPlace())


def _difference(found: Any, wanted: Any) -> float:
    """The largest difference over the largest value; of a parameter of zeros, the largest difference."""
    largest = float(np.abs(wanted).max(initial=0.0))
    return float(np.abs(found - wanted).max(initial=0.0)) / (largest or 1.0)
