"""An optimizer around another one: the program computes in half precision, and the loss is scaled so that
small gradients do not vanish there (Micikevicius et al., Mixed Precision Training, 2018).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from fluidlite.contrib.mixed_precision.fp16_utils import (
    rewrite_program,
    update_loss_scaling,
    update_role_var_grad,
)
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.layers.arithmetic.reduce import reduce_sum
from fluidlite.layers.flow.conditional import Switch
from fluidlite.layers.tensor import isfinite
from fluidlite.layers.tensors.constants import fill_constant, zeros_like
from fluidlite.layers.tensors.variables import assign, concat, create_global_var
from fluidlite.optimizer.base import Optimizer, ParamsGrads

__all__ = ["AutoMixedPrecisionLists", "OptimizerWithMixedPrecision", "decorate"]

_HALVES = (VarType.FP16, VarType.BF16)


class OptimizerWithMixedPrecision:
    """`optimizer` for a program that `minimize` rewrites to half precision; made by `decorate`.

    Parameters and their updates stay in single precision.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        amp_lists: AutoMixedPrecisionLists,
        init_loss_scaling: float,
        use_dynamic_loss_scaling: bool,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int,
        incr_ratio: float,
        decr_ratio: float,
        dtype: VarType = VarType.FP16,
        only: str = "",
    ) -> None:
        self._optimizer = optimizer
        self._amp_lists = amp_lists
        self._dtype = dtype
        self._only = only
        self._param_grads: Any = None
        self._train_program = default_main_program()
        self._startup_prog: Program | None = None
        self._scaled_loss: Variable | None = None
        self._loss_scaling = _state("loss_scaling", init_loss_scaling, "float32")
        self._use_dynamic_loss_scaling = use_dynamic_loss_scaling
        if use_dynamic_loss_scaling:
            self._incr_every_n_steps = self._count(incr_every_n_steps)
            self._decr_every_n_nan_or_inf = self._count(decr_every_n_nan_or_inf)
            self._incr_ratio = incr_ratio
            self._decr_ratio = decr_ratio
            self._num_good_steps = _state("num_good_steps", 0, "int32")
            self._num_bad_steps = _state("num_bad_steps", 0, "int32")
        # fluid declares the rate here, so the startup program sets it before any accumulator
        optimizer._create_global_learning_rate()

    def _count(self, steps: int) -> Any:
        """A number of steps as the update of the scale reads it: a variable of shape [1]."""
        return fill_constant(shape=[1], dtype="int32", value=steps)

    def get_loss_scaling(self) -> Variable:
        """The variable of shape [1] that holds the scale of the loss."""
        return self._loss_scaling

    def get_scaled_loss(self) -> Variable | None:
        """The loss times its scale; None before `backward`."""
        return self._scaled_loss

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
        callbacks: list[Any] | None = None,
    ) -> ParamsGrads:
        """Rewrite the program and append its backward pass; gives pairs of parameter and gradient, the scale
        taken off.
        """
        self._train_program = loss.block.program
        self._startup_prog = startup_program
        rewrite_program(self._train_program, self._amp_lists, self._dtype, self._only)
        self._scaled_loss = self._scaled(loss)
        self._param_grads = self._optimizer.backward(
            self._scaled_loss, startup_program, parameter_list, no_grad_set, callbacks
        )
        update_role_var_grad(self._train_program, self._param_grads)
        return self._unscaled(self._param_grads)

    def _scaled(self, loss: Variable) -> Variable:
        """The loss times its scale."""
        product: Variable = loss * self._loss_scaling
        return product

    def _unscaled(self, params_grads: ParamsGrads) -> ParamsGrads:
        """Pairs of parameter and gradient, the scale taken off."""
        found: list[Any] = []
        for param, grad in params_grads:
            with self._train_program._optimized_guard([param, grad]):
                found.append([param, grad / self._loss_scaling])
        return found

    def apply_gradients(self, scaled_params_grads: ParamsGrads) -> list[Operator]:
        """Append the update of the scale, where that is dynamic, and those of the parameters; gives the
        latter.

        In a step whose gradients are not finite the parameters' updates see zeros.
        """
        if self._use_dynamic_loss_scaling:
            sums = [reduce_sum(grad) for _, grad in scaled_params_grads]
            is_finite = isfinite(reduce_sum(concat(sums)))
            update_loss_scaling(
                is_finite,
                self._loss_scaling,
                self._num_good_steps,
                self._num_bad_steps,
                self._incr_every_n_steps,
                self._decr_every_n_nan_or_inf,
                self._incr_ratio,
                self._decr_ratio,
            )
            _zero_unless(is_finite, [grad for _, grad in scaled_params_grads])
        return self._optimizer.apply_gradients(scaled_params_grads)

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> tuple[list[Operator], ParamsGrads]:
        """`backward` and `apply_gradients`; gives (update ops, pairs of parameter and gradient)."""
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_gradients(pairs), pairs


def _state(name: str, value: float, dtype: str) -> Variable:
    """A variable of shape [1] that lives from step to step."""
    return create_global_var(
        name=unique_name.generate(name), shape=[1], value=value, dtype=dtype, persistable=True
    )


def _zero_unless(is_finite: Variable, grads: list[Variable]) -> None:
    """Append the branch that sets gradients to zero."""
    with Switch() as switch:
        with switch.case(is_finite):  # nothing to do: the block is there because fluid's program has it
            pass
        with switch.default():
            for grad in grads:
                assign(zeros_like(grad), grad)


def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 2**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    dtype: DTypeLike = VarType.FP16,
) -> OptimizerWithMixedPrecision:
    """`optimizer` for training in half precision.

    Parameters
    ----------
    amp_lists: which ops compute in which precision (default: the standard lists).
    init_loss_scaling: the factor of the loss, at first or, without `use_dynamic_loss_scaling`, always.
    incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio: see `update_loss_scaling`.
    dtype: the half precision, "float16" or "bfloat16" (an addition to fluid's; that has the range of single
        precision, so that 1 without dynamic scaling does for the loss).
    """
    half = to_vartype(dtype)
    if half not in _HALVES:
        raise ValueError(f"dtype has to be 'float16' or 'bfloat16', not {dtype!r}")
    return OptimizerWithMixedPrecision(
        optimizer,
        AutoMixedPrecisionLists() if amp_lists is None else amp_lists,
        init_loss_scaling,
        use_dynamic_loss_scaling,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
        half,
    )
