"""Looking for ops and taking them out, under fluid's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fluidlite.base.imported_names import imported_names
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.transpiler.parts.edits import drop_ops

__all__ = ["delete_ops", "find_op_by_input_arg", "find_op_by_output_arg"]


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


if not TYPE_CHECKING:
    __getattr__ = imported_names(__name__)
