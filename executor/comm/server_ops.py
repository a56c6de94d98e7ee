"""The ops of a trainer that talk to parameter servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.base.dtypes import to_numpy
from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.background.geo import INITIAL, is_geo_send
from fluidlite.executor.comm.background.merging import routes_of
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.ops import SlotValues, action
from fluidlite.executor.comm.requests import wanted_by
from fluidlite.executor.comm.session import Session
from fluidlite.ir.operator import Operator
from fluidlite.values.tensor import host

__all__: list[str] = []


@action("send")
def send(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Send each variable to its server; with sections, the rows of one variable to several."""
    op = context.op
    if session.communicator is not None:
        session.communicator.send(op, context, values["X"])
        return {}
    if is_geo_send(op):
        _check_is_initial(op)
        return {}
    posts = list(_posts(op, session.trainer(op.attrs["trainer_id"]), values["X"]))
    # trainers begin with different servers, so that no server has all of them at once
    first = posts[0][1].trainer % len(posts) if posts else 0
    for endpoint, message in posts[first:] + posts[:first]:
        session.post(endpoint, message)
    return {}


def _posts(op: Operator, trainer: int, values: list[Any]) -> Iterator[tuple[str, Message]]:
    for route, value in zip(routes_of(op), values, strict=True):
        for (name, endpoint), piece in zip(route.targets, route.pieces(value), strict=True):
            yield endpoint, Message(Kind.SEND, trainer, name, piece)


def _check_is_initial(op: Operator) -> None:
    """CommunicatorError for the end of a step of geo-SGD without a communicator. The startup program, which
    has a `send` too, may run before the communicator is started.
    """
    if op.attrs["send_varnames"] != [INITIAL]:
        raise CommunicatorError(
            "geo-SGD needs a communicator that runs: fluid.communicator.Communicator(program, "
            "DistributedMode.GEO, {'push_vars': transpiler.vars_info, 'trainers': ..., 'push_nums': ...})"
            f".start()\n  {op.call_text()}"
        )


@action("recv")
def receive(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Get the newest values of variables, or put the pieces of one together."""
    op = context.op
    if not op.attrs["do_not_run"]:
        # one that waits for no send of its step is a startup program's
        parts = session.requests.fetch(wanted_by(op), op.attrs["trainer_id"], again=bool(op.input("X")))
    elif session.communicator is None:
        return {}
    else:  # a communicator marks the ops that it runs itself
        # what is not persistable is gone after each run, and has to be given again
        again = not all(op.block._var_recursive(name).persistable for name in op.output("Out"))
        newest = session.communicator.newest(op, again)
        if newest is None:
            return {}
        parts = list(newest)
    return {"Out": parts if len(parts) == len(op.output("Out")) else [context.xp.concatenate(parts)]}


@action("send_barrier")
def finish_step(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Tell the servers that this trainer has sent all gradients of the step."""
    op = context.op
    if session.communicator is not None:
        session.communicator.barrier(op)
    elif not op.attrs["half_async"]:  # a half-asynchronous trainer does not wait for the others
        session.requests.end_step(op.attrs["endpoints"], op.attrs["trainer_id"])
    return {}


@action("fetch_barrier")
def finish_fetch(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Wait until this trainer has its parameters. Servers need not be told: it sends no gradient before."""
    session.requests.collect_all()
    return {}


@action("distributed_lookup_table")
def look_up(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Ask each server for the rows that it holds, each row once."""
    attrs = context.op.attrs
    every_id = np.concatenate([host(ids).reshape(-1) for ids in values["Ids"]])
    wanted, places = np.unique(every_id, return_inverse=True)
    starts = np.cumsum([0, *attrs["height_sections"]])
    _check_ids(wanted, int(starts[-1]))
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
    table = np.concatenate(parts) if parts else _no_rows(context.op)
    if attrs["padding_idx"] != -1:
        table[wanted == attrs["padding_idx"]] = 0
    kept = -1 if attrs["lookup_table_version"] == "lookup_table" else None  # v1's ids end in a dimension of 1
    found = []
    start = 0
    for ids in values["Ids"]:
        found.append(table[places[start : start + ids.size]].reshape(*ids.shape[:kept], table.shape[1]))
        start += ids.size
    return {"Outputs": found}


def _check_ids(wanted: Any, height: int) -> None:
    """ValueError where ascending ids lie outside of a table of `height` rows."""
    if wanted.size and not 0 <= wanted[0] <= wanted[-1] < height:
        wrong = wanted[0] if wanted[0] < 0 else wanted[-1]
        raise ValueError(f"id {wrong} is outside the table of {height} rows")


def _no_rows(op: Operator) -> Any:
    """The result of a lookup of no ids: no rows, of the table's width and type."""
    table = op.block._var_recursive(op.input("W")[0])
    return np.empty((0, table.shape[1]), to_numpy(table.dtype))


@action("prefetch")
def prefetch(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Ask each server for the rows of the ids that were split off for it."""
    attrs = context.op.attrs
    for name, ids, endpoint in zip(context.op.input("X"), values["X"], attrs["epmap"], strict=True):
        session.post(endpoint, Message(Kind.ROWS, attrs["trainer_id"], name, ids))
    return {"Out": [session.link.answer(endpoint) for endpoint in attrs["epmap"]]}


@action("checkpoint_notify")
def save_tables(session: Session, context: Any, values: SlotValues) -> dict[str, list[Any]]:
    """Have the servers write their tables."""
    attrs = context.op.attrs
    for endpoint in attrs["epmap"]:
        session.post(endpoint, Message(Kind.SAVE, attrs["trainer_id"], attrs["dir"]))
    for endpoint in attrs["epmap"]:
        session.link.answer(endpoint)
    return {}
