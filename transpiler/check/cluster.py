"""The trainers and servers of a job side by side, as the static check looks at them."""

from __future__ import annotations

from fluidlite.base.records import dataclass
from fluidlite.transpiler.check.facts import Findings, Site
from fluidlite.transpiler.check.reading import LinkedVariable, ServerFacts, TrainerFacts
from fluidlite.transpiler.parts.op_kinds import update_of

__all__ = ["Cluster", "fits", "updates_at"]


@dataclass
class Cluster:
    """The roles that are looked at; `count` trainers exist, and those in `absent` are like the ones in
    `trainers`.
    """

    found: Findings
    trainers: list[TrainerFacts]
    servers: dict[str, ServerFacts]  # by endpoint
    count: int
    absent: tuple[int, ...]
    sync: bool
    geo: bool

    def __post_init__(self) -> None:
        self.sums = {
            endpoint: list(server.sums_over(self.count)) for endpoint, server in self.servers.items()
        }
        self.owners = {
            (endpoint, name): number
            for endpoint, sums in self.sums.items()
            for names in sums
            for number, name in enumerate(names)
        }
        """(endpoint, variable) -> the trainer who sends it, where the server keeps trainers apart."""

    def server(self, piece: LinkedVariable) -> ServerFacts | None:
        """The server at the other end."""
        return self.servers.get(piece.endpoint)


def updates_at(server: ServerFacts) -> dict[str, list[Site]]:
    """Parameters that the server's blocks update -> the update ops."""
    found: dict[str, list[Site]] = {}
    for site in server.sites():
        update = update_of(site.op)
        if update is not None:
            found.setdefault(update[0], []).append(site)
        elif server.geo and site.block and site.op.type == "sum":
            for name in site.op.output_arg_names:
                found.setdefault(name, []).append(site)
    return found


def fits(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if two shapes are the same as far as they are known."""
    return len(found) == len(wanted) and all(
        a < 0 or b < 0 or a == b for a, b in zip(found, wanted, strict=True)
    )
