"""Errors of the command: mistakes of the user, in one line."""

from __future__ import annotations

from fluidlite.base.errors import FluidError

__all__ = ["UsageError", "one_line"]


class UsageError(FluidError):
    """Shown as one line on stderr; the command ends with exit code 2."""


def one_line(error: BaseException) -> str:
    """An error's text without line breaks."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
