"""Estimates and checks as JSON, and the mode that an estimate speaks for, in a sentence."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fluidlite.base.units import seconds
from fluidlite.transpiler.check.report import Report
from fluidlite.transpiler.cost.estimate import TRAINERS, CostEstimate
from fluidlite.transpiler.modes import Reference, TrainingMode, all_modes

__all__ = ["check_data", "cost_data", "recommendation"]


def recommendation(found: CostEstimate) -> str:
    """The fastest mode for the job's number of trainers among those that compute what one process computes,
    and the number from which servers are faster than rings or rings faster than servers.
    """
    modes = [mode for mode in all_modes() if _is_exact(mode)]
    count = found.job.trainers
    best = min(modes, key=lambda mode: _time(found, mode, count))
    others = [mode for mode in modes if mode.has_servers is not best.has_servers]
    kinds = {True: "servers", False: "rings"}
    after = [
        number
        for number in TRAINERS
        if number > count and min(_time(found, mode, number) for mode in others) < _time(found, best, number)
    ]
    there = kinds[not best.has_servers]
    pay = (
        f"{there} are faster from {after[0]} trainers on"
        if after
        else f"{there} are not faster with any number of trainers"
    )
    unit = " a step" if found.compute_s else " a step on the links"
    plural = "s" if count > 1 else ""
    return f"{count} trainer{plural}: {best.scaled_as}, {seconds(_time(found, best, count))}{unit}; {pay}"


def _is_exact(mode: TrainingMode) -> bool:
    return bool(mode.scaled_as) and mode.in_step and mode.reference is Reference.ONE_PROCESS


def _servers(found: CostEstimate) -> int:
    """As many as the job has; for jobs without, as many as it has trainers, up to 64."""
    return len(found.job.endpoints) if found.job.has_servers else min(found.job.trainers, 64)


def _time(found: CostEstimate, mode: TrainingMode, trainers: int) -> float:
    return mode.step(found.job, found.case, _servers(found))(trainers)[0]


def cost_data(found: CostEstimate) -> dict[str, Any]:
    """An estimate as values that JSON has; bytes and seconds of one step."""
    job = found.job
    return {
        "mode": job.mode.name,
        "trainers": job.trainers,
        "servers": len(job.endpoints) if job.has_servers else 0,
        "recommendation": recommendation(found),
        "step_s": found.step_s,
        "compute_s": found.compute_s,
        "bottleneck": found.bottleneck,
        "port": asdict(found.port),
        "roles": [{"role": row.role, **asdict(row)} for row in found.table()],
        "links": [link._asdict() for link in found.links],
        "scaling": [line._asdict() for line in found.scaling()],
    }


def check_data(report: Report) -> dict[str, Any]:
    """A check as values that JSON has."""
    return {
        "ok": report.ok,
        "roles": [role.name for role in report.looked_at],
        "ops": report.ops,
        "variables": report.pieces,
        "findings": [
            {
                "rule": finding.rule,
                "role": finding.role.name,
                "message": finding.message,
                "op": None if finding.op is None else finding.op.type,
                "where": None if finding.op is None else str(finding.op.where),
            }
            for finding in report.findings
        ],
    }
