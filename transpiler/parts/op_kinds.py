"""Kinds of ops in training programs, as every mode, the check and the cost tell them apart."""

from __future__ import annotations

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.errors import TranspilerError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter

__all__ = [
    "LOSS_GRADIENT",
    "REMOTE_LOOKUP",
    "check_programs",
    "is_collective",
    "is_distributed",
    "is_lookup",
    "is_numbered",
    "last_updates",
    "makes_ring",
    "reduces",
    "update_of",
]

REMOTE_LOOKUP = "distributed_lookup_table"
LOSS_GRADIENT = OpRole.Backward | OpRole.Loss  # the role of the op from which a backward pass starts

_UPDATE_SLOTS = {"Param", "Grad"}  # adadelta has no learning rate


def is_collective(op: Operator) -> bool:
    """True if all ranks of a ring must come to the op before any of them goes on."""
    if op.communicates is None or op.definition is None or not op.communicates.is_collective:
        return False
    # Paddle's older ops are of a ring that has no number
    return "ring_id" in op.attrs or "ring_id" not in op.definition.attr_defs


def is_numbered(op: Operator) -> bool:
    """True if the op's ring has a number by which a startup program makes it."""
    return "ring_id" in op.attrs and op.communicates is not CommKind.BARRIER


def makes_ring(op: Operator) -> bool:
    """True for the ops of startup programs by which ranks form a ring."""
    return op.communicates is CommKind.MAKE_RING


def reduces(op: Operator) -> bool:
    """True for reductions over a ring of arrays that every rank has, such as gradients."""
    return op.communicates is not None and op.communicates.reduces


def is_lookup(op: Operator) -> bool:
    """True if the op looks rows of a table up that servers may hold."""
    return op.definition is not None and bool(op.definition.table)


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
    for program, what in ((startup, "startup"), (main, "main")):
        for op in (op for block in program.blocks for op in block.ops):
            if _is_mark(op, served):
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


def _is_mark(op: Operator, served: bool) -> bool:
    """True for an op that a transpiler writes."""
    kind = op.communicates
    if kind is not None and kind.is_served:
        return not served and kind is not CommKind.NOTE
    return kind is CommKind.MAKE_RING or op.type == "c_sync_comm_stream"
