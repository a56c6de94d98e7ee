"""Updates that look at the whole parameter, and averages of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import LONG, AttrType, KernelContext, Op, Spec, required
from fluidlite.ops.kernels.minstd import minstd_normal
from fluidlite.ops.training.optimizer import dense, same_targets, written_by_2x
from fluidlite.values.tensor import SelectedRows


def _norm(xp: Any, array: Array) -> Any:
    return xp.sqrt(xp.sum(xp.square(array)))


lars = Op(
    "lars_momentum",
    "Param. Grad. Velocity. LearningRate. -> ParamOut VelocityOut",
    lod=None,
    attrs={"mu": required(AttrType.FLOAT), "lars_coeff": 0.001, "lars_weight_decay": 0.0005},
    only={"rescale_grad": 1.0, "epsilon": 0.0},
    whole=True,
)
same_targets(lars)


@lars.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Param: Array,
    Grad: Array | SelectedRows,
    Velocity: Array,
    LearningRate: Array,
    mu: float,
    lars_coeff: float,
    lars_weight_decay: float | list[float],
) -> tuple[Array, Array]:
    grad = dense(xp, Grad)
    decay = lars_weight_decay[0] if isinstance(lars_weight_decay, list) else lars_weight_decay
    param_norm = _norm(xp, Param)
    grad_norm = _norm(xp, grad)
    both = (param_norm > 0) & (grad_norm > 0)
    divisor = grad_norm + decay * param_norm + ctx.op.attrs.get("epsilon", 0.0)  # which 2.x has
    scaled = LearningRate * lars_coeff * param_norm / xp.where(both, divisor, 1)
    velocity = Velocity * mu + xp.where(both, scaled, LearningRate) * (grad + decay * Param)
    return (Param - velocity).astype(Param.dtype, copy=False), velocity.astype(Velocity.dtype, copy=False)


lamb = Op(
    "lamb",
    "Param. Grad. LearningRate. Moment1. Moment2. Beta1Pow. Beta2Pow. -> "
    "ParamOut Moment1Out Moment2Out Beta1PowOut? Beta2PowOut?",
    lod=None,
    attrs={"weight_decay": required(AttrType.FLOAT), "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6},
    whole=True,
    version=1,
)
same_targets(lamb)


@lamb.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Param: Array,
    Grad: Array | SelectedRows,
    LearningRate: Array,
    Moment1: Array,
    Moment2: Array,
    Beta1Pow: Array,
    Beta2Pow: Array,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    grad = dense(xp, Grad)
    beta1, beta2 = float(np.float32(beta1)), float(np.float32(beta2))
    m = beta1 * Moment1 + (1 - beta1) * grad
    v = beta2 * Moment2 + (1 - beta2) * grad * grad
    # 1.8 leaves out the correction of both moments, and lets a `scale` op advance the powers
    m_hat, v_hat = (m / (1 - Beta1Pow), v / (1 - Beta2Pow)) if written_by_2x(ctx.op) else (m, v)
    step = m_hat / (xp.sqrt(v_hat) + epsilon) + weight_decay * Param
    param_norm = _norm(xp, Param)
    step_norm = _norm(xp, step)
    both = (param_norm > 0) & (step_norm > 0)
    trust = xp.where(both, param_norm / xp.where(both, step_norm, 1), 1).astype(Param.dtype)
    if written_by_2x(ctx.op) and not weight_decay and not ctx.op.attrs.get("always_adapt"):
        trust = Param.dtype.type(1)  # a parameter without decay moves as with Adam
    moved = (Param - LearningRate * trust * step).astype(Param.dtype, copy=False)
    return moved, m, v, Beta1Pow * Beta1Pow.dtype.type(beta1), Beta2Pow * Beta2Pow.dtype.type(beta2)


dpsgd = Op(
    "dpsgd",
    "Param. Grad. LearningRate. -> ParamOut",
    random=True,
    lod=None,
    attrs={"clip": 10.0, "batch_size": 16.0, "sigma": 1.0, "seed": 0},
    whole=True,
)
same_targets(dpsgd)


@dpsgd.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    Param: Array,
    Grad: Array,
    LearningRate: Array,
    clip: float,
    batch_size: float,
    sigma: float,
    seed: int,
) -> Array:
    # one number for the whole parameter: the first of a pair of the polar method, which minstd_normal gives
    # second
    noise = sigma * float(minstd_normal(seed, 2)[1] if seed else ctx.rng(0).standard_normal())
    shrink = xp.maximum(_norm(xp, Grad) / clip, 1)
    moved: Array = Param - LearningRate * (Grad / shrink + noise / batch_size)
    return moved.astype(Param.dtype, copy=False)


dgc_momentum = Op(
    "dgc_momentum",
    "current_step nranks Param Grad Velocity LearningRate -> Grad_out ParamOut VelocityOut",
    lod=None,
    attrs={"mu": required(AttrType.FLOAT), "use_nesterov": False, "rampup_begin_step": -1.0},
    only={"rescale_grad": 1.0, "regularization_method": ""},
    idle=("regularization_coeff",),
)


@dgc_momentum.shape
def _(Param: Spec, Grad: Spec, Velocity: Spec) -> tuple[Spec, Spec, Spec]:
    return Grad.with_shape(Grad.shape), Param.with_shape(Param.shape), Velocity.with_shape(Velocity.shape)


@dgc_momentum.kernel
def _(
    xp: Any,
    current_step: Array,
    nranks: Array,
    Param: Array,
    Grad: Array,
    Velocity: Array,
    LearningRate: Array,
    mu: float,
    use_nesterov: bool,
    rampup_begin_step: float,
) -> tuple[Array, Array, Array]:
    """Momentum before the ramp-up; plain descent after it, when the compression keeps the velocity itself."""
    if rampup_begin_step < 0:
        return Grad, Param, Velocity
    grad = (Grad / nranks).astype(Grad.dtype, copy=False)
    compressing = current_step >= rampup_begin_step
    velocity = mu * Velocity + grad
    step = (grad + mu * velocity) if use_nesterov else velocity
    param = Param - LearningRate * xp.where(compressing, grad, step)
    return grad, param.astype(Param.dtype, copy=False), xp.where(compressing, Velocity, velocity)


# ---------------------------------------------------------------------- averages of parameters
_LONGEST_SUM = 16384  # updates after which the first sum moves into the second, for precision
_ACCUMULATED = ("sum_1", "sum_2", "sum_3", "num_accumulates", "old_num_accumulates", "num_updates")
average_accumulates = Op(
    "average_accumulates",
    " ".join(
        ["param", *("in_" + name for name in _ACCUMULATED), "->", *("out_" + name for name in _ACCUMULATED)]
    ),
    attrs={
        "average_window": 0.0,
        "max_average_window": required(AttrType.LONG),
        "min_average_window": LONG(10000),
    },
    lod=None,
)


@average_accumulates.shape
def _(
    in_sum_1: Spec,
    in_sum_2: Spec,
    in_sum_3: Spec,
    in_num_accumulates: Spec,
    in_old_num_accumulates: Spec,
    in_num_updates: Spec,
) -> tuple[Spec, ...]:
    return in_sum_1, in_sum_2, in_sum_3, in_num_accumulates, in_old_num_accumulates, in_num_updates


@average_accumulates.kernel
def _(
    xp: Any,
    param: Array,
    in_sum_1: Array,
    in_sum_2: Array,
    in_sum_3: Array,
    in_num_accumulates: Array,
    in_old_num_accumulates: Array,
    in_num_updates: Array,
    average_window: float,
    max_average_window: int,
    min_average_window: int,
) -> tuple[Array, ...]:
    updates = in_num_updates + 1
    count = in_num_accumulates + 1
    first = in_sum_1 + param
    full = updates % _LONGEST_SUM == 0
    second = xp.where(full, in_sum_2 + first, in_sum_2)
    first = xp.where(full, 0, first)
    window = xp.minimum(max_average_window, (updates * average_window).astype(updates.dtype))
    restart = (count >= min_average_window) & (count >= window)
    third = xp.where(restart, first + second, in_sum_3)
    first, second = (xp.where(restart, 0, part).astype(param.dtype) for part in (first, second))
    return (
        first,
        second,
        third.astype(param.dtype),
        xp.where(restart, 0, count),
        xp.where(restart, count, in_old_num_accumulates),
        updates,
    )
