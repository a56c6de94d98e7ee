"""Main programs of ranks that average their gradients in every step."""

from __future__ import annotations

from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import LOSS_GRADIENT
from fluidlite.transpiler.rings.buckets import all_reduce, backward_passes, make_buckets, wait

__all__ = ["reduce_gradients", "scale_loss_gradients"]


def reduce_gradients(
    main: Program, nranks: int, nrings: int = 1, bucket_bytes: int = 0, bucket_count: int = 0
) -> Program:
    """The main program with its gradients averaged over `nranks` ranks; see `fluidlite.transpiler.rings`
    `.buckets` for `bucket_bytes` and `bucket_count`, the most bytes and gradients that travel together.
    """
    new = main.clone()
    block = new.global_block()
    edits = Insertions(block)
    scale_loss_gradients(edits, nranks)
    passes = [
        (each, make_buckets(block, each, bucket_bytes, bucket_count)) for each in backward_passes(block)
    ]
    all_reduce(edits, [bucket for _, buckets in passes for bucket in buckets], nrings)
    for each, buckets in passes:
        wait(edits, each, buckets, nrings)
    edits.apply()
    return new


def scale_loss_gradients(edits: Insertions, count: int) -> None:
    """Divide what the backward passes start from by `count`: a sum over so many is then their mean.

    One division of a scalar, where dividing each reduced gradient would read and write all of them again.
    """
    for op in edits.block.ops:
        if op.role == LOSS_GRADIENT:
            gradient = op.output_arg_names[0]
            edits.after(op, "scale", {"X": gradient}, {"Out": gradient}, OpRole.Backward, scale=1.0 / count)
