"""Errors that get the op and the user's line where they were raised without."""

from __future__ import annotations

from fluidlite.base.errors import CommunicatorError, FluidError
from fluidlite.ir.operator import Operator

__all__ = ["locate"]


def locate(error: FluidError, op: Operator) -> None:
    """Add the op and the user's line to the text of an error that says neither."""
    text = str(error)
    if "built at" in text or (isinstance(error, CommunicatorError) and error.names_op):
        return
    named = text if f"'{op.type}'" in text else f"op {op.type!r}: {text}"
    error.args = (f"{named}\n  {op.call_text()}\n  built at {op.where}", *error.args[1:])
