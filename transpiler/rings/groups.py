"""Startup programs of ranks that stand in several rings, as PaddlePaddle 2.x makes them.

A ring is a number and a group of ranks, which is a value: all ranks of a job, those of one machine, or the
first of each machine. Each rank proves that a ring stands before anything else goes over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.base.records import dataclass
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import is_distributed

__all__ = ["RankRing", "rings_of", "startup_in_rings"]


@dataclass(frozen=True)
class RankRing:
    """Ring `number`, and the place of a rank in its group."""

    number: int
    member: RingMember


def rings_of(rank: RingMember, count: int = 1, group: int = 0) -> tuple[RankRing, ...]:
    """The rings of a rank: `count` of all ranks; with `group` as many within groups of so many ranks, and for
    the first rank of a group as many among such first ranks.
    """
    flat = [RankRing(number, rank) for number in range(count)]
    if not group:
        return tuple(flat)
    first = rank.index - rank.index % group
    inner = RingMember(rank.index % group, rank.endpoints[first : first + group])
    outer = RingMember(rank.index // group, rank.endpoints[::group])
    rings = flat + [RankRing(count + number, inner) for number in range(count)]
    if rank.index == first:
        rings += [RankRing(2 * count + number, outer) for number in range(count)]
    return tuple(rings)


def startup_in_rings(
    startup: Program, rings: Iterable[RankRing], params: Sequence[str], over: int = 1
) -> Program:
    """The startup program with its rings, and with the parameters of rank 0, which come over the first `over`
    rings in turn.
    """
    new = startup.clone()
    edits = Insertions(new.global_block())
    for ring in rings:
        _join(edits, ring)
    shared = [name for name in params if not is_distributed(edits.block, name)]
    for number, name in enumerate(shared):
        edits.last("c_broadcast", {"X": name}, {"Out": name}, OpRole.Forward, ring_id=number % over, root=0)
    names = {"X": shared[-1]}, {"Out": shared[-1]}
    for number in range(over):
        edits.last("c_sync_comm_stream", *names, OpRole.Forward, ring_id=number)
    edits.apply()
    return new


def _join(edits: Insertions, ring: RankRing) -> None:
    """Make a ring, and reduce one number over it."""
    number, member, role = ring.number, ring.member, OpRole.Forward
    name, probe = f"comm_id_{number}", f"sync_var_{number}"
    edits.block.create_var(name=name, persistable=True, type=VarType.RAW)
    edits.block.create_var(name=probe, shape=[1], dtype=VarType.INT32, persistable=True)
    edits.last(
        "c_gen_nccl_id",
        {},
        {"Out": name},
        role,
        rank=member.index,
        endpoint=member.endpoint,
        other_endpoints=member.others,
        ring_id=number,
    )
    edits.last("c_comm_init", {"X": name}, {}, role, nranks=member.count, rank=member.index, ring_id=number)
    filled = {"shape": [1], "dtype": int(VarType.INT32), "value": 1.0}
    edits.last("fill_constant", {}, {"Out": probe}, role, **filled)
    edits.last("c_allreduce_sum", {"X": probe}, {"Out": probe}, role, ring_id=number, use_calc_stream=True)
    edits.last("c_sync_calc_stream", {"X": probe}, {"Out": probe}, role)
