"""Single numbers in programs of PaddlePaddle 2.x: there they have the shape [], where 1.8 has [1].

An op type is the same in both, so an op says by its attribute ZERO_DIM_ATTR which of its outputs are such.
Files do not hold the attribute: it follows from the shapes that they declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.registry import EMPTY_VAR, ZERO_DIM_ATTR

if TYPE_CHECKING:
    from fluidlite.ir.block import Block
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program

__all__ = ["mark_zero_dims"]


def mark_zero_dims(program: Program) -> None:
    """Give ops the attribute ZERO_DIM_ATTR by the declared shapes of their outputs."""
    for block in program.blocks:
        for op in block.ops:
            slots = _declared_without_dims(op, block)
            marked = slots and [slot for slot in slots if _has_one_dim(op, slot)]
            if marked:
                op.attrs[ZERO_DIM_ATTR] = marked


def _declared_without_dims(op: Operator, block: Block) -> list[str]:
    """The output slots whose (first) variable is a tensor that is declared with the shape []."""
    found = []
    for slot, names in op.outputs.items():
        var = block._find_var_recursive(names[0]) if names and names[0] != EMPTY_VAR else None
        if var is not None and not var.shape and var.type == VarType.LOD_TENSOR:
            found.append(slot)
    return found


def _has_one_dim(op: Operator, slot: str) -> bool:
    """True if the op's shape rule gives an output the shape [1]."""
    if op.definition is None or op.definition.shape_rule is None:
        return False
    specs = {name: [op._spec(one) for one in names] for name, names in op.inputs.items()}
    try:
        found = op.definition.infer(specs, op.attrs).get(slot)
    # the rule needs more than the file declares
    except (EnforceNotMet, AttributeError, TypeError, IndexError, ZeroDivisionError):
        return False
    return found is not None and len(found) > 0 and found[0].shape == (1,)
