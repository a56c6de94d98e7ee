"""The static check of arrivals: everything that a server waits for is sent, used, and averaged."""

from __future__ import annotations

from collections.abc import Iterator

from fluidlite.base.dtypes import VarType
from fluidlite.transpiler.check.cluster import Cluster
from fluidlite.transpiler.check.facts import Site, declared
from fluidlite.transpiler.check.reading import ServerFacts, TrainerFacts

__all__ = ["check_arrivals"]


def check_arrivals(cluster: Cluster) -> None:
    """All rules of what servers wait for."""
    for server in cluster.servers.values():
        _check_arrivals(cluster, server)


def _check_arrivals(cluster: Cluster, server: ServerFacts) -> None:
    """Everything that a server waits for is sent by those whose it is, and used."""
    sent = {
        trainer.role.index: {piece.remote for piece in trainer.sent if piece.endpoint == server.endpoint}
        for trainer in cluster.trainers
    }
    absent = set(_sent_by_absent(cluster, server, sent))
    for name in sorted(name for name in absent - server.expected_set if not server.accepts(name)):
        cluster.found.add(
            "no-receiver",
            server.listen,
            f"it does not receive {name!r}{cluster.found.near(name, server.expected)}",
        )
    anyone = {name for names in sent.values() for name in names}
    for name in sorted(server.expected_set - server.readers.keys()):
        cluster.found.add("unused", server.listen, f"{name!r} is received, but no op reads it")
    for name in sorted(server.expected_set - absent - anyone):
        cluster.found.add(
            "no-sender",
            server.listen,
            f"it waits for {name!r}, which no trainer sends to {server.endpoint}"
            f"{cluster.found.near(name, sorted(anyone))}",
        )
    for trainer in cluster.trainers:
        _check_silence(cluster, server, trainer, anyone, sent[trainer.role.index])
    if cluster.sync and not server.geo:
        for name in server.gradients:
            _check_average(cluster, server, name)


def _check_silence(
    cluster: Cluster, server: ServerFacts, trainer: TrainerFacts, anyone: set[str], mine: set[str]
) -> None:
    """A trainer must send what the others send under the same name, and what is its own."""
    index = trainer.role.index
    if not cluster.sync:
        for name in server.expected:
            owner = cluster.owners.get((server.endpoint, name), index)
            if name in anyone and name not in mine and owner == index:
                cluster.found.add(
                    "no-sender",
                    trainer.role,
                    f"it never sends {name!r} to {server.endpoint}, as the others do",
                )
    for names in cluster.sums[server.endpoint]:
        own = names[index] if index < len(names) else ""
        if own in server.held and own not in mine:
            cluster.found.add(
                "no-sender", trainer.role, f"it never sends {own!r} to {server.endpoint}, which reads it"
            )


def _sent_by_absent(cluster: Cluster, server: ServerFacts, sent: dict[int, set[str]]) -> Iterator[str]:
    """Variables that the trainers which were not looked at send: their own of what the first one sends."""
    if not cluster.absent or not cluster.trainers:
        return
    # trainers differ in their numbers only, so one that was read stands for those that were not
    like = cluster.trainers[0].role.index
    for names in cluster.sums[server.endpoint]:
        if like < len(names) and names[like] in sent[like]:
            yield from (names[number] for number in cluster.absent)


def _check_average(cluster: Cluster, server: ServerFacts, gradient: str) -> None:
    """A synchronous server sums what all trainers sent and divides by their number."""
    if cluster.count == 1:
        return
    writers = server.writers.get(gradient, ())
    total = next((site for site in writers if site.op.type == "sum"), None)
    if total is None:
        cluster.found.add("average", server.listen, f"no op sums {gradient!r} over the trainers")
        return
    names = total.op.inputs.get("X", [])
    complete = len(names) == len(set(names)) == cluster.count
    if not complete or not server.expected_set.issuperset(names):
        cluster.found.add(
            "average",
            total,
            f"it sums {len(set(names) & server.expected_set)} gradients of {cluster.count} trainers",
        )
    _check_terms(cluster, server, total)
    _check_scale(cluster, server, gradient, total)


def _check_scale(cluster: Cluster, server: ServerFacts, gradient: str, total: Site) -> None:
    """The sum of a gradient is divided by the number of trainers."""
    count = cluster.count
    scales = [
        site
        for site in server.writers[gradient]
        if site.op.type == "scale" and site.op.inputs.get("X") == [gradient]
    ]
    if not scales and not _sparse_table(server, gradient):
        cluster.found.add("average", total, f"{gradient!r} is not divided by the number of trainers, {count}")
    for site in scales[1:]:
        if site.op.attrs.get("scale") == scales[0].op.attrs.get("scale"):
            cluster.found.add("average", site, f"{gradient!r} is scaled a second time")
    for site in scales[:1]:
        users = (*server.readers.get(gradient, ()), *server.writers[gradient])
        early = next((other for other in users if _between(total, other, site)), None)
        if early is not None or (site.block, site.number) < (total.block, total.number):
            what = "summed" if early is None else f"used by {early.op.type!r}"
            cluster.found.add("average", site, f"{gradient!r} is {what} before it is scaled")
        factor = float(site.op.attrs.get("scale", 1.0))
        # the attribute is a 32-bit number
        if abs(factor * count - 1) > 1e-5:
            cluster.found.add(
                "average",
                site,
                f"{gradient!r} is scaled by {factor:g}, and 1 / {count} trainers is {1 / count:g}",
            )


def _between(first: Site, site: Site, last: Site) -> bool:
    """True if an op is in the block of two others, between them."""
    return first.block == site.block == last.block and first.number < site.number < last.number


def _check_terms(cluster: Cluster, server: ServerFacts, total: Site) -> None:
    """The terms of a sum have one shape and one type."""
    known = server.block.vars
    whole = known.get(total.op.output_arg_names[0])
    for name in total.op.input_arg_names:
        var = known.get(name)
        if (
            var is None
            or whole is None
            or (var._shape == whole._shape and var._dtype == whole._dtype and var.type == whole.type)
        ):
            continue
        if var.shape != whole.shape:
            cluster.found.add(
                "shape",
                total,
                f"{name!r} is {list(var.shape)} and the sum {whole.name!r} is {list(whole.shape)}",
            )
        if (var._dtype, var.type) != (whole._dtype, whole.type):
            cluster.found.add(
                "dtype",
                total,
                f"{name!r} is {var.type} of {var._dtype} and the sum {whole.name!r} is {whole.type} of "
                f"{whole._dtype}",
            )


def _sparse_table(server: ServerFacts, gradient: str) -> bool:
    """True if the gradient is a distributed table's, which Paddle sums and does not average."""
    var = declared(server.block, gradient)
    return (
        var is not None
        and var.type == VarType.SELECTED_ROWS
        and bool(server.listen.op.attrs.get("prefetch_var_name_to_block_id"))
    )
