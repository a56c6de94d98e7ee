"""A job as a picture: its processes as boxes, and the bytes that they exchange in a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fluidlite.base.units import amount
from fluidlite.show.svg import Picture, box, document, line, text
from fluidlite.transpiler.cost.estimate import CostEstimate, estimate
from fluidlite.transpiler.cost.model import CostRow, Traffic
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole

__all__ = ["job_picture"]

_WIDTH, _HEIGHT, _GAP, _MARGIN, _BETWEEN = 168, 44, 40, 20, 96
_MOST = 4  # boxes of a kind; of more, the first ones and the last


def job_picture(job: Job, batch: int = 32) -> Picture:
    """The processes of a job, with the bytes that each trainer sends and receives in a step of `batch`
    samples.
    """
    cost = estimate(job, batch=batch)
    servers = f", {len(job.endpoints)} servers" if job.has_servers else ""
    title = f"{job.mode.name}: {job.trainers} trainers{servers}"
    trainers = _shown([role for role in job.roles if role.trains])
    others = _shown([role for role in job.roles if not role.trains])
    widest = max(len(trainers), len(others), 2)
    width = 2 * _MARGIN + widest * (_WIDTH + _GAP) - _GAP
    drawing = _with_servers(cost, trainers, others, width) if others else _ring(cost, trainers, width)
    height = 40 + 2 * _HEIGHT + _BETWEEN + 40 if others else 40 + _HEIGHT + 64
    return document(width, height + _MARGIN / 2, title, [text(_MARGIN, 28, title, "head"), *drawing])


def _shown(roles: Sequence[JobRole]) -> list[JobRole | None]:
    """The roles that get a box; None for those that are left out."""
    if len(roles) <= _MOST:
        return list(roles)
    return [*roles[: _MOST - 2], None, roles[-1]]


def _boxes(
    cost: CostEstimate, roles: Sequence[JobRole | None], width: float, top: float, kind: str
) -> Iterator[tuple[float, str]]:
    """The middle of each box, and its drawing."""
    room = len(roles) * (_WIDTH + _GAP) - _GAP
    for place, role in enumerate(roles):
        left = (width - room) / 2 + place * (_WIDTH + _GAP)
        middle = left + _WIDTH / 2
        if role is None:
            yield middle, text(middle, top + _HEIGHT / 2, "...", "soft", "middle")
            continue
        row = _row(cost, role)
        size = f"{amount(row.parameters)}, {row.ops} ops"
        about = f"{role.name} {role.endpoint}\n{row.ops} ops a step\n{amount(row.parameters)} of parameters"
        yield middle, box(left, top, _WIDTH, _HEIGHT, kind, [role.name, size], about)


def _row(cost: CostEstimate, role: JobRole) -> CostRow:
    return next(row for row in cost.table() if row.kind == role.kind and row.first <= role.index <= row.last)


def _link(cost: CostEstimate, sender: str, receiver: str) -> Traffic | None:
    found = (link for link in cost.links if (link.sender, link.receiver) == (sender, receiver))
    return next(found, None)


def _with_servers(
    cost: CostEstimate, trainers: Sequence[JobRole | None], servers: Sequence[JobRole | None], width: float
) -> Iterator[str]:
    """Trainers above, servers below, with what each trainer exchanges with a server below that."""
    above, below = 40.0, 40.0 + _HEIGHT + _BETWEEN
    tops = list(_boxes(cost, trainers, width, above, "forward"))
    bottoms = list(_boxes(cost, servers, width, below, "server"))
    for trainer, (x0, _) in zip(trainers, tops, strict=True):
        for server, (x1, _) in zip(servers, bottoms, strict=True):
            if trainer is not None and server is not None:
                # lines of one box do not end at the same point
                start, end = x0 + (x1 - x0) / width * 60, x1 + (x0 - x1) / width * 60
                yield line([(start, above + _HEIGHT + 2), (end, below - 2)], both=True)
    first = trainers[0]
    for server, (middle, _) in zip(servers, bottoms, strict=True):
        if first is not None and server is not None:
            there, back = _link(cost, first.name, server.name), _link(cost, server.name, first.name)
            for number, (words, link) in enumerate((("each trainer", there), ("back", back))):
                if link is not None:
                    row = f"{words}: {amount(link.bytes)}"
                    yield text(middle, below + _HEIGHT + 18 + 16 * number, row, "soft", "middle")
    yield from (drawing for _, drawing in (*tops, *bottoms))


def _ring(cost: CostEstimate, trainers: Sequence[JobRole | None], width: float) -> Iterator[str]:
    """Ranks in a row, each with a line to the next and the last with one to the first."""
    top = 40.0
    boxes = list(_boxes(cost, trainers, width, top, "forward"))
    middle, turn = top + _HEIGHT / 2, top + _HEIGHT + 34
    for (x0, _), (x1, _) in zip(boxes, boxes[1:]):
        yield line([(x0 + _WIDTH / 2, middle), (x1 - _WIDTH / 2, middle)])
    if len(boxes) > 1:
        last, first = boxes[-1][0], boxes[0][0]
        yield line([(last, top + _HEIGHT), (last, turn), (first, turn), (first, top + _HEIGHT)])
    for link in cost.links[:1]:
        words = f"each rank sends {amount(link.bytes)} a step, in {link.messages:.4g} messages"
        yield text(width / 2, turn + 22, words, "soft", "middle")
    yield from (drawing for _, drawing in boxes)
