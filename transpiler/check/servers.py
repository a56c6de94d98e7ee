"""The static check of servers: their blocks run, and update variables that fit each other."""

from __future__ import annotations

from collections import Counter

from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.check.cluster import Cluster, fits, updates_at
from fluidlite.transpiler.check.facts import Site, declared, first_of, pairs
from fluidlite.transpiler.check.reading import ServerFacts
from fluidlite.transpiler.parts.op_kinds import update_of

__all__ = ["check_servers"]


def check_servers(cluster: Cluster) -> None:
    """All rules of each server's own programs."""
    for server in cluster.servers.values():
        _check_server(cluster, server)


def _check_server(cluster: Cluster, server: ServerFacts) -> None:
    found = cluster.found
    if server.endpoint != server.role.endpoint:
        found.add(
            "endpoints",
            server.listen,
            f"it listens at {server.endpoint!r}, but the role's endpoint is {server.role.endpoint!r}",
        )
    if server.fanin != cluster.count:
        found.add("fanin", server.listen, f"Fanin is {server.fanin}, but there are {cluster.count} trainers")
    for param, sites in updates_at(server).items():
        for site in sites[1:]:
            found.add("updated-twice", site, f"{param!r} is updated by two ops of the server")
        for site in sites:
            _check_update(cluster, server, site)
    _check_blocks(cluster, server)
    for number, op in enumerate(server.programs.startup.global_block().ops):
        _check_filling(cluster, server, Site(server.role, "startup", 0, number, op))


def _check_filling(cluster: Cluster, server: ServerFacts, site: Site) -> None:
    """An op of the startup program fills variables as they are declared."""
    shape = tuple(site.op.attrs.get("shape") or ())
    for name in site.op.outputs.get("Out", ()) if shape else ():
        var = declared(site.op.block, name)
        if var is not None and var.shape and shape != var.shape:
            cluster.found.add(
                "shape",
                site,
                f"it fills {name!r} with {list(shape)}, but it is declared as {list(var.shape)}",
            )
        _same_declaration(cluster, server, site, name, var)


def _same_declaration(
    cluster: Cluster, server: ServerFacts, site: Site, name: str, var: Variable | None
) -> None:
    """The startup program and the main program must mean the same variable by a name."""
    main = declared(server.block, name)
    if var is None or main is None:
        return
    if not fits(var.shape, main.shape):
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


def _check_update(cluster: Cluster, server: ServerFacts, site: Site) -> None:
    """Parameter, gradient and accumulators of an update have one shape (or one element) and one type."""
    op = site.op
    # rmsprop that is not centered has a MeanGrad that it never touches, and that Paddle does not cut
    skipped = {"LearningRate", "SkipUpdate"}
    if op.attrs.get("centered") is False:
        skipped.add("MeanGrad")
    names = [name for slot, names in op.inputs.items() if slot not in skipped for name in names]
    param = declared(op.block, first_of(op.inputs, "Param"))
    if server.geo:
        names = op.input_arg_names
        param = declared(op.block, names[0] if names else "")
    for name in names if param is not None else ():
        var = declared(op.block, name)
        if var is None or param is None or not var.shape or not param.shape:
            continue
        if not fits(var.shape, param.shape) and (var.shape != (1,) or name == first_of(op.inputs, "Grad")):
            cluster.found.add(
                "shape",
                site,
                f"{name!r} is {list(var.shape)} and the parameter {param.name!r} is {list(param.shape)}",
            )
        if var._dtype != param._dtype and (server.geo or name == first_of(op.inputs, "Grad")):
            cluster.found.add(
                "dtype", site, f"{name!r} is {var._dtype} and the parameter {param.name!r} is {param._dtype}"
            )


def _check_blocks(cluster: Cluster, server: ServerFacts) -> None:
    """listen_and_serv must run every block that holds ops, for the gradient that the block reads."""
    found = cluster.found
    listen = server.listen
    for entry in server.bad_entries:
        found.add("blocks", listen, f"grad_to_block_id has the entry {entry!r}, which is not name:number")
    for name, number in server.gradients.items():
        users = (*server.readers.get(name, ()), *server.writers.get(name, ()))
        if number not in server.blocks:
            found.add(
                "blocks",
                listen,
                f"{name!r} asks for block {number}, which is not in optimize_blocks {server.blocks}",
            )
        elif not any(site.block == number for site in users):
            found.add("blocks", listen, f"{name!r} asks for block {number}, which does not use it")
    for number, times in Counter(server.blocks).items():
        if times > 1:
            found.add("blocks", listen, f"optimize_blocks runs block {number} {times} times")
    elsewhere = _other_blocks(server)
    for block in server.programs.main.blocks[1:]:
        if block.idx not in elsewhere and block.ops:
            _check_run(cluster, server, block)
    decay = listen.op.attrs.get("lr_decay_block_id", -1)
    if decay is not None and decay >= 0 and server.blocks[:1] != [decay]:
        found.add(
            "blocks",
            listen,
            f"the learning rate's block {decay} is not the first of optimize_blocks {server.blocks}",
        )


def _check_run(cluster: Cluster, server: ServerFacts, block: Block) -> None:
    """A block runs, and some gradient asks for it if it updates a parameter."""
    if block.idx not in server.blocks:
        types = ", ".join(op.type for op in block.ops[:4])
        cluster.found.add(
            "blocks",
            server.listen,
            f"block {block.idx} ({types}) is not in optimize_blocks {server.blocks} and never runs",
        )
        return
    updates = list(filter(None, map(update_of, block.ops)))
    if updates and block.idx not in server.gradients.values():
        cluster.found.add(
            "blocks",
            server.listen,
            f"no gradient asks for block {block.idx}, which updates {updates[0][0]!r}",
        )


def _other_blocks(server: ServerFacts) -> set[int]:
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
