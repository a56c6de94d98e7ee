"""Operators on Variables: `x + y`, `x * 2`, `x > y`, `-x`, `x[:, 0]` append ops."""
from __future__ import annotations


def monkey_patch_variable() -> None:
    """Give Variable its operators."""
