"""A whole job in one process, held against what it should compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.errors import TranspilerError
from fluidlite.distributed.references import Initial, averaging_processes, one_process, rounding_of
from fluidlite.distributed.replay import Merging, Replay
from fluidlite.distributed.replay_geo import GeoReplay
from fluidlite.distributed.shares import Values, apart, share
from fluidlite.distributed.traffic import SLACK_BYTES, SLACK_SHARE, LinkCount, compare_with_plan
from fluidlite.distributed.trial import Outcome, Trial
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.turns import Turns
from fluidlite.ir.program import Program
from fluidlite.transpiler import DistributeTranspilerConfig, Job, make_job
from fluidlite.values.tensor import LoDTensor

__all__ = ["Proof", "verify"]

ONE_PROCESS, AVERAGING, IN_ORDER = (
    "one process on the whole batches",
    "processes that take the mean of their parameters after each step",
    "a simulation of its servers that takes the same messages in the same order",
)
_SHOWN = 20
_TIMES, _MOST = (
    4.0,
    2e-3,
)  # what is allowed where rounding alone makes much: so many times that, and never more than so much


@dataclass(frozen=True)
class Proof:
    """What came of running a job beside its reference.

    Attributes
    ----------
    reference: what it was compared with, in words.
    differences: parameter -> largest difference after the last step on any role, divided by the parameter's
        largest value.
    tolerance: what `equal` allows for them where rounding makes no more.
    rounding: where a difference is larger than `tolerance`, how far one process ends from itself when it
        rounds otherwise, for optimizers blow rounding up (the first step of Adam is as long for a tiny
        gradient as for a large one); else 0.
    links: what went over each link, beside the plan.
    """

    mode: str
    steps: int
    trainers: int
    servers: int
    reference: str
    differences: Mapping[str, float]
    tolerance: float
    rounding: float
    links: Sequence[LinkCount]

    @property
    def allowed(self) -> float:
        """The largest difference that `equal` allows: `tolerance`, or a few times what rounding does,
        within reason.
        """
        return max(self.tolerance, min(_TIMES * self.rounding, _MOST))

    @property
    def equal(self) -> bool:
        """Whether the job computes what its reference does."""
        return all(difference <= self.allowed for difference in self.differences.values())

    @property
    def as_planned(self) -> bool:
        """Whether every link carried what the plan foresaw (at most that, where rows of sparse gradients
        go over it).
        """
        return all(link.ok for link in self.links)

    @property
    def ok(self) -> bool:
        """Whether both are so."""
        return self.equal and self.as_planned

    @property
    def traffic(self) -> Mapping[tuple[str, str], float]:
        """Bytes that went from one to another, startup and end included."""
        return {(link.source, link.target): link.besides + link.a_step * self.steps for link in self.links}

    def __str__(self) -> str:
        from fluidlite.cli.tables import table

        worst = sorted(self.differences, key=self.differences.__getitem__, reverse=True)
        servers = f", {self.servers} servers" if self.servers else ""
        head = (
            f"{self.mode}, {self.trainers} trainers{servers}, {self.steps} steps: "
            f"{'equal to' if self.equal else 'NOT EQUAL to'} "
            f"{self.reference}\nlargest relative difference {self.differences[worst[0]]:.1e} in {worst[0]}, "
            f"allowed {self.allowed:.0e}"
            + (f" (rounding alone makes {self.rounding:.0e} here)" if self.rounding else "")
            + "\n"
        )
        rows = [
            (
                name,
                f"{self.differences[name]:.1e}",
                "" if self.differences[name] <= self.allowed else "TOO LARGE",
            )
            for name in worst[:_SHOWN]
        ]
        more = (
            f"... and {len(worst) - _SHOWN} more, with smaller differences\n" if len(worst) > _SHOWN else ""
        )
        slack = f"(as planned: within {SLACK_SHARE:.0%} and {SLACK_BYTES:.0f} bytes)\n"
        return f"{head}\n{table(('parameter', 'difference', ''), rows)}{more}\n{self._links_text()}{slack}{'ok' if self.ok else 'FAILED'}"

    def _links_text(self) -> str:
        from fluidlite.cli.tables import table

        rows = [
            (
                link.source,
                link.target,
                f"{link.besides:,}",
                f"{link.a_step:,.0f}",
                "" if link.planned is None else f"{'at most ' if link.bound else ''}{link.planned:,.0f}",
                "" if link.ok else "NOT AS PLANNED",
            )
            for link in self.links[:_SHOWN]
        ]
        more = f"... and {len(self.links) - _SHOWN} more links\n" if len(self.links) > _SHOWN else ""
        return table(("from", "to", "start and end", "bytes a step", "planned", ""), rows, 2) + more


def verify(
    program: Program,
    startup: Program,
    feeds: Sequence[Mapping[str, Any]],
    mode: str = "pserver",
    trainers: int = 2,
    pservers: int | str | Sequence[str] = 2,
    config: DistributeTranspilerConfig | None = None,
    tolerance: float = 1e-5,
    sync_mode: bool = True,
    seed: int | None = None,
) -> Proof:
    """Run the job that `program` becomes, a thread for each role, and compare its parameters with those of a
    reference.

    Modes that keep the trainers in step are compared with one process on the whole batches; "local_sgd" with
    processes that average after each step. Asynchronous jobs run one role at a time, in an order that is the
    same in every run, and are compared with a simulation of the algorithm that takes the same messages in the
    same order.

    Parameters
    ----------
    program, startup: a training program that is not transpiled yet, and its startup program; both stay as
        they are.
    feeds: the whole batches, one a step; trainer i of n gets rows [i * B / n, (i + 1) * B / n) of each, so n
        must divide B.
    mode: one of `fluidlite.transpiler.MODES`.
    sync_mode: False (here or in `config`): servers take each gradient as it comes.
    seed: in asynchronous jobs another order, drawn from this seed, instead of a turn for each role after the
        other.

    TranspilerError where the job cannot be made, CommunicatorError where its roles wait for each other for
    ever.
    """
    if not feeds:
        raise TranspilerError("a proof takes at least one batch")
    in_step = sync_mode and (config is None or config.sync_mode)
    return verify_job(
        make_job(program, startup, mode, trainers, pservers, in_step, config), feeds, tolerance, seed
    )


def verify_job(
    job: Job, feeds: Sequence[Mapping[str, Any]], tolerance: float = 1e-5, seed: int | None = None
) -> Proof:
    """The same for a job that is there already."""
    shares = [[share(feed, index, job.trainers) for feed in feeds] for index in range(job.trainers)]
    initial, in_order = Initial(job), job.has_servers and (job.mode == "geo_sgd" or not job.sync_mode)
    network = LocalNetwork(Turns(seed) if in_order or seed is not None else None)
    outcome = Trial(job, initial, shares, network).run()
    if in_order:
        reference, differences = IN_ORDER, _from_replay(outcome, _replay(job, initial, shares, network))
    elif job.mode == "local_sgd":
        reference, differences = AVERAGING, _from_one(job, outcome, averaging_processes(job, initial, shares))
    else:
        reference, differences = ONE_PROCESS, _from_one(job, outcome, one_process(job, initial, feeds))
    links = compare_with_plan(job, outcome.counted, outcome.in_steps, len(feeds), *_samples(shares[0]))
    rounding = rounding_of(job, initial, feeds) if max(differences.values()) > tolerance else 0.0
    servers = len(job.endpoints) if job.has_servers else 0
    return Proof(
        job.mode, len(feeds), job.trainers, servers, reference, differences, tolerance, rounding, links
    )


def _replay(
    job: Job, initial: Initial, shares: Sequence[Sequence[Values]], network: LocalNetwork
) -> Replay | GeoReplay:
    """The simulation of an asynchronous job."""
    if job.mode == "geo_sgd":
        return GeoReplay(job, initial, shares, network.events)
    merging = Merging()
    if job.config.runtime_split_send_recv:
        from fluidlite.executor.comm.background.communicator import Settings

        settings = Settings.read({})
        merging = Merging(settings.max_merge_var_num, not settings.is_sgd_optimizer)
    return Replay(job, initial, shares, network.events, merging)


def _from_one(job: Job, outcome: Outcome, wanted: Values) -> dict[str, float]:
    """How far each parameter is from what it should be, on all who hold it; trainers never hold a sparse
    table of servers.
    """
    remote = {piece.param for piece in job.slices if piece.sparse} if job.has_servers else set()
    found = {name: [] if name in remote else [values[name] for values in outcome.trainers] for name in wanted}
    for name, value in outcome.servers.items():
        found[name].append(value)
    return {
        name: max((apart(value, wanted[name]) for value in values), default=0.0)
        for name, values in found.items()
    }


def _from_replay(outcome: Outcome, replay: Replay | GeoReplay) -> dict[str, float]:
    """How far each parameter is from the simulation's, on the servers and on each trainer."""
    found = {name: [apart(value, replay.servers[name])] for name, value in outcome.servers.items()}
    for mine, wanted in zip(outcome.trainers, replay.trainers, strict=True):
        for name, value in wanted.items():
            if name not in replay.remote:
                found.setdefault(name, []).append(apart(mine[name], value))
    return {name: max(values) for name, values in found.items()}


def _samples(feeds: Sequence[Values]) -> tuple[int, int]:
    """How many samples a step of one trainer has, and the mean length of a sequence."""
    value = next(iter(feeds[0].values()))
    if isinstance(value, LoDTensor) and value.lod():
        lengths = value.recursive_sequence_lengths()
        return len(lengths[0]), max(1, round(float(np.array(value).shape[0]) / len(lengths[0])))
    return max(len(value), 1) if np.ndim(value) else 1, 1
