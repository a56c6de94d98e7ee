"""Bytes on the links of a job that ran, beside those that its plan foresaw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fluidlite.transpiler import Job
from fluidlite.transpiler.cost.estimate import Plan, plan

__all__ = ["SLACK_BYTES", "SLACK_SHARE", "LinkCount", "compare_with_plan"]

SLACK_SHARE, SLACK_BYTES = (
    0.01,
    16.0,
)  # what a link may differ from its plan: counters and rounding are not planned

Counts = Mapping[tuple[str, str], int]


class LinkCount(NamedTuple):
    """What went one way: bytes before the first step and after the last, bytes of a step (the mean), and
    bytes of a step by the plan.

    `planned` is None where the plan says nothing of the link; `bound` where it gives an upper bound (rows of
    sparse gradients, none of them twice; gradients that a communicator merges).
    """

    source: str
    target: str
    besides: int
    a_step: float
    planned: float | None
    bound: bool = False

    @property
    def ok(self) -> bool:
        """Whether the plan was kept."""
        if self.planned is None:
            return True
        slack = SLACK_SHARE * self.planned + SLACK_BYTES
        return self.a_step <= self.planned + slack and (self.bound or self.a_step >= self.planned - slack)


def compare_with_plan(
    job: Job, counted: Counts, in_steps: Counts, steps: int, batch: int, sequence: int = 1
) -> list[LinkCount]:
    """Every link of the job: `counted` bytes in all, of which those `in_steps` are held against the plan."""
    planned = plan(job, batch=batch, sequence=sequence)
    foreseen = _servers(job, planned) if job.has_servers else _rings(job, planned)
    bound = any(tensor.sparse for tensor in planned.facts.tensors) or job.config.runtime_split_send_recv
    total, stepping = (counted, in_steps) if job.has_servers else (_joined(counted), _joined(in_steps))
    found = []
    for link in sorted(
        {*total, *foreseen}, key=lambda link: (link[0] in job.endpoints and job.has_servers, link)
    ):
        mine, everything = stepping.get(link, 0), total.get(link, 0)
        if everything or foreseen.get(link):
            judged = foreseen.get(link) if not _exchanges_later(job, steps) else None
            found.append(LinkCount(*link, everything - mine, mine / max(steps, 1), judged, bound))
    return found


def _exchanges_later(job: Job, steps: int) -> bool:
    """Geo-SGD exchanges once in so many steps; a plan gives the mean."""
    return job.mode == "geo_sgd" and steps % max(int(job.config.geo_sgd_need_push_nums or 1), 1) != 0


def _servers(job: Job, planned: Plan) -> dict[tuple[str, str], float]:
    """The plan gives those of trainer 0; the others do the same. In geo-SGD rows come back that any
    trainer has changed.
    """
    many = (
        job.trainers
        if job.mode == "geo_sgd" and any(tensor.sparse for tensor in planned.facts.tensors)
        else 1
    )
    endpoint = {role.name: role.endpoint for role in job.roles if role.kind == "pserver"}
    found = {}
    for item in planned.links:
        for index in range(job.trainers):
            source, target = (
                f"trainer{index}" if name == "trainer0" else endpoint[name]
                for name in (item.sender, item.receiver)
            )
            found[source, target] = item.bytes * (many if target.startswith("trainer") else 1)
    return found


def _rings(job: Job, planned: Plan) -> dict[tuple[str, str], float]:
    """What each rank sends to its neighbour, over all rings."""
    size = planned.links[0].bytes if planned.links else 0.0
    leads = (
        int(job.config.hierarchical_allreduce_inter_nranks or 0)
        if job.config.use_hierarchical_allreduce
        else 1
    )
    return {(role.name, "rings"): size for role in job.roles if role.index % leads == 0}


def _joined(counts: Counts) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for (source, _), size in counts.items():
        found[source, "rings"] = found.get((source, "rings"), 0) + size
    return found
