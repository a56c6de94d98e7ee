"""The static check of waiting: barriers, the order of a step, and cycles of roles that wait for each
other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import networkx as nx

from fluidlite.transpiler.check.cluster import Cluster
from fluidlite.transpiler.check.facts import Findings, Site
from fluidlite.transpiler.check.reading import ServerFacts, TrainerFacts
from fluidlite.transpiler.parts.roles import JobRole

__all__ = ["check_barriers", "check_cycles", "step_of_ranks", "step_of_servers"]


class WaitPoint(NamedTuple):
    """An event that roles wait for, and that is not an op of its own: a server's update, a collective."""

    name: str
    role: JobRole

    def __str__(self) -> str:
        return self.name


# A node of the wait-for graph; ops stand in it by their role, program and position
Node: TypeAlias = "WaitPoint | tuple[str, str, int]"


# ---------------------------------------------------------------------- barriers and the order of a step
def check_barriers(cluster: Cluster) -> None:
    """Every trainer passes the same barriers of every server, sends before them, and fetches after them."""
    for trainer in cluster.trainers:
        if trainer.received_at_start:
            _check_counts(
                cluster, trainer, trainer.barriers_at_start, "fetch_barrier", 1, "the startup program"
            )
        if cluster.geo:
            continue
        wanted = 1 if cluster.sync else 0
        _check_counts(
            cluster,
            trainer,
            [site for site in trainer.barriers if not _relaxed(site)],
            "send_barrier",
            wanted,
            "the main program",
        )
        if cluster.sync:
            _check_counts(cluster, trainer, trainer.barriers, "fetch_barrier", 1, "the main program")
            _check_control(cluster.found, trainer)
        _check_step(cluster.found, trainer, cluster.sync)


def _relaxed(site: Site) -> bool:
    return bool(site.op.attrs.get("half_async"))


def _check_counts(
    cluster: Cluster, trainer: TrainerFacts, sites: Sequence[Site], kind: str, wanted: int, where: str
) -> None:
    counts = Counter(
        str(endpoint)
        for site in sites
        if site.op.type == kind
        for endpoint in site.op.attrs.get("endpoints", ())
    )
    blame = next((site for site in sites if site.op.type == kind), trainer.role)
    for endpoint, server in cluster.servers.items():
        if counts[endpoint] != wanted:
            cluster.found.add(
                "barrier",
                blame,
                f"{where} passes {counts[endpoint]} {kind} of {server.role.name} at {endpoint} per "
                f"run, but the server waits for {wanted}",
            )


def _check_control(found: Findings, trainer: TrainerFacts) -> None:
    """The control variables must tie each send to the barrier, and the barrier to each recv."""
    barriers = [site for site in trainer.barriers if site.op.type == "send_barrier"]
    waited = {name for site in barriers for name in site.op.input_arg_names}
    passed = {name for site in barriers for name in site.op.output_arg_names}
    for site in dict.fromkeys(piece.site.number for piece in trainer.sent):
        op = trainer.block.ops[site]
        if waited and op.output_arg_names and not waited.issuperset(op.output_arg_names):
            found.add(
                "control",
                Site(trainer.role, "main", 0, site, op),
                f"no send_barrier waits for {op.output_arg_names[0]!r}",
            )
    for site in dict.fromkeys(piece.site.number for piece in trainer.fetched):
        op = trainer.block.ops[site]
        if op.input_arg_names and passed and not passed.intersection(op.input_arg_names):
            found.add(
                "control",
                Site(trainer.role, "main", 0, site, op),
                f"it waits for {op.input_arg_names[0]!r}, which no send_barrier writes",
            )


def _check_step(found: Findings, trainer: TrainerFacts, sync: bool) -> None:
    """A step sends what is written, passes the barrier, fetches, and then joins."""
    if sync:
        _check_around_barriers(found, trainer)
    fetches = {piece.local: piece.site.number for piece in trainer.fetched}
    for site in trainer.joins:
        if site.program != "main":
            continue
        late = [name for name in site.op.input_arg_names if fetches.get(name, -1) > site.number]
        if late:
            found.add("order", site, f"it joins {late[0]!r} before op {fetches[late[0]]} fetches it")
    written = {name: site for site in trainer.sites("main") for name in site.op.output_arg_names}
    for piece in trainer.sent:
        writer = written.get(piece.local)
        if writer is not None and writer.number > piece.site.number:
            found.add(
                "order",
                piece.site,
                f"it sends {piece.local!r} before op {writer.number} ({writer.op.type}) writes it",
            )


def _check_around_barriers(found: Findings, trainer: TrainerFacts) -> None:
    """Sends stand before the send_barrier, and fetches between it and the fetch_barrier."""
    numbers: dict[str, int] = {}
    for site in trainer.barriers:
        numbers.setdefault(site.op.type, site.number)
    first = numbers.get("send_barrier")
    last = numbers.get("fetch_barrier")
    for piece in trainer.sent:
        if first is not None and piece.site.number > first:
            found.add(
                "order",
                piece.site,
                f"it sends after the send_barrier (op {first}): the servers would apply the step without it",
            )
    for piece in trainer.fetched:
        number = piece.site.number
        if last is not None and number > last:
            found.add("order", piece.site, f"it fetches {piece.remote!r} after the fetch_barrier (op {last})")
        if first is not None and number < first:
            found.add(
                "order", piece.site, f"it fetches {piece.remote!r} before the send_barrier (op {first})"
            )


# ---------------------------------------------------------------------- the wait-for graph of one step
def step_of_servers(cluster: Cluster) -> tuple[nx.DiGraph, dict[Node, Site]]:
    """The wait-for graph of one step of a parameter-server job: an edge u -> v where v waits for u."""
    graph = nx.DiGraph()
    places: dict[Node, Site] = {}
    applied = {
        endpoint: WaitPoint(f"{server.role.name}'s update", server.role)
        for endpoint, server in cluster.servers.items()
    }
    for trainer in cluster.trainers:
        sites = {
            piece.site.number: piece.site for piece in trainer.sent + trainer.fetched + trainer.looked_up
        }
        sites.update((site.number, site) for site in trainer.barriers)
        _chain(graph, places, [sites[number] for number in sorted(sites)])
        if not cluster.sync:
            continue
        for piece in trainer.sent:
            if piece.endpoint in applied:
                graph.add_edge(_node(piece.site), applied[piece.endpoint])
        for site in trainer.barriers:
            for endpoint in site.op.attrs.get("endpoints", ()) if site.op.type == "send_barrier" else ():
                if endpoint in applied:
                    graph.add_edge(_node(site), applied[endpoint])
        for piece in trainer.fetched:
            if piece.endpoint in applied:
                graph.add_edge(applied[piece.endpoint], _node(piece.site))
        _fetch_barriers(graph, trainer, cluster.servers, applied)
    return graph, places


def _fetch_barriers(
    graph: nx.DiGraph,
    trainer: TrainerFacts,
    servers: Mapping[str, ServerFacts],
    applied: Mapping[str, WaitPoint],
) -> None:
    for site in trainer.barriers:
        for endpoint in site.op.attrs.get("endpoints", ()) if site.op.type == "fetch_barrier" else ():
            if endpoint in applied:
                graph.add_edge(applied[endpoint], _node(site))
                graph.add_edge(
                    _node(site),
                    WaitPoint(f"{servers[endpoint].role.name}'s end of the step", servers[endpoint].role),
                )


def step_of_ranks(ranks: Mapping[JobRole, Sequence[tuple[int, Site]]]) -> tuple[nx.DiGraph, dict[Node, Site]]:
    """The same for collectives: `ranks` gives each rank's (ring, op) in program order.

    The k-th op of a ring is one event of all ranks: each enters it when its op in front is done, and none
    leaves it before all are in.
    """
    graph = nx.DiGraph()
    places: dict[Node, Site] = {}
    for sites in ranks.values():
        _chain(graph, places, [site for _, site in sites])
        numbers: Counter[int] = Counter()
        before: Node | None = None
        for ring, site in sites:
            point = WaitPoint(f"collective {numbers[ring]} of ring {ring}", JobRole("trainer", 0))
            numbers[ring] += 1
            graph.add_edge(point, _node(site))
            if before is not None:
                graph.add_edge(before, point)
            before = _node(site)
    return graph, places


def _node(site: Site) -> Node:
    return site.role.name, site.program, site.number


def _chain(graph: nx.DiGraph, places: dict[Node, Site], sites: Sequence[Site]) -> None:
    for site in sites:
        places[_node(site)] = site
        graph.add_node(_node(site))
    for one, other in zip(sites, sites[1:], strict=False):
        graph.add_edge(_node(one), _node(other))


def check_cycles(found: Findings, graph: nx.DiGraph, places: Mapping[Node, Site]) -> None:
    """Report each knot of roles that wait for each other, as one chain through it."""
    if nx.is_directed_acyclic_graph(graph):
        return
    for knot in nx.strongly_connected_components(graph):
        if len(knot) > 1:
            # one chain is enough: the others of a knot are mended with it, or found afterwards
            cycle = [start for start, _ in nx.find_cycle(graph.subgraph(knot))]
            start = next((number for number, node in enumerate(cycle) if node in places), 0)
            chain = cycle[start:] + cycle[:start]
            blame = places.get(chain[0])
            lines = " <- waited for by ".join(_describe(node, places) for node in chain)
            found.add(
                "deadlock",
                blame or next(iter(places.values())),
                f"a cycle of waits: {lines} <- waited for by the first",
            )


def _describe(node: Node, places: Mapping[Node, Site]) -> str:
    site = places.get(node)
    if site is None:
        return str(node)
    return f"{site.role.name}'s op {site.number} {site.op.type!r} ({site.op.where})"
