"""`fluid.incubate.fleet.parameter_server.version`: which servers this package was built for."""

from __future__ import annotations

from fluidlite.incubate.fleet.base.mode import Mode

__all__ = ["is_transpiler"]

BUILD_MODE = Mode.TRANSPILER


def is_transpiler() -> bool:
    """True if servers are made by a transpiler, not by a library of their own."""
    return BUILD_MODE == Mode.TRANSPILER
