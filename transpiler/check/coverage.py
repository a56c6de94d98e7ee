"""The static check of coverage: every parameter that a server updates comes back, and has one owner."""

from __future__ import annotations

from fluidlite.transpiler.check.cluster import Cluster, updates_at
from fluidlite.transpiler.check.facts import Site, pairs
from fluidlite.transpiler.check.reading import ServerFacts, TrainerFacts

__all__ = ["check_coverage"]


def check_coverage(cluster: Cluster) -> None:
    """All rules of what is updated, fetched and read."""
    updated = {server.endpoint: updates_at(server) for server in cluster.servers.values()}
    for trainer in cluster.trainers:
        _check_coverage(cluster, trainer, updated)
    _check_owners(cluster, updated)


def _check_coverage(
    cluster: Cluster, trainer: TrainerFacts, updated: dict[str, dict[str, list[Site]]]
) -> None:
    """Every parameter that a server updates comes back, and every one that is fetched is updated."""
    fetched = {(piece.remote, piece.endpoint): piece for piece in trainer.fetched}
    at_start = {(piece.remote, piece.endpoint) for piece in trainer.received_at_start}
    looked_up = {(piece.remote, piece.endpoint) for piece in trainer.looked_up}
    for server in cluster.servers.values():
        prefetched = _prefetched(server)
        for param, sites in updated[server.endpoint].items():
            key = param, server.endpoint
            if key in looked_up or param in prefetched:
                continue
            # in geo-SGD the communicator fetches during the training, not the program
            if cluster.geo:
                if key not in at_start and not _sparse_geo(server, param):
                    cluster.found.add(
                        "startup",
                        trainer.role,
                        f"it never receives {param!r} of {server.role.name} in its startup program",
                    )
            elif key not in fetched:
                cluster.found.add(
                    "not-fetched",
                    trainer.role,
                    f"it never fetches {param!r}, which {server.role.name} updates ({sites[0].op.type})",
                )
    for (name, endpoint), piece in fetched.items():
        other = cluster.servers.get(endpoint)
        if other is not None and name in other.held and name not in updated[endpoint]:
            cluster.found.add(
                "not-updated", piece.site, f"{other.role.name} holds {name!r}, but none of its ops updates it"
            )
    _check_reads(cluster, trainer)


def _prefetched(server: ServerFacts) -> set[str]:
    """Tables whose rows a block of the server looks up for trainers."""
    numbers = {
        int(number)
        for _, number in pairs(server.listen.op.attrs.get("prefetch_var_name_to_block_id", ()))
        if number.isdecimal()
    }
    return {
        name
        for number in numbers
        if 0 < number < len(server.programs.main.blocks)
        for op in server.programs.main.blocks[number].ops
        for name in op.input_arg_names
    }


def _sparse_geo(server: ServerFacts, param: str) -> bool:
    return any(name == param for _, name in pairs(server.listen.op.attrs.get("sparse_grad_to_param", ())))


def _check_reads(cluster: Cluster, trainer: TrainerFacts) -> None:
    """Variables that are fetched must be read by some op: a slice by its concat, a parameter by the next
    step.
    """
    read = {name for block in trainer.programs.main.blocks for op in block.ops for name in op.input_arg_names}
    for piece in trainer.fetched:
        if piece.local not in read:
            cluster.found.add(
                "unused", piece.site, f"{piece.local!r} is fetched from {piece.endpoint}, but no op reads it"
            )
    read = {name for site in trainer.joins if site.program == "startup" for name in site.op.input_arg_names}
    whole = {name for site in trainer.joins for name in site.op.output_arg_names}
    sliced = {name for site in trainer.joins for name in site.op.input_arg_names if site.program == "main"}
    for piece in trainer.received_at_start:
        if piece.local in sliced and piece.local not in read and piece.local not in whole:
            cluster.found.add(
                "unused",
                piece.site,
                f"the slice {piece.local!r} is received from {piece.endpoint}, but no concat joins it",
            )


def _check_owners(cluster: Cluster, updated: dict[str, dict[str, list[Site]]]) -> None:
    owners: dict[str, ServerFacts] = {}
    for server in cluster.servers.values():
        for param, sites in updated[server.endpoint].items():
            first = owners.setdefault(param, server)
            if first is not server:
                cluster.found.add(
                    "slices",
                    sites[0],
                    f"{param!r} is held and updated by both {first.role.name} and {server.role.name}",
                )
