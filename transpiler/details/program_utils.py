"""Looking for ops and taking them out, under fluid's names."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.printing import operator_text, variable_text
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.parts.edits import drop_ops

__all__ = [
    "block_to_code",
    "delete_ops",
    "find_op_by_input_arg",
    "find_op_by_output_arg",
    "get_indent_space",
    "op_to_code",
    "program_to_code",
    "variable_to_code",
]


def delete_ops(block: Block, ops: Iterable[Operator]) -> None:
    """Remove ops of a block, whoever reads what they wrote."""
    drop_ops(block, ops)


def find_op_by_input_arg(block: Block, arg_name: str) -> int:
    """The position of the first op that reads `arg_name`; -1 where none does."""
    return next((index for index, op in enumerate(block.ops) if arg_name in op.input_arg_names), -1)


def find_op_by_output_arg(block: Block, arg_name: str, reverse: bool = False) -> int:
    """The position of the first op that writes `arg_name`, or the last with `reverse`; -1 where none does."""
    found = [index for index, op in enumerate(block.ops) if arg_name in op.output_arg_names]
    if not found:
        return -1
    return found[-1] if reverse else found[0]


# ---------------------------------------------------------------------- programs as text
def get_indent_space(indent: int, space_num: int = 4) -> str:
    """The blanks in front of a line."""
    return " " * (indent * space_num)


def variable_to_code(var: Variable) -> str:
    """A variable's declaration as text."""
    return variable_text(var)


def op_to_code(op: Operator, skip_op_callstack: bool = True) -> str:
    """An op as text; the text has the user's line in any case."""
    return operator_text(op)


def block_to_code(
    block: Block, block_idx: int, fout: TextIO | None = None, skip_op_callstack: bool = False
) -> None:
    """Write a block's variables and ops to a file, or to the standard output."""
    space = get_indent_space(1)
    lines = [f"{{ // block {block_idx}"]
    lines += [space + variable_to_code(block.vars[name]) for name in sorted(block.vars)]
    lines += ["", *(space + op_to_code(op, skip_op_callstack) for op in block.ops), "}"]
    (fout or sys.stdout).write("\n".join(lines) + "\n")


def program_to_code(prog: Program, fout: TextIO | None = None, skip_op_callstack: bool = True) -> None:
    """Write a program's blocks to a file, or to the standard output."""
    for number, block in enumerate(prog.blocks):
        block_to_code(block, number, fout, skip_op_callstack)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
