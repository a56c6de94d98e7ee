"""A program from somebody else: what its ops would do to the machine that runs it (docs/SAFETY.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.base.errors import UntrustedError

if TYPE_CHECKING:
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program

__all__ = ["check_reach", "reach_of"]


def reach_of(op: Operator) -> str:
    """The deed of an op outside of its program, such as "writes a file"; "" for one that only computes."""
    if op.definition is None:
        return ""
    return op.definition.reaches or ("talks to other processes" if op.definition.communicates else "")


def check_reach(program: Program, trust: bool = False) -> None:
    """UntrustedError, which names op and line, where an op of a loaded program does more than to compute, and
    nobody has said that whoever made it is trusted.
    """
    if trust:
        return
    for op in (op for block in program.blocks for op in block.ops):
        reach = reach_of(op)
        if reach:
            paths = [repr(op.attrs[name]) for name in ("file_path", "dirname") if op.attrs.get(name)]
            named = f" ({', '.join(paths)[:200]})" if paths else ""
            raise UntrustedError(
                f"op {op.type!r} of this model {reach}{named}, which is allowed only with "
                "trust=True (--trust): set it only for models that you trust\n  "
                f"{op.call_text()}\n  built at {op.where}"
            )
