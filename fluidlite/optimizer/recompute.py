"""Recomputation: a backward pass that keeps only some variables of the forward pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.backward import append_backward
from fluidlite.base.abstract import abstract
from fluidlite.base.errors import ArgumentError
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program, default_startup_program, program_guard
from fluidlite.ir.variable import Variable
from fluidlite.optimizer.base import Optimizer, ParamsGrads

__all__ = ["RecomputeOptimizer"]


class RecomputeOptimizer(Optimizer):
    """`optimizer` with a backward pass that recomputes activations between checkpoints (Chen et al., 2016).

    Memory then holds the checkpoints and one segment between two of them, for about one more forward pass of
    time.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._checkpoints: list[Variable] | list[str] | None = None
        self._learning_rate = optimizer._learning_rate
        self._learning_rate_map = optimizer._learning_rate_map
        self._dtype: Any = None

    def _set_checkpoints(self, checkpoints: list[Variable] | list[str]) -> None:
        """Say which variables to keep, or their names; needed before `minimize`."""
        self._checkpoints = checkpoints

    def load(self, stat_dict: Any) -> None:
        """Refused, as in fluid: the wrapped optimizer's variables are loaded with the program's."""
        abstract("load function is not supported by Recompute Optimizer for now")

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
        callbacks: list[Any] | None = None,
    ) -> ParamsGrads:
        """Append the backward pass with its recomputations; gives the pairs of parameter and gradient."""
        self._dtype = loss.dtype
        with program_guard(loss.block.program, startup_program or default_startup_program()):
            return append_backward(loss, parameter_list, no_grad_set, checkpoints=self._checkpoints)

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """The wrapped optimizer's `apply_gradients`."""
        ops: list[Operator] = self._optimizer.apply_gradients(params_grads)
        return ops

    def apply_optimize(
        self, loss: Variable, startup_program: Program | None, params_grads: ParamsGrads
    ) -> list[Operator]:
        """The wrapped optimizer's `apply_optimize`."""
        ops: list[Operator] = self._optimizer.apply_optimize(
            loss, startup_program=startup_program, params_grads=params_grads
        )
        return ops

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> tuple[Any, ParamsGrads]:
        """Append backward pass and updates; gives (update ops, pairs of parameter and gradient)."""
        if self._checkpoints is None:
            raise ArgumentError("You should call _set_checkpoints first")
        return super().minimize(loss, startup_program, parameter_list, no_grad_set)
