"""Buckets: gradients that travel together, chosen when a program is transpiled.

Gradients are grouped in the order in which the backward pass makes them, up to a limit of bytes; each group
is reduced right after the op that makes its last member, so that communication overlaps the rest of the
backward pass. With limit 0 every gradient travels alone, as fluid's programs have it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import TranspilerError
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.op_kinds import is_distributed

__all__ = ["Bucket", "BackwardPass", "all_reduce", "backward_passes", "make_buckets", "wait"]


@dataclass(frozen=True)
class Bucket:
    """Gradients that are reduced in one call, right after `maker`, the op that makes the last of them."""

    maker: Operator
    gradients: tuple[str, ...]

    @property
    def tensor(self) -> str:
        """The variable that is reduced: the gradient, or the buffer that the gradients are views of."""
        first = self.gradients[0]
        return first if len(self.gradients) == 1 else f"FusedOutput_{first}_0"


@dataclass(frozen=True)
class BackwardPass:
    """One backward pass of a block.

    Attributes
    ----------
    makers: ops, in order, with the gradients of parameters that each makes.
    reader: the op before which all of them must be there; None: the end.
    """

    makers: tuple[tuple[Operator, tuple[str, ...]], ...]
    reader: Operator | None


def backward_passes(block: Block) -> Iterator[BackwardPass]:
    """The backward passes of a block, each up to the first optimizer op, or the first op that reads a
    gradient, after it.

    There is one, unless there are several losses, or gradients are looked at while others are still to be
    made.
    """
    makers: list[tuple[Operator, tuple[str, ...]]] = []
    names: set[str] = set()
    for op in block.ops:
        if makers and (op.role & OpRole.Optimize or not names.isdisjoint(op.input_arg_names)):
            yield BackwardPass(tuple(makers), op)
            # what comes after belongs to another loss, or to gradients that are made later
            makers = []
            names = set()
        made = _gradients_made(block, op)
        if made:
            makers.append((op, made))
            names.update(made)
    if makers:
        yield BackwardPass(tuple(makers), None)


def _gradients_made(block: Block, op: Operator) -> tuple[str, ...]:
    """The gradients of parameters that `op` makes; a distributed parameter's stays where it is."""
    if not op.role & OpRole.Backward:
        return ()
    pairs = zip(op.role_vars[::2], op.role_vars[1::2], strict=True)
    return tuple(gradient for param, gradient in pairs if not is_distributed(block, param))


# ---------------------------------------------------------------------- choosing
def make_buckets(block: Block, backward: BackwardPass, limit: int = 0, most: int = 0) -> list[Bucket]:
    """The gradients of a backward pass in buckets of about `limit` bytes and at most `most` gradients (0: any
    number), in the order of their makers.

    A bucket holds one element type. A gradient larger than the limit, of selected rows, or of unknown shape
    travels alone.
    """
    if limit < 0:
        raise TranspilerError(f"bucket_bytes is {limit}, but must be 0 (each gradient alone) or more")
    position = {op: index for index, (op, _) in enumerate(backward.makers)}
    filling: dict[VarType, _Filling] = {}
    done: list[Bucket] = []
    for op, name in ((op, name) for op, names in backward.makers for name in names):
        dtype, size = _dtype_and_bytes(block, name)
        # it would fill a bucket alone, or cannot lie in a buffer of known size
        if size is None or size > limit:
            done.append(Bucket(op, (name,)))
            continue
        # one bucket a type is open at a time: a buffer has one element type
        current = filling.get(dtype)
        if current is not None and (current.size + size > limit or len(current.names) == most):
            done.append(current.close())
            current = None
        if current is None:
            current = filling[dtype] = _Filling()
        current.add(op, name, size)
    done += [current.close() for current in filling.values()]
    return sorted(done, key=lambda bucket: position[bucket.maker])


class _Filling:
    """A bucket to which gradients are still added; `size` is in bytes."""

    def __init__(self) -> None:
        self.makers: list[Operator] = []
        self.names: list[str] = []
        self.size = 0

    def add(self, op: Operator, name: str, size: int) -> None:
        """Put in the gradient that `op` makes."""
        self.makers.append(op)
        self.names.append(name)
        self.size += size

    def close(self) -> Bucket:
        """The bucket as it is now."""
        # after the last of them: only then all are there
        return Bucket(self.makers[-1], tuple(self.names))


def _dtype_and_bytes(block: Block, name: str) -> tuple[VarType, int | None]:
    var = block._var_recursive(name)
    if not var.spec.static or not var.shape:
        return var.dtype, None
    return var.dtype, math.prod(var.shape) * to_numpy(var.dtype).itemsize


# ---------------------------------------------------------------------- writing
def all_reduce(edits: Insertions, buckets: Iterable[Bucket], nrings: int) -> None:
    """Sum each bucket over the ranks after its maker, the rings in turn, counted from the last bucket
    back as fluid does.
    """
    numbers = itertools.count()
    by_maker = itertools.groupby(buckets, lambda bucket: bucket.maker)
    groups = [(maker, list(group)) for maker, group in by_maker]
    for maker, group in reversed(groups):
        rings = [next(numbers) % nrings for _ in group]
        for bucket in group:
            _coalesce(edits, bucket)
        # one for all that the op makes, as in fluid: it waits for the stream, whatever variable it names
        _in_place(edits, maker, "c_sync_calc_stream", group[0].tensor)
        for bucket, ring in reversed(list(zip(group, rings, strict=True))):
            _in_place(edits, maker, "c_allreduce_sum", bucket.tensor, ring_id=ring, use_calc_stream=False)


def _in_place(edits: Insertions, maker: Operator, op_type: str, name: str, **attrs: int) -> None:
    edits.after(maker, op_type, {"X": name}, {"Out": name}, OpRole.Backward, **attrs)


def _coalesce(edits: Insertions, bucket: Bucket) -> None:
    """Lay the gradients out in one buffer, of which they become views; nothing for a bucket of one."""
    if len(bucket.gradients) == 1:
        return
    dtype = edits.block._var_recursive(bucket.gradients[0]).dtype
    edits.block.create_var(name=bucket.tensor, dtype=dtype, stop_gradient=True)
    edits.after(
        bucket.maker,
        "coalesce_tensor",
        {"Input": list(bucket.gradients)},
        {"Output": list(bucket.gradients), "FusedOutput": bucket.tensor},
        OpRole.Backward,
        dtype=int(dtype),
        copy_data=True,
    )


def wait(edits: Insertions, backward: BackwardPass, buckets: Sequence[Bucket], nrings: int) -> None:
    """Wait for every ring before the first op that uses the gradients."""
    # fluid's choice of a variable; what is waited for is the ring
    first = [bucket for bucket in buckets if bucket.maker is buckets[0].maker]
    names = {"X": first[-1].tensor}, {"Out": first[-1].tensor}
    for ring in range(nrings):
        if backward.reader is None:
            edits.last("c_sync_comm_stream", *names, OpRole.Backward, ring_id=ring)
        else:
            edits.before(backward.reader, "c_sync_comm_stream", *names, OpRole.Backward, ring_id=ring)
