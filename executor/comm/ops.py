"""The table of what each op that communicates does: the families of ops fill it,
`fluidlite.executor.comm.server_ops` uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.session import Session, alone, current, of_process
from fluidlite.ir.operator import Operator

__all__ = ["ACTIONS", "Action", "Values", "action", "session_for"]

Values: TypeAlias = "Mapping[str, list[Any]]"
Action: TypeAlias = "Callable[[Session, Any, Values], dict[str, list[Any]]]"

ACTIONS: dict[str, Action] = {}


def action(*types: str) -> Callable[[Action], Action]:
    """Declare what ops of these types do with the session, the context and the values of the input slots."""

    def declare(function: Action) -> Action:
        ACTIONS.update(dict.fromkeys(types, function))
        return function

    return declare


def session_for(op: Operator, served: bool = False) -> Session:
    """The connections that `op` talks through, over TCP only where it is `served`; CommunicatorError where
    there are none.
    """
    session = current() or of_process(served)
    if served and session is not None:
        session = session.of_process
    if session is None and _is_of_one(op):
        session = alone()
    if session is None:
        raise CommunicatorError(
            f"op {op.type!r} needs a communicator: its program is one of a job's, to be run in as many "
            f"processes "
            f"as the job has roles\n  {op.call_text()}\n  built at {op.where}"
        )
    return session


def _is_of_one(op: Operator) -> bool:
    """Whether an op makes a ring of one rank, or of the devices of this process, which has one."""
    return (
        op.type == "c_comm_init_all"
        or op.attrs.get("nranks") == 1
        or (op.type == "c_gen_nccl_id" and not op.attrs["other_endpoints"])
    )
