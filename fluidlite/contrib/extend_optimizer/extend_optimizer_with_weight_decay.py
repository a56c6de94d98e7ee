"""Weight decay that is not part of the gradient, for any optimizer (AdamW)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program, name_scope
from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.elementwise import elementwise_sub
from fluidlite.layers.tensors.variables import assign
from fluidlite.optimizer.base import Optimizer, ParamsGrads

__all__ = ["DecoupledWeightDecay", "extend_with_decoupled_weight_decay"]


class DecoupledWeightDecay(Optimizer):
    """Takes `coeff` * param from each parameter before its update (Loshchilov and Hutter, 2019).

    Parameters
    ----------
    coeff: a float, or a Variable.
    apply_decay_param_fun: called with a parameter's name, returns True if it decays.
    """

    def __init__(
        self,
        coeff: float | Variable = 0.0,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(coeff, (float, Variable)):
            raise TypeError("coeff should be float or Variable.")
        self._params_name: set[str] = set()
        self._apply_decay_param_fun = apply_decay_param_fun
        self._coeff = coeff
        super().__init__(**kwargs)

    def _scale_parameters(self, params_and_grads: ParamsGrads) -> list[tuple[Any, Any, Any]]:
        """Append coeff * param for each parameter that decays."""
        if isinstance(self._coeff, float) and self._coeff == 0.0:
            return []
        scaled = []
        for param, grad in params_and_grads:
            if grad is None or (
                self._apply_decay_param_fun is not None and not self._apply_decay_param_fun(param.name)
            ):
                continue
            self._check_type(param)
            with param.block.program._optimized_guard([param, grad]), name_scope("weight decay"):
                scaled.append((param, grad, param * self._coeff))
            self._params_name.add(param.name)
        return scaled

    def _check_type(self, param: Any) -> None:
        wanted = VarType.FP32 if isinstance(self._coeff, float) else self._coeff.dtype
        if param.dtype != wanted:
            raise TypeError(
                f"the type of coeff ({wanted}) and of parameter {param.name} ({param.dtype}) is not "
                f"consistent."
            )

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> tuple[Any, ParamsGrads]:
        """Append backward pass, decay and updates; gives (update ops, pairs of parameter and gradient)."""
        params_grads = self.backward(loss, startup_program, parameter_list, no_grad_set)
        for param, grad, scaled in self._scale_parameters(params_grads):
            with param.block.program._optimized_guard([param, grad]), name_scope("weight decay"):
                assign(input=elementwise_sub(x=param, y=scaled), output=param)
        return self.apply_optimize(loss, startup_program, params_grads), params_grads

    def __str__(self) -> str:
        return f"Weight Decay, params: {','.join(sorted(self._params_name))}"


def extend_with_decoupled_weight_decay(base_optimizer: type[Optimizer]) -> type[Optimizer]:
    """A subclass of `base_optimizer` with decoupled weight decay: `extend_with_decoupled_weight_decay(Adam)`
    is AdamW.

    Its constructor takes `weight_decay`, `apply_decay_param_fun`, and what `base_optimizer` takes, by
    keyword.
    """
    if not (isinstance(base_optimizer, type) and issubclass(base_optimizer, Optimizer)):
        raise TypeError("The input(base_optimizer) should be a derived class of Optimizer.")

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecay, base_optimizer):  # type: ignore[misc,valid-type]
        """`base_optimizer` with decoupled weight decay."""

        def __init__(
            self,
            weight_decay: float | Variable,
            apply_decay_param_fun: Callable[[str], bool] | None = None,
            **kwargs: Any,
        ) -> None:
            super().__init__(weight_decay, apply_decay_param_fun, **kwargs)

    return OptimizerWithDecoupledWeightDecay


globals().update(guarded(__name__, __all__))
