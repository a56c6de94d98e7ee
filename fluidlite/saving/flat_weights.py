"""The copy of a recurrence's weights in one row, a Parameter that programs of PaddlePaddle 2.x have besides.

`nn.LSTM`, `nn.GRU` and `nn.SimpleRNN` declare it behind their weights, and no op reads it; 2.6.2 lets it
share the weights' memory. Here it has memory of its own, and is put together when it is saved: 2.6.2, which
reads it last, would write old numbers over the weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fluidlite.ir.variable import Parameter

if TYPE_CHECKING:
    from fluidlite.ir.program import Program

__all__ = ["flat_weights"]


def flat_weights(program: Program) -> dict[str, list[str]]:
    """Name of each such Parameter -> the names of the weights that stand in it, in their order."""
    block = program.global_block()
    ops = [op for part in program.blocks for op in part.ops]
    weights = [op.input("WeightList") for op in ops if op.type == "rnn"]
    if not weights:
        return {}
    used = {name for op in ops for name in (*op.input_arg_names, *op.output_arg_names)}
    declared = [name for name, var in block.vars.items() if isinstance(var, Parameter)]
    place = {name: number for number, name in enumerate(declared)}
    found = {}
    for parts in weights:
        behind = 1 + max((place.get(name, len(place)) for name in parts), default=len(place))
        name = declared[behind] if behind < len(declared) else None
        if name is None or name in used:
            continue
        size = sum(math.prod(block.vars[part].shape) for part in parts)
        if block.vars[name].shape == (size,):
            found[name] = parts
    return found
