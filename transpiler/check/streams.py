"""Collectives on streams of their own: each waits for what it reads, and is waited for by what reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluidlite.transpiler.check.facts import Findings, Site
from fluidlite.transpiler.parts.op_kinds import is_collective

__all__ = ["check_streams"]


def check_streams(found: Findings, sites: Sequence[Site], parts: Mapping[str, Sequence[str]]) -> None:
    """A collective on its own stream starts after c_sync_calc_stream and is done at c_sync_comm_stream.

    `parts` are the views that a buffer consists of. Programs without these ops have one stream.
    """
    if not {site.op.type for site in sites} & {"c_sync_calc_stream", "c_sync_comm_stream"}:
        return
    unsynced: set[str] = set()  # written since the last c_sync_calc_stream
    flying: dict[str, tuple[int, Site]] = {}  # reduced, and not yet waited for
    for site in sites:
        op = site.op
        if op.type == "c_sync_calc_stream":
            unsynced.clear()
        elif op.type == "c_sync_comm_stream":
            ring = int(op.attrs.get("ring_id", 0))
            flying = {name: entry for name, entry in flying.items() if entry[0] != ring}
        elif is_collective(op) and not op.attrs.get("use_calc_stream"):
            names = [part for name in op.input_arg_names for part in (name, *parts.get(name, ()))]
            early = [name for name in names if name in unsynced]
            if early:
                found.add(
                    "sync", site, f"it starts on {early[0]!r} with no c_sync_calc_stream since it was written"
                )
            flying.update((name, (int(op.attrs.get("ring_id", 0)), site)) for name in names)
        else:
            early = [name for name in op.input_arg_names if name in flying]
            if early and op.type != "coalesce_tensor":
                ring, other = flying.pop(early[0])
                found.add(
                    "sync",
                    site,
                    f"it reads {early[0]!r} with no c_sync_comm_stream of ring {ring} since op "
                    f"{other.number} reduced it",
                )
            unsynced.update(op.output_arg_names)
