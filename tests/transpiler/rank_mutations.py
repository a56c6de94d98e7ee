"""Ways to break the ranks of a collective job; see `mutation_kit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mutation_kit import (
    RANKS,
    SNAPSHOTS,
    Edit,
    Roles,
    breaks,
    doubler,
    mover,
    ops,
    remover,
    reshaper,
    retyper,
    setter,
    swapper,
)


def reductions(roles: Roles) -> Iterator[tuple[Any, int, Any]]:
    return ops(roles, "main", "c_allreduce_sum")


def tensors(op: Any) -> list[str]:
    """Names that a reduction reduces: its input, or the gradients of its buffer."""
    names = [
        name
        for other in op.block.ops
        if other.type == "coalesce_tensor" and other.output("FusedOutput") == op.input("X")
        for name in other.output("Output")
    ]
    return names or op.input("X")


@breaks("reduce", RANKS, SNAPSHOTS)
def reduction_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in reductions(roles))


@breaks("reduce", RANKS, SNAPSHOTS)
def reduction_dropped_everywhere(roles: Roles) -> Iterator[Edit]:
    first = next(iter(roles.values())).main.global_block()
    for number, op in enumerate(first.ops):
        if op.type == "c_allreduce_sum":
            yield lambda number=number: [
                programs.main.global_block()._remove_op(number) for programs in roles.values()
            ]


@breaks("reduce", RANKS, SNAPSHOTS)
def reduction_doubled(roles: Roles) -> Iterator[Edit]:
    return (doubler(block, number) for block, number, _ in reductions(roles))


@breaks("reduce", RANKS)
def reduction_doubled_everywhere(roles: Roles) -> Iterator[Edit]:
    first = next(iter(roles.values())).main.global_block()
    for number, op in enumerate(first.ops):
        if op.type == "c_allreduce_sum":
            yield lambda number=number: [
                doubler(programs.main.global_block(), number)() for programs in roles.values()
            ]


@breaks("collective-order", RANKS, SNAPSHOTS)
def reductions_swapped_on_one_rank(roles: Roles) -> Iterator[Edit]:
    found = list(reductions(roles))
    for (block, number, op), (other_block, other_number, other) in zip(found, found[1:], strict=False):
        if block is other_block:

            def swap(
                block: Any = block,
                number: int = number,
                other_number: int = other_number,
                op: Any = op,
                other: Any = other,
            ) -> None:
                block.ops[number], block.ops[other_number] = other, op

            yield swap


@breaks("deadlock", RANKS, SNAPSHOTS)
def rings_swapped_on_one_rank(roles: Roles) -> Iterator[Edit]:
    found = list(reductions(roles))
    for (_, _, op), (_, _, other) in zip(found, found[1:], strict=False):
        if op.block is other.block and op.attrs["ring_id"] != other.attrs["ring_id"]:
            yield swapper(op, other, "ring_id")


@breaks("collective-order", RANKS, SNAPSHOTS)
def another_ring_on_one_rank(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "ring_id", 1 - op.attrs["ring_id"])
        for program in ("main", "startup")
        for _, _, op in ops(roles, program, "c_allreduce_sum", "c_broadcast")
    )


@breaks("collective-args", RANKS, SNAPSHOTS)
def another_shape_on_one_rank(roles: Roles) -> Iterator[Edit]:
    return (
        reshaper(op.block.var(op.input("X")[0]))
        for _, _, op in reductions(roles)
        if op.block.var(op.input("X")[0]).shape
    )


@breaks("collective-args", RANKS, SNAPSHOTS)
def another_dtype_on_one_rank(roles: Roles) -> Iterator[Edit]:
    return (retyper(op.block.var(op.input("X")[0])) for _, _, op in reductions(roles))


@breaks("collective-args", RANKS, SNAPSHOTS)
def another_root_on_one_rank(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "root", 1) for _, _, op in ops(roles, "startup", "c_broadcast"))


@breaks("broadcast", RANKS, SNAPSHOTS)
def root_that_is_no_rank(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "root", 99) for _, _, op in ops(roles, "startup", "c_broadcast"))


@breaks("broadcast", RANKS, SNAPSHOTS)
def broadcast_dropped(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "startup", "c_broadcast"))


@breaks("ring", RANKS, SNAPSHOTS)
def ring_not_made(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "startup", "c_comm_init"))


@breaks("ring", RANKS, SNAPSHOTS)
def ring_made_twice(roles: Roles) -> Iterator[Edit]:
    return (doubler(block, number) for block, number, _ in ops(roles, "startup", "c_comm_init"))


@breaks("ring", RANKS, SNAPSHOTS)
def ring_made_late(roles: Roles) -> Iterator[Edit]:
    return (
        mover(block, number, len(block.ops) - 1) for block, number, _ in ops(roles, "startup", "c_comm_init")
    )


@breaks("nranks", RANKS, SNAPSHOTS)
def wrong_nranks(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "nranks", op.attrs["nranks"] + 1) for _, _, op in ops(roles, "startup", "c_comm_init"))


@breaks("trainer-id", RANKS, SNAPSHOTS)
def wrong_rank(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "rank", op.attrs["rank"] + 1)
        for _, _, op in ops(roles, "startup", "c_comm_init", "c_gen_nccl_id")
    )


@breaks("nranks", RANKS, SNAPSHOTS)
def peer_missing(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "other_endpoints", op.attrs["other_endpoints"][1:])
        for _, _, op in ops(roles, "startup", "c_gen_nccl_id")
    )


@breaks("nranks", RANKS, SNAPSHOTS)
def peer_named_twice(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "other_endpoints", [op.attrs["endpoint"], *op.attrs["other_endpoints"][1:]])
        for _, _, op in ops(roles, "startup", "c_gen_nccl_id")
    )


@breaks("endpoints", RANKS, SNAPSHOTS)
def another_ranks_endpoint(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "endpoint", op.attrs["other_endpoints"][0])
        for _, _, op in ops(roles, "startup", "c_gen_nccl_id")
    )


@breaks("average", RANKS, SNAPSHOTS)
def sum_for_mean(roles: Roles) -> Iterator[Edit]:
    """The scale behind the loss's gradient, or behind an averaged difference."""
    for block, number, op in ops(roles, "main", "scale"):
        if op.input("X") == op.output("Out") and abs(op.attrs["scale"] * len(roles) - 1) < 1e-6:
            yield remover(block, number)
            yield setter(op, "scale", 1.0)


@breaks("average", RANKS)
def mean_before_it_is_made(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "main", "scale"):
        if op.input("X") == op.output("Out") and abs(op.attrs["scale"] * len(roles) - 1) < 1e-6:
            yield mover(block, number, number - 1)


@breaks("average", RANKS)
def mean_behind_its_use(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "main", "scale"):
        if op.input("X") == op.output("Out") and abs(op.attrs["scale"] * len(roles) - 1) < 1e-6:
            name = op.input("X")[0]
            rest = block.ops[number + 1 :]
            yield mover(
                block, number, number + 1 + next(i for i, x in enumerate(rest) if name in x.input_arg_names)
            )


@breaks("average", RANKS)
def mean_of_mean(roles: Roles) -> Iterator[Edit]:
    return (
        doubler(block, number)
        for block, number, op in ops(roles, "main", "scale")
        if op.input("X") == op.output("Out") and abs(op.attrs["scale"] * len(roles) - 1) < 1e-6
    )


@breaks("reduce", RANKS)
def reduced_before_it_is_made(roles: Roles) -> Iterator[Edit]:
    for block, number, op in reductions(roles):
        names = tensors(op)
        maker = next(place for place, other in enumerate(block.ops) if names[-1] in other.output_arg_names)
        if names == op.input("X"):
            yield mover(block, number, maker)


@breaks("reduce", RANKS)
def reduced_behind_its_use(roles: Roles) -> Iterator[Edit]:
    return (mover(block, number, len(block.ops) - 1) for block, number, _ in reductions(roles))


@breaks("sync", RANKS, SNAPSHOTS)
def not_waited_for_the_ring(roles: Roles) -> Iterator[Edit]:
    used = {op.attrs["ring_id"] for _, _, op in reductions(roles)}
    return (
        remover(block, number)
        for block, number, op in ops(roles, "main", "c_sync_comm_stream")
        if op.attrs["ring_id"] in used
    )


@breaks("sync", RANKS, SNAPSHOTS)
def not_waited_for_the_gradient(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "main", "c_sync_calc_stream"))


@breaks("uninitialised", RANKS, SNAPSHOTS)
def rank_initialiser_dropped(roles: Roles) -> Iterator[Edit]:
    used = {name for _, _, op in ops(roles, "main") for name in op.input_arg_names}
    for block, number, op in ops(roles, "startup", "fill_constant", "uniform_random"):
        if used & set(op.output_arg_names):
            yield remover(block, number)


@breaks("snapshot", SNAPSHOTS)
def difference_not_taken(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "main", "elementwise_sub"):
        if "SNAPSHOT" in op.input("X")[0]:
            yield remover(block, number)


@breaks("snapshot", SNAPSHOTS)
def snapshot_not_renewed(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number)
        for block, number, op in ops(roles, "main", "assign")
        if "SNAPSHOT" in op.output("Out")[0]
    )


@breaks("snapshot", SNAPSHOTS)
def snapshot_not_taken(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number)
        for block, number, op in ops(roles, "startup", "assign")
        if "SNAPSHOT" in op.output("Out")[0]
    )


@breaks("snapshot", SNAPSHOTS)
def snapshot_of_own_parameters(roles: Roles) -> Iterator[Edit]:
    for block, number, op in ops(roles, "startup", "assign"):
        if "SNAPSHOT" in op.output("Out")[0]:
            yield mover(
                block,
                number,
                next(place for place, other in enumerate(block.ops) if other.type == "c_broadcast"),
            )
