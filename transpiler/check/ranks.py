"""The static check of collective jobs: rings, the same sequence of collectives on every rank, each
gradient reduced once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from itertools import zip_longest
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.ir.attributes import RING_RANKS_ATTR
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.transpiler.check.facts import Findings, Site, declared, first_of
from fluidlite.transpiler.check.streams import check_streams
from fluidlite.transpiler.parts.op_kinds import (
    is_collective,
    is_distributed,
    is_numbered,
    makes_ring,
    reduces,
)
from fluidlite.transpiler.parts.roles import JobRole, Programs

__all__ = ["RankReading", "check_ranks", "read_rank", "sequence"]


@dataclass
class RankReading:
    """One rank's programs, op by op."""

    role: JobRole
    programs: Programs
    main: list[Site] = field(default_factory=list)
    startup: list[Site] = field(default_factory=list)
    # ring -> the op of the startup program that makes it
    rings: dict[int, Site] = field(default_factory=dict)
    shared: bool = False  # one process drives all devices: their number is not in the program
    # parameter -> gradient, as the backward pass names them
    params: dict[str, str] = field(default_factory=dict)
    # gradient -> how many backward passes make it (one a loss)
    passes: dict[str, int] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)  # buffer -> the gradients that are views of it
    groups: dict[int, int] = field(default_factory=dict)  # ring of some of the ranks -> how many

    formed: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Ring -> its ranks, of rings that processes form before the programs run (`new_group`)."""

    def in_group(self, op: Operator) -> bool:
        """True for an op on a ring of some of the ranks, which others may not have."""
        return int(op.attrs.get("ring_id", 0)) in self.groups


def read_rank(role: JobRole, programs: Programs, count: int) -> RankReading:
    """Collect what the programs of one of `count` ranks say, in one pass over each."""
    rank = RankReading(role, programs)
    for into, label, program in (
        (rank.main, "main", programs.main),
        (rank.startup, "startup", programs.startup),
    ):
        for number, op in enumerate(_in_a_step(program.global_block(), set())):
            into.append(Site(role, label, op.block.idx, number, op))
    _read_rings(rank, count)
    made: set[str] = set()  # in the present backward pass
    for site in rank.main:
        names = site.op.role_vars
        if site.op.role & OpRole.Optimize:
            # an update ends a backward pass: the next loss may make the same gradients again
            made.clear()
        elif site.op.role & OpRole.Backward and names and not is_collective(site.op):
            rank.params.update(zip(names[::2], names[1::2], strict=False))
            for name in set(names[1::2]) - made:
                rank.passes[name] = rank.passes.get(name, 0) + 1
            made.update(names[1::2])
        if site.op.type == "coalesce_tensor":
            (buffer,) = site.op.outputs["FusedOutput"]
            rank.parts[buffer] = list(site.op.outputs.get("Output", ()))
    return rank


def _read_rings(rank: RankReading, count: int) -> None:
    for program in (rank.programs.startup, rank.programs.main):
        rank.formed.update(program.distribution.formed)
    # a program that was read from a file has it of its ops
    for op in (site.op for site in rank.main if RING_RANKS_ATTR in site.op.attrs):
        rank.formed.setdefault(int(op.attrs["ring_id"]), tuple(op.attrs[RING_RANKS_ATTR]))
    named = 0
    for site in rank.startup:
        ring = int(site.op.attrs.get("ring_id", 0))
        if site.op.type.startswith("c_comm_init"):
            rank.rings.setdefault(ring, site)
            rank.shared |= site.op.type == "c_comm_init_all"
        if site.op.type == "c_gen_nccl_id":
            members = 1 + len(site.op.attrs.get("other_endpoints", ()))
            named = named or members  # the first ring is that of all ranks
            if ring and members < named:
                rank.groups[ring] = members
    for ring, ranks in rank.formed.items():
        if len(ranks) < count and ring not in rank.rings:
            rank.groups[ring] = len(ranks)


def _in_a_step(block: Block, seen: set[tuple[str, ...]]) -> Iterator[Operator]:
    """The ops of a step that does all that is conditional: blocks with collectives follow the op that runs
    them. Of alternatives that exchange the same, such as averages under two conditions, there is one.
    """
    for op in block.ops:
        yield op
        if op.type == "conditional_block":
            inner: Block = op.attrs["sub_block"]
            calls = tuple(_calls(inner))
            if calls and calls not in seen:
                seen.add(calls)
                yield from _in_a_step(inner, set())


def _calls(block: Block) -> Iterator[str]:
    for op in block.ops:
        if is_collective(op):
            yield _call(op)
        elif op.type == "conditional_block":
            yield from _calls(op.attrs["sub_block"])


def sequence(sites: Iterable[Site]) -> list[tuple[int, Site]]:
    """(ring, op) of the collectives among `sites`."""
    found = [site for site in sites if is_collective(site.op)]
    return [(int(site.op.attrs.get("ring_id", 0)), site) for site in found]


def check_ranks(found: Findings, ranks: Sequence[RankReading], count: int) -> None:
    """All rules of a collective job of `count` ranks, of which `ranks` are looked at."""
    for rank in ranks:
        _check_formed(found, rank, count)
        _check_communicators(found, rank, count)
        _check_rings(found, rank)
        _check_reductions(found, rank, count)
        _check_broadcasts(found, rank, count)
        check_streams(found, rank.main, rank.parts)
    for rank in ranks[1:]:
        for label in ("startup", "main"):
            one, other = (
                [site for site in getattr(each, label) if not each.in_group(site.op)]
                for each in (ranks[0], rank)
            )
            _same_sequence(found, one, other, rank.role)
        _same_in_groups(found, ranks[0], rank)
        _same_communicators(found, ranks[0], rank)
        _same_steps(found, ranks[0], rank)


# ---------------------------------------------------------------------- rings
def _check_communicators(found: Findings, rank: RankReading, count: int) -> None:
    index = rank.role.index
    endpoint = rank.role.endpoint
    seen: dict[int, Site] = {}
    for site in rank.startup:
        attrs = site.op.attrs
        kind = site.op.type
        is_group = rank.in_group(site.op)
        makes = makes_ring(site.op) and not is_group
        if makes and attrs.get("rank", index) != index:
            found.add(
                "trainer-id", site, f"it has rank {attrs.get('rank')} in the program of trainer {index}"
            )
        if kind == "c_comm_init":
            ring = int(attrs.get("ring_id", 0))
            if attrs.get("nranks") != rank.groups.get(ring, count):
                whose = f"its group has {rank.groups[ring]}" if is_group else f"the job has {count} trainers"
                found.add("nranks", site, f"ring {ring} has {attrs.get('nranks')} ranks, and {whose}")
            if ring in seen:
                found.add("ring", site, f"ring {ring} is made twice")
            seen[ring] = site
        elif kind == "c_gen_nccl_id" and "endpoint" in attrs:
            _check_peers(
                found,
                site,
                [str(attrs.get("endpoint")), *map(str, attrs.get("other_endpoints", ()))],
                endpoint,
                rank.groups.get(int(attrs.get("ring_id", 0)), count),
            )
        elif kind == "gen_nccl_id":
            _check_nccl2(found, site, index, endpoint, count)


def _check_peers(found: Findings, site: Site, endpoints: list[str], endpoint: str, count: int) -> None:
    if endpoint and endpoints[0] != endpoint:
        found.add(
            "endpoints",
            site,
            f"it has the endpoint {endpoints[0]!r}, and the trainer's endpoint is {endpoint!r}",
        )
    if len(set(endpoints)) != count or len(endpoints) != count:
        found.add(
            "nranks",
            site,
            f"it names {len(set(endpoints))} different endpoints {endpoints[:8]}, and the job has {count} "
            f"trainers",
        )


def _check_nccl2(found: Findings, site: Site, index: int, endpoint: str, count: int) -> None:
    attrs = site.op.attrs
    trainers = list(map(str, attrs.get("trainers", ())))
    if attrs.get("trainer_id") != index:
        found.add(
            "trainer-id",
            site,
            f"it has trainer_id {attrs.get('trainer_id')} in the program of trainer {index}",
        )
    if len(set(trainers)) != count or len(trainers) != count:
        found.add(
            "nranks", site, f"it names {len(set(trainers))} different trainers, and the job has {count}"
        )
    elif endpoint and trainers[index] != endpoint:
        found.add(
            "endpoints",
            site,
            f"trainer {index} is at {trainers[index]!r} in its list, and the role's endpoint is {endpoint!r}",
        )
    inner = int(attrs.get("hierarchical_allreduce_inter_nranks", 0))
    if attrs.get("use_hierarchical_allreduce") and (inner < 2 or count % inner):
        found.add("nranks", site, f"{count} trainers cannot be divided into groups of {inner}")


def _check_formed(found: Findings, rank: RankReading, count: int) -> None:
    for ring, ranks in rank.formed.items():
        if ranks and max(ranks) >= count:
            found.add(
                "nranks",
                rank.role,
                f"ring {ring} has the ranks {list(ranks)}, but the job has {count} trainers",
            )


def _check_rings(found: Findings, rank: RankReading) -> None:
    for site in [*rank.startup, *rank.main]:
        if not (is_collective(site.op) or site.op.type == "c_sync_comm_stream"):
            continue
        ring = int(site.op.attrs.get("ring_id", 0))
        made = rank.rings.get(ring)
        # Paddle's older `allreduce` has no ring number, and no op of the program makes its ring
        if made is None and ring not in rank.formed and (rank.rings or is_numbered(site.op)):
            found.add(
                "ring", site, f"ring {ring} is never made; the startup program makes {sorted(rank.rings)}"
            )
        elif made is not None and site.program == "startup" and made.number > site.number:
            found.add(
                "ring", site, f"ring {ring} is used before op {made.number} of the startup program makes it"
            )


def _same_communicators(found: Findings, first: RankReading, rank: RankReading) -> None:
    def facts(site: Site) -> dict[str, Any]:
        names = (
            "trainers",
            "nccl_comm_num",
            "use_hierarchical_allreduce",
            "hierarchical_allreduce_inter_nranks",
        )
        return {name: site.op.attrs.get(name) for name in names}

    for one, other in zip(
        (site for site in first.startup if site.op.type == "gen_nccl_id"),
        (site for site in rank.startup if site.op.type == "gen_nccl_id"),
        strict=False,
    ):
        for name, value in facts(other).items():
            if value != facts(one)[name]:
                found.add(
                    "nranks", other, f"{name} is {value!r} here and {facts(one)[name]!r} on {first.role.name}"
                )


# ---------------------------------------------------------------------- the same on every rank
def _same_sequence(found: Findings, first: Sequence[Site], other: Sequence[Site], role: JobRole) -> None:
    for (_, one), (_, two) in _pairs(sequence(first), sequence(other)):
        if one is None or two is None:
            site = one or two
            assert site is not None
            missing = first[0].role if two is not None and first else role
            found.add(
                "collective-order",
                two or role,
                f"{missing.name} has no counterpart of {site.role.name}'s op {site.number} "
                f"{_call(site.op)} in its {site.program} program",
            )
            return
        if _call(one.op) != _call(two.op):
            found.add(
                "collective-order",
                two,
                f"{_call(two.op)} meets {_call(one.op)}, which is op {one.number} of {one.role.name}",
            )
            return
        for what, here, there in _differences(two.op, one.op):
            found.add("collective-args", two, f"{what} is {here} here and {there} on {one.role.name}")


def _same_in_groups(found: Findings, first: RankReading, rank: RankReading) -> None:
    """Of rings that some of the ranks form, members call the same in the same order. A rank that is none of
    them may have their ops: a job made of one process's program has that process's groups everywhere.
    """
    indices = {first.role.index, rank.role.index}
    for ring, members in rank.formed.items():
        if ring in rank.groups and indices <= set(members) and first.formed.get(ring, members) == members:
            one, other = (
                [site for site in each.main if int(site.op.attrs.get("ring_id", 0)) == ring]
                for each in (first, rank)
            )
            _same_sequence(found, one, other, rank.role)


def _pairs(first: list[tuple[int, Site]], other: list[tuple[int, Site]]) -> Iterator[Any]:
    return zip_longest(first, other, fillvalue=(0, None))


def _call(op: Operator) -> str:
    return f"{op.type}({', '.join(op.input_arg_names)}) on ring {op.attrs.get('ring_id', 0)}"


def _differences(here: Operator, there: Operator) -> Iterator[tuple[str, object, object]]:
    for name in ("root", "root_id", "reduce_type", "nranks", "use_calc_stream"):
        if here.attrs.get(name) != there.attrs.get(name):
            yield name, here.attrs.get(name), there.attrs.get(name)
    for one, two in zip(here.input_arg_names, there.input_arg_names, strict=False):
        var = declared(here.block, one)
        other = declared(there.block, two)
        if var is not None and other is not None:
            if var.shape != other.shape:
                yield f"the shape of {one!r}", list(var.shape), list(other.shape)
            if var._dtype != other._dtype:
                yield f"the type of {one!r}", var._dtype, other._dtype


def _same_steps(found: Findings, first: RankReading, rank: RankReading) -> None:
    """Ranks without collectives of their own (nccl2) reduce what the backward pass makes, in its order."""
    for one, two in zip_longest(first.params.items(), rank.params.items()):
        if one != two:
            found.add(
                "collective-order",
                rank.role,
                f"its backward pass makes {two} where {first.role.name}'s makes {one}",
            )
            return


# ---------------------------------------------------------------------- reductions
def _check_reductions(found: Findings, rank: RankReading, count: int) -> None:
    reduced: dict[str, list[Site]] = {}
    for site in rank.main:
        # of two levels the first one takes every rank's part, and the others hand on what it gives
        if reduces(site.op) and _counts(rank, site.op):
            for name in site.op.output_arg_names:
                for part in rank.parts.get(name, [name]):
                    reduced.setdefault(part, []).append(site)
    if not reduced:
        if rank.rings and rank.params and count > 1:
            found.add("reduce", rank.role, "no op reduces its gradients or parameters over the ranks")
        return
    gradients = {grad: param for param, grad in rank.params.items() if not _distributed(rank, param)}
    local = not gradients.keys() & reduced.keys()
    wanted = [param for param in rank.params if not _distributed(rank, param)] if local else list(gradients)
    for name in wanted:
        sites = reduced.get(name, [])
        times = 1 if local else rank.passes[name]
        if len(sites) != times:
            found.add(
                "reduce",
                sites[-1] if sites else rank.role,
                f"{name!r} is reduced {len(sites)} times a step, and not {times}",
            )
    if local:
        _check_snapshots(found, rank, {name: reduced[name] for name in wanted if name in reduced}, count)
    else:
        _check_order(found, rank, gradients, reduced)
        _check_loss_scale(found, rank, count, gradients.keys())


def _counts(rank: RankReading, op: Operator) -> bool:
    return not rank.in_group(op) or op.type.startswith("c_reduce_")


def _distributed(rank: RankReading, param: str) -> bool:
    return is_distributed(rank.programs.main.global_block(), param)


def _check_order(
    found: Findings, rank: RankReading, gradients: Mapping[str, str], reduced: Mapping[str, list[Site]]
) -> None:
    """A gradient is complete when it is reduced, and reduced when it is applied."""
    waiting: dict[str, Site] = {}  # complete gradients that are not yet reduced -> their last writer
    done: dict[str, Site] = {}  # reduced, and not yet applied -> the reduction
    numbers = {name: {site.number: site for site in sites} for name, sites in reduced.items()}
    for site in rank.main:
        if site.op.waits or site.op.type == "coalesce_tensor":
            continue
        if is_collective(site.op) and not _counts(rank, site.op):
            continue
        for name in site.op.input_arg_names if site.op.role & OpRole.Optimize else ():
            if name in waiting:
                found.add(
                    "reduce",
                    site,
                    f"it applies {name!r} before any op reduces what op {waiting[name].number} wrote",
                )
            done.pop(name, None)
        for name in [part for whole in site.op.output_arg_names for part in rank.parts.get(whole, [whole])]:
            if site.number in numbers.get(name, ()):
                waiting.pop(name, None)
                done[name] = site
            elif name in gradients and site.op.role & OpRole.Backward:
                if name in done:
                    found.add(
                        "reduce", site, f"it writes {name!r} after op {done[name].number}, which reduces it"
                    )
                waiting[name] = site


def _check_loss_scale(found: Findings, rank: RankReading, count: int, gradients: Set[str]) -> None:
    """The loss's gradient, or each one that is summed, is divided by the number of ranks once."""
    if rank.shared or count == 1:
        return
    losses = {
        name: site
        for site in rank.main
        for name in site.op.output_arg_names
        if site.op.role == OpRole.Backward | OpRole.Loss and site.op.type != "scale"
    }
    scales = Counter[str]()
    means = Counter[str]()
    for site in rank.main:
        name = (site.op.inputs.get("X") or [""])[0]
        if site.op.type == "scale" and name in losses and site.op.output_arg_names == [name]:
            scales[name] += 1
            _check_scale_order(found, rank, losses[name], site, name)
            factor = float(site.op.attrs.get("scale", 1.0))
            if abs(factor * count - 1) > 1e-5:
                found.add(
                    "average",
                    site,
                    f"it scales {name!r} by {factor:g}, and 1 / {count} ranks is {1 / count:g}",
                )
        elif site.op.type == "scale" and abs(float(site.op.attrs.get("scale", 1.0)) * count - 1) <= 1e-5:
            means.update(gradients & {name})
    # the sums themselves are divided, as ReduceOp.AVG does; where the loss is, such a scale may be the mean
    # over as many merged batches as there are ranks
    after = min((means[name] for name in gradients), default=0)
    for name, site in losses.items():
        times = scales[name] or after
        if times != 1:
            found.add(
                "average", site, f"{name!r} is divided by the number of ranks {times} times, and not once"
            )


def _check_scale_order(found: Findings, rank: RankReading, made: Site, scale: Site, name: str) -> None:
    """The scale of a loss's gradient stands between what writes it and what reads it."""
    if scale.block != made.block:
        return
    if scale.number < made.number:
        found.add("average", scale, f"it scales {name!r}, which {made.op.type!r} writes only later")
    for site in rank.main:
        inside = site.block == made.block and made.number < site.number < scale.number
        if inside and name in site.op.input_arg_names:
            found.add("average", scale, f"{name!r} is used by {site.op.type!r} before it is scaled")
            return


def _check_snapshots(
    found: Findings, rank: RankReading, reduced: Mapping[str, list[Site]], count: int
) -> None:
    """Local SGD: the difference from the snapshot is averaged, taken off the snapshot, and the snapshot
    renewed.
    """
    for param, sites in reduced.items():
        taken = [
            site
            for site in rank.main[: sites[0].number]
            if param in site.op.output_arg_names and site.op.type == "elementwise_sub"
        ]
        if taken:
            snapshot = first_of(taken[-1].op.inputs, "X")
            _check_mean_change(found, rank, param, sites[0], snapshot, count)
            _check_first_snapshot(found, rank, param, snapshot)
        else:
            found.add(
                "snapshot",
                sites[0],
                f"no op before takes {param!r} off its snapshot: the parameters themselves would be summed",
            )


def _check_mean_change(
    found: Findings, rank: RankReading, param: str, reduction: Site, snapshot: str, count: int
) -> None:
    """After its reduction a change is divided by the ranks, and applied to the snapshot, which is renewed."""
    later = [
        site
        for site in rank.main[reduction.number + 1 :]
        if param in site.op.input_arg_names or param in site.op.output_arg_names
    ]
    written = [site for site in later if site.op.output_arg_names == [param]]
    scale = next((site for site in written if site.op.type == "scale"), None)
    factor = 0.0 if scale is None else float(scale.op.attrs.get("scale", 1.0))
    if not rank.shared and count > 1 and abs(factor * count - 1) > 1e-5:
        found.add(
            "average",
            scale or reduction,
            f"the summed difference of {param!r} is not divided by {count} ranks",
        )
    changes = [site for site in later if site.op.type == "elementwise_sub"]
    if not any(first_of(site.op.inputs, "X") == snapshot for site in changes):
        found.add("snapshot", reduction, f"no op after it takes the averaged difference off {snapshot!r}")
    copies = [site for site in later if site.op.type == "assign"]
    if not any(site.op.output_arg_names == [snapshot] for site in copies):
        found.add("snapshot", reduction, f"{snapshot!r} is not updated from {param!r}")


def _check_first_snapshot(found: Findings, rank: RankReading, param: str, snapshot: str) -> None:
    taken = [
        site
        for site in rank.startup
        if snapshot in site.op.output_arg_names and param in site.op.input_arg_names
    ]
    broadcast = [
        site for site in rank.startup if site.op.type == "c_broadcast" and param in site.op.output_arg_names
    ]
    if not taken:
        found.add("snapshot", rank.role, f"the startup program takes no snapshot {snapshot!r} of {param!r}")
    elif broadcast and broadcast[-1].number > taken[-1].number:
        found.add(
            "snapshot",
            taken[-1],
            f"it takes the snapshot of {param!r} before op {broadcast[-1].number} broadcasts it",
        )


# ---------------------------------------------------------------------- broadcasts and streams
def _check_broadcasts(found: Findings, rank: RankReading, count: int) -> None:
    """Every trained parameter comes from one root, so that all ranks begin alike."""
    if rank.shared or not rank.rings:
        return
    sent = Counter(
        name for site in rank.startup if site.op.type == "c_broadcast" for name in site.op.output_arg_names
    )
    roots = {int(site.op.attrs.get("root", 0)) for site in rank.startup if site.op.type == "c_broadcast"}
    for name in [param for param in rank.params if not _distributed(rank, param)]:
        if sent[name] != 1:
            found.add(
                "broadcast",
                rank.role,
                f"the startup program broadcasts {name!r} {sent[name]} times, and not once",
            )
    for root in roots:
        if not 0 <= root < count or len(roots) > 1:
            found.add(
                "broadcast", rank.role, f"parameters are broadcast from the ranks {sorted(roots)} of {count}"
            )
            break
    for site in rank.startup:
        if site.op.type == "c_broadcast" and site.op.input_arg_names != site.op.output_arg_names:
            found.add(
                "broadcast", site, f"it broadcasts {site.op.input_arg_names} into {site.op.output_arg_names}"
            )
