"""Programs as the C-like listing that fluid's `program_to_code` prints: a brace a block, a line a variable
and op.

{ // block 0
    persist trainable parameter fc_0.w_0 : fluid.VarType.LOD_TENSOR.shape(784, 10).astype(VarType.FP32)

    {Out=['fc_0.tmp_0']} = mul(inputs={X=['img'], Y=['fc_0.w_0']}, op_role = 0, x_num_col_dims = 1)
}
"""

from __future__ import annotations

import sys
from typing import IO, Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.plain_text import printable
from fluidlite.base.registry import AttrType
from fluidlite.ir.block import Block
from fluidlite.ir.operator import CALLSTACK_ATTR, Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter, Variable

__all__ = ["block_code", "block_to_code", "op_code", "program_code", "program_to_code", "variable_code"]

# fluid's listing gives shape and dtype of these kinds only
_SHAPED = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS)


def program_code(program: Program, skip_op_callstack: bool = True) -> str:
    """The whole program."""
    return "".join(block_code(block, skip_op_callstack) for block in program.blocks)


def block_code(block: Block, skip_op_callstack: bool = True) -> str:
    """One block: its variables by name, then its ops in order."""
    variables = [f"    {variable_code(block.vars[name])}\n" for name in sorted(block.vars)]
    ops = [f"    {op_code(op, skip_op_callstack)}\n" for op in block.ops]
    return "".join([f"{{ // block {block.idx}\n", *variables, "\n" if variables else "", *ops, "}\n"])


def variable_code(var: Variable) -> str:
    """`persist trainable parameter w : fluid.VarType.LOD_TENSOR.shape(3, 4).astype(VarType.FP32)`."""
    persist = "persist " if var.persistable else ""
    kind = "parameter" if isinstance(var, Parameter) else "var"
    if isinstance(var, Parameter) and var.trainable:
        kind = "trainable parameter"
    shaped = (
        f".shape{tuple(var.shape)}.astype(VarType.{var.dtype.name})"
        if var.type in _SHAPED and var._dtype is not None
        else ""
    )
    return printable(f"{persist}{kind} {var.name} : fluid.VarType.{var.type.name}{shaped}")


def op_code(op: Operator, skip_op_callstack: bool = True) -> str:
    """`{Out=['y']} = mul(inputs={X=['x'], Y=['w']}, x_num_col_dims = 1)`."""
    names = sorted(name for name in op.attr_names if name != CALLSTACK_ATTR or not skip_op_callstack)
    attrs = "".join(f", {name} = {_attr(op, name)}" for name in names)
    return printable(f"{{{_slots(op.outputs)}}} = {op.type}(inputs={{{_slots(op.inputs)}}}{attrs})")


def _slots(slots: dict[str, list[str]]) -> str:
    return ", ".join(f"{slot}={names}" for slot, names in sorted(slots.items()))


def _attr(op: Operator, name: str) -> Any:
    value = op.attr(name)
    kind = op.attr_type(name)
    if kind == AttrType.BLOCK:
        return f"block[{value.idx}]"
    if kind == AttrType.BLOCKS:
        return f"blocks[{', '.join(str(block.idx) for block in value)}]"
    return value


# ---------- fluid's functions
def program_to_code(prog: Program, fout: IO[str] | None = None, skip_op_callstack: bool = True) -> None:
    """Write the whole program to `fout`, or to stdout."""
    (fout or sys.stdout).write(program_code(prog, skip_op_callstack))


def block_to_code(
    block: Block, block_idx: int, fout: IO[str] | None = None, skip_op_callstack: bool = False
) -> None:
    """Write one block to `fout`, or to stdout."""
    (fout or sys.stdout).write(block_code(block, skip_op_callstack))
