"""Optimizers with a learning rate for each element, from running sums and averages of the gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fluidlite.ir.block import Block
from fluidlite.ir.program import name_scope
from fluidlite.ir.variable import Variable
from fluidlite.optimizer.base import Optimizer, ParamsGrads, require
from fluidlite.optimizer.doubts import check_betas

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamaxOptimizer",
    "DecayedAdagradOptimizer",
    "FtrlOptimizer",
    "LambOptimizer",
    "RMSPropOptimizer",
]


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015); `lazy_mode` moves only the rows that a sparse gradient has.

    beta1, beta2: floats, or Variables of shape [1].
    """

    type = "adam"
    _moment1_acc_str = "moment1"
    _moment2_acc_str = "moment2"
    _beta1_pow_acc_str = "beta1_pow_acc"
    _beta2_pow_acc_str = "beta2_pow_acc"

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float = 1e-8,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        lazy_mode: bool = False,
    ) -> None:
        require(self.__class__.__name__, beta1=beta1, beta2=beta2, epsilon=epsilon)
        check_betas(type(self).__name__, beta1=beta1, beta2=beta2)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon
        self._lazy_mode = lazy_mode

    def _create_accumulators(self, block: Block, parameters: list[Any]) -> None:
        for param in parameters:
            self._add_accumulator(self._moment1_acc_str, param)
            self._add_accumulator(self._moment2_acc_str, param)
            for name, beta, usual in (
                (self._beta1_pow_acc_str, self._beta1, 0.9),
                (self._beta2_pow_acc_str, self._beta2, 0.999),
            ):
                # fluid's defaults: the value of a Variable is not known while the program is built
                start = usual if isinstance(beta, Variable) else beta
                self._add_accumulator(name, param, fill_value=start, shape=[1], device="cpu")

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        betas = {"beta1": self._beta1, "beta2": self._beta2}
        attrs = {name: beta for name, beta in betas.items() if not isinstance(beta, Variable)}
        tensors = {
            f"{name.capitalize()}Tensor": beta for name, beta in betas.items() if isinstance(beta, Variable)
        }
        return self._append_update(
            block,
            param_and_grad,
            {
                "Moment1": self._moment1_acc_str,
                "Moment2": self._moment2_acc_str,
                "Beta1Pow": self._beta1_pow_acc_str,
                "Beta2Pow": self._beta2_pow_acc_str,
            },
            {
                **attrs,
                "epsilon": self._epsilon,
                "lazy_mode": self._lazy_mode,
                "min_row_size_to_use_multithread": 1000,
            },
            extra=tensors,
        )


class LambOptimizer(AdamOptimizer):
    """Adam with weight decay, its step scaled to the norm of the parameter (You et al., 2019).

    exclude_from_weight_decay_fn: called with a parameter, says whether its weight decay is 0.
    """

    type = "lamb"
    _needs_whole = True

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        name: str | None = None,
    ) -> None:
        require("Lamb", lamb_weight_decay=lamb_weight_decay)
        super().__init__(
            learning_rate, beta1, beta2, epsilon, parameter_list, regularization, grad_clip, name
        )
        self._weight_decay = lamb_weight_decay
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        block.program._use_lamb = True
        exclude = self._exclude_from_weight_decay_fn
        decay = 0.0 if exclude is not None and exclude(param_and_grad[0]) else self._weight_decay
        return self._append_update(
            block,
            param_and_grad,
            {
                "Moment1": self._moment1_acc_str,
                "Moment2": self._moment2_acc_str,
                # read only: in 1.8.5 nothing advances lamb's powers
                "Beta1Pow>": self._beta1_pow_acc_str,
                "Beta2Pow>": self._beta2_pow_acc_str,
            },
            {"beta1": self._beta1, "beta2": self._beta2, "epsilon": self._epsilon, "weight_decay": decay},
        )


class AdamaxOptimizer(Optimizer):
    """Adam with the largest gradient so far in place of the second moment."""

    type = "adamax"
    _moment_acc_str = "moment"
    _inf_norm_acc_str = "inf_norm"
    _beta1_pow_acc_str = "beta1_pow_acc"

    def __init__(
        self,
        learning_rate: float | Variable = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        require("Adamax", beta1=beta1, beta2=beta2, epsilon=epsilon)
        check_betas(type(self).__name__, beta1=beta1, beta2=beta2)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon

    def _create_accumulators(self, block: Block, parameters: list[Any]) -> None:
        for param in parameters:
            self._add_accumulator(self._moment_acc_str, param)
            self._add_accumulator(self._inf_norm_acc_str, param)
            self._add_accumulator(self._beta1_pow_acc_str, param, fill_value=self._beta1, shape=[1])

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        accumulators = {
            "Moment": self._moment_acc_str,
            "InfNorm": self._inf_norm_acc_str,
            "Beta1Pow>": self._beta1_pow_acc_str,
        }
        return self._append_update(
            block,
            param_and_grad,
            accumulators,
            {"beta1": self._beta1, "beta2": self._beta2, "epsilon": self._epsilon},
        )

    def _finish_update(self, block: Block, parameters_and_grads: ParamsGrads) -> None:
        for param, grad in parameters_and_grads:
            if grad is None or not param.trainable:
                continue
            with param.block.program._optimized_guard([param, grad]), name_scope("adamx"):
                # the op itself leaves the power alone
                power = self._get_accumulator(self._beta1_pow_acc_str, param)
                block.append_op(
                    type="scale", inputs={"X": power}, outputs={"Out": power}, attrs={"scale": self._beta1}
                )


class AdagradOptimizer(Optimizer):
    """Descent by grad / (sqrt(sum of squared gradients) + epsilon) (Duchi et al., 2011)."""

    type = "adagrad"
    _moment_acc_str = "moment"

    def __init__(
        self,
        learning_rate: float | Variable,
        epsilon: float = 1e-6,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        require("Adagrad", epsilon=epsilon)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._epsilon = epsilon
        self.initial_accumulator_value = initial_accumulator_value

    def _create_accumulators(self, block: Block, parameters: list[Any]) -> None:
        for param in parameters:
            self._add_accumulator(self._moment_acc_str, param, fill_value=self.initial_accumulator_value)

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        return self._append_update(
            block, param_and_grad, {"Moment": self._moment_acc_str}, {"epsilon": self._epsilon}
        )


class DecayedAdagradOptimizer(Optimizer):
    """Adagrad with a running average, `decay` * old + (1 - `decay`) * grad ** 2, in place of the sum."""

    type = "decayed_adagrad"
    _moment_acc_str = "moment"
    _zero_accumulators = (_moment_acc_str,)

    def __init__(
        self,
        learning_rate: float | Variable,
        decay: float = 0.95,
        epsilon: float = 1e-6,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        require("DecayedAdagrad", decay=decay, epsilon=epsilon)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._decay = decay
        self._epsilon = epsilon

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        return self._append_update(
            block,
            param_and_grad,
            {"Moment": self._moment_acc_str},
            {"epsilon": self._epsilon, "decay": self._decay},
        )


class AdadeltaOptimizer(Optimizer):
    """Steps as large as the running average of the steps so far (Zeiler, 2012); the learning rate plays no
    part.
    """

    type = "adadelta"
    _avg_squared_grad_acc_str = "_avg_squared_grad"
    _avg_squared_update_acc_str = "_avg_squared_update"
    _zero_accumulators = (_avg_squared_grad_acc_str, _avg_squared_update_acc_str)

    def __init__(
        self,
        learning_rate: float | Variable,
        epsilon: float = 1e-6,
        rho: float = 0.95,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        require("Adadelta", epsilon=epsilon, rho=rho)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._epsilon = epsilon
        self._rho = rho

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        accumulators = {
            "AvgSquaredGrad": self._avg_squared_grad_acc_str,
            "AvgSquaredUpdate": self._avg_squared_update_acc_str,
        }
        return self._append_update(
            block,
            param_and_grad,
            accumulators,
            {"epsilon": self._epsilon, "rho": self._rho},
            learning_rate=False,
        )


class RMSPropOptimizer(Optimizer):
    """Descent by grad / sqrt(running average of grad ** 2 + epsilon); `centered` subtracts the squared
    average gradient.
    """

    type = "rmsprop"
    _momentum_acc_str = "momentum"
    _mean_square_acc_str = "mean_square"
    _mean_grad_acc_str = "mean_grad"
    _zero_accumulators = (_momentum_acc_str, _mean_square_acc_str, _mean_grad_acc_str)

    def __init__(
        self,
        learning_rate: float | Variable,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        require("RMSProp", rho=rho, epsilon=epsilon, momentum=momentum)
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._rho = rho
        self._epsilon = epsilon
        self._momentum = momentum
        self._centered = centered

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        return self._append_update(
            block,
            param_and_grad,
            {
                "Moment": self._momentum_acc_str,
                "MeanSquare": self._mean_square_acc_str,
                "MeanGrad": self._mean_grad_acc_str,
            },
            {
                "epsilon": self._epsilon,
                "decay": self._rho,
                "momentum": self._momentum,
                "centered": self._centered,
            },
        )


class FtrlOptimizer(Optimizer):
    """Follow the regularised leader, with L1 and L2 penalties (McMahan et al., 2013)."""

    type = "ftrl"
    _squared_acc_str = "squared"
    _linear_acc_str = "linear"
    _zero_accumulators = (_squared_acc_str, _linear_acc_str)

    def __init__(
        self,
        learning_rate: float | Variable,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        parameter_list: Iterable[Any] | None = None,
        regularization: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, grad_clip, name)
        self._l1 = l1
        self._l2 = l2
        self._lr_power = lr_power

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        # l2 = l1 is what PaddlePaddle 1.8.5 writes, and its programs are the reference
        return self._append_update(
            block,
            param_and_grad,
            {
                "SquaredAccumulator>SquaredAccumOut": self._squared_acc_str,
                "LinearAccumulator>LinearAccumOut": self._linear_acc_str,
            },
            {"l1": self._l1, "l2": self._l1, "lr_power": self._lr_power},
        )
