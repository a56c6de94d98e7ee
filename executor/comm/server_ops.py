"""What each op that communicates does with the connections of its process."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from fluidlite.base.dtypes import to_numpy
from fluidlite.base.errors import CommunicatorError
from fluidlite.base.registry import Argument, Op
from fluidlite.executor.comm import ring_ops  # noqa: F401  (declares what ops on rings do)
from fluidlite.executor.comm.background.geo import INITIAL, is_geo_send
from fluidlite.executor.comm.background.merging import routes_of
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.ops import ACTIONS, Values, action, session_for
from fluidlite.executor.comm.requests import Wanted
from fluidlite.executor.comm.session import Session
from fluidlite.ir.operator import Operator
from fluidlite.values.tensor import host

__all__ = ["SERVED", "arguments_of", "carry_out", "places"]

# what trainers and servers say to each other: a process that was started by hand does so over TCP
SERVED = frozenset(
    {
        "send",
        "recv",
        "send_barrier",
        "fetch_barrier",
        "distributed_lookup_table",
        "prefetch",
        "checkpoint_notify",
        "listen_and_serv",
    }
)


def arguments_of(definition: Op) -> tuple[Argument, ...]:
    """What `carry_out` is called with: the context, and the value of each input slot."""
    return (Argument("ctx", "ctx", "ctx"), *(Argument(slot, "in", slot) for slot in definition.inputs))


def carry_out(ctx: Any, **slots: Any) -> dict[str, Any]:
    """The kernel of every op that communicates: run it through this process's session."""
    op: Operator = ctx.op
    session = session_for(op, op.type in SERVED)
    if op.type not in ACTIONS:
        raise CommunicatorError(
            f"op {op.type!r} cannot be run by {type(session).__name__}\n  built at {op.where}"
        )
    definition = ctx.op.definition
    values = {slot: value if definition.inputs[slot].many else [value] for slot, value in slots.items()}
    with session.turn if op.type in SERVED and op.type != "listen_and_serv" else contextlib.nullcontext():
        session.doing = op
        try:
            found = ACTIONS[op.type](session, ctx, values)
        finally:
            session.doing = None
    return {slot: items if definition.outputs[slot].many else items[0] for slot, items in found.items()}


# ---------------------------------------------------------------------- trainers and servers
@action("send")
def send(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Each variable goes to its server; with sections, the rows of one variable to several."""
    op = context.op
    if session.communicator is not None:
        session.communicator.send(op, context, values["X"])
        return {}
    if is_geo_send(op):
        needs_communicator(op)
        return {}
    trainer = max(
        op.attrs["trainer_id"], *session.contacted.values(), 0
    )  # fluid's `send` does not say, but `recv` does
    posts = [
        (endpoint, Message(Kind.SEND, trainer, name, piece))
        for route, value in zip(routes_of(op), values["X"], strict=True)
        for (name, endpoint), piece in zip(route.targets, route.pieces(value), strict=True)
    ]
    first = trainer % max(len(posts), 1)  # trainers do not all begin with the same server
    for endpoint, message in posts[first:] + posts[:first]:
        session.post(endpoint, message)
    return {}


def needs_communicator(op: Operator) -> None:
    """CommunicatorError for the end of a step of geo-SGD; the startup program may run before the
    communicator is started.
    """
    if op.attrs["send_varnames"] != [INITIAL]:
        raise CommunicatorError(
            "geo-SGD needs a communicator that runs: fluid.communicator.Communicator(program, "
            "DistributedMode.GEO, "
            f"{{'push_vars': transpiler.vars_info, 'trainers': ..., 'push_nums': ...}}).start()\n  "
            f"{op.call_text()}"
        )


@action("recv")
def receive(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The newest values of variables, or the pieces of one put together."""
    op = context.op
    if op.attrs["do_not_run"] and session.communicator is None:
        return {}
    if op.attrs["do_not_run"]:  # so communicators mark the ops that they run
        again = not all(op.block._var_recursive(name).persistable for name in op.output("Out"))
        found = session.communicator.newest(op, again)
        if found is None:
            return {}
        return {
            "Out": list(found) if len(found) == len(op.output("Out")) else [context.xp.concatenate(found)]
        }
    parts = session.requests.fetch([Wanted(*pair) for pair in places(op)], op.attrs["trainer_id"])
    return {"Out": parts if len(parts) == len(op.output("Out")) else [context.xp.concatenate(parts)]}


def places(op: Operator) -> list[tuple[str, str]]:
    """Which server a `recv` asks for what."""
    return list(zip(op.attrs["epmap"], op.attrs["recv_varnames"] or op.output("Out"), strict=True))


@action("send_barrier")
def finish_step(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """All servers have updated when this trainer sees a parameter again."""
    if session.communicator is not None:
        session.communicator.barrier(context.op)
    elif not context.op.attrs["half_async"]:  # a trainer that sends as it goes has nothing to wait for
        session.requests.end_step(context.op.attrs["endpoints"], context.op.attrs["trainer_id"])
    return {}


@action("fetch_barrier")
def fetched(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """The step is over: this trainer has its parameters, and servers need not be told, for it sends no
    gradient before.
    """
    session.requests.collect_all()
    return {}


@action("distributed_lookup_table")
def look_up(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Ask each server for the rows that it holds, each row once."""
    attrs = context.op.attrs
    wanted, places = np.unique(
        np.concatenate([host(ids).reshape(-1) for ids in values["Ids"]]), return_inverse=True
    )
    starts = np.cumsum([0, *attrs["height_sections"]])
    if wanted.size and not 0 <= wanted[0] <= wanted[-1] < starts[-1]:
        raise ValueError(
            f"id {wanted[0] if wanted[0] < 0 else wanted[-1]} is outside the table of {starts[-1]} rows"
        )
    cuts = np.searchsorted(wanted, starts)
    asked = [
        (endpoint, name, wanted[low:high] - start)
        for endpoint, name, low, high, start in zip(
            attrs["endpoints"], attrs["table_names"], cuts, cuts[1:], starts, strict=False
        )
        if high > low
    ]
    for endpoint, name, rows in asked:
        session.post(endpoint, Message(Kind.ROWS, attrs["trainer_id"], name, rows))
    parts = [session.link.answer(endpoint) for endpoint, _, _ in asked]
    table = np.concatenate(parts) if parts else no_rows(context.op)
    if attrs["padding_idx"] != -1:
        table[wanted == attrs["padding_idx"]] = 0
    kept = -1 if attrs["lookup_table_version"] == "lookup_table" else None
    found, start = [], 0
    for ids in values["Ids"]:
        found.append(table[places[start : start + ids.size]].reshape(*ids.shape[:kept], table.shape[1]))
        start += ids.size
    return {"Outputs": found}


@action("prefetch")
def prefetch(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Ask each server what it finds for the ids that are meant for it."""
    attrs = context.op.attrs
    for name, ids, endpoint in zip(context.op.input("X"), values["X"], attrs["epmap"], strict=True):
        session.post(endpoint, Message(Kind.ROWS, attrs["trainer_id"], name, ids))
    return {"Out": [session.link.answer(endpoint) for endpoint in attrs["epmap"]]}


def no_rows(op: Operator) -> Any:
    """What a lookup of no ids finds."""
    table = op.block._var_recursive(op.input("W")[0])
    return np.empty((0, table.shape[1]), to_numpy(table.dtype))


@action("checkpoint_notify")
def save_tables(session: Session, context: Any, values: Values) -> dict[str, list[Any]]:
    """Have the servers write their tables."""
    attrs = context.op.attrs
    for endpoint in attrs["epmap"]:
        session.post(endpoint, Message(Kind.SAVE, attrs["trainer_id"], attrs["dir"]))
    for endpoint in attrs["epmap"]:
        session.link.answer(endpoint)
    return {}
