"""Whole recurrences in one call, as a run may have them beside the portable steps."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import KernelContext
from fluidlite.ops.kernels.gru_steps import GruLayer, GruRun
from fluidlite.ops.kernels.lstm_steps import LstmLayer, LstmRun, ProjectedRun
from fluidlite.ops.kernels.rnn_steps import CellLayer, CellRun

__all__ = ["CompiledSteps"]

Maybe: TypeAlias = "Array | None"


class CompiledSteps:
    """All steps of a recurrence, forward or back, over rows as they are given: `KernelContext.compiled`. None
    stands for what has no code, or none yet: the portable steps run then.

    Gradients back are those that a caller cannot get by one product of what it has: of the gates and of what
    the products read at each row, whose product is the gradient of a weight, and of biases and first states.
    `fixed` is that of `lstm_steps.run_rows`.
    """

    searches: Any = None
    """Compiled searches of the host (`KernelContext.searches`), or None."""

    def share_product(self, ctx: KernelContext, left: Array, right: Array, out: Array, axis: int) -> bool:
        """Write the product of two matrices, which the threads of the run share along an axis; False where
        that is left to the caller.
        """
        return False

    def lstm(
        self, ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, saves: bool, fixed: Hashable
    ) -> LstmRun | None:
        """A long short-term memory; without what only a gradient reads, unless it `saves` that."""

    def lstm_back(
        self, ctx: KernelContext, layer: LstmLayer, run: LstmRun, d: Maybe, dcells: Maybe, last_cells: Maybe
    ) -> tuple[Array, ...] | None:
        """From `d`, the gradient of the states, those of all cells and of the last ones: the gradients of the
        gates, the state before each row, the gradients of bias and first cells.
        """

    def lstmp(
        self, ctx: KernelContext, layer: LstmLayer, X: Array, bias: Array, fixed: Hashable
    ) -> ProjectedRun | None:
        """A long short-term memory whose recurrence reads a projection of its states."""

    def lstmp_back(
        self, ctx: KernelContext, layer: LstmLayer, run: ProjectedRun, d: Array, dcells: Maybe
    ) -> tuple[Array, ...] | None:
        """From `d`, the gradient of the projected states, and that of the cells: the gradients of the gates,
        the projected state before each row, the gradients of the projection's product, step by step, those of
        bias and first cells.
        """

    def gru(
        self, ctx: KernelContext, layer: GruLayer, X: Array, bias: Maybe, fixed: Hashable
    ) -> GruRun | None:
        """A gated recurrent unit."""

    def gru_back(
        self, ctx: KernelContext, layer: GruLayer, run: GruRun, d: Array
    ) -> tuple[Array, ...] | None:
        """From `d`, the gradient of the states: the gradients of the gates, the state before each row and
        what the reset gate let through of it, the gradients of bias and first states.
        """

    def cells(
        self, ctx: KernelContext, layer: CellLayer, X: Array, bias: Array, fixed: Hashable
    ) -> CellRun | None:
        """A unit of the op `rnn` that reads its whole state in one product."""

    def cells_back(
        self, ctx: KernelContext, layer: CellLayer, run: CellRun, d: Array
    ) -> tuple[Array, ...] | None:
        """From `d`, the gradient of the states: the gradients of the planes, the state before each row, the
        gradients of the bias and of the first states.
        """
