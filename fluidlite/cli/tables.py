"""Tables of roles and costs."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.base.units import amount, seconds
from fluidlite.distributed.tables import table
from fluidlite.transpiler.cost.estimate import TRAINERS, CostEstimate
from fluidlite.transpiler.cost.model import CostRow
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole

__all__ = ["cost_text", "roles_text"]

_MOST_LINKS, _MOST_ENDPOINTS = 20, 1000


def roles_text(job: Job, found: CostEstimate, role: JobRole | None, colour: bool) -> str:
    """The roles, or one of them: the ops that each runs, and what it holds, sends and receives in a step."""
    rows = [row for row in found.table() if role is None or _covers(row, role)]
    # An endpoint of a thousand servers says less than it hides
    endpoints = len(job.endpoints) <= _MOST_ENDPOINTS and not all(row.trains for row in rows)
    cells = []
    for row in rows:
        place = "" if row.trains else job.endpoints[row.first]
        sizes = [amount(size) for size in (row.parameters, row.bytes_out, row.bytes_in)]
        cells.append([row.role, *([place] if endpoints else []), str(row.ops), *sizes])
    heads = ["role", *(["endpoint"] if endpoints else [])]
    return table([*heads, "ops", "parameters", "sent a step", "received a step"], cells, len(heads), colour)


def _covers(row: CostRow, role: JobRole) -> bool:
    """True if a row is about the role."""
    return row.kind == role.kind and row.first <= role.index <= row.last


def cost_text(found: CostEstimate, colour: bool, full: bool = False) -> str:
    """The estimate: the step of each mode with the job's number of trainers, and of this one what it waits
    for. With `full` also memory and traffic of each role, links, and other numbers of trainers.
    """
    count = found.job.trainers
    if not full:
        return "\n".join((_scaling(found, [count], colour), _step(found)))
    parts = (_memory(found, colour), _links(found, colour), _step(found), _scaling(found, TRAINERS, colour))
    return "\n".join(part for part in parts if part)


def _memory(found: CostEstimate, colour: bool) -> str:
    heads = ("role", "ops", "parameters", "state", "activations", "sent", "received", "messages", "busy")
    rows = [
        (
            row.role,
            str(row.ops),
            amount(row.parameters),
            amount(row.state),
            amount(row.activations),
            amount(row.bytes_out),
            amount(row.bytes_in),
            f"{row.messages:.4g}",
            seconds(row.seconds),
        )
        for row in found.table()
    ]
    return table(heads, rows, colour=colour)


def _links(found: CostEstimate, colour: bool) -> str:
    links = found.links[:_MOST_LINKS]
    rows = [(link.sender, link.receiver, amount(link.bytes), f"{link.messages:.4g}") for link in links]
    text = table(("from", "to", "bytes a step", "messages"), rows, 2, colour)
    hidden = len(found.links) - len(links)
    return text + (f"\n... and {hidden} more links\n" if hidden else "")


def _step(found: CostEstimate) -> str:
    computing = f", {seconds(found.compute_s)} of it computing" if found.compute_s else " on the links alone"
    port = f"{seconds(found.port.latency_s)} a message, {amount(found.port.bytes_per_s)}/s"
    return (
        f"a step takes about {seconds(found.step_s)}{computing}; {found.bottleneck} is busy longest "
        f"(port: {port})\n"
    )


def _scaling(found: CostEstimate, trainers: Sequence[int], colour: bool) -> str:
    heads = ("mode", "trainers", "step", "sent", "received", "samples a second")
    rows = [
        (
            row.mode,
            str(row.trainers),
            seconds(row.seconds),
            amount(row.bytes_out),
            amount(row.bytes_in),
            f"{row.samples_per_s:,.0f}",
        )
        for row in found.scaling(trainers)
    ]
    return table(heads, rows, colour=colour)
