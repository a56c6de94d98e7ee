"""Learning rates that an op moves from step to step."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import AttrType, Op, Spec, required

pow2_decay = Op(
    "pow2_decay_with_linear_warmup",
    "LearningRate Step -> LearningRateOut StepOut",
    attrs={
        "warmup_steps": required(AttrType.LONG),
        "total_steps": required(AttrType.LONG),
        "base_lr": required(AttrType.FLOAT),
        "end_lr": required(AttrType.FLOAT),
    },
    lod=None,
)


@pow2_decay.shape
def _(LearningRate: Spec, Step: Spec) -> tuple[Spec, Spec]:
    return LearningRate.with_shape(LearningRate.shape), Step.with_shape(Step.shape)


@pow2_decay.kernel
def _(
    xp: Any,
    LearningRate: Array,
    Step: Array,
    warmup_steps: int,
    total_steps: int,
    base_lr: float,
    end_lr: float,
) -> tuple[Array, Array]:
    """The rate of the next step: up to `base_lr` in a line, then down to `end_lr` in a square."""
    step = Step + 1
    left = 1 - (step - warmup_steps) / max(total_steps - warmup_steps, 1)
    falling = xp.where(step < total_steps, (base_lr - end_lr) * left * left + end_lr, end_lr)
    found = xp.where(step <= warmup_steps, base_lr * step / max(warmup_steps, 1), falling)
    return found.astype(LearningRate.dtype).reshape(LearningRate.shape), step
