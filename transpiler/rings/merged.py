"""Gradients that are added up over several steps before they are reduced."""

from __future__ import annotations

from collections.abc import Iterator

from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import is_distributed, update_of
from fluidlite.transpiler.rings.gradients import scale_loss_gradients

__all__ = ["due_blocks", "reduce_merged"]


def due_blocks(main: Program) -> list[Block]:
    """The blocks of a condition in which parameters are updated: that the sums of several steps are there."""
    return [
        block
        for block in main.blocks[1:]
        if any(op.role & OpRole.Optimize and update_of(op) is not None for op in block.ops)
    ]


def reduce_merged(main: Program, nranks: int) -> Program:
    """The main program with its sums of gradients averaged over `nranks` ranks, in the steps that update."""
    new = main.clone()
    edits = Insertions(new.global_block())
    scale_loss_gradients(edits, nranks)
    edits.apply()
    sums = list(_sums(new.global_block()))
    for block in due_blocks(new):
        first = next(op for op in block.ops if op.role & OpRole.Optimize)
        read = {name for op in block.ops for name in op.input_arg_names}
        _reduce_before(block, first, [name for name in sums if name in read])
    return new


def _sums(block: Block) -> Iterator[str]:
    """The sums that the block adds to, by the parameters' gradients that its ops make."""
    for op in block.ops:
        if op.role & OpRole.Backward:
            for param, gradient in zip(op.role_vars[::2], op.role_vars[1::2], strict=True):
                if not is_distributed(block, param):
                    yield gradient


def _reduce_before(block: Block, anchor: Operator, names: list[str]) -> None:
    edits = Insertions(block)
    first = {"X": names[0]}, {"Out": names[0]}
    edits.before(anchor, "c_sync_calc_stream", *first, OpRole.Backward)
    for name in names:
        edits.before(
            anchor,
            "c_allreduce_sum",
            {"X": name},
            {"Out": name},
            OpRole.Backward,
            ring_id=0,
            use_calc_stream=False,
        )
    edits.before(anchor, "c_sync_comm_stream", {"X": names}, {"Out": names}, OpRole.Backward, ring_id=0)
    edits.apply()
