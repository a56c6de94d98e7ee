"""Programs of 2.x whose gradients are made inside a buffer that was there before them.

Fleet of 2.x makes the buffer in front of the backward pass: a `coalesce_tensor` that copies nothing, whose
outputs are views of the buffer. Later ops write the gradients there, and one all-reduce of the buffer reduces
them all. Values here do not know where they will lie, so that a run takes such an op where its buffer is
first used, as one that copies: plans then make the gradients in the buffer all the same.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator

__all__ = ["ops_to_run"]

_arranged: WeakKeyDictionary[Block, tuple[int, Sequence[Operator]]] = WeakKeyDictionary()


def ops_to_run(block: Block) -> Sequence[Operator]:
    """The ops of a block in the order in which they run; the block stays as it is."""
    if not any(_makes_room(op) for op in block.ops):
        return block.ops
    version = block.program.version
    found = _arranged.get(block)
    # kept, because whoever runs them keeps what it has made of each op
    if found is None or found[0] != version:
        found = _arranged[block] = version, _arrange(block.ops)
    return found[1]


def _makes_room(op: Operator) -> bool:
    return op.type == "coalesce_tensor" and not op.attrs.get("copy_data") and not op.attrs.get("set_constant")


def _arrange(ops: Sequence[Operator]) -> list[Operator]:
    arranged = list(ops)
    for op in [op for op in ops if _makes_room(op)]:
        start = arranged.index(op)
        parts = set(op.output("Output"))
        used = _first_use(arranged, start + 1, op.output("FusedOutput")[0])
        written = {name for later in arranged[start + 1 : used] for name in later.output_arg_names}
        if used is None or not parts <= written:
            continue  # what nobody writes in between is what the op itself makes
        late = copy.copy(op)
        late.inputs = {**op.inputs, "Input": list(op.output("Output"))}
        late.attrs = {**op.attrs, "copy_data": True}
        arranged[used:used] = [late]
        del arranged[start]
    return arranged


def _first_use(ops: Sequence[Operator], start: int, name: str) -> int | None:
    """The place of the first op that reads or writes a variable."""
    for place in range(start, len(ops)):
        if name in ops[place].input_arg_names or name in ops[place].output_arg_names:
            return place
    return None
