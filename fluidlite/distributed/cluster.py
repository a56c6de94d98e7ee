"""Proofs: a whole job runs in one process, and is compared with its reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from fluidlite.base.errors import TranspilerError
from fluidlite.base.records import dataclass
from fluidlite.distributed.apart import MeanOfShares, draws, reasons
from fluidlite.distributed.proof import Proof
from fluidlite.distributed.references import Initial, averaging_processes, one_process, rounding_of
from fluidlite.distributed.replay import Merging, Replay
from fluidlite.distributed.replay_geo import GeoReplay
from fluidlite.distributed.shares import Values, max_relative_difference, share
from fluidlite.distributed.traffic import Feeds, compare_with_estimate
from fluidlite.distributed.trial import Outcome, Trial
from fluidlite.executor.comm.background.communicator import CommunicatorSettings
from fluidlite.executor.comm.local.network import LocalNetwork, TurnScheduler
from fluidlite.executor.timeline import recorded
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig
from fluidlite.transpiler.modes import Job, Reference, TrainingMode, make_job
from fluidlite.values.tensor import LoDTensor

__all__ = ["verify", "verify_job"]

_APART = "one process that takes the mean of the gradients of the trainers' shares"


def verify(
    program: Program,
    startup: Program,
    feeds: Sequence[Mapping[str, Any]],
    mode: str | TrainingMode = "pserver",
    trainers: int | None = None,
    pservers: int | str | Sequence[str] = 2,
    config: DistributeTranspilerConfig | None = None,
    tolerance: float = 1e-5,
    sync_mode: bool = True,
    seed: int | None = None,
    trace: str | None = None,
) -> Proof:
    """Run the job that `program` becomes, a thread for each role, and compare its parameters with those of a
    reference.

    Each mode says what it is compared with. Modes that keep the trainers in step: with one process on the
    whole batches. Asynchronous jobs run one role at a time, in an order that is the same in every run, and
    are compared with a simulation of the algorithm that takes the same messages in the same order.

    Parameters
    ----------
    program, startup: a training program that is not transpiled yet, and its startup program; both stay as
        they are.
    feeds: the whole batches, one a step; trainer i of n gets rows [i * B / n, (i + 1) * B / n) of each, so n
        must divide B.
    mode: one of `fluidlite.transpiler.mode_names()`, or a mode.
    sync_mode: False (here or in `config`): servers take each gradient as it comes.
    trace: a file that gets the timeline of all roles, as Chrome's trace events.
    seed: in asynchronous jobs another order, drawn from this seed, instead of a turn for each role after the
        other.

    TranspilerError where the job cannot be made, CommunicatorError where its roles wait for each other for
    ever.
    """
    if not feeds:
        raise TranspilerError("a proof takes at least one batch")
    in_step = sync_mode and (config is None or config.sync_mode)
    job = make_job(program, startup, mode, trainers, pservers, in_step, config)
    return verify_job(job, feeds, tolerance, seed, trace)


def verify_job(
    job: Job,
    feeds: Sequence[Mapping[str, Any]],
    tolerance: float = 1e-5,
    seed: int | None = None,
    trace: str | None = None,
) -> Proof:
    """The same for a job that is there already."""
    shares = [[share(feed, index, job.trainers) for feed in feeds] for index in range(job.trainers)]
    initial = Initial(job)
    reference = job.mode.reference
    # by turns where the order of messages decides: otherwise the threads' own pace would
    network = LocalNetwork(TurnScheduler(seed) if reference.in_order or seed is not None else None)
    case = _Case(job, initial, feeds, shares, network)
    with recorded(trace):
        outcome = Trial(job, initial, shares, network).run()
    differences = _COMPARED[reference](case, outcome)
    links = compare_with_estimate(job, outcome.counted, outcome.in_steps, len(feeds), _fed(shares))
    # four more trainings, so only where the answer depends on it
    rounding = rounding_of(job, initial, feeds) if max(differences.values()) > tolerance else 0.0
    servers = len(job.endpoints) if job.has_servers else 0
    proof = Proof(
        job.mode.name,
        len(feeds),
        job.trainers,
        servers,
        reference.words,
        differences,
        tolerance,
        rounding,
        links,
    )
    if proof.equal or reference is not Reference.ONE_PROCESS:
        return proof
    return _beside_apart(case, outcome, proof)


def _beside_apart(case: _Case, outcome: Outcome, proof: Proof) -> Proof:
    """The proof of a job whose trainers do as they should, each with its share, where that is not what one
    process does with the whole batch; else the same proof.
    """
    apart = MeanOfShares(case.job, case.initial, case.shares)
    found: dict[str, list[float]] = {}
    for mine, wanted in zip(outcome.trainers, apart.trainers, strict=True):
        for name in wanted.keys() - _remote(case.job):
            found.setdefault(name, []).append(max_relative_difference(mine[name], wanted[name]))
    for name, value in outcome.servers.items():
        found.setdefault(name, []).append(max_relative_difference(value, apart.updated[name]))
    differences = {name: max(values) for name, values in found.items()}
    rounding = 0.0 if draws(case.job) else proof.rounding
    beside = replace(proof, reference=_APART, differences=differences, rounding=rounding)
    if not beside.equal:
        return proof
    first = [share[0] for share in case.shares]
    return replace(beside, by_design=reasons(case.job, case.initial, case.feeds[0], first))


def _remote(job: Job) -> set[str]:
    """The tables that trainers never hold."""
    return {piece.param for piece in job.slices if piece.sparse}


# ---------------------------------------------------------------------- references
@dataclass(frozen=True)
class _Case:
    """A job that has run, and all that its reference needs to be computed."""

    job: Job
    initial: Initial
    feeds: Sequence[Mapping[str, Any]]
    shares: Sequence[Sequence[Values]]
    network: LocalNetwork


def _one_process(case: _Case, outcome: Outcome) -> dict[str, float]:
    return _from_one(case.job, outcome, one_process(case.job, case.initial, case.feeds))


def _averaging(case: _Case, outcome: Outcome) -> dict[str, float]:
    wanted = averaging_processes(case.job, case.initial, case.shares)
    pairs = list(zip(outcome.trainers, wanted, strict=True))
    return {
        name: max(max_relative_difference(mine[name], theirs[name]) for mine, theirs in pairs)
        for name in wanted[0]
    }


def _servers_in_order(case: _Case, outcome: Outcome) -> dict[str, float]:
    merging = Merging()
    needed = case.job.mode.communicator(case.job)
    if needed is not None:
        settings = CommunicatorSettings.read({})
        # a half-asynchronous trainer sends what it has at the end of each step
        most = settings.max_merge_var_num if needed.kind == DistributedMode.ASYNC else 1
        merging = Merging(most, not settings.is_sgd_optimizer)
    events = case.network.events
    return _from_replay(outcome, Replay(case.job, case.initial, case.shares, events, merging))


def _changes_in_order(case: _Case, outcome: Outcome) -> dict[str, float]:
    return _from_replay(outcome, GeoReplay(case.job, case.initial, case.shares, case.network.events))


_COMPARED: Mapping[Reference, Callable[[_Case, Outcome], dict[str, float]]] = {
    Reference.ONE_PROCESS: _one_process,
    Reference.AVERAGING: _averaging,
    Reference.SERVERS_IN_ORDER: _servers_in_order,
    Reference.CHANGES_IN_ORDER: _changes_in_order,
}
"""Parameter -> largest relative difference between an outcome and its reference."""


def _from_one(job: Job, outcome: Outcome, wanted: Values) -> dict[str, float]:
    """How far each parameter is from what it should be, on all who hold it; trainers never hold a sparse
    table of servers.
    """
    remote = _remote(job)
    found = {name: [] if name in remote else [values[name] for values in outcome.trainers] for name in wanted}
    for name, value in outcome.servers.items():
        found[name].append(value)
    return {
        name: max((max_relative_difference(value, wanted[name]) for value in values), default=0.0)
        for name, values in found.items()
    }


def _from_replay(outcome: Outcome, replay: Replay | GeoReplay) -> dict[str, float]:
    """How far each parameter is from the simulation's, on the servers and on each trainer."""
    found = {
        name: [max_relative_difference(value, replay.servers[name])]
        for name, value in outcome.servers.items()
    }
    for mine, wanted in zip(outcome.trainers, replay.trainers, strict=True):
        for name, value in wanted.items():
            if name not in replay.remote:
                found.setdefault(name, []).append(max_relative_difference(mine[name], value))
    return {name: max(values) for name, values in found.items()}


def _fed(shares: Sequence[Sequence[Values]]) -> Feeds:
    """How much a trainer is fed in a step; the largest of any step bounds what it sends."""
    fed: dict[str, int] = {}
    for feed in chain.from_iterable(shares):
        for name, value in feed.items():
            fed[name] = max(fed.get(name, 0), int(np.size(value)))
    return Feeds(*_samples(shares[0]), fed)


def _samples(feeds: Sequence[Values]) -> tuple[int, int]:
    """How many samples a step of one trainer has, and the mean length of a sequence."""
    value = next(iter(feeds[0].values()))
    if isinstance(value, LoDTensor) and value.lod():
        lengths = value.recursive_sequence_lengths()
        count = len(lengths[0])
        rows = np.array(value).shape[0]
        return count, max(1, round(rows / count))
    return max(len(value), 1) if np.ndim(value) else 1, 1
