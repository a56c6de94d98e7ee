"""The table of what each op that communicates does, and the kernel that all of them share.

Modules that are named by `actions_in` fill the table; they are imported when the first op that communicates
runs, because most programs have none.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.errors import CommunicatorError
from fluidlite.base.registry import Op
from fluidlite.base.specs import Argument
from fluidlite.executor.comm.session import Session
from fluidlite.executor.comm.transports import find_session, single_session
from fluidlite.ir.operator import Operator

__all__ = ["Action", "SlotValues", "action", "actions_in", "arguments_of", "carry_out", "session_for"]

SlotValues: TypeAlias = "Mapping[str, list[Any]]"
Action: TypeAlias = "Callable[[Session, Any, SlotValues], dict[str, list[Any]]]"

_ACTIONS: dict[str, Action] = {}
_HOMES: list[str] = []


def action(*types: str) -> Callable[[Action], Action]:
    """Declare what ops of these types do with the session, the kernel's context and the values of the input
    slots; it returns the values of the output slots.
    """

    def declare(function: Action) -> Action:
        _ACTIONS.update(dict.fromkeys(types, function))
        return function

    return declare


def actions_in(*modules: str) -> None:
    """Name the modules that declare actions when they are imported."""
    _HOMES.extend(modules)


@functools.cache  # two threads at once both import, and find the same
def _actions() -> Mapping[str, Action]:
    for module in _HOMES:
        importlib.import_module(module)
    return _ACTIONS


def arguments_of(definition: Op) -> tuple[Argument, ...]:
    """The arguments of `carry_out` for an op: the context, and the value of each input slot."""
    return (Argument("ctx", "ctx", "ctx"), *(Argument(slot, "in", slot) for slot in definition.inputs))


def carry_out(ctx: Any, **slots: Any) -> dict[str, Any]:
    """The kernel of every op that communicates: run it through the session of this thread or process."""
    op: Operator = ctx.op
    session = session_for(op)
    act = _actions().get(op.type)
    if act is None:
        raise CommunicatorError(
            f"op {op.type!r} cannot be run by {type(session).__name__}\n  built at {op.where}"
        )
    assert op.definition is not None, "the kernel of an op is that of its definition"
    inputs = op.definition.inputs
    outputs = op.definition.outputs
    values = {slot: value if inputs[slot].many else [value] for slot, value in slots.items()}
    # a server serves until its trainers have left: nobody waits for its turn so long
    takes_turn = (
        op.communicates is not None and op.communicates.is_served and op.communicates is not CommKind.SERVE
    )
    with session.turn if takes_turn else contextlib.nullcontext(), session.running(op):
        found = act(session, ctx, values)
    return {slot: items if outputs[slot].many else items[0] for slot, items in found.items()}


def session_for(op: Operator) -> Session:
    """The session that `op` talks through; CommunicatorError where there is none."""
    needs_servers = op.communicates is not None and op.communicates.is_served
    session = find_session(needs_servers)
    if session is None and _needs_no_others(op):
        session = single_session()
    if session is None:
        raise CommunicatorError(
            f"op {op.type!r} needs a communicator: its program belongs to a job, which runs in one "
            f"process per role\n  {op.call_text()}\n  built at {op.where}"
        )
    return session.server_session if needs_servers else session


def _needs_no_others(op: Operator) -> bool:
    """True if an op makes a ring of one rank, or of the devices of this process, which has one."""
    return (
        op.type == "c_comm_init_all"
        or op.attrs.get("nranks") == 1
        or not op.attrs.get("other_endpoints", True)
    )
