"""`paddle.sysconfig`: where Paddle's C++ library lies, which is not here."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.sysconfig",
    "custom ops in C++ are compiled with Paddle's headers and library, and FluidLite has none: write an op "
    "as CONTRIBUTING.md says, or call a function with paddle.static.py_func",
    functions="get_include get_lib",
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
