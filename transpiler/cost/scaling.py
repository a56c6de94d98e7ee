"""The step of every mode for other numbers of trainers: what a job would cost if it were transpiled
otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.transpiler.cost.estimate import (
    Load,
    Scale,
    geo_steps,
    loads_of_servers,
    reduce_all,
    ring,
    step_seconds,
    total,
)
from fluidlite.transpiler.parts.roles import Job, make_job

if TYPE_CHECKING:
    from fluidlite.transpiler.cost.estimate import Plan

__all__ = ["SCALED", "scaling"]

SCALED = ("pserver", "async", "geo_sgd", "grad_allreduce", "hierarchical", "local_sgd")
"""The modes of `Plan.scaling`; `nccl2` moves what grad_allreduce moves, in groups (`hierarchical`) where
its configuration says so.
"""
GROUP = 8  # ranks of a group of the hierarchical all-reduce where the job does not say


def scaling(
    plan: Plan, trainers: Sequence[int], modes: Sequence[str] | None, servers: int | None
) -> Iterator[Scale]:
    """A line for each mode and number of trainers; see `Plan.scaling`."""
    names = tuple(modes or SCALED)
    for name in names:
        if name not in SCALED:
            raise TranspilerError(
                f"no mode {name!r}{did_you_mean(name, SCALED)} (modes: {', '.join(SCALED)})"
            )
    if any(count < 1 for count in trainers):
        raise TranspilerError(f"trainers should be positive numbers, not {list(trainers)}")
    job = plan.job
    if servers is None:
        servers = len(job.endpoints) if job.has_servers else min(job.trainers, 64)
    for name in names:
        step = _with_servers(plan, name, servers) if name in SCALED[:3] else _with_ring(plan, name)
        for count in trainers:
            seconds, load = step(count)
            yield Scale(
                name,
                count,
                seconds,
                load.out,
                load.into,
                count * plan.sizes.batch / seconds if seconds else 0.0,
            )


def _with_servers(plan: Plan, mode: str, servers: int) -> Callable[[int], tuple[float, Load]]:
    job, link = plan.job, plan.link
    if not (job.has_servers and len(job.endpoints) == servers):
        job = _on_servers(job, servers)
    loads = loads_of_servers(job.slices, plan.facts, job.endpoints, mode, geo_steps(plan.job))
    mine = total(loads.values())
    port = link.seconds(mine, mode)
    busiest = max(link.seconds(load, mode) for load in loads.values())
    return lambda count: (step_seconds(mode, plan.compute_s, port, busiest * count), mine)


def _on_servers(job: Job, servers: int) -> Job:
    config = job.config.copy()
    config.mode = "pserver"
    return make_job(job.main, job.startup, "pserver", 2, servers, config=config)


def _with_ring(plan: Plan, mode: str) -> Callable[[int], tuple[float, Load]]:
    inner = int(plan.job.config.hierarchical_allreduce_inter_nranks or GROUP)

    def step(count: int) -> tuple[float, Load]:
        if mode == "local_sgd":
            load = total(ring("c_allreduce", tensor.bytes, count) for tensor in plan.facts.tensors)
        else:
            group = inner if mode == "hierarchical" and count > inner and count % inner == 0 else 0
            load = reduce_all(plan.facts, count, group)
        return plan.compute_s + plan.link.seconds(load, mode), load

    return step
