"""The static check against the programs that the job was made from: the same ops with the same attributes,
and servers that begin as the original startup program does.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from fluidlite.base.registry import EMPTY_VAR, AttrType
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.transpiler.check.facts import Findings, Site
from fluidlite.transpiler.check.reading import ServerFacts
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import JobRole, Programs, Slice
from fluidlite.transpiler.pserver.training import read_training

__all__ = ["check_against_original"]

# an op is known again by its type and by what it writes, called as in the original program
Key: TypeAlias = tuple[str, tuple[str, ...]]

# What a transpiler may write anew: a slice has another shape, ops have other roles, places and peers
_OF_THE_PLACE = frozenset(
    ("op_role", "op_role_var", "op_callstack", "op_namescope", "op_device", "shape", "seed", "values")
)
_OF_THE_PEERS = frozenset(
    (
        "endpoints",
        "epmap",
        "height_sections",
        "is_distributed",
        "remote_prefetch",
        "table_names",
        "trainer_id",
    )
    + ("do_not_run", "nranks", "rank", "ring_id")
)


def check_against_original(
    found: Findings, job: Job, programs: Mapping[JobRole, Programs], servers: Mapping[str, ServerFacts]
) -> None:
    """Ops have the attributes, and servers' values the initialisers, of the job's original programs."""
    originals = _by_key(_sites(JobRole("trainer", 0), job.main), {})
    for role, made in programs.items():
        if role.kind == "trainer":
            _compare_all(found, _by_key(_sites(role, made.main), {}), originals)
    pieces = {piece.param_name: piece for piece in job.slices}
    whole = {piece.param_name: piece.param for piece in job.slices}
    whole.update((piece.grad_name, piece.grad) for piece in job.slices)
    # in geo-SGD trainers run the updates, whatever these have to do with each other
    updating = any(not server.geo for server in servers.values())
    updates = {update.param: update.ops for update in read_training(job.main).updates} if updating else {}
    fillers = _fillers(job.startup)
    for server in servers.values():
        sites = _by_key(_sites(server.role, server.programs.main), whole)
        if not server.geo:
            _compare_all(found, sites, originals)
            for param in {whole.get(name, name) for name in server.held} & updates.keys():
                _all_there(found, server, updates[param], sites)
        counted = _counted(server, originals)
        for number, op in enumerate(server.programs.startup.global_block().ops):
            site = Site(server.role, "startup", 0, number, op)
            for name in set(op.output_arg_names) - counted:
                _compare(found, "beginning", site, fillers.get(whole.get(name, name)), pieces.get(name))


def _sites(role: JobRole, program: Program) -> Iterator[Site]:
    for block in program.blocks:
        for number, op in enumerate(block.ops):
            yield Site(role, "main", block.idx, number, op)


def _by_key(sites: Iterable[Site], whole: Mapping[str, str]) -> dict[Key, list[Site]]:
    """The ops that write something, in program order; `whole` says what slices are called in the original."""
    found: dict[Key, list[Site]] = {}
    for site in sites:
        names = tuple(whole.get(name, name) for name in site.op.output_arg_names)
        if names:
            found.setdefault((site.op.type, names), []).append(site)
    return found


def _compare_all(
    found: Findings, made: Mapping[Key, Sequence[Site]], originals: Mapping[Key, Sequence[Site]]
) -> None:
    """Compare the ops of a role with the original ones of the same kind that write the same."""
    for key, sites in made.items():
        theirs = originals.get(key, ())
        # a gradient's mean over the trainers comes before what the original program does with it
        for site, original in zip(reversed(sites), reversed(theirs), strict=False):
            _compare(found, "as-written", site, original.op)


def _all_there(
    found: Findings, server: ServerFacts, wanted: Sequence[Operator], sites: Mapping[Key, Sequence[Site]]
) -> None:
    """A server runs all ops of a parameter's update: clipping and decay besides the step itself."""
    for op in wanted:
        if (op.type, tuple(op.output_arg_names)) not in sites:
            found.add(
                "as-written", server.listen, f"no block contains the original {op.type!r}: {op.call_text()}"
            )


def _counted(server: ServerFacts, originals: Mapping[Key, Sequence[Site]]) -> set[str]:
    """The step counters that a server adds up over its trainers: they begin elsewhere."""
    schedule = server.listen.op.attrs.get("lr_decay_block_id", -1)
    return {
        name
        for site in server.sites()
        if site.block == schedule and site.op.type == "sum"
        for name in site.op.output_arg_names
        if ("increment", (name,)) in originals
    }


def _fillers(startup: Program) -> dict[str, Operator]:
    """Variable -> the op of a startup program that fills it last."""
    return {
        name: op for op in startup.global_block().ops for name in op.output_arg_names if name != EMPTY_VAR
    }


def _compare(
    found: Findings, rule: str, site: Site, original: Operator | None, piece: Slice | None = None
) -> None:
    """A finding for an op that is not as the original one, which is None for what the original lacks."""
    if original is None or site.op.type == "fake_init":
        return
    if site.op.type != original.type:
        found.add(rule, site, f"the original op is {original.type!r}: {original.call_text()}")
        return
    skipped = _OF_THE_PLACE | _OF_THE_PEERS
    # a slice of a random parameter is drawn by itself
    if rule == "beginning" and site.op.attrs.get("shape") == original.attrs.get("shape"):
        skipped -= {"seed"}
    for name, here, there in _differences(site.op, original, skipped, piece):
        found.add(
            rule,
            site,
            f"its {name} is {reprlib.repr(here)}, but that of the original op is {reprlib.repr(there)}",
        )


def _differences(
    op: Operator, original: Operator, skipped: frozenset[str], piece: Slice | None
) -> Iterator[tuple[str, object, object]]:
    for name in sorted((op.attrs.keys() & original.attrs.keys()) - skipped):
        # an attribute that one of them lacks has its default there
        here, there = op.attrs[name], original.attrs[name]
        if op.attr_type(name) in (AttrType.BLOCK, AttrType.BLOCKS):  # each of its own program
            continue
        if piece is not None and name.endswith("_values"):
            width = len(there) // max(1, original.attrs["shape"][0])
            first = piece.first_row * width
            there = there[first : first + piece.shape[0] * width]
        if here != there and not (here != here and there != there):  # nan is as it was
            yield name, here, there
