"""What each op that communicates does with the connections of its process."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.session import Ring, Session, current, of_process
from fluidlite.ir.operator import Operator
from fluidlite.registry import Argument, Op
from fluidlite.tensor import SelectedRows, host

__all__ = ["arguments_of", "carry_out", "reduce_into"]

Values: TypeAlias = "Mapping[str, list[Any]]"
Action: TypeAlias = "Callable[[Session, Any, Values], dict[str, list[Any]]]"

_ACTIONS: dict[str, Action] = {}
# what trainers and servers say to each other: a process that was started by hand does so over TCP
_SERVED = frozenset({"send", "recv", "send_barrier", "fetch_barrier", "distributed_lookup_table", "checkpoint_notify", "listen_and_serv"})


def arguments_of(definition: Op) -> tuple[Argument, ...]:
    """What `carry_out` is called with: the context, and the value of each input slot."""
    return (Argument("ctx", "ctx", "ctx"), *(Argument(slot, "in", slot) for slot in definition.inputs))


def carry_out(ctx: Any, **slots: Any) -> dict[str, Any]:
    """The kernel of every op that communicates: run it through this process's session."""
    op: Operator = ctx.op
    session = _session(op)
    if op.type not in _ACTIONS:
        raise CommunicatorError(f"op {op.type!r} cannot be run by {type(session).__name__}\n  built at {op.where}")
    definition = ctx.op.definition
    values = {slot: value if definition.inputs[slot].many else [value] for slot, value in slots.items()}
    session.doing = op
    try:
        found = _ACTIONS[op.type](session, ctx, values)
    finally:
        session.doing = None
    return {slot: items if definition.outputs[slot].many else items[0] for slot, items in found.items()}


def _session(op: Operator) -> Session:
    """The connections that `op` talks through; CommunicatorError where there are none."""
    session = current() or of_process(op.type in _SERVED)
    if session is None:
        raise CommunicatorError(f"op {op.type!r} needs a communicator: its program is one of a job's, to be run in as many processes "
                                f"as the job has roles\n  {op.call_text()}\n  built at {op.where}")
    return session


def action(*types: str) -> Callable[[Action], Action]:
    """Declare what ops of these types do."""
    def declare(function: Action) -> Action:
        _ACTIONS.update(dict.fromkeys(types, function))
        return function
    return declare


# ---------------------------------------------------------------------- trainers and servers
@action("send")
def send(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Each variable goes to its server; with sections, the rows of one variable to several."""
    op = context.op
    names, pieces = op.input("X"), values["X"]
    if op.attrs["send_varnames"]:
        names = op.attrs["send_varnames"]
        pieces = cut(values["X"][0], op.attrs["sections"]) if len(names) > 1 else values["X"]
    if op.attrs["merge_add"]:                      # a count of steps goes to every server
        names, pieces = names * len(op.attrs["epmap"]), pieces * len(op.attrs["epmap"])
    for name, piece, endpoint in zip(names, pieces, op.attrs["epmap"], strict=True):
        session.post(endpoint, Message(Kind.SEND, op.attrs["trainer_id"], name, piece))
    return {}


def cut(value: Any, sections: Sequence[int]) -> list[Any]:
    """The rows of a value in pieces."""
    starts = np.cumsum([0, *sections]).tolist()
    if isinstance(value, SelectedRows):
        spans = [(value.ids >= start) & (value.ids < stop) for start, stop in zip(starts, starts[1:], strict=False)]
        return [SelectedRows(value.ids[mine] - start, rows, value.array[mine])
                for mine, start, rows in zip(spans, starts, sections, strict=False)]
    return [value[start:stop] for start, stop in zip(starts, starts[1:], strict=False)]


@action("recv")
def receive(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Ask all servers first, then read the answers."""
    op = context.op
    endpoints = op.attrs["epmap"]
    names = op.attrs["recv_varnames"] or op.output("Out")
    for name, endpoint in zip(names, endpoints, strict=True):
        session.post(endpoint, Message(Kind.GET, op.attrs["trainer_id"], name))
    parts = [session.link.answer(endpoint) for endpoint in endpoints]
    return {"Out": parts if len(parts) == len(op.output("Out")) else [context.xp.concatenate(parts)]}


@action("send_barrier")
def finish_step(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """All servers have updated when this returns."""
    return _everywhere(session, context.op, Kind.BARRIER)


@action("fetch_barrier")
def fetched(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Tell the servers that this trainer has its parameters."""
    return _everywhere(session, context.op, Kind.FETCHED)


def _everywhere(session: Session, op: Operator, kind: Kind) -> dict[str, list[Any]]:
    for endpoint in op.attrs["endpoints"]:
        session.post(endpoint, Message(kind, op.attrs["trainer_id"]))
    for endpoint in op.attrs["endpoints"]:
        session.link.answer(endpoint)
    return {}


@action("distributed_lookup_table")
def look_up(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Ask each server for the rows that it holds, each row once."""
    attrs = context.op.attrs
    wanted, places = np.unique(np.concatenate([host(ids).reshape(-1) for ids in values["Ids"]]), return_inverse=True)
    starts = np.cumsum([0, *attrs["height_sections"]])
    if wanted.size and not 0 <= wanted[0] <= wanted[-1] < starts[-1]:
        raise ValueError(f"id {wanted[0] if wanted[0] < 0 else wanted[-1]} is outside the table of {starts[-1]} rows")
    cuts = np.searchsorted(wanted, starts)
    asked = [(endpoint, name, wanted[low:high] - start) for endpoint, name, low, high, start in zip(
        attrs["endpoints"], attrs["table_names"], cuts, cuts[1:], starts, strict=False) if high > low]
    for endpoint, name, rows in asked:
        session.post(endpoint, Message(Kind.ROWS, attrs["trainer_id"], name, rows))
    table = np.concatenate([session.link.answer(endpoint) for endpoint, _, _ in asked])
    if attrs["padding_idx"] != -1:
        table[wanted == attrs["padding_idx"]] = 0
    kept = -1 if attrs["lookup_table_version"] == "lookup_table" else None
    found, start = [], 0
    for ids in values["Ids"]:
        found.append(table[places[start:start + ids.size]].reshape(*ids.shape[:kept], table.shape[1]))
        start += ids.size
    return {"Outputs": found}


@action("checkpoint_notify")
def save_tables(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Have the servers write their tables."""
    attrs = context.op.attrs
    for endpoint in attrs["epmap"]:
        session.post(endpoint, Message(Kind.SAVE, attrs["trainer_id"], attrs["dir"]))
    for endpoint in attrs["epmap"]:
        session.link.answer(endpoint)
    return {}


@action("listen_and_serv")
def serve(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Be a server until all trainers have left."""
    from fluidlite.executor.comm.server import Server
    session.link.listen(context.op.attrs["endpoint"], context.op.attrs["Fanin"])
    Server(context, session.link).run()
    return {}


# ---------------------------------------------------------------------- rings
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
    session = _session(op)
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
