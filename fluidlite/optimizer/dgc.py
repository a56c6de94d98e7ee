"""Deep gradient compression."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError
from fluidlite.clip import GradientClipByNorm
from fluidlite.ir.variable import Variable
from fluidlite.optimizer.descent import MomentumOptimizer

__all__ = ["DGCMomentumOptimizer"]


class DGCMomentumOptimizer(MomentumOptimizer):
    """Momentum whose gradients may be sent compressed between trainers (Lin et al., 2018).

    With one trainer nothing is sent, and it is momentum. From step `rampup_begin_step` on, over `rampup_step`
    steps, the part of a gradient that is left out would rise through `sparsity`.
    """

    _u_velocity_acc_str = "_dgc_u_"
    _v_velocity_acc_str = "_dgc_v_"

    def __init__(
        self,
        learning_rate: float | Variable,
        momentum: float,
        rampup_begin_step: int,
        rampup_step: int = 1,
        sparsity: float | Sequence[float] = (0.999,),
        parameter_list: Iterable[Any] | None = None,
        use_nesterov: bool = False,
        num_trainers: int | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        if rampup_begin_step < 0:
            raise ArgumentError(f"rampup_begin_step must not be negative, but it is {rampup_begin_step}")
        if num_trainers is not None and (not isinstance(num_trainers, int) or num_trainers <= 0):
            raise ArgumentError(f"num_trainers must be a positive integer, but it is {num_trainers!r}")
        if grad_clip is not None and not isinstance(grad_clip, GradientClipByNorm):
            raise ArgumentError(
                "The type of grad_clip should be 'GradientClipByNorm', because DGCMomentumOptimizer only "
                f"support GradientClipByNorm, but it is {grad_clip!r}"
            )
        super().__init__(
            learning_rate, momentum, parameter_list, use_nesterov, regularization, grad_clip, name
        )
        self._rampup_begin_step = rampup_begin_step
        self._rampup_step = rampup_step
        self._sparsity = [sparsity] if isinstance(sparsity, (int, float)) else list(sparsity)
        self._num_trainers = num_trainers
