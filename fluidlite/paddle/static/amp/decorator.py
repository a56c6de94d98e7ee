"""Optimizers that rewrite a 2.x program to half precision: fluid's, with 2.x's arguments and levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.base.dtypes import DTypeLike, VarType
from fluidlite.base.place import Place
from fluidlite.contrib.mixed_precision import decorator as of_fluid
from fluidlite.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists
from fluidlite.contrib.mixed_precision.fp16_utils import rewrite_program
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.layer_helper import LayerHelper
from fluidlite.layers.arithmetic.reduce import reduce_any
from fluidlite.optimizer.base import Optimizer, ParamsGrads
from fluidlite.paddle.programs import begin
from fluidlite.paddle.static.amp.fp16_lists import CustomOpLists, half_of, with_the_rest_in_half
from fluidlite.paddle.static.amp.fp16_utils import GUARD, need_level
from fluidlite.paddle.tensor.manipulation import concat
from fluidlite.values.scope import Scope

__all__ = ["OptimizerWithMixedPrecision", "decorate"]


class OptimizerWithMixedPrecision(of_fluid.OptimizerWithMixedPrecision):
    """Fluid's, with 2.x's two ops around the scale of the loss, and with the step `amp_init` that 2.x
    programs take after the startup program.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # a scale that stays 1 is left out, as in 2.6.2
        self._scales = self._use_dynamic_loss_scaling or args[2] != 1.0
        self._is_distributed = False

    def amp_init(
        self,
        place: Place | None,
        scope: Scope | None = None,
        test_program: Program | None = None,
        use_fp16_test: bool = False,
        rewrite_master_weight: bool = False,
    ) -> None:
        """Rewrite `test_program` to half precision if `use_fp16_test`.

        Parameters need nothing: they stay in single precision, and the program reads them through casts.
        """
        if use_fp16_test and test_program is not None:
            rewrite_program(test_program, self._amp_lists, self._dtype, self._only)

    def _set_distributed(self, flag: bool) -> None:
        """Look at each gradient by itself, as it comes from the other ranks."""
        self._is_distributed = flag

    def _count(self, steps: int) -> int:
        """A number of steps: an attribute of 2.x's op."""
        return steps

    def _scaled(self, loss: Variable) -> Variable:
        return super()._scaled(loss) if self._scales else loss

    def _unscaled(self, params_grads: ParamsGrads) -> ParamsGrads:
        """The same pairs: the scale is taken off where they are used, behind sums over ranks and steps."""
        return params_grads

    def apply_gradients(self, params_grads: ParamsGrads) -> list[Operator]:
        """Append the check of the gradients, which takes the scale off, the update of the scale, where that
        is dynamic, and those of the parameters; gives the latter.

        In a step whose gradients are not finite the parameters' updates see zeros.
        """
        pairs = [(param, grad) for param, grad in params_grads if grad is not None]
        if self._scales and pairs:
            found = self._check(pairs)
            if self._use_dynamic_loss_scaling:
                self._update_scale([grad for _, grad in pairs], found)
        return self._optimizer.apply_gradients(params_grads)

    def _check(self, pairs: ParamsGrads) -> Variable:
        """True if some gradient is not finite; the scale is taken off."""
        if not self._is_distributed:
            return self._check_some([grad for _, grad in pairs], [grad for _, grad in pairs])
        found = [self._check_some([grad], [param, grad]) for param, grad in pairs]
        with self._train_program._optimized_guard([]):
            return reduce_any(concat(found))

    def _check_some(self, grads: Sequence[Any], of: Sequence[Any]) -> Variable:
        with self._train_program._optimized_guard(of):
            helper = LayerHelper("find_infinite_scale", name="find_infinite_scale")
            found = helper.create_variable_for_type_inference("bool", stop_gradient=True)
            helper.append_op(
                type="check_finite_and_unscale",
                inputs={"X": grads, "Scale": self._loss_scaling},
                outputs={"Out": grads, "FoundInfinite": found},
            )
        return found

    def _update_scale(self, grads: list[Any], found: Variable) -> None:
        scale, good, bad = self._loss_scaling, self._num_good_steps, self._num_bad_steps
        with self._train_program._optimized_guard([]):
            LayerHelper("update_loss_scaling").append_op(
                type="update_loss_scaling",
                inputs={
                    "X": grads,
                    "FoundInfinite": found,
                    "PrevLossScaling": scale,
                    "InGoodSteps": good,
                    "InBadSteps": bad,
                },
                outputs={"Out": grads, "LossScaling": scale, "OutGoodSteps": good, "OutBadSteps": bad},
                attrs={
                    "incr_every_n_steps": self._incr_every_n_steps,
                    "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf,
                    "incr_ratio": self._incr_ratio,
                    "decr_ratio": self._decr_ratio,
                    "stop_update": False,
                },
            )


def _of_2_0(optimizer: Optimizer, *args: Any, **kwargs: Any) -> OptimizerWithMixedPrecision:
    """`decorate` with the arguments of 2.0: precision by switches."""

    def bind(
        amp_lists: AutoMixedPrecisionLists | None = None,
        init_loss_scaling: float = 2**15,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.8,
        use_dynamic_loss_scaling: bool = True,
        use_pure_fp16: bool = False,
        use_fp16_guard: bool | None = None,
        use_bf16: bool = False,
        use_promote: bool = False,
    ) -> OptimizerWithMixedPrecision:
        return _of_2_5(
            optimizer,
            amp_lists,
            "O2" if use_pure_fp16 else "O1",
            "bfloat16" if use_bf16 else "float16",
            init_loss_scaling=init_loss_scaling,
            incr_every_n_steps=incr_every_n_steps,
            decr_every_n_nan_or_inf=decr_every_n_nan_or_inf,
            incr_ratio=incr_ratio,
            decr_ratio=decr_ratio,
            use_dynamic_loss_scaling=use_dynamic_loss_scaling and not use_bf16,
            # without a word 2.6.2 guards the pure form alone
            use_amp_guard=use_pure_fp16 if use_fp16_guard is None else use_fp16_guard,
            use_promote=use_promote,
        )

    return bind(*args, **kwargs)


def _of_2_5(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    level: str = "O1",
    dtype: DTypeLike = "float16",
    master_weight: bool | None = None,
    master_grad: bool = False,
    init_loss_scaling: float = 2**16,
    incr_every_n_steps: int = 2000,
    decr_every_n_nan_or_inf: int = 1,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.5,
    use_dynamic_loss_scaling: bool | None = None,
    use_amp_guard: bool = False,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision:
    """`decorate` with the arguments of 2.5: precision by level and dtype."""
    need_level(level, use_promote)
    if master_weight is False:
        raise ValueError("decorate() keeps parameters in single precision: master_weight cannot be False")
    half = half_of(dtype)
    begin()
    lists = CustomOpLists(dtype=half) if amp_lists is None else amp_lists
    # bfloat16 has the range of single precision, so that 2.6.2 leaves the loss as it is
    dynamic = half == VarType.FP16 if use_dynamic_loss_scaling is None else use_dynamic_loss_scaling
    return OptimizerWithMixedPrecision(
        optimizer,
        with_the_rest_in_half(lists) if level == "O2" else lists,
        init_loss_scaling if half == VarType.FP16 else 1.0,
        dynamic,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
        half,
        GUARD if use_amp_guard else "",
    )


_OF_2_5_ALONE = frozenset({"level", "dtype", "master_weight", "master_grad", "use_amp_guard"})
_OF_2_0_ALONE = frozenset({"use_pure_fp16", "use_fp16_guard", "use_bf16"})


def decorate(optimizer: Optimizer, *args: Any, **kwargs: Any) -> OptimizerWithMixedPrecision:
    """`optimizer` for a program that `minimize` rewrites to half precision.

    Takes (optimizer, amp_lists=None, level="O1", dtype="float16", master_weight=None, master_grad=False,
    init_loss_scaling=2**16, incr_every_n_steps=2000, decr_every_n_nan_or_inf=1, incr_ratio=2.0,
    decr_ratio=0.5, use_dynamic_loss_scaling=None, use_amp_guard=False, use_promote=False), or the arguments
    of 2.0: (optimizer, amp_lists=None, init_loss_scaling=2**15, incr_every_n_steps=1000,
    decr_every_n_nan_or_inf=2, incr_ratio=2.0, decr_ratio=0.8, use_dynamic_loss_scaling=True,
    use_pure_fp16=False, use_fp16_guard=None, use_bf16=False, use_promote=False). Like 2.6.2 it takes the
    former unless a keyword of the latter, or a number in the third place, says otherwise.
    """
    is_number = len(args) > 1 and not isinstance(args[1], str)
    of_2_0 = is_number or bool(_OF_2_0_ALONE & set(kwargs))
    by_level = bool(_OF_2_5_ALONE & set(kwargs)) or (len(args) > 1 and not is_number)
    if by_level and of_2_0:
        raise TypeError(f"decorate() got arguments of two signatures: {sorted(kwargs)}")
    form: Callable[..., OptimizerWithMixedPrecision] = _of_2_0 if of_2_0 else _of_2_5
    return form(optimizer, *args, **kwargs)
