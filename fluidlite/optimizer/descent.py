"""Optimizers with one learning rate for all elements of a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite.ir.block import Block
from fluidlite.ir.variable import Variable
from fluidlite.optimizer.base import Optimizer, require

__all__ = ["DpsgdOptimizer", "LarsMomentumOptimizer", "MomentumOptimizer", "SGDOptimizer"]


class SGDOptimizer(Optimizer):
    """Gradient descent: param - learning_rate * grad."""

    type = "sgd"

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        return self._append_update(block, param_and_grad, {})


class MomentumOptimizer(Optimizer):
    """Descent along velocity = momentum * velocity + grad; with `use_nesterov`, along grad + momentum *
    velocity.
    """

    type = "momentum"
    _velocity_acc_str = "velocity"
    _zero_accumulators = (_velocity_acc_str,)

    def __init__(
        self,
        learning_rate: float | Variable,
        momentum: float,
        parameter_list: Iterable[Any] | None = None,
        use_nesterov: bool = False,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        require("Momentum", momentum=momentum)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._momentum = momentum
        self._use_nesterov = bool(use_nesterov)

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        return self._append_update(
            block,
            param_and_grad,
            {"Velocity": self._velocity_acc_str},
            {"mu": self._momentum, "use_nesterov": self._use_nesterov},
        )


class LarsMomentumOptimizer(Optimizer):
    """Momentum with a learning rate for each parameter in proportion to |param| / |grad| (You et al.,
    2017).
    """

    type = "lars_momentum"
    _needs_whole = True
    _velocity_acc_str = "velocity"
    _zero_accumulators = (_velocity_acc_str,)

    def __init__(
        self,
        learning_rate: float | Variable,
        momentum: float,
        lars_coeff: float = 0.001,
        lars_weight_decay: float = 0.0005,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        require("LarsMomentum", momentum=momentum)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._momentum = momentum
        self._lars_coeff = float(lars_coeff)
        self._lars_weight_decay = float(lars_weight_decay)

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        return self._append_update(
            block,
            param_and_grad,
            {"Velocity": self._velocity_acc_str},
            {
                "mu": self._momentum,
                "lars_coeff": self._lars_coeff,
                "lars_weight_decay": self._lars_weight_decay,
            },
        )


class DpsgdOptimizer(Optimizer):
    """Descent along clipped gradients with normal noise, for differential privacy (Abadi et al., 2016).

    clip: largest norm of a gradient; sigma: standard deviation of the noise, which is divided by
    `batch_size`.
    """

    type = "dpsgd"
    _needs_whole = True

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        clip: float = 0.9,
        batch_size: float = 0.999,
        sigma: float = 1e-8,
        parameter_list: Iterable[Any] | None = None,
    ) -> None:
        require("Dpsgd", clip=clip, batch_size=batch_size, sigma=sigma)
        super().__init__(learning_rate, parameter_list)
        self._clip = clip
        self._batch_size = batch_size
        self._sigma = sigma
        self._seed: int | None = None  # may be set before `minimize`

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        return self._append_update(
            block,
            param_and_grad,
            {},
            {
                "clip": self._clip,
                "batch_size": self._batch_size,
                "sigma": self._sigma,
                "seed": self._seed or 0,
            },
        )
