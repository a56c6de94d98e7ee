"""The static check of what ranks send each other one by one: on each link the sends and receives pair in
their order, and no ranks wait for each other in a circle where a send waits for its receive, as NCCL's do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import VarType
from fluidlite.base.records import dataclass
from fluidlite.transpiler.check.facts import Findings, Site, declared
from fluidlite.transpiler.check.ranks import RankReading
from fluidlite.transpiler.parts.op_kinds import is_collective

__all__ = ["check_point_to_point"]


class _Link(NamedTuple):
    """One way between two ranks, by their numbers in the job."""

    ring: int
    source: int
    target: int


_ENDS = (CommKind.SEND, CommKind.RECEIVE)


@dataclass(eq=False)
class _Exchange:
    """One op of one rank, which sends or receives on a link, or comes to a collective of a ring's
    `members`.
    """

    rank: int
    site: Site
    link: _Link | None
    members: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"op {self.site.number} of {self.site.role.name} ({self.site.op.call_text()})"


def check_point_to_point(found: Findings, ranks: Sequence[RankReading], count: int) -> None:
    """All rules of sends and receives between `count` ranks, all of which have to be among `ranks`."""
    sites = [site for rank in ranks for site in rank.main]
    if len(ranks) != count or not any(site.op.communicates in _ENDS for site in sites):
        return
    calls = {rank.role.index: list(_calls_of(found, rank, count)) for rank in ranks}
    if _links_pair(found, calls):
        _check_circles(found, calls)


def _calls_of(found: Findings, rank: RankReading, count: int) -> Iterator[_Exchange]:
    me = rank.role.index
    for site in rank.main:
        op = site.op
        ring = int(op.attrs.get("ring_id", 0))
        members = _members(rank, ring, count)
        if op.communicates in _ENDS:
            peer = int(op.attrs.get("peer", 0))
            if not 0 <= peer < len(members) or members[peer] == me:
                what = _who(members, peer, me)
                found.add(
                    "point-to-point", site, f"its peer is rank {peer} of ring {ring}, but that is {what}"
                )
                continue
            ends = (me, members[peer]) if op.communicates is CommKind.SEND else (members[peer], me)
            yield _Exchange(me, site, _Link(ring, *ends))
        elif is_collective(op) and me in members:
            yield _Exchange(me, site, None, members)


def _who(members: Sequence[int], peer: int, me: int) -> str:
    return f"itself (trainer {me})" if 0 <= peer < len(members) else f"not one of its {len(members)} ranks"


def _members(rank: RankReading, ring: int, count: int) -> tuple[int, ...]:
    """The ranks of a ring by their numbers in the job, in the ring's own order."""
    return tuple(rank.formed.get(ring) or range(count))


# ---------------------------------------------------------------------- pairs
def _links_pair(found: Findings, calls: Mapping[int, Sequence[_Exchange]]) -> bool:
    """True if each send of a link has its receive."""
    sent: dict[_Link, list[Site]] = defaultdict(list)
    received: dict[_Link, list[Site]] = defaultdict(list)
    for call in (call for each in calls.values() for call in each if call.link is not None):
        assert call.link is not None
        (sent if call.site.op.communicates is CommKind.SEND else received)[call.link].append(call.site)
    whole = True
    for link in sorted(sent.keys() | received.keys()):
        for one, other in zip_longest(sent[link], received[link]):
            if one is None or other is None:
                whole = False
                found.add("point-to-point", one or other, _alone(link, len(sent[link]), len(received[link])))
                break
            for what, mine, theirs in _unlike(one, other):
                found.add(
                    what, other, f"it receives {theirs}, but op {one.number} of {one.role.name} sends {mine}"
                )
    return whole


def _alone(link: _Link, sends: int, receives: int) -> str:
    return (
        f"trainer {link.source} sends {sends} times a step to trainer {link.target} on ring {link.ring}, "
        f"which receives {receives} times"
    )


def _unlike(one: Site, other: Site) -> Iterator[tuple[str, Any, Any]]:
    """Differences of a send and its receive: the rule, what is sent, and what is received."""
    sent = declared(one.op.block, (one.op.input("X") or [""])[0])
    if sent is None:
        return
    attrs = other.op.attrs
    dtype = VarType(attrs.get("dtype", int(VarType.FP32)))
    if sent._dtype is not None and sent._dtype != dtype:
        yield "dtype", sent._dtype, dtype
    shape = tuple(attrs.get("out_shape") or ())
    if shape and not attrs.get("dynamic_shape") and not _fit(tuple(sent.shape), shape):
        yield "shape", list(sent.shape), list(shape)
    parts = [(site.op.attrs.get("id", 0), site.op.attrs.get("num", 1)) for site in (one, other)]
    if parts[0] != parts[1]:
        sends, receives = (f"part {number} of {of}" for number, of in parts)
        yield "shape", sends, receives


def _fit(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    if len(one) != len(other):
        return False
    return all(-1 in (size, wanted) or size == wanted for size, wanted in zip(one, other, strict=True))


# ---------------------------------------------------------------------- circles
def _check_circles(found: Findings, calls: Mapping[int, Sequence[_Exchange]]) -> None:
    """A step under rendezvous: whoever sends goes on when the other receives, and a collective ends when all
    its ranks are there.
    """
    at = dict.fromkeys(calls, 0)

    def now(rank: int) -> _Exchange | None:
        return calls[rank][at[rank]] if rank in calls and at[rank] < len(calls[rank]) else None

    waiting = {rank for rank in calls if calls[rank]}
    while waiting:
        going = {rank for rank in waiting if _can_go_on(rank, now)}
        if not going:
            break
        # both ends of a link go on together, so each is looked at before either does
        for rank in going:
            at[rank] += 1
        waiting = {rank for rank in waiting if now(rank) is not None}
    if waiting:
        _report_circle(found, min(waiting), now)


def _can_go_on(rank: int, now: Any) -> bool:
    call = now(rank)
    return call is not None and all(_has_come(call, now(other)) for other in _waits_for(call))


def _meet(one: _Exchange, other: _Exchange) -> bool:
    """True for a send and its receive, or calls of one ring's collective."""
    if one.link is not None:
        return one.site.op.communicates is not other.site.op.communicates
    ring = "ring_id"
    return one.members == other.members and one.site.op.attrs.get(ring, 0) == other.site.op.attrs.get(ring, 0)


def _waits_for(call: _Exchange) -> list[int]:
    if call.link is None:
        return [rank for rank in call.members if rank != call.rank]
    return [call.link.target if call.link.source == call.rank else call.link.source]


def _report_circle(found: Findings, start: int, now: Any) -> None:
    """Follow who waits for whom until a rank comes again."""
    chain: list[_Exchange] = []
    rank: int | None = start
    while rank is not None and rank not in [call.rank for call in chain]:
        call = now(rank)
        if call is None:
            break
        chain.append(call)
        rank = next((one for one in _waits_for(call) if not _has_come(call, now(one))), None)
    text = ", which waits for ".join(map(str, [*chain, chain[0]]))
    found.add(
        "deadlock",
        chain[0].site,
        f"if a send returns only when it is received, this rank waits for ever: {text}",
    )


def _has_come(call: _Exchange, other: _Exchange | None) -> bool:
    return other is not None and other.link == call.link and _meet(call, other)
