"""The static check of servers against the program that the job was made from: the same updates, and the same
beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fluidlite.base.registry import EMPTY_VAR
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.transpiler.check.cluster import updates_at
from fluidlite.transpiler.check.facts import Findings, Site
from fluidlite.transpiler.check.reading import ServerFacts
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.op_kinds import update_of

__all__ = ["check_against_original"]

# What a transpiler may write anew: a slice has another shape, and a server's ops other roles and places
_OF_THE_PLACE = frozenset(
    ("op_role", "op_role_var", "op_callstack", "op_namescope", "op_device", "shape", "seed", "values")
)


def check_against_original(found: Findings, job: Job, servers: Mapping[str, ServerFacts]) -> None:
    """Updates have the attributes, and values the initialisers, of the job's original programs."""
    whole = {piece.param_name: piece.param for piece in job.slices}
    updates = {}
    for op in job.main.global_block().ops:
        update = update_of(op)
        if update is not None:
            updates[update[0]] = op
    fillers = _fillers(job.startup)
    for server in servers.values():
        trained = set()  # parameters and accumulators; counters of steps begin elsewhere on a server
        for name, sites in updates_at(server).items():
            trained.add(name)
            for site in () if server.geo else sites:  # in geo-SGD trainers run the updates
                trained.update(site.op.input_arg_names)
                _compare(found, "as-written", site, updates.get(whole.get(name, name)), "update")
        for number, op in enumerate(server.programs.startup.global_block().ops):
            site = Site(server.role, "startup", 0, number, op)
            for name in trained.intersection(op.output_arg_names):
                _compare(found, "beginning", site, fillers.get(whole.get(name, name)), "initialiser")


def _fillers(startup: Program) -> dict[str, Operator]:
    """Variable -> the op of a startup program that fills it last."""
    return {
        name: op for op in startup.global_block().ops for name in op.output_arg_names if name != EMPTY_VAR
    }


def _compare(found: Findings, rule: str, site: Site, original: Operator | None, what: str) -> None:
    """A finding for an op that is not as the original one, which is None for what the original lacks."""
    if original is None or site.op.type == "fake_init":
        return
    if site.op.type != original.type:
        found.add(rule, site, f"the original {what} is {original.type!r}: {original.call_text()}")
        return
    for name, here, there in _differences(site.op, original):
        found.add(rule, site, f"its {name} is {here!r}, and that of the original {what} {there!r}")


def _differences(op: Operator, original: Operator) -> Iterator[tuple[str, object, object]]:
    for name in sorted((op.attrs.keys() | original.attrs.keys()) - _OF_THE_PLACE):
        here, there = op.attrs.get(name), original.attrs.get(name)
        # an attribute that one of them lacks has its default there
        if name in op.attrs and name in original.attrs and here != there:
            yield name, here, there
