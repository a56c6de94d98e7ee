"""`paddle.version`: the version whose names and results these are, in parts."""

from __future__ import annotations

import sys

__all__ = ["commit", "full_version", "istaged", "major", "minor", "mkl", "patch", "rc", "show"]

full_version = "1.8.5"
major = "1"
minor = "8"
patch = "5"
rc = "0"
istaged = True
commit = "FluidLite"
with_mkl = "OFF"


def show() -> None:
    """Print the version."""
    sys.stdout.write(f"full_version: {full_version}\n")


def mkl() -> str:
    """OFF: Intel's library computes no products here."""
    return with_mkl
