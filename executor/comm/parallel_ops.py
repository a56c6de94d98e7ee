"""The ops on rings with which ranks share the work of one layer, or exchange rows."""

from __future__ import annotations

import itertools
from typing import Any

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import CommunicatorError, ShapeError
from fluidlite.executor.comm.ops import SlotValues
from fluidlite.executor.comm.ring_ops import ring_action, ring_of
from fluidlite.executor.comm.session import Session
from fluidlite.values.tensor import host

__all__: list[str] = []

_LOWEST_SCORE = -64.0  # as of Paddle's softmax on one rank
_OF_NUMBER = ("sum", "max", "min", "prod")  # the `reduce_type` of 2.x's ops, numbered as ReduceOp


# ---------------------------------------------------------------------- layers that ranks share
@ring_action("mp_allreduce_sum")
def add_parts(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """The sum of what the ranks' parts of a weight gave."""
    return {"Out": [ring_of(session, context.op).all_reduce(values["X"][0], "sum")]}


@ring_action("c_concat")
def put_side_by_side(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """The columns of all ranks."""
    parts = ring_of(session, context.op).all_gather(values["X"][0])
    return {"Out": [context.xp.concatenate(parts, axis=-1)]}


@ring_action("c_softmax_with_cross_entropy")
def classes_of_all(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Softmax over classes of which each rank has a part, and the loss, which every rank gets.

    With m the largest score and s the sum of exp(x - m), over all ranks, the loss of class k is
    log(s) - (x_k - m).
    """
    xp = context.xp
    ring = ring_of(session, context.op)
    scores = values["Logits"][0]
    label = values["Label"][0]
    columns = scores.shape[-1]
    ignored = label == context.op.attrs["ignore_index"]
    if not bool(((label >= 0) & (label < columns * ring.size) | ignored).all()):
        raise ShapeError(
            f"Label holds values from {int(label.min())} to {int(label.max())}, but the {ring.size} ranks "
            f"have {columns * ring.size} classes"
        )
    largest = ring.all_reduce(scores.max(axis=-1, keepdims=True), "max")
    shifted = xp.maximum(scores - largest, scores.dtype.type(_LOWEST_SCORE))
    exps = xp.exp(shifted)
    total = ring.all_reduce(exps.sum(axis=-1, keepdims=True), "sum")
    mine = label - context.op.attrs["rank"] * columns
    is_here = (mine >= 0) & (mine < columns)
    picked = xp.take_along_axis(shifted, xp.where(is_here, mine, 0), axis=-1)
    picked = ring.all_reduce(xp.where(is_here, picked, scores.dtype.type(0)), "sum")
    loss = xp.where(ignored, scores.dtype.type(0), xp.log(total) - picked)
    return {"Softmax": [exps / total], "Loss": [loss]}


# ---------------------------------------------------------------------- a part of the elements
def _piece(context: Any, value: Any) -> Any:
    """This op's part, number `id` of `num`, of the elements of a value, as a view."""
    attrs = context.op.attrs
    if value.size % attrs["num"] or not 0 <= attrs["id"] < attrs["num"]:
        raise ShapeError(
            f"{value.dtype}{list(value.shape)} cannot give part {attrs['id']} of {attrs['num']} equal parts"
        )
    count = value.size // attrs["num"]
    return value.reshape(-1)[attrs["id"] * count : (attrs["id"] + 1) * count]


@ring_action("partial_send")
def send_piece(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Send a part of the elements to another rank."""
    op = context.op
    ring_of(session, op).send(_piece(context, values["X"][0]), op.attrs["peer"])
    return {}


@ring_action("partial_recv")
def receive_piece(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Receive a part of the elements; the others are 0 until `partial_allgather` fetches them."""
    attrs = context.op.attrs
    whole = context.xp.zeros(tuple(attrs["out_shape"]), to_numpy(VarType(attrs["dtype"])))
    place = _piece(context, whole)
    found = ring_of(session, context.op).receive(attrs["peer"])
    if found.dtype != place.dtype or found.shape != place.shape:
        raise CommunicatorError(
            f"rank {attrs['peer']} sent {found.dtype}{list(found.shape)}, but "
            f"{place.dtype}{list(place.shape)} is expected"
        )
    place[...] = context.xp.asarray(found)
    return {"Out": [whole]}


@ring_action("partial_allgather")
def gather_pieces(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Every rank's part of the elements."""
    attrs = context.op.attrs
    value = values["X"][0]
    ring = ring_of(session, context.op)
    if value.size % ring.size or attrs["rank"] != ring.rank:
        raise ShapeError(
            f"rank {attrs['rank']} cannot get an equal part of {value.dtype}{list(value.shape)} on "
            f"a ring of {ring.size} ranks, in which this process is rank {ring.rank}"
        )
    count = value.size // ring.size
    mine = value.reshape(-1)[ring.rank * count : (ring.rank + 1) * count]
    return {"Out": [context.xp.concatenate(ring.all_gather(mine)).reshape(value.shape)]}


# ---------------------------------------------------------------------- all with all
@ring_action("alltoall")
def exchange(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Part r of this rank's rows to rank r, and the parts of the others for this one."""
    return {"Out": [_exchanged(session, context, values["X"][0])]}


@ring_action("all_to_all")
def exchange_2x(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Part r of this rank's rows to rank r, and the parts of the others for this one."""
    return {"out": [_exchanged(session, context, values["x"][0])]}


def _exchanged(session: Session, context: Any, value: Any) -> Any:
    ring = ring_of(session, context.op)
    ring.check_shares(value)
    rows = len(value) // ring.size
    parts = [value[rank * rows : (rank + 1) * rows] for rank in range(ring.size)]
    return context.xp.concatenate(ring.all_to_all(parts))


def _counts(values: SlotValues, slot: str, size: int) -> list[list[int]]:
    """How many rows each rank has for each of the experts of one, by rank."""
    counts = host(values[slot][0]).reshape(-1).tolist()
    if len(counts) % size:
        raise ShapeError(f"{slot} has {len(counts)} numbers, which is not a multiple of the {size} ranks")
    experts = len(counts) // size
    return [counts[rank * experts : (rank + 1) * experts] for rank in range(size)]


def _pieces(value: Any, counts: list[int]) -> list[Any]:
    """Consecutive rows of a value, so many in each piece."""
    if sum(counts) != len(value):
        raise ShapeError(f"X has {len(value)} rows, but the counts add up to {sum(counts)}")
    ends = list(itertools.accumulate(counts))
    return [value[end - count : end] for count, end in zip(counts, ends, strict=True)]


@ring_action("global_scatter")
def to_experts(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Rows that lie by rank and expert go to the ranks; what arrives lies by expert and rank."""
    ring = ring_of(session, context.op)
    xp = context.xp
    sent = _counts(values, "local_count", ring.size)
    received = _counts(values, "global_count", ring.size)
    found = ring.all_to_all(_pieces(values["X"][0], [sum(counts) for counts in sent]))
    pieces = [_pieces(part, counts) for part, counts in zip(found, received, strict=True)]
    return {"Out": [xp.concatenate([piece for expert in zip(*pieces, strict=True) for piece in expert])]}


@ring_action("global_gather")
def from_experts(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Rows that lie by expert and rank go back to the ranks, where they lie by rank and expert again."""
    ring = ring_of(session, context.op)
    xp = context.xp
    received = _counts(values, "global_count", ring.size)
    by_expert = [list(expert) for expert in zip(*received, strict=True)]
    pieces = iter(_pieces(values["X"][0], [count for expert in by_expert for count in expert]))
    by_rank = list(zip(*[[next(pieces) for _ in expert] for expert in by_expert], strict=True))
    return {"Out": [xp.concatenate(ring.all_to_all([xp.concatenate(parts) for parts in by_rank]))]}


# ---------------------------------------------------------------------- under the names of 2.x
@ring_action("reduce_scatter")
def reduce_scatter_2x(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Give each rank its rows of the sum."""
    return {"out": [ring_of(session, context.op).reduce_scatter(values["x"][0])]}


@ring_action("all_gather")
def all_gather_2x(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Concatenate all ranks' values in the order of the ranks."""
    return {"out": [context.xp.concatenate(ring_of(session, context.op).all_gather(values["x"][0]))]}


@ring_action("all_reduce")
def all_reduce_2x(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Reduce over all ranks, for each of them."""
    how = _OF_NUMBER[context.op.attrs["reduce_type"]]
    return {"out": [ring_of(session, context.op).all_reduce(values["x"][0], how)]}
