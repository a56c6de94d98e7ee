"""The optimizers of 2.x: fluid's, with 2.x's arguments, defaults and formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import ArgumentError
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.initializer import Constant
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.ops.training.optimizer import MARK_OF_2X
from fluidlite.optimizer import adaptive, base, descent
from fluidlite.optimizer.base import ParamsGrads, require
from fluidlite.paddle.optimizer.lr import LRScheduler
from fluidlite.paddle.programs import Program
from fluidlite.regularizer import L2Decay, WeightDecayRegularizer

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "Momentum",
    "Optimizer",
    "RMSProp",
]

Rate = float | LRScheduler
Parameters = Iterable[Any] | None


class Optimizer(base.Optimizer):
    """Base of the optimizers of 2.x; `minimize(loss)` writes the backward pass and the updates.

    learning_rate: a number, or a schedule of `paddle.optimizer.lr`, whose value of the moment each run of
        the program takes.
    parameters: those to train; all trainable ones by default.
    weight_decay: the factor of an L2 penalty, or a regulariser; a parameter's own goes before it.
    grad_clip: `paddle.nn.ClipGradBy...`.
    """

    _scheduler: LRScheduler | None = None
    _two_precisions = False  # `multi_precision`

    def __init__(
        self,
        learning_rate: Rate,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        base.Optimizer.__init__(
            self, self._number(learning_rate), parameters, regulariser_of(weight_decay), grad_clip, name
        )

    def _number(self, learning_rate: Any) -> float:
        """The learning rate to begin with; a schedule is remembered."""
        if isinstance(learning_rate, LRScheduler):
            self._scheduler = learning_rate
            return float(learning_rate())
        if learning_rate is None:
            raise ArgumentError("learning_rate is not set: give a number or an LRScheduler")
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(
                f"learning rate should be float or LRScheduler, got {type(learning_rate).__name__} here"
            )
        return float(learning_rate)

    # ------------------------------------------------------------------ learning rate
    def get_lr(self) -> float:
        """The learning rate of the moment."""
        rate: Any = self._learning_rate if self._scheduler is None else self._scheduler()
        return float(rate)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Take the learning rate from `scheduler` from now on; before `minimize`."""
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(f"The type of 'scheduler' must be LRScheduler, but received {type(scheduler)}")
        self._learning_rate = self._number(scheduler)

    def set_lr(self, value: float) -> None:
        """Refused, as in 2.6.2: the learning rate of a static program lies in its scope."""
        raise RuntimeError(
            "Optimizer's learning rate can't be set in static mode: use a schedule of paddle.optimizer.lr"
        )

    def _create_global_learning_rate(self) -> None:
        """Declare the learning rate, a single number of shape []."""
        program = default_main_program()
        if self._global_learning_rate() is not None:
            return
        assert isinstance(self._learning_rate, float), "a number, also where a schedule changes it"
        helper = LayerHelper("global_var")
        rate = helper.create_global_variable(
            name=unique_name.generate("learning_rate"),
            shape=[],
            persistable=True,
            dtype="float32" if self._dtype is None else self._dtype,
            stop_gradient=True,
        )
        helper.set_variable_initializer(rate, Constant(self._learning_rate))
        self._learning_rate_map[program] = rate
        if self._scheduler is not None:
            if not isinstance(program, Program):
                raise ArgumentError("a schedule needs a program of paddle.static")
            program.lr_scheduler, program.lr_var = self._scheduler, rate

    # ------------------------------------------------------------------ state
    def state_dict(self) -> dict[str, Any]:
        """The variables of the accumulators by name, and the state of the schedule."""
        state: dict[str, Any] = {
            var.name: var for found in self._accumulators.values() for var in found.values()
        }
        if self._scheduler is not None:
            state["LR_Scheduler"] = self._scheduler.state_dict()
        return state

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the state of the schedule; accumulators lie in the scope, and are loaded there
        (`paddle.static.set_program_state`).
        """
        if self._scheduler is not None:
            self._scheduler.set_state_dict(state_dict["LR_Scheduler"])

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Do nothing: each run of a static program computes its gradients anew."""

    clear_gradients = clear_grad

    def step(self) -> None:
        """Refused: updates are part of a static program."""
        raise ArgumentError(
            "step() updates parameters in imperative mode only; call minimize(loss), then run the program"
        )

    # ------------------------------------------------------------------ writing the ops
    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Any = None,
        parameters: Parameters = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> tuple[Any, ParamsGrads]:
        """Append backward pass and updates; gives (update ops, pairs of parameter and gradient). `loss` is
        one number.
        """
        return super().minimize(loss, startup_program, parameters, no_grad_set)

    def _check_loss(self, loss: Variable) -> None:
        """ArgumentError for a loss that is not one number."""
        if any(dim not in (1, -1) for dim in loss.shape):
            raise ArgumentError(
                f"The loss should be one number, but its shape is {list(loss.shape)}: take paddle.mean of it"
            )

    def _append_update(
        self,
        block: Block,
        param_and_grad: tuple[Any, Any],
        accumulators: Mapping[str, str],
        attrs: Mapping[str, Any] | None = None,
        learning_rate: bool = True,
        extra: Mapping[str, Variable] | None = None,
    ) -> Operator:
        """Append the op `self.type`, marked as one of 2.x."""
        if self._two_precisions:
            whole_precision(param_and_grad[0])
        marked = {**(attrs or {}), **self._attributes_of(param_and_grad[0]), MARK_OF_2X: False}
        return super()._append_update(block, param_and_grad, accumulators, marked, learning_rate, extra)

    def _attributes_of(self, param: Any) -> dict[str, Any]:
        """Attributes of the update that differ from parameter to parameter."""
        return {}


def regulariser_of(weight_decay: Any) -> Any:
    """A regulariser: of a number, that of an L2 penalty; None for None."""
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, (float, int)):
        return L2Decay(float(weight_decay))
    raise TypeError(f"weight_decay should be a float or a regularizer, but got {type(weight_decay).__name__}")


def whole_precision(param: Variable) -> None:
    """ArgumentError for a weight of half precision, beside which `multi_precision` keeps a float32 copy."""
    if param.dtype in (VarType.FP16, VarType.BF16):
        raise ArgumentError(
            f"multi_precision=True keeps a float32 copy of {param.name!r}, which is {param.dtype}: "
            "weights stay float32 here; use `paddle.static.amp` to compute in half precision"
        )


class SGD(Optimizer, descent.SGDOptimizer):
    """Gradient descent: param - learning_rate * grad."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        self._two_precisions = multi_precision
        Optimizer.__init__(self, learning_rate, parameters, weight_decay, grad_clip, name)


class Momentum(Optimizer, descent.MomentumOptimizer):
    """Descent along velocity = momentum * velocity + rescale_grad * grad; with `use_nesterov`, along grad +
    momentum * velocity. The op itself adds an L2 weight decay to the gradient.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        momentum: float = 0.9,
        parameters: Parameters = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        require("Momentum", momentum=momentum)
        self._two_precisions = multi_precision
        if not rescale_grad:
            raise ArgumentError(f"rescale_grad is {rescale_grad}: no gradient would be left to train with")
        decay = regulariser_of(weight_decay)
        inside = isinstance(decay, L2Decay)
        Optimizer.__init__(self, learning_rate, parameters, None if inside else decay, grad_clip, name)
        self._momentum, self._use_nesterov = momentum, bool(use_nesterov)
        self._rescale_grad = float(rescale_grad)
        self._decay_inside = decay._regularization_coeff if inside else 0.0

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        own = param_and_grad[0].regularizer is not None  # then its op stands before the update
        attrs: dict[str, Any] = {
            "mu": self._momentum,
            "use_nesterov": self._use_nesterov,
            "rescale_grad": self._rescale_grad,
        }
        decays = bool(self._decay_inside) and not own
        attrs["regularization_method"] = "l2_decay" if decays else ""
        attrs["regularization_coeff"] = self._decay_inside if decays else 0.0
        return self._append_update(block, param_and_grad, {"Velocity": self._velocity_acc_str}, attrs)


class Adam(Optimizer, adaptive.AdamOptimizer):
    """Adam (Kingma and Ba, 2015); `lazy_mode` moves only the rows that a sparse gradient has."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float = 1e-8,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        self._two_precisions = multi_precision
        _check_betas(beta1, beta2, epsilon)
        Optimizer.__init__(self, learning_rate, parameters, weight_decay, grad_clip, name)
        self._beta1, self._beta2, self._epsilon, self._lazy_mode = beta1, beta2, epsilon, lazy_mode


def _check_betas(beta1: Any, beta2: Any, epsilon: float) -> None:
    for name, beta in (("beta1", beta1), ("beta2", beta2)):
        if not isinstance(beta, Variable) and not 0 <= beta < 1:
            raise ValueError(f"Invaild value of {name}, expect {name} in [0,1), but got {beta}.")
    if epsilon < 0:
        raise ValueError(f"Invaild value of epsilon, expect epsilon >= 0, but got {epsilon}.")


class AdamW(Optimizer, adaptive.AdamOptimizer):
    """Adam with a weight decay that does not go through the moments (Loshchilov and Hutter, 2019).

    lr_ratio: called with a parameter, gives the factor of its learning rate. apply_decay_param_fun: called
    with its name, says whether it decays.
    """

    type = "adamw"

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float | Variable = 0.9,
        beta2: float | Variable = 0.999,
        epsilon: float = 1e-8,
        parameters: Parameters = None,
        weight_decay: float = 0.01,
        lr_ratio: Callable[[Any], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        self._two_precisions = multi_precision
        _check_betas(beta1, beta2, epsilon)
        if not isinstance(weight_decay, (float, int)):
            raise TypeError("weight_decay should be float.")
        Optimizer.__init__(self, learning_rate, parameters, None, grad_clip, name)
        self._beta1, self._beta2, self._epsilon, self._lazy_mode = beta1, beta2, epsilon, lazy_mode
        self._coeff, self._lr_ratio = float(weight_decay), lr_ratio
        self._apply_decay_param_fun = apply_decay_param_fun

    def _attributes_of(self, param: Any) -> dict[str, Any]:
        choose = self._apply_decay_param_fun
        return {
            "with_decay": choose is None or bool(choose(param.name)),
            "coeff": self._coeff,
            "lr_ratio": 1.0 if self._lr_ratio is None else float(self._lr_ratio(param)),
        }


class Adamax(Optimizer, adaptive.AdamaxOptimizer):
    """Adam with the largest gradient so far in place of the second moment."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        _check_betas(beta1, beta2, epsilon)
        Optimizer.__init__(self, learning_rate, parameters, weight_decay, grad_clip, name)
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon


class Adagrad(Optimizer, adaptive.AdagradOptimizer):
    """Descent by grad / (sqrt(sum of squared gradients) + epsilon) (Duchi et al., 2011)."""

    def __init__(
        self,
        learning_rate: Rate,
        epsilon: float = 1e-6,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        Optimizer.__init__(self, learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon, self.initial_accumulator_value = epsilon, initial_accumulator_value


class Adadelta(Optimizer, adaptive.AdadeltaOptimizer):
    """Steps as large as the running average of the steps so far (Zeiler, 2012), times the learning rate."""

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        epsilon: float = 1e-6,
        rho: float = 0.95,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        Optimizer.__init__(self, learning_rate, parameters, weight_decay, grad_clip, name)
        self._epsilon, self._rho = epsilon, rho

    def _append_update(
        self,
        block: Block,
        param_and_grad: tuple[Any, Any],
        accumulators: Mapping[str, str],
        attrs: Mapping[str, Any] | None = None,
        learning_rate: bool = True,
        extra: Mapping[str, Variable] | None = None,
    ) -> Operator:
        """Append the op `adadelta`, which has a learning rate in 2.x."""
        return super()._append_update(block, param_and_grad, accumulators, attrs, True, extra)


class RMSProp(Optimizer, adaptive.RMSPropOptimizer):
    """Descent by grad / sqrt(running average of grad ** 2 + epsilon); `centered` subtracts the squared
    average gradient.
    """

    def __init__(
        self,
        learning_rate: Rate,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Parameters = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        if not (rho >= 0 and epsilon >= 0 and momentum >= 0):
            raise ValueError(f"rho, epsilon and momentum must not be negative: {rho}, {epsilon}, {momentum}")
        Optimizer.__init__(self, learning_rate, parameters, weight_decay, grad_clip, name)
        self._rho, self._epsilon, self._momentum, self._centered = rho, epsilon, momentum, centered


class Lamb(Optimizer, adaptive.LambOptimizer):
    """Adam with weight decay, its step scaled to the norm of the parameter (You et al., 2019).

    exclude_from_weight_decay_fn: called with a parameter, says whether its weight decay is 0.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameters: Parameters = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        self._two_precisions = multi_precision
        Optimizer.__init__(self, learning_rate, parameters, None, grad_clip, name)
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon
        self._weight_decay, self._always_adapt = lamb_weight_decay, always_adapt
        self._exclude_from_weight_decay_fn = exclude_from_weight_decay_fn

    def _append_update(
        self,
        block: Block,
        param_and_grad: tuple[Any, Any],
        accumulators: Mapping[str, str],
        attrs: Mapping[str, Any] | None = None,
        learning_rate: bool = True,
        extra: Mapping[str, Variable] | None = None,
    ) -> Operator:
        """Append the op `lamb`, which advances the powers of its betas itself in 2.x."""
        advanced = {slot.removesuffix(">"): name for slot, name in accumulators.items()}
        own = {**(attrs or {}), "always_adapt": self._always_adapt}
        return super()._append_update(block, param_and_grad, advanced, own, learning_rate, extra)
