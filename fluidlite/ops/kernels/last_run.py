"""The parts of a run that its gradient reads and that no variable of the program holds."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext

__all__ = ["LastRun", "last_run"]


class LastRun:
    """The layers of an op's last run, kept for the gradient of the output that they gave."""

    def __init__(self) -> None:
        self._out: Array | None = None
        self._layers: Any = None

    def keep(self, out: Array, layers: Any) -> None:
        """Keep the layers that gave `out`."""
        self._out, self._layers = out, layers

    def take(self, out: Array) -> Any:
        """The layers that gave `out`, which are kept no longer; None where another run has come between, as
        in a loop, or `out` is a copy.
        """
        if self._out is not out:
            return None
        layers = self._layers
        self._out, self._layers = None, None
        return layers


def last_run(ctx: KernelContext, name: str) -> LastRun:
    """The object that keeps layers beside the variable `name` of the run's scope, since a plan is made for
    the values that its ops find.
    """
    held = ctx.scope.var(f"{name}.layers")
    if not isinstance(held.value, LastRun):
        held.set(LastRun())
    kept: LastRun = held.value
    return kept
