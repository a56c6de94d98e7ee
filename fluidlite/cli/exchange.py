"""Facts about the exchange between the processes of a job, which its page shows beside their programs."""

from __future__ import annotations

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.records import dataclass
from fluidlite.transpiler.check.reading import LinkedVariable, read_trainer
from fluidlite.transpiler.cost.estimate import estimate
from fluidlite.transpiler.cost.model import Traffic
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole, Programs

__all__ = ["JobExchange", "exchange_of"]


@dataclass(frozen=True)
class JobExchange:
    """Traffic of a step of `batch` samples from trainer0 to each server and back, or to its neighbour in the
    ring; other trainers do the same.
    """

    batch: int
    links: tuple[Traffic, ...]

    def ends(self, role: JobRole, programs: Programs) -> dict[int, list[tuple[str, str]]]:
        """By `id` of a trainer's op: the variables that it exchanges, as the servers call them, each with its
        server's endpoint; "" for a barrier, which waits for a whole server.
        """
        found: dict[int, list[tuple[str, str]]] = {}
        if not role.trains:
            return found
        trainer = read_trainer(role, programs)
        pieces: list[LinkedVariable] = [
            *trainer.sent,
            *trainer.fetched,
            *trainer.received_at_start,
            *trainer.looked_up,
        ]
        for piece in pieces:
            found.setdefault(id(piece.site.op), []).append((piece.remote, piece.endpoint))
        for site in (*trainer.barriers, *trainer.barriers_at_start):
            if site.op.communicates is CommKind.SERVER_BARRIER:
                found[id(site.op)] = [("", str(endpoint)) for endpoint in site.op.attrs.get("endpoints", ())]
        return found


def exchange_of(job: Job, batch: int = 32) -> JobExchange:
    """The exchange of a job in a step in which each trainer takes `batch` samples."""
    return JobExchange(batch, estimate(job, batch=batch).links)
