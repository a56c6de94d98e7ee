"""Trainers' exchange with servers, without copies: gradients go out from views, parameters come in where
they live.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.ops import session_for
from fluidlite.executor.comm.requests import Wanted, wanted_by
from fluidlite.executor.comm.session import BackgroundCommunicator
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.values import Value
from fluidlite.ir.operator import Operator


@lowering("split_byref")
def _(e: Emitter) -> None:
    x = e.need("X")
    assert x.shape is not None
    start = 0
    for index, spec in enumerate(e.builder.inferred(e.op)["Out"]):
        stop = start + spec.shape[0]
        e.alias("Out", e.piece(x, start, stop), index)
        start = stop


def receive_into(op: Operator, *targets: Any) -> None:
    """Have the newest values of variables of servers read into arrays."""
    session = session_for(op)
    with session.turn, session.running(op):  # threads that share the session talk one after another
        # a communicator marks the ops that it runs itself
        if op.attrs["do_not_run"]:
            if session.communicator is not None:
                take_newest(session.communicator, op, targets)
            return
        wanted = _wanted_into(op, targets)
        fetched = session.requests.fetch(wanted, op.attrs["trainer_id"], again=bool(op.input("X")))
        for item, value in zip(wanted, fetched, strict=True):
            # most transports read straight into the array; what came as another one is copied
            if value is not item.into:
                _copy(item, value)


def _wanted_into(op: Operator, targets: Sequence[Any]) -> list[Wanted]:
    return [item._replace(into=target) for item, target in zip(wanted_by(op), targets, strict=True)]


def take_newest(communicator: BackgroundCommunicator, op: Operator, targets: Sequence[Any]) -> None:
    """Copy what a communicator has fetched meanwhile; what is not persistable is needed at every step."""
    again = not all(op.block._var_recursive(name).persistable for name in op.output("Out"))
    found = communicator.newest(op, again, targets)
    for wanted, value in zip(_wanted_into(op, targets), found or (), strict=False):
        if value is not wanted.into:
            _copy(wanted, value)


def _copy(wanted: Wanted, value: Any) -> None:
    if getattr(value, "shape", None) != wanted.into.shape:
        raise CommunicatorError(
            f"the server at {wanted.endpoint} holds {wanted.name!r} with the shape "
            f"{list(np.shape(value))}, but here its shape is {list(wanted.into.shape)}"
        )
    wanted.into[...] = value


def step_is_over(op: Operator) -> None:
    """Read what servers still owe."""
    session = session_for(op)
    with session.turn, session.running(op):  # threads that share the session talk one after another
        session.requests.collect_all()


@lowering("recv")
def _(e: Emitter) -> None:
    # one array of the host for each piece, bound before the step: a loop's body or a device has none
    if not e.on_host or e.builder.depth or len(wanted_by(e.op)) != len(e.op.outputs["Out"]):
        raise CannotLower("recv")
    declared = [_declared(e, name) for name in e.op.outputs["Out"]]
    whole = _whole(e, [shape for shape, _ in declared])
    if whole is None:
        targets = [e.out("Out", shape, dtype, index) for index, (shape, dtype) in enumerate(declared)]
    else:
        targets = []
        start = 0
        for name, (shape, _) in zip(e.op.outputs["Out"], declared, strict=True):
            targets.append(e.piece(whole, start, start + shape[0]))
            e.finals.append((name, targets[-1]))
            start += shape[0]
        e.remember(("pieces", *e.op.outputs["Out"]), whole)
    receive = e.bind("receive", receive_into)
    op = e.bind("op", e.op)
    e.run(receive, op, *map(Out, targets), effect=True)


def _declared(e: Emitter, name: str) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype of a dense variable that has only one."""
    var = e.builder.block._find_var_recursive(name)
    if (
        var is None
        or var.type != VarType.LOD_TENSOR
        or var.lod_level
        or var._dtype is None
        or not var.shape
        or -1 in var.shape
    ):
        raise CannotLower(name)
    return tuple(var.shape), to_numpy(var.dtype)


def _whole(e: Emitter, shapes: Sequence[tuple[int, ...]]) -> Value | None:
    """The parameter that a later op puts together from these pieces: they may as well be read into it."""
    names = e.op.outputs["Out"]
    # the barrier names what it waits for, and reads nothing
    later = [op for op in e.builder.later_ops() if op.type != "fetch_barrier"]
    users = [op for op in later if set(names) & set(op.input_arg_names)]
    if len(names) < 2 or len(users) != 1 or not _joins_rows(users[0], names):
        return None
    out = users[0].output("Out")[0]
    held = e.builder.held(out) if e.builder.is_persistable(out) else None
    total = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    dtype = to_numpy(e.builder.block._var_recursive(names[0]).dtype)
    if held is None or held.shape != total or held.dtype != dtype:
        return None
    return e.builder.param(out, held)


def _joins_rows(op: Operator, names: Sequence[str]) -> bool:
    """True if an op puts exactly these variables one below the other."""
    return op.type == "concat" and op.input("X") == list(names) and not op.attrs.get("axis", 0)


@lowering("fetch_barrier")
def _(e: Emitter) -> None:
    e.run(e.bind("finish", step_is_over), e.bind("op", e.op), effect=True)
