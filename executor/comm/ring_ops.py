"""What each op on a ring of ranks does."""
from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.actions import Values, action, session_for
from fluidlite.executor.comm.session import Ring, Session
from fluidlite.ir.operator import Operator
from fluidlite.tensor import SelectedRows

__all__ = ["reduce_into"]


@action("c_gen_nccl_id", "gen_nccl_id")
def make_id(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Ranks find each other by number: the id of a ring is empty."""
    return {slot: [context.xp.zeros(0, "int8")] * len(names) for slot, names in context.op.outputs.items()}


@action("c_comm_init_all")
def join_devices(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Join the ring of the devices of one process."""
    session.join_devices(context.op.attrs["ring_id"])
    return {}


@action("c_comm_init")
def join(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Join a ring."""
    attrs = context.op.attrs
    session.join(attrs["ring_id"], attrs["rank"], attrs["nranks"])
    return {}


@action("c_allreduce_sum", "c_allreduce_max", "c_allreduce_min", "c_allreduce_prod")
def all_reduce(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The reduction over all ranks, for each of them; in place where the op says so, for gradients may be views of what is reduced."""
    op, value = context.op, values["X"][0]
    if isinstance(value, SelectedRows):
        return {"Out": [_all_rows(session.ring(op.attrs["ring_id"]), op, value)]}
    total = session.ring(op.attrs["ring_id"]).all_reduce(value, op.type.rpartition("_")[2])
    if op.input("X") == op.output("Out"):
        value[...] = total
        total = value
    return {"Out": [total]}


def _all_rows(ring: Ring, op: Operator, rows: SelectedRows) -> SelectedRows:
    """The sum of sparse gradients: the rows of all ranks, for a row may occur more than once."""
    if op.type != "c_allreduce_sum":
        raise CommunicatorError(f"op {op.type!r} cannot reduce rows of a table: only sums can")
    ids, parts = ring.all_gather(rows.ids), ring.all_gather(rows.array)
    return SelectedRows(np.concatenate(ids), rows.height(), np.concatenate(parts))


def reduce_into(op: Operator, source: Any, target: Any) -> None:
    """What a plan calls for an all-reduce: from one array into another, or into itself."""
    session = session_for(op)
    session.doing = op
    try:
        target[...] = session.ring(op.attrs["ring_id"]).all_reduce(source, op.type.rpartition("_")[2])
    finally:
        session.doing = None


@action("c_reduce_sum", "c_reduce_max", "c_reduce_min", "c_reduce_prod")
def reduce(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The reduction for rank `root_id`; the others keep what they have."""
    op, ring = context.op, session.ring(context.op.attrs["ring_id"])
    total = ring.all_reduce(values["X"][0], op.type.rpartition("_")[2])
    return {"Out": [total if ring.rank == op.attrs["root_id"] else values["X"][0]]}


@action("allreduce")
def all_reduce_old(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The op of before the rings: `reduce_type` 0 sum, 1 product, 2 maximum, 3 minimum."""
    how = ("sum", "prod", "max", "min")[context.op.attrs["reduce_type"]]
    return {"Out": [session.ring(0).all_reduce(values["X"][0], how)]}


@action("c_broadcast", "broadcast")
def broadcast(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The value of rank `root`."""
    attrs = context.op.attrs
    return {"Out": [session.ring(attrs.get("ring_id", 0)).broadcast(values["X"][0], attrs["root"])]}


@action("c_allgather")
def all_gather(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """All ranks' values, one behind the other."""
    return {"Out": [context.xp.concatenate(session.ring(context.op.attrs["ring_id"]).all_gather(values["X"][0]))]}


@action("c_reducescatter")
def reduce_scatter(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Each rank its part of the sum."""
    ring = session.ring(context.op.attrs["ring_id"])
    total = ring.all_reduce(values["X"][0], "sum")
    return {"Out": [_part(total, ring.rank, ring.size)]}


@action("c_scatter")
def scatter(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Each rank its part of what rank `root` has."""
    ring = session.ring(context.op.attrs["ring_id"])
    return {"Out": [_part(ring.broadcast(values["X"][0], context.op.attrs["root"]), ring.rank, ring.size)]}


def _part(value: Any, rank: int, size: int) -> Any:
    rows = len(value) // size
    return value[rank * rows:(rank + 1) * rows].copy()


@action("barrier")
def barrier(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """All ranks have come here when this returns."""
    session.ring(context.op.attrs["ring_id"]).all_gather(values["X"][0])
    return {"Out": values["X"]}


@action("send_v2")
def send_to_rank(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Give a value to another rank."""
    session.ring(context.op.attrs["ring_id"]).send(values["X"][0], context.op.attrs["peer"])
    return {}


@action("recv_v2")
def receive_from_rank(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Take a value of another rank."""
    return {"Out": [session.ring(context.op.attrs["ring_id"]).receive(context.op.attrs["peer"])]}
