"""Startup programs of ranks: communicators are made, and every rank begins with the parameters of rank 0."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import is_distributed

__all__ = ["parameters_of", "startup_of_devices", "startup_of_rank", "trained_parameters"]


# ---------------------------------------------------------------------- the parameters
def trained_parameters(main: Program) -> list[str]:
    """The parameters that the program makes gradients of, by the ops that do; TranspilerError where there
    are none.
    """
    found = [
        name for op in main.global_block().ops if op.role & OpRole.Backward for name in op.role_vars[::2]
    ]
    if not found:
        raise TranspilerError(
            "the main program makes no gradient of a parameter, so there is nothing to reduce; call "
            "optimizer.minimize(loss) first, and transpile the training program, not the test program"
        )
    return list(dict.fromkeys(found))


def parameters_of(startup: Program, main: Program, trained: Sequence[str]) -> list[str]:
    """The parameters that the startup program initialises, in order of creation.

    Initialiser ops are prepended, so their order tells. A program that was parsed has its variables in any
    order, and none is marked as a parameter: then those count that are trained, or that forward ops read and
    the startup program keeps.
    """
    block = startup.global_block()
    for name in trained:
        if name not in block.vars:
            raise TranspilerError(
                f"the startup program does not initialise parameter {name!r}: it belongs to another program"
                f"{did_you_mean(name, block.vars)}"
            )
    found = {param.name for param in block.iter_parameters()}
    if not found:
        found = {name for name in _read_forward(main) if _is_kept(block.vars.get(name))}
    # negative positions: initialisers are prepended, so the parameter made first is filled last
    first_writer = {
        name: -index for index, op in reversed(list(enumerate(block.ops))) for name in op.output_arg_names
    }
    return sorted({*found, *trained}, key=lambda name: (first_writer.get(name, 1), name))


def _read_forward(main: Program) -> set[str]:
    forward = [op for block in main.blocks for op in block.ops if op.role | OpRole.Loss == OpRole.Loss]
    return {name for op in forward for name in op.input_arg_names}


def _is_kept(var: Variable | None) -> bool:
    return var is not None and var.persistable and var.type == VarType.LOD_TENSOR and is_float(var.dtype)


# ---------------------------------------------------------------------- communicators
def _connect(edits: Insertions, rank: RingMember, id_names: Sequence[str]) -> None:
    """Make a communicator for each ring: its id comes from rank 0, and is kept in the variable named."""
    for ring, name in enumerate(id_names):
        edits.block.create_var(name=name, persistable=True, type=VarType.RAW)
        edits.last(
            "c_gen_nccl_id",
            {},
            {"Out": name},
            OpRole.Forward,
            rank=rank.index,
            endpoint=rank.endpoint,
            other_endpoints=rank.others,
        )
        edits.last(
            "c_comm_init", {"X": name}, {}, OpRole.Forward, nranks=rank.count, rank=rank.index, ring_id=ring
        )


def _broadcast(edits: Insertions, params: Sequence[str], nrings: int) -> None:
    """Give every rank the parameters of rank 0, over the rings in turn."""
    shared = [name for name in params if not is_distributed(edits.block, name)]
    for number, name in enumerate(shared):
        edits.last("c_broadcast", {"X": name}, {"Out": name}, OpRole.Forward, ring_id=number % nrings, root=0)
    for ring in range(nrings):
        edits.last("c_sync_comm_stream", {"X": params[-1]}, {"Out": params[-1]}, OpRole.Forward, ring_id=ring)


def startup_of_rank(
    startup: Program, rank: RingMember, id_names: Sequence[str], params: Sequence[str]
) -> Program:
    """The startup program with a communicator for each ring, and all parameters as rank 0 has them."""
    new = startup.clone()
    edits = Insertions(new.global_block())
    _connect(edits, rank, id_names)
    _broadcast(edits, params, len(id_names))
    edits.apply()
    return new


def startup_of_devices(startup: Program, nrings: int = 1) -> Program:
    """The startup program with communicators among all devices of the process."""
    new = startup.clone()
    edits = Insertions(new.global_block())
    for ring in range(nrings):
        edits.last("c_comm_init_all", {}, {}, OpRole.Forward, ring_id=ring)
    edits.apply()
    return new
