"""`paddle.static.amp.debugging`: in which precision the ops of a program compute."""

from __future__ import annotations

import sys
from collections import Counter

from fluidlite.base.dtypes import VarType
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.paddle.programs import default_main_program

__all__ = ["collect_operator_stats"]

_COLUMNS = {VarType.FP16: "FP16", VarType.BF16: "BF16", VarType.FP32: "FP32"}


def _kind(op: Operator) -> str:
    """The column of an op, by the first of its outputs that has a type, or of its inputs without outputs."""
    for name in (*op.output_arg_names, *op.input_arg_names):
        var = op.block._find_var_recursive(name)
        if var is not None:
            return _COLUMNS.get(var.dtype, "Other")
    return "Other"


def collect_operator_stats(program: Program | None = None, print_subblocks: bool = False) -> None:
    """Print how often each type of op computes in which precision, in the default program without one; with
    `print_subblocks` for each block, too.
    """
    blocks = (default_main_program() if program is None else program).blocks
    _print("op list of all blocks", [op for block in blocks for op in block.ops])
    for block in blocks if print_subblocks else []:
        _print(f"op list of block {block.idx}", block.ops)


def _print(title: str, ops: list[Operator]) -> None:
    counts: dict[str, Counter[str]] = {}
    for op in ops:
        counts.setdefault(op.type, Counter())[_kind(op)] += 1
    columns = [*_COLUMNS.values(), "Other"]
    lines = [f"<{f' {title} ':-^118}>"]
    lines.append(
        f"<{' Op Name ':-^41} | " + " | ".join(f"{f' {each} Calls ':-^17}" for each in columns) + " >"
    )
    for name, found in sorted(counts.items()):
        lines.append(f"  {name:<40}| " + " | ".join(f"{found[each]:<17}" for each in columns))
    lines.append(f"<{f' op count: {len(counts)} ':-^118}>")
    sys.stdout.write("\n".join(lines) + "\n")
