"""Ways to break sparse tables, geo-SGD jobs and nccl2 jobs; see `mutation_kit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mutation_kit import (
    GEO,
    NCCL2,
    SERVERS,
    TABLES,
    Edit,
    Roles,
    breaks,
    listens,
    ops,
    remover,
    setter,
    trainer_vars,
)

from fluidlite.base.dtypes import VarType


# ---------------------------------------------------------------------- sparse tables
def lookups(roles: Roles) -> Iterator[tuple[Any, int, Any]]:
    return (
        found
        for found in ops(roles, "main", "distributed_lookup_table", "lookup_table")
        if found[2].attrs.get("table_names")
    )


@breaks("not-held", TABLES)
def table_renamed(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "table_names", [name + "x" for name in op.attrs["table_names"]])
        for _, _, op in lookups(roles)
    )


@breaks("not-held", TABLES)
def shards_swapped(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "endpoints", op.attrs["endpoints"][::-1]) for _, _, op in lookups(roles))


@breaks("endpoints", TABLES)
def shard_without_endpoint(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "endpoints", op.attrs["endpoints"][1:]) for _, _, op in lookups(roles))


@breaks("slices", TABLES)
def wrong_height(roles: Roles) -> Iterator[Edit]:
    for _, _, op in ops(roles, "main", "distributed_lookup_table", "split_selected_rows"):
        rows = op.attrs["height_sections"]
        yield setter(op, "height_sections", [rows[0] + 1, *rows[1:]])


@breaks("not-fetched", TABLES)
def lookup_of_the_local_table(roles: Roles) -> Iterator[Edit]:
    """The trainer looks rows up in its own copy, which nothing keeps up to date."""
    for block, number, op in lookups(roles):

        def local(block: Any = block, number: int = number, op: Any = op) -> None:
            op.attrs.update(table_names=[], endpoints=[], height_sections=[])

        yield local


@breaks("dtype", TABLES)
def rows_for_a_tensor(roles: Roles) -> Iterator[Edit]:
    for var in trainer_vars(roles):
        if var.type == VarType.SELECTED_ROWS:
            yield lambda var=var: setattr(var, "type", VarType.LOD_TENSOR)


# ---------------------------------------------------------------------- geo-SGD
@breaks("startup", GEO)
def parameter_not_received(roles: Roles) -> Iterator[Edit]:
    return (remover(block, number) for block, number, _ in ops(roles, "startup", "recv"))


@breaks("endpoints", GEO)
def unknown_place(roles: Roles) -> Iterator[Edit]:
    """The sends of the main program go to the trainer's own communicator, wherever they say."""
    for _, _, op in ops(roles, "startup", "recv"):
        yield setter(op, "epmap", ["127.0.0.1:1", *op.attrs["epmap"][1:]])
    for _, _, op in ops(roles, "startup", "fetch_barrier"):
        yield setter(op, "endpoints", [*op.attrs["endpoints"], "127.0.0.1:1"])


@breaks("blocks", GEO)
def difference_not_added(roles: Roles) -> Iterator[Edit]:
    for op in listens(roles):
        for index in range(len(op.attrs["optimize_blocks"])):
            yield setter(
                op,
                "optimize_blocks",
                [block for place, block in enumerate(op.attrs["optimize_blocks"]) if place != index],
            )


# ---------------------------------------------------------------------- nccl2
def generators(roles: Roles) -> Iterator[Any]:
    return (op for _, _, op in ops(roles, "startup", "gen_nccl_id"))


@breaks("trainer-id", NCCL2)
def wrong_number(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "trainer_id", op.attrs["trainer_id"] + 1) for op in generators(roles))


@breaks("nranks", NCCL2)
def trainer_missing(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "trainers", op.attrs["trainers"][1:]) for op in generators(roles))


@breaks("nranks", NCCL2)
def trainer_named_twice(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "trainers", [op.attrs["trainers"][0]] * len(op.attrs["trainers"]))
        for op in generators(roles)
    )


@breaks("endpoints", NCCL2)
def trainers_in_another_order(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "trainers", op.attrs["trainers"][::-1]) for op in generators(roles))


@breaks("nranks", NCCL2)
def another_number_of_rings(roles: Roles) -> Iterator[Edit]:
    return (setter(op, "nccl_comm_num", op.attrs["nccl_comm_num"] + 1) for op in generators(roles))


@breaks("nranks", NCCL2)
def hierarchical_on_one_rank(roles: Roles) -> Iterator[Edit]:
    return (
        setter(op, "use_hierarchical_allreduce", not op.attrs["use_hierarchical_allreduce"])
        for op in generators(roles)
    )


@breaks("collective-order", NCCL2)
def backward_op_dropped(roles: Roles) -> Iterator[Edit]:
    return (
        remover(block, number)
        for block, number, op in ops(roles, "main")
        if op.type.endswith("_grad") and op.role_vars
    )


NCCL2["same_trainer_twice"] = SERVERS["same_trainer_twice"]
