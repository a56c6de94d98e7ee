"""Errors of the command: mistakes of the user, in one line."""

from __future__ import annotations

import pathlib

from fluidlite.base.errors import FluidError, did_you_mean

__all__ = ["UsageError", "near_file", "one_line"]


class UsageError(FluidError):
    """Shown as one line on stderr; the command ends with exit code 2."""


def one_line(error: BaseException) -> str:
    """An error's text without line breaks."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def near_file(path: pathlib.Path) -> str:
    """A suffix that names the file beside `path` whose name is nearest; "" where there is none."""
    try:
        return did_you_mean(path.name, (item.name for item in path.parent.iterdir()))
    except OSError:
        return ""
