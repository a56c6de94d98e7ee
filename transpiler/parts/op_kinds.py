"""Kinds of ops in training programs, as every mode, the check and the cost tell them apart."""

from __future__ import annotations

from fluidlite.base.errors import TranspilerError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter

__all__ = [
    "ALL_REDUCES",
    "LOOKUPS",
    "LOSS_GRADIENT",
    "OF_LOOKUPS",
    "REDUCTIONS",
    "REMOTE_LOOKUP",
    "RING_OPS",
    "check_programs",
    "RECEIVES",
    "SENDS",
    "is_collective",
    "is_distributed",
    "last_updates",
    "update_of",
]

LOOKUPS = ("lookup_table", "lookup_table_v2")
OF_LOOKUPS = frozenset(f"{kind}_grad" for kind in LOOKUPS)
"""Gradients of lookups: they look at a table's height, and not at its rows."""
REMOTE_LOOKUP = "distributed_lookup_table"
LOSS_GRADIENT = OpRole.Backward | OpRole.Loss  # the role of the op from which a backward pass starts

_KINDS = ("sum", "max", "min", "prod")
ALL_REDUCES = frozenset({"allreduce", *(f"c_allreduce_{kind}" for kind in _KINDS)})
REDUCTIONS = ALL_REDUCES | {f"c_reduce_{kind}" for kind in _KINDS}
_WITHOUT_RING = frozenset({"allreduce", "broadcast"})  # Paddle's older ops, of a ring that has no number
# of layers that ranks share, and of rows that go to all
_SHARED = frozenset(
    {"alltoall", "c_concat", "global_gather", "global_scatter", "mp_allreduce_sum", "partial_allgather"}
)
_COLLECTIVES = (
    REDUCTIONS
    | _WITHOUT_RING
    | _SHARED
    | {"c_broadcast", "c_allgather", "c_reducescatter", "c_scatter", "barrier"}
)
SENDS = frozenset({"send_v2", "partial_send"})
RECEIVES = frozenset({"recv_v2", "partial_recv"})
"""From one rank to another."""
RING_OPS = (_COLLECTIVES - _WITHOUT_RING - {"barrier"}) | {
    "c_comm_init",
    "c_comm_init_all",
    "c_gen_nccl_id",
    "c_sync_calc_stream",
    "c_sync_comm_stream",
}
"""Ops of rings by number: the collectives, and what makes a ring and waits for it."""

_UPDATE_SLOTS = {"Param", "Grad"}  # adadelta has no learning rate
_SERVER_OPS = frozenset({"send", "recv", "listen_and_serv"})
_STARTUP_MARKS = frozenset({"c_comm_init", "c_comm_init_all", "gen_nccl_id", "recv"})
_MAIN_MARKS = frozenset({"c_sync_comm_stream", *_SERVER_OPS})


def is_collective(op: Operator) -> bool:
    """True if all ranks of a ring must come to the op before any of them goes on."""
    return op.type in _COLLECTIVES and ("ring_id" in op.attrs or op.type in _WITHOUT_RING)


def is_distributed(block: Block, name: str) -> bool:
    """True if each rank has its own part of the parameter: then nothing is reduced or broadcast."""
    var = block._find_var_recursive(name)
    return isinstance(var, Parameter) and var.is_distributed


def update_of(op: Operator) -> tuple[str, str] | None:
    """(parameter, gradient) of an optimizer's update op."""
    param = op.inputs.get("Param")
    grad = op.inputs.get("Grad")
    return (param[0], grad[0]) if param and grad else None


def last_updates(block: Block) -> dict[str, Operator]:
    """Parameter -> the optimizer op that updates it last, in program order; without distributed ones."""
    found: dict[str, Operator] = {}
    for op in block.ops:
        if not op.role & OpRole.Optimize or not _UPDATE_SLOTS.issubset(op.inputs):
            continue
        name = op.input("Param")[0]
        if not is_distributed(block, name):
            # taken out first, so that the order is that of the last updates
            found.pop(name, None)
            found[name] = op
    return found


def check_programs(main: Program, startup: Program, served: bool = False) -> None:
    """TranspilerError where a program is transpiled already or has ops without a role; with `served`, one
    of a job with servers may be.
    """
    allowed = _SERVER_OPS if served else frozenset()
    for program, marks, what in (
        (startup, _STARTUP_MARKS - allowed, "startup"),
        (main, _MAIN_MARKS - allowed, "main"),
    ):
        for op in (op for block in program.blocks for op in block.ops):
            if op.type in marks:
                raise TranspilerError(
                    f"the {what} program is transpiled already: it has an op {op.type!r}; transpile a fresh "
                    "copy (program.clone() before the first time)"
                )
            # parsed ops may lack the attribute altogether
            if op.attrs.get(ROLE_ATTR, OpRole.NotSpecified) & OpRole.NotSpecified:
                raise TranspilerError(
                    f"op {op.type!r} of the {what} program has no role, so it is unknown which "
                    f"part of the job it belongs to\n  {op.call_text()}\n  built at {op.where}"
                )
