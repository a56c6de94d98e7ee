"""A trainer of parameter servers on several devices: all compute, and the first talks to the servers for
them.
"""

from __future__ import annotations

from fluidlite.base.errors import TranspilerError
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.prune import writes
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import update_of
from fluidlite.transpiler.rings.gradients import reduce_gradients

__all__ = ["talks_to_servers", "trainer_programs"]


def talks_to_servers(program: Program) -> bool:
    """True if a program sends gradients to parameter servers."""
    # looking rows up is part of the forward pass, and every device does it for its part of the batch
    return any(
        op.communicates is not None and op.communicates.is_of_trainer for op in program.global_block().ops
    )


def trainer_programs(
    program: Program, share: int, devices: int, bucket_bytes: int, one_memory: bool
) -> tuple[list[Program], set[str]]:
    """The program of each device, and the parameters that all see once the first has received them."""
    block = program.global_block()
    if any(op.role & OpRole.Optimize and update_of(op) for op in block.ops):
        raise TranspilerError(
            "a trainer that updates its own parameters (geo-SGD) runs on one device: start a trainer for "
            "each device"
        )
    reduced = reduce_gradients(_talking_last(program), share, 1, bucket_bytes)
    received = {
        name
        for op in block.ops
        if _talks(op)
        for name in writes(op)
        if (var := block._find_var_recursive(name)) is not None and var.persistable
    }
    return [
        _of_device(reduced, received, index, one_memory) for index in range(devices)
    ], received if one_memory else set()


def _talks(op: Operator) -> bool:
    """True if an op talks to servers, or cuts and joins what is sent and received."""
    return bool(op.role & (OpRole.RPC | OpRole.Dist))


def _talking_last(program: Program) -> Program:
    """The program with all computing before all talk with servers: the devices reduce all gradients
    together.
    """
    new = program.clone()
    block = new.global_block()
    block.set_ops(sorted(block.ops, key=_talks))  # otherwise in the order that they have
    return new


def _of_device(program: Program, received: set[str], index: int, one_memory: bool) -> Program:
    """One device's program: a barrier before the first op that talks to servers, so that no parameter is
    overwritten while a device still reads it; devices with memories of their own are given it at the end.
    """
    new = program.clone()
    block = new.global_block()
    edits = Insertions(block)
    backward = [op for op in block.ops if op.role & OpRole.Backward]
    gradient = next(name for op in backward for name in op.role_vars[1::2])
    edits.before(
        next(filter(_talks, block.ops)),
        "barrier",
        {"X": gradient},
        {"Out": gradient},
        OpRole.Backward,
        ring_id=0,
    )
    for name in [] if one_memory else sorted(received):
        edits.last("c_broadcast", {"X": name}, {"Out": name}, OpRole.Optimize, ring_id=0, root=0)
    edits.apply()
    if index > 0:
        block.remove_ops(list(filter(_talks, block.ops)))
    return new
