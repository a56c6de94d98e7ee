"""The static check between trainers and parameter servers: what one end sends the other takes, and holds,
and updates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fluidlite.base.dtypes import VarType
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.check.facts import Findings, Piece, Server, Site, Trainer, declared, only, pairs
from fluidlite.transpiler.parts.op_kinds import update_of

__all__ = ["Cluster", "check_cluster"]


_NUMBERED = (
    "recv",
    "send_barrier",
    "fetch_barrier",
    "distributed_lookup_table",
)  # ops that carry their trainer's number


@dataclass
class Cluster:
    """The roles that are looked at; `count` trainers exist, and those in `absent` are like the ones in
    `trainers`.
    """

    found: Findings
    trainers: list[Trainer]
    servers: dict[str, Server]  # by endpoint
    count: int
    absent: tuple[int, ...]
    sync: bool
    geo: bool

    def server(self, piece: Piece) -> Server | None:
        """The server at the other end."""
        return self.servers.get(piece.endpoint)


def check_cluster(cluster: Cluster) -> None:
    """All rules between trainers and servers."""
    for trainer in cluster.trainers:
        _check_endpoints(cluster, trainer)
        _check_trainer_id(cluster, trainer)
        _check_sends(cluster, trainer)
        _check_fetches(cluster, trainer)
    if cluster.sync:
        _check_shared_names(cluster)
    updated = {server.endpoint: _updated(server) for server in cluster.servers.values()}
    for server in cluster.servers.values():
        _check_server(cluster, server)
        _check_arrivals(cluster, server)
    for trainer in cluster.trainers:
        _check_coverage(cluster, trainer, updated)
    _check_owners(cluster, updated)


# ---------------------------------------------------------------------- trainers
def _check_endpoints(cluster: Cluster, trainer: Trainer) -> None:
    for site in trainer.badly_mapped:
        attrs = site.op.attrs
        cluster.found.add(
            "endpoints",
            site,
            f"{len(site.op.input_arg_names)} inputs and {len(site.op.output_arg_names)} outputs do "
            f"not fit its endpoints {list(attrs.get('epmap') or attrs.get('endpoints') or ())} and sections "
            f"{list(attrs.get('sections') or attrs.get('height_sections') or ())}",
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


def _check_trainer_id(cluster: Cluster, trainer: Trainer) -> None:
    """Paddle's send ops leave trainer_id at its default 0; the others carry it."""
    index = trainer.role.index
    for label in ("main", "startup"):
        for site in trainer.sites(label):
            found = site.op.attrs.get("trainer_id")
            if found != index and (site.op.type in _NUMBERED or (site.op.type == "send" and found)):
                cluster.found.add(
                    "trainer-id", site, f"it has trainer_id {found} in the program of trainer {index}"
                )
    for name in sorted({piece.remote for piece in trainer.sent}):
        other = next(
            (
                number
                for number in range(min(cluster.count, 64))
                if number != index and name.endswith(f".trainer_{number}")
            ),
            None,
        )
        if other is not None:
            cluster.found.add("trainer-id", trainer.role, f"it sends {name!r}, which is trainer {other}'s")


def _check_sends(cluster: Cluster, trainer: Trainer) -> None:
    seen: dict[tuple[str, str], Piece] = {}
    for piece in trainer.sent:
        server = cluster.server(piece)
        if server is None:
            continue
        if not server.accepts(piece.remote):
            others = [other.role.name for other in cluster.servers.values() if other.accepts(piece.remote)]
            hint = (
                f"; {', '.join(others[:3])} would"
                if others
                else cluster.found.near(piece.remote, server.expected)
            )
            cluster.found.add(
                "no-receiver",
                piece.site,
                f"{server.role.name} at {piece.endpoint} takes in no {piece.remote!r}{hint}",
            )
            continue
        if (piece.remote, piece.endpoint) in seen:
            cluster.found.add(
                "sent-twice",
                piece.site,
                f"{piece.remote!r} goes to {piece.endpoint} a second time in the same step",
            )
        seen[piece.remote, piece.endpoint] = piece
        var = declared(server.block, piece.remote)
        _same_value(cluster, piece, var, server)
        if var is not None and piece.sparse != (var.type == VarType.SELECTED_ROWS):
            kinds = [
                VarType.SELECTED_ROWS if sparse else VarType.LOD_TENSOR
                for sparse in (piece.sparse, not piece.sparse)
            ]
            cluster.found.add(
                "dtype",
                piece.site,
                f"{piece.local!r} is {kinds[0]} here and {piece.remote!r} is {kinds[1]} "
                f"on {server.role.name}",
            )


def _same_value(cluster: Cluster, piece: Piece, var: Variable | None, server: Server) -> None:
    """Hold a variable at the trainer's end of a link against the server's."""
    if var is None:
        cluster.found.add(
            "undeclared", server.listen, f"it takes in {piece.remote!r}, which its program does not declare"
        )
        return
    if piece.shape is not None and var.shape and not _fits(piece.shape, var.shape):
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


def _fits(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(found) == len(wanted) and all(
        a < 0 or b < 0 or a == b for a, b in zip(found, wanted, strict=True)
    )


def _check_fetches(cluster: Cluster, trainer: Trainer) -> None:
    for piece in trainer.fetched + trainer.received_at_start + trainer.looked_up:
        server = cluster.server(piece)
        if server is None:
            continue
        held = server.held.get(piece.remote)
        if held is None:
            others = [other.role.name for other in cluster.servers.values() if piece.remote in other.held]
            hint = (
                f"; {', '.join(others[:3])} does" if others else cluster.found.near(piece.remote, server.held)
            )
            cluster.found.add(
                "not-held",
                piece.site,
                f"{server.role.name} at {piece.endpoint} initialises no {piece.remote!r}{hint}",
            )
        else:
            _same_value(cluster, piece, held, server)
    updated_at = {(piece.remote, piece.endpoint) for piece in trainer.received_at_start}
    for piece in trainer.fetched:
        if (piece.remote, piece.endpoint) not in updated_at:
            cluster.found.add(
                "startup",
                piece.site,
                f"{piece.remote!r} is fetched from {piece.endpoint} each step, but not by the startup "
                "program: the trainer would begin with values of its own",
            )
    _check_local_updates(cluster, trainer)


def _check_local_updates(cluster: Cluster, trainer: Trainer) -> None:
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
    owners: dict[tuple[str, str], Piece] = {}
    for trainer in cluster.trainers:
        for piece in trainer.sent:
            first = owners.setdefault((piece.remote, piece.endpoint), piece)
            if first.site.role != piece.site.role:
                cluster.found.add(
                    "shared-name",
                    piece.site,
                    f"{first.site.role.name} sends {piece.remote!r} to {piece.endpoint} too: the "
                    "one that comes last would count, and the other be lost",
                )


# ---------------------------------------------------------------------- servers
def _updated(server: Server) -> dict[str, list[Site]]:
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


def _check_server(cluster: Cluster, server: Server) -> None:
    found = cluster.found
    if server.endpoint != server.role.endpoint:
        found.add(
            "endpoints",
            server.listen,
            f"it listens at {server.endpoint!r}, and the role's endpoint is {server.role.endpoint!r}",
        )
    if server.fanin != cluster.count:
        found.add("fanin", server.listen, f"Fanin is {server.fanin}, and there are {cluster.count} trainers")
    for param, sites in _updated(server).items():
        for site in sites[1:]:
            found.add("updated-twice", site, f"{param!r} is updated by two ops of the server")
        for site in sites:
            _check_update(cluster, server, site)
    _check_blocks(cluster, server)
    for number, op in enumerate(server.programs.startup.global_block().ops):
        shape = tuple(op.attrs.get("shape") or ())
        for name in op.outputs.get("Out", ()) if shape else ():
            var = declared(op.block, name)
            if var is not None and var.shape and shape != var.shape:
                found.add(
                    "shape",
                    Site(server.role, "startup", 0, number, op),
                    f"it fills {name!r} with {list(shape)}, which is declared as {list(var.shape)}",
                )
            _same_declaration(cluster, server, Site(server.role, "startup", 0, number, op), name, var)


def _same_declaration(cluster: Cluster, server: Server, site: Site, name: str, var: Variable | None) -> None:
    """The startup program and the main program must mean the same variable by a name."""
    main = declared(server.block, name)
    if var is None or main is None:
        return
    if not _fits(var.shape, main.shape):
        cluster.found.add(
            "shape",
            site,
            f"{name!r} is {list(var.shape)} in the startup program and {list(main.shape)} in the main "
            f"program",
        )
    if var._dtype != main._dtype:
        cluster.found.add(
            "dtype",
            site,
            f"{name!r} is {var._dtype} in the startup program and {main._dtype} in the main program",
        )


def _check_update(cluster: Cluster, server: Server, site: Site) -> None:
    """Parameter, gradient and accumulators of an update have one shape (or one element) and one type."""
    op = site.op
    # rmsprop that is not centered has a MeanGrad that it never touches, and that Paddle does not cut
    skipped = ("LearningRate", "SkipUpdate", *(["MeanGrad"] if op.attrs.get("centered") is False else []))
    names = (
        op.input_arg_names
        if server.geo
        else [name for slot, names in op.inputs.items() if slot not in skipped for name in names]
    )
    param = declared(op.block, next(iter(names), "") if server.geo else only(op.inputs, "Param"))
    for name in names if param is not None else ():
        var = declared(op.block, name)
        if var is None or param is None or not var.shape or not param.shape:
            continue
        if not _fits(var.shape, param.shape) and (var.shape != (1,) or name == only(op.inputs, "Grad")):
            cluster.found.add(
                "shape",
                site,
                f"{name!r} is {list(var.shape)} and the parameter {param.name!r} is {list(param.shape)}",
            )
        if var._dtype != param._dtype and (server.geo or name == only(op.inputs, "Grad")):
            cluster.found.add(
                "dtype", site, f"{name!r} is {var._dtype} and the parameter {param.name!r} is {param._dtype}"
            )


def _check_blocks(cluster: Cluster, server: Server) -> None:
    """listen_and_serv must run every block that holds ops, for the gradient that the block reads."""
    found, program, attrs = cluster.found, server.programs.main, server.listen.op.attrs
    for entry in server.bad_entries:
        found.add(
            "blocks", server.listen, f"grad_to_block_id has the entry {entry!r}, which is not name:number"
        )
    for name, number in server.gradients.items():
        if number not in server.blocks:
            found.add(
                "blocks",
                server.listen,
                f"{name!r} asks for block {number}, which is not in optimize_blocks {server.blocks}",
            )
        elif not any(
            site.block == number for site in (*server.readers.get(name, ()), *server.writers.get(name, ()))
        ):
            found.add("blocks", server.listen, f"{name!r} asks for block {number}, which does not use it")
    for number, times in Counter(server.blocks).items():
        if times > 1:
            found.add("blocks", server.listen, f"optimize_blocks runs block {number} {times} times")
    triggered = set(server.gradients.values())
    elsewhere = _other_blocks(server)
    for block in program.blocks[1:]:
        if block.idx in elsewhere or not block.ops:
            continue
        if block.idx not in server.blocks:
            found.add(
                "blocks",
                server.listen,
                f"block {block.idx} ({', '.join(op.type for op in block.ops[:4])}) is not in optimize_blocks "
                f"{server.blocks} and never runs",
            )
        elif block.idx not in triggered and any(update_of(op) for op in block.ops):
            found.add(
                "blocks",
                server.listen,
                f"no gradient asks for block {block.idx}, which updates "
                f"{next(update for op in block.ops if (update := update_of(op)))[0]!r}",
            )
    decay = attrs.get("lr_decay_block_id", -1)
    if decay is not None and decay >= 0 and server.blocks[:1] != [decay]:
        found.add(
            "blocks",
            server.listen,
            f"the learning rate's block {decay} is not the first of optimize_blocks {server.blocks}",
        )


def _other_blocks(server: Server) -> set[int]:
    """Blocks that something else than an arriving gradient runs: prefetch, checkpoints, control flow."""
    attrs = server.listen.op.attrs
    found = {
        int(number)
        for _, number in pairs(attrs.get("prefetch_var_name_to_block_id", ()))
        if number.isdecimal()
    }
    found.update(
        int(attrs[name])
        for name in ("checkpint_block_id", "lr_decay_block_id")
        if isinstance(attrs.get(name), int)
    )
    found.update(
        block.idx
        for inner in server.programs.main.blocks[1:]
        for op in inner.ops
        for block in op.sub_blocks()
    )
    return found


def _check_arrivals(cluster: Cluster, server: Server) -> None:
    """Everything that a server waits for is sent by those whose it is, and used."""
    sent = {
        trainer.role.index: {piece.remote for piece in trainer.sent if piece.endpoint == server.endpoint}
        for trainer in cluster.trainers
    }
    absent = set(_sent_by_absent(cluster, sent))
    for name in sorted(name for name in absent - server.expected_set if not server.accepts(name)):
        cluster.found.add(
            "no-receiver",
            server.listen,
            f"it takes in no {name!r}{cluster.found.near(name, server.expected)}",
        )
    anyone = {name for names in sent.values() for name in names}
    for name in sorted(server.expected_set - server.readers.keys()):
        cluster.found.add("unused", server.listen, f"{name!r} is waited for and read by no op")
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
    cluster: Cluster, server: Server, trainer: Trainer, anyone: set[str], mine: set[str]
) -> None:
    """A trainer must send what the others send under the same name, and what bears its own number."""
    if not cluster.sync:
        for name in server.expected:
            if name in anyone and name not in mine and not _owned_by_another(cluster, name, trainer):
                cluster.found.add(
                    "no-sender",
                    trainer.role,
                    f"it never sends {name!r} to {server.endpoint}, as the others do",
                )
    suffix = f".trainer_{trainer.role.index}"
    for name in sorted((server.held.keys() & server.readers.keys()) - mine):
        if name.endswith(suffix):
            cluster.found.add(
                "no-sender", trainer.role, f"it never sends {name!r} to {server.endpoint}, which reads it"
            )


def _sent_by_absent(cluster: Cluster, sent: dict[int, set[str]]) -> Iterator[str]:
    """What the trainers that were not looked at send: the same with their own number."""
    if not cluster.absent or not cluster.trainers:
        return
    like = cluster.trainers[0].role.index
    stems = [
        name.removesuffix(f".trainer_{like}") for name in sent[like] if name.endswith(f".trainer_{like}")
    ]
    for number in cluster.absent:
        for stem in stems:
            yield f"{stem}.trainer_{number}"


def _owned_by_another(cluster: Cluster, name: str, trainer: Trainer) -> bool:
    return any(
        name.endswith(f".trainer_{other.role.index}") for other in cluster.trainers if other is not trainer
    )


def _check_average(cluster: Cluster, server: Server, gradient: str) -> None:
    """A synchronous server sums what all trainers sent and divides by their number."""
    if cluster.count == 1:
        return
    total = next((site for site in server.writers.get(gradient, ()) if site.op.type == "sum"), None)
    if total is None:
        cluster.found.add("average", server.listen, f"no op sums {gradient!r} over the trainers")
        return
    names = total.op.inputs.get("X", [])
    if (
        len(set(names)) != cluster.count
        or len(names) != cluster.count
        or not server.expected_set.issuperset(names)
    ):
        cluster.found.add(
            "average",
            total,
            f"it sums {len(set(names) & server.expected_set)} gradients of {cluster.count} trainers",
        )
    _check_terms(cluster, server, total)
    scales = [
        site
        for site in server.writers[gradient]
        if site.op.type == "scale" and site.op.inputs.get("X") == [gradient]
    ]
    if not scales and not _sparse_table(cluster, server, gradient):
        cluster.found.add(
            "average", total, f"{gradient!r} is not divided by the number of trainers, {cluster.count}"
        )
    for site in scales[:1]:
        factor = float(site.op.attrs.get("scale", 1.0))
        if abs(factor * cluster.count - 1) > 1e-5:
            cluster.found.add(
                "average",
                site,
                f"{gradient!r} is scaled by {factor:g}, and 1 / {cluster.count} trainers is "
                f"{1 / cluster.count:g}",
            )


def _check_terms(cluster: Cluster, server: Server, total: Site) -> None:
    """What is summed has one shape and one type."""
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


def _sparse_table(cluster: Cluster, server: Server, gradient: str) -> bool:
    """Whether the gradient is a distributed table's, which Paddle sums and does not average."""
    var = declared(server.block, gradient)
    return (
        var is not None
        and var.type == VarType.SELECTED_ROWS
        and bool(server.listen.op.attrs.get("prefetch_var_name_to_block_id"))
    )


# ---------------------------------------------------------------------- coverage
def _check_coverage(cluster: Cluster, trainer: Trainer, updated: dict[str, dict[str, list[Site]]]) -> None:
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
                "not-updated", piece.site, f"{other.role.name} holds {name!r} and no op of it updates it"
            )
    _check_reads(cluster, trainer)


def _prefetched(server: Server) -> set[str]:
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


def _sparse_geo(server: Server, param: str) -> bool:
    return any(name == param for _, name in pairs(server.listen.op.attrs.get("sparse_grad_to_param", ())))


def _check_reads(cluster: Cluster, trainer: Trainer) -> None:
    """What is fetched must be read by some op: a slice by its concat, a whole parameter by the next step."""
    read = {name for block in trainer.programs.main.blocks for op in block.ops for name in op.input_arg_names}
    for piece in trainer.fetched:
        if piece.local not in read:
            cluster.found.add(
                "unused", piece.site, f"{piece.local!r} is fetched from {piece.endpoint} and read by no op"
            )
    read = {name for site in trainer.joins if site.program == "startup" for name in site.op.input_arg_names}
    whole = {name for site in trainer.joins for name in site.op.output_arg_names}
    sliced = {name for site in trainer.joins for name in site.op.input_arg_names if site.program == "main"}
    for piece in trainer.received_at_start:
        if piece.local in sliced and piece.local not in read and piece.local not in whole:
            cluster.found.add(
                "unused",
                piece.site,
                f"the slice {piece.local!r} is received from {piece.endpoint} and joined by no concat",
            )


def _check_owners(cluster: Cluster, updated: dict[str, dict[str, list[Site]]]) -> None:
    owners: dict[str, Server] = {}
    for server in cluster.servers.values():
        for param, sites in updated[server.endpoint].items():
            first = owners.setdefault(param, server)
            if first is not server:
                cluster.found.add(
                    "slices",
                    sites[0],
                    f"{param!r} is held and updated by {first.role.name} and by {server.role.name}",
                )
