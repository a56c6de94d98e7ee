"""Bytes on the links of a job that ran, beside those that were estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fluidlite.transpiler.cost.estimate import CostEstimate, estimate
from fluidlite.transpiler.modes import Job

__all__ = ["SLACK_BYTES", "SLACK_SHARE", "Feeds", "LinkCount", "compare_with_estimate"]

SLACK_SHARE, SLACK_BYTES = 0.01, 16.0
"""How much a link may differ from its estimate: counters and rounding are not estimated."""

Counts = Mapping[tuple[str, str], int]


class Feeds(NamedTuple):
    """How much a trainer is fed in a step: samples, mean length of a sequence, elements of each variable in
    the largest step.
    """

    batch: int
    sequence: int = 1
    fed: Mapping[str, int] | None = None


class LinkCount(NamedTuple):
    """Traffic one way: bytes before the first step and after the last, bytes of a step (the mean), and
    estimated bytes of a step.

    `planned` is None where nothing was estimated for the link; `bound` where the estimate is an upper bound
    (rows of sparse gradients, none of them twice; gradients that a communicator merges).
    """

    source: str
    target: str
    besides: int
    a_step: float
    planned: float | None
    bound: bool = False

    @property
    def ok(self) -> bool:
        """True if the link carried what was estimated."""
        if self.planned is None:
            return True
        slack = SLACK_SHARE * self.planned + SLACK_BYTES
        return self.a_step <= self.planned + slack and (self.bound or self.a_step >= self.planned - slack)


def compare_with_estimate(
    job: Job, counted: Counts, in_steps: Counts, steps: int, feeds: Feeds
) -> list[LinkCount]:
    """Every link of the job: `counted` bytes in all, of which those `in_steps` are compared with the
    estimate for such feeds.
    """
    planned = estimate(job, batch=feeds.batch, sequence=feeds.sequence, fed=feeds.fed)
    foreseen = _servers(job, planned) if job.has_servers else _rings(job, planned)
    bound = any(tensor.sparse for tensor in planned.facts.tensors) or job.config.runtime_split_send_recv
    # which rank a ring's messages go to is the transport's choice: only what each sends is compared
    total, stepping = (counted, in_steps) if job.has_servers else (_joined(counted), _joined(in_steps))
    # A mode that exchanges once in so many steps is estimated by its mean step
    whole = steps % job.mode.steps_between_exchanges(job) == 0
    of_servers = job.endpoints if job.has_servers else ()
    found = []
    for link in sorted({*total, *foreseen}, key=lambda link: (link[0] in of_servers, link)):
        mine = stepping.get(link, 0)
        everything = total.get(link, 0)
        if everything or foreseen.get(link):
            judged = foreseen.get(link) if whole else None
            found.append(LinkCount(*link, everything - mine, mine / max(steps, 1), judged, bound))
    return found


def _servers(job: Job, planned: CostEstimate) -> dict[tuple[str, str], float]:
    """The links of all trainers, which do the same as trainer 0, of whom the estimate is."""
    sparse = any(tensor.sparse for tensor in planned.facts.tensors)
    back = job.trainers if sparse and job.mode.changes_of_all else 1
    trainers = [role.name for role in job.roles if role.trains]
    endpoint = {role.name: role.endpoint for role in job.roles if not role.trains}
    found = {}
    for item in planned.links:
        for trainer in trainers:
            if item.receiver in endpoint:
                found[trainer, endpoint[item.receiver]] = item.bytes
            else:
                found[endpoint[item.sender], trainer] = item.bytes * back
    return found


def _rings(job: Job, planned: CostEstimate) -> dict[tuple[str, str], float]:
    """Bytes that each rank which leads a group sends to its neighbour, over all rings."""
    size = planned.links[0].bytes if planned.links else 0.0
    group = job.mode.group_size(job)
    return {(role.name, "rings"): size for role in job.roles if role.index % group == 0}


def _joined(counts: Counts) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for (source, _), size in counts.items():
        found[source, "rings"] = found.get((source, "rings"), 0) + size
    return found
