"""Parts of a strategy around an optimizer: those that apply, from the inside out, and those that do not.

The order and the conditions are those that PaddlePaddle 2.6.2 shows in the programs that it builds. It leaves
parts that do not go together out silently; here a warning names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from fluidlite.base.errors import UnsupportedError
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.optimizer import RecomputeOptimizer
from fluidlite.optimizer.adaptive import AdamOptimizer
from fluidlite.optimizer.descent import LarsMomentumOptimizer, MomentumOptimizer
from fluidlite.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from fluidlite.paddle.distributed.fleet.merging import GradientMergeOptimizer
from fluidlite.paddle.optimizer.optimizers import Adam, Lamb, Momentum, Optimizer
from fluidlite.paddle.static.amp import CustomOpLists, decorate

__all__ = ["Composition", "compose", "refuse"]

_LATER = "programs cannot be split in this way yet: use data parallelism"
_REFUSED: Mapping[str, str] = {
    "sharding": _LATER,
    "pipeline": _LATER,
    "tensor_parallel": _LATER,
    "dgc": "gradients are sent uncompressed, because no transport has a compressed all-reduce, so DGC's "
    "momentum correction has nothing to correct",
    "auto": "fleet does not choose a strategy by itself: set its fields",
    "semi_auto": "programs cannot be split by annotations",
    "auto_search": "fleet does not search for a strategy: set its fields",
    "elastic": "the number of processes of a job is fixed",
    "asp": "there are no kernels for sparse weights",
    "qat": "quantise the program with fluid.contrib.slim before calling minimize",
    "heter_ccl_mode": "all ranks of a job use the same kind of device",
    "is_fl_ps_mode": "there is no federated learning",
    "is_with_coordinator": "there is no federated learning",
    "adam_d2sum": "the servers' updates are the ops of the optimizer",
    "sync_batch_norm": "a batch norm of the program sees its rank's rows, as in 2.6.2's static programs",
}
_REFUSED_CONFIGS: Mapping[str, Mapping[str, tuple[Any, str]]] = {
    "recompute_configs": {
        "enable_offload": (False, "checkpoints are not offloaded"),
        "enable_tuning": (False, "give the names of the checkpoints"),
        "refined_ops_patterns": ([], "give the names of the checkpoints"),
    },
    "amp_configs": {"use_optimizer_fp16": (False, "updates are made in single precision")},
    "gradient_scale_configs": {
        "scale_strategy": ("avg", "gradients are always averaged, as in 2.6.2"),
        "scale_gradient": (False, "the gradient of the loss is scaled, which scales all others"),
    },
    "hybrid_configs": {
        "mp_degree": (1, _LATER),
        "pp_degree": (1, _LATER),
        "sharding_degree": (1, _LATER),
        "sep_degree": (1, _LATER),
    },
    "a_sync_configs": {
        "use_ps_gpu": (0, "servers keep tables in host memory"),
        "heter_worker_device_guard": ("cpu", "all workers use the same kind of device"),
    },
}


def refuse(strategy: DistributedStrategy) -> None:
    """UnsupportedError for what a strategy asks for and FluidLite does not have, by the name of its field."""
    for name, reason in _REFUSED.items():
        if getattr(strategy, name):
            raise UnsupportedError(f"strategy.{name} is set, but {reason}")
    for name, fields in _REFUSED_CONFIGS.items():
        for key, (accepted, reason) in fields.items():
            chosen = getattr(strategy, name)[key]
            if chosen != accepted:
                raise UnsupportedError(f"strategy.{name}[{key!r}] is {chosen!r}, but {reason}")
    if str(strategy.fs_client_param):
        raise UnsupportedError(
            "strategy.fs_client_param is set, but servers save through the file system of their machine"
        )


@dataclass
class Composition:
    """An optimizer with all that a strategy adds to it.

    applied: the parts, from the inside out, by the names of the strategy.
    dropped: parts that were asked for and do not apply -> the reason.
    """

    optimizer: Any
    checkpoints: list[str] = field(default_factory=list)
    applied: list[str] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)


def compose(
    strategy: DistributedStrategy,
    optimizer: Any,
    workers: int,
    checkpoints: list[str] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> Composition:
    """The parts of a strategy around an optimizer, without the exchange between ranks.

    checkpoints: variables to keep besides those that the strategy names; they are reason enough to recompute.
    left_out: parts that give way to the exchange -> the reason.
    """
    made = Composition(optimizer, checkpoints or [])
    for name, needed, wrap in _PARTS:
        if not getattr(strategy, name) and not (name == "recompute" and checkpoints):
            continue
        reason = (left_out or {}).get(name) or needed(strategy, made, workers)
        if reason:
            made.dropped[name] = reason
        else:
            made.optimizer = wrap(strategy, made)
            made.applied.append(name)
    return made


# ---------------------------------------------------------------------- conditions
_Reason = Callable[[DistributedStrategy, Composition, int], str]


def _inside(kinds: tuple[type, ...], words: str) -> _Reason:
    """A part that replaces the user's own optimizer, which must be exactly one of these."""

    def needed(strategy: DistributedStrategy, made: Composition, workers: int) -> str:
        if made.applied:
            return f"it replaces the optimizer, as {made.applied[-1]} does already"
        found = type(made.optimizer)
        return "" if found in kinds else f"it takes {words}, not {found.__name__}"

    return needed


def _recompute(strategy: DistributedStrategy, made: Composition, workers: int) -> str:
    named = [*strategy.recompute_configs["checkpoints"], *made.checkpoints]
    return "" if named else "recompute_configs names no checkpoints"


def _always(strategy: DistributedStrategy, made: Composition, workers: int) -> str:
    return ""


def _merge(strategy: DistributedStrategy, made: Composition, workers: int) -> str:
    steps = strategy.gradient_merge_configs["k_steps"]
    return "" if steps > 1 else f"gradient_merge_configs['k_steps'] is {steps}"


# ---------------------------------------------------------------------- parts
def _lamb(strategy: DistributedStrategy, made: Composition) -> Any:
    configs, inner = strategy.lamb_configs, made.optimizer
    return Lamb(
        learning_rate=_rate(inner),
        lamb_weight_decay=configs["lamb_weight_decay"],
        beta1=inner._beta1,
        beta2=inner._beta2,
        epsilon=inner._epsilon,
        parameters=inner._parameter_list,
        grad_clip=inner._grad_clip,
        exclude_from_weight_decay_fn=_excluding(configs["exclude_from_weight_decay"]),
        name=inner._name,
    )


def _excluding(names: list[str]) -> Callable[[Any], bool] | None:
    """True for parameters whose name ends with one of these."""
    return (lambda param: param.name.endswith(tuple(names))) if names else None


def _rate(optimizer: Any) -> Any:
    """The learning rate as its user gave it: a number, a variable, or a schedule."""
    schedule = optimizer._scheduler if isinstance(optimizer, Optimizer) else None
    return optimizer._learning_rate if schedule is None else schedule


class _Lars(Optimizer, LarsMomentumOptimizer):
    """Momentum with a learning rate for each parameter in proportion to |param| / |grad| (You et al., 2017),
    of a momentum optimizer's choices and a strategy's.
    """

    def __init__(self, inner: Any, configs: Mapping[str, Any]) -> None:
        Optimizer.__init__(
            self, 0.0, inner._parameter_list, inner.regularization, inner._grad_clip, inner._name
        )
        self._scheduler = inner._scheduler if isinstance(inner, Optimizer) else None
        self._learning_rate = inner._learning_rate
        self._momentum, self._configs = inner._momentum, configs

    def _append_optimize_op(self, block: Block, param_and_grad: tuple[Any, Any]) -> Any:
        configs = self._configs
        excluded = any(word in param_and_grad[0].name for word in configs["exclude_from_weight_decay"])
        attrs = {
            "mu": self._momentum,
            "lars_coeff": configs["lars_coeff"],
            "lars_weight_decay": 0.0 if excluded else configs["lars_weight_decay"],
            "epsilon": configs["epsilon"],
            "rescale_grad": 1.0,
        }
        return self._append_update(block, param_and_grad, {"Velocity": self._velocity_acc_str}, attrs)


def _lars(strategy: DistributedStrategy, made: Composition) -> Any:
    return _Lars(made.optimizer, strategy.lars_configs)


def _recomputing(strategy: DistributedStrategy, made: Composition) -> Any:
    outer = RecomputeOptimizer(made.optimizer)
    outer._set_checkpoints([*strategy.recompute_configs["checkpoints"], *made.checkpoints])
    return outer


def _half(strategy: DistributedStrategy, made: Composition) -> Any:
    configs = strategy.amp_configs
    lists = CustomOpLists(
        configs["custom_white_list"] or None,
        configs["custom_black_list"] or None,
        configs["custom_black_varnames"] or None,
    )
    pure = configs["use_pure_fp16"]
    outer = decorate(
        made.optimizer,
        lists,
        init_loss_scaling=configs["init_loss_scaling"],
        incr_every_n_steps=configs["incr_every_n_steps"],
        decr_every_n_nan_or_inf=configs["decr_every_n_nan_or_inf"],
        incr_ratio=configs["incr_ratio"],
        decr_ratio=configs["decr_ratio"],
        use_dynamic_loss_scaling=configs["use_dynamic_loss_scaling"],
        use_pure_fp16=pure,
        use_fp16_guard=configs["use_fp16_guard"] and pure,
    )
    outer._set_distributed(True)
    return outer


def _merging(strategy: DistributedStrategy, made: Composition) -> Any:
    configs = strategy.gradient_merge_configs
    return GradientMergeOptimizer(made.optimizer, configs["k_steps"], configs["avg"])


_Wrap = Callable[[DistributedStrategy, Composition], Any]
_PARTS: tuple[tuple[str, _Reason, _Wrap], ...] = (
    ("lamb", _inside((Adam, AdamOptimizer), "Adam"), _lamb),
    ("lars", _inside((Momentum, MomentumOptimizer), "Momentum"), _lars),
    ("recompute", _recompute, _recomputing),
    ("amp", _always, _half),
    ("gradient_merge", _merge, _merging),
)
"""Field -> why it does not apply (""), and what it puts around the optimizer; from the inside out."""
