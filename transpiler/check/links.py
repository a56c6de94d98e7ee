"""The static check of links: what one end sends the other takes in, and what it fetches the other holds."""

from __future__ import annotations

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.check.cluster import Cluster, fits
from fluidlite.transpiler.check.facts import Site, declared
from fluidlite.transpiler.check.reading import LinkedVariable, ServerFacts, TrainerFacts
from fluidlite.transpiler.parts.op_kinds import update_of

__all__ = ["check_links"]


def check_links(cluster: Cluster) -> None:
    """All rules of the ends of links."""
    for trainer in cluster.trainers:
        _check_endpoints(cluster, trainer)
        _check_trainer_id(cluster, trainer)
        _check_sends(cluster, trainer)
        _check_fetches(cluster, trainer)
    if cluster.sync:
        _check_shared_names(cluster)


def _check_endpoints(cluster: Cluster, trainer: TrainerFacts) -> None:
    for site in trainer.badly_mapped:
        attrs = site.op.attrs
        endpoints = list(attrs.get("epmap") or attrs.get("endpoints") or ())
        sections = list(attrs.get("sections") or attrs.get("height_sections") or ())
        cluster.found.add(
            "endpoints",
            site,
            f"{len(site.op.input_arg_names)} inputs and {len(site.op.output_arg_names)} outputs do "
            f"not fit its endpoints {endpoints} and sections {sections}",
        )
    for site in trainer.barriers + trainer.barriers_at_start:
        for endpoint in site.op.attrs.get("endpoints", ()):
            _known(cluster, site, str(endpoint))
    for piece in trainer.sent + trainer.fetched + trainer.received_at_start + trainer.looked_up:
        _known(cluster, piece.site, piece.endpoint)


def _known(cluster: Cluster, site: Site, endpoint: str) -> None:
    if endpoint not in cluster.servers:
        cluster.found.add(
            "endpoints",
            site,
            f"no server listens at {endpoint!r}{cluster.found.near(endpoint, cluster.servers)}",
        )


def _check_trainer_id(cluster: Cluster, trainer: TrainerFacts) -> None:
    """Paddle's send ops leave trainer_id at its default 0; the others carry it."""
    index = trainer.role.index
    for label in ("main", "startup"):
        for site in trainer.sites(label):
            found = site.op.attrs.get("trainer_id")
            kind = site.op.communicates
            is_numbered = kind is not None and kind.is_served and (found or kind is not CommKind.TO_SERVER)
            if found != index and is_numbered:
                cluster.found.add(
                    "trainer-id", site, f"it has trainer_id {found} in the program of trainer {index}"
                )
    for piece in trainer.sent:
        owner = cluster.owners.get((piece.endpoint, piece.remote), index)
        if owner != index:
            cluster.found.add(
                "trainer-id", trainer.role, f"it sends {piece.remote!r}, which only trainer {owner} may send"
            )


def _check_sends(cluster: Cluster, trainer: TrainerFacts) -> None:
    seen: set[tuple[str, str]] = set()
    for piece in trainer.sent:
        server = cluster.server(piece)
        if server is None:
            continue
        if not server.accepts(piece.remote):
            _no_receiver(cluster, piece, server)
            continue
        if (piece.remote, piece.endpoint) in seen:
            cluster.found.add(
                "sent-twice",
                piece.site,
                f"{piece.remote!r} is sent to {piece.endpoint} a second time in the same step",
            )
        seen.add((piece.remote, piece.endpoint))
        var = declared(server.block, piece.remote)
        _same_value(cluster, piece, var, server)
        if var is not None and piece.sparse != (var.type == VarType.SELECTED_ROWS):
            mine = VarType.SELECTED_ROWS if piece.sparse else VarType.LOD_TENSOR
            other = VarType.LOD_TENSOR if piece.sparse else VarType.SELECTED_ROWS
            cluster.found.add(
                "dtype",
                piece.site,
                f"{piece.local!r} is {mine} here and {piece.remote!r} is {other} on {server.role.name}",
            )


def _no_receiver(cluster: Cluster, piece: LinkedVariable, server: ServerFacts) -> None:
    others = [other.role.name for other in cluster.servers.values() if other.accepts(piece.remote)]
    hint = f"; {', '.join(others[:3])} would"
    if not others:
        hint = cluster.found.near(piece.remote, server.expected)
    cluster.found.add(
        "no-receiver",
        piece.site,
        f"{server.role.name} at {piece.endpoint} does not receive {piece.remote!r}{hint}",
    )


def _same_value(cluster: Cluster, piece: LinkedVariable, var: Variable | None, server: ServerFacts) -> None:
    """Hold a variable at the trainer's end of a link against the server's."""
    if var is None:
        cluster.found.add(
            "undeclared", server.listen, f"it receives {piece.remote!r}, which its program does not declare"
        )
        return
    if piece.shape is not None and var.shape and not fits(piece.shape, var.shape):
        cluster.found.add(
            "shape",
            piece.site,
            f"{piece.local!r} is {list(piece.shape)} here and {piece.remote!r} is "
            f"{list(var.shape)} on {server.role.name}",
        )
    if piece.dtype is not None and var._dtype is not None and piece.dtype != var._dtype:
        cluster.found.add(
            "dtype",
            piece.site,
            f"{piece.local!r} is {piece.dtype} here and {piece.remote!r} is {var._dtype} "
            f"on {server.role.name}",
        )


def _check_fetches(cluster: Cluster, trainer: TrainerFacts) -> None:
    for piece in trainer.fetched + trainer.received_at_start + trainer.looked_up:
        server = cluster.server(piece)
        if server is None:
            continue
        held = server.held.get(piece.remote)
        if held is None:
            others = [other.role.name for other in cluster.servers.values() if piece.remote in other.held]
            hint = f"; {', '.join(others[:3])} does"
            if not others:
                hint = cluster.found.near(piece.remote, server.held)
            cluster.found.add(
                "not-held",
                piece.site,
                f"{server.role.name} at {piece.endpoint} does not initialise {piece.remote!r}{hint}",
            )
        else:
            _same_value(cluster, piece, held, server)
    updated_at = {(piece.remote, piece.endpoint) for piece in trainer.received_at_start}
    taken: set[tuple[str, str]] = set()
    for piece in trainer.fetched:
        if (piece.remote, piece.endpoint) in taken:
            cluster.found.add(
                "fetched-twice", piece.site, f"{piece.remote!r} of {piece.endpoint} is fetched a second time"
            )
        taken.add((piece.remote, piece.endpoint))
        if (piece.remote, piece.endpoint) not in updated_at:
            cluster.found.add(
                "startup",
                piece.site,
                f"{piece.remote!r} is fetched from {piece.endpoint} each step, but not by the "
                "startup program: the trainer would begin with its own values",
            )
    _check_local_updates(cluster, trainer)


def _check_local_updates(cluster: Cluster, trainer: TrainerFacts) -> None:
    if cluster.geo:
        return
    names = {piece.local for piece in trainer.fetched}
    names.update(
        name
        for site in trainer.joins
        if names.issuperset(site.op.input_arg_names)
        for name in site.op.output_arg_names
    )
    for site in trainer.sites("main"):
        update = update_of(site.op)
        if update is not None and update[0] in names:
            cluster.found.add(
                "updated-twice", site, f"the trainer updates {update[0]!r}, which a server updates too"
            )


def _check_shared_names(cluster: Cluster) -> None:
    owners: dict[tuple[str, str], LinkedVariable] = {}
    for trainer in cluster.trainers:
        for piece in trainer.sent:
            first = owners.setdefault((piece.remote, piece.endpoint), piece)
            if first.site.role != piece.site.role:
                cluster.found.add(
                    "shared-name",
                    piece.site,
                    f"{first.site.role.name} sends {piece.remote!r} to {piece.endpoint} too: the "
                    "value that arrives last would replace the other",
                )
