"""Whole recurrences in one call, as a run may have them beside the portable steps."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.recurrent_steps import RecurrentBack, RecurrentLayer, RecurrentRun

__all__ = ["CompiledSteps"]

Maybe: TypeAlias = "Array | None"


class CompiledSteps:
    """All steps of a recurrence, forward or back, over rows as they are given: `KernelContext.compiled`. None
    stands for what has no code, or none yet: the portable steps run then.
    `fixed` is that of `recurrent_steps.run_rows`.
    """

    searches: Any = None
    """Compiled searches of the host (`KernelContext.searches`), or None."""

    def share_product(self, ctx: KernelContext, left: Array, right: Array, out: Array, axis: int) -> bool:
        """Write the product of two matrices, which the threads of the run share along an axis; False where
        that is left to the caller.
        """
        return False

    def recurrence(
        self, ctx: KernelContext, layer: RecurrentLayer, X: Array, bias: Maybe, saves: bool, fixed: Hashable
    ) -> RecurrentRun | None:
        """A run forward; without what only a gradient reads, unless it `saves` that."""

    def recurrence_back(
        self,
        ctx: KernelContext,
        layer: RecurrentLayer,
        run: RecurrentRun,
        d: Maybe,
        dcells: Maybe,
        last_cells: Maybe,
    ) -> RecurrentBack | None:
        """From the gradients of the states, of all cells and of the last ones."""
