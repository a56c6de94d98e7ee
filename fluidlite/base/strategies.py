"""Options of compiling, running and distributing a program, under fluid's names."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from fluidlite.base.errors import EnforceNotMet, NotFoundError, did_you_mean

__all__ = [
    "BuildStrategy",
    "DistributedMode",
    "ExecutionStrategy",
    "GradientScaleStrategy",
    "ReduceStrategy",
    "ignored",
]


class _Choice(enum.IntEnum):
    """A choice that programs print: as `ReduceStrategy.AllReduce`, not as a number."""

    __str__ = enum.Enum.__str__


class ReduceStrategy(_Choice):
    """Ways of bringing gradients together."""

    AllReduce = 0
    Reduce = 1
    _NoReduce = 2


class GradientScaleStrategy(_Choice):
    """Values that the loss gradient of each device starts from."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


class DistributedMode(enum.IntEnum):
    """The attribute `distributed_mode` of `listen_and_serv`: how servers and trainers keep in step."""

    SYNC = 0
    ASYNC = 1
    HALF_ASYNC = 2
    GEO = 3


class _Options:
    """Options by name; each keeps the type of its default (a switch takes any number for a boolean)."""

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        for name, value in self._DEFAULTS.items():
            super().__setattr__(name, copy(value))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{did_you_mean(name, self._DEFAULTS)}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._DEFAULTS:
            self.__getattr__(name)
        kind = type(self._DEFAULTS[name])
        if kind is bool and (value is None or isinstance(value, (int, np.bool_))):
            value = bool(value)
        elif kind is int and isinstance(value, np.integer):
            value = int(value)
        elif name == "memory_optimize" and value not in (None, True, False):
            raise EnforceNotMet("BuildStrategy.memory_optimize must be set to None, False or True")
        elif kind not in (type(None), set) and not isinstance(value, kind):
            raise TypeError(f"{type(self).__name__}.{name} is of type {kind.__name__}, not {value!r}")
        super().__setattr__(name, value)
        self.__dict__.get("_unasked", set()).discard(name)

    def set_unasked(self, **values: Any) -> None:
        """Set options as a mode wants them: the user has not asked for them."""
        for name, value in values.items():
            setattr(self, name, value)
        self.__dict__["_unasked"] = values.keys() | self.__dict__.get("_unasked", set())


def _passes_of(strategy: BuildStrategy) -> list[str]:
    """The passes that 1.8.5 would go through, by the options that decide about each."""
    one_update_each = strategy.reduce_strategy == ReduceStrategy.Reduce
    mode = "reduce_mode" if one_update_each else "all_reduce_mode"
    mode = "dist" if strategy.is_distribution else mode
    mode = "async" if strategy.async_mode else mode
    summed = mode == "all_reduce_mode"
    trainers = strategy.num_trainers > 1
    drawn = bool(strategy.debug_graphviz_path)
    rows = (
        ("graph_viz", drawn),
        ("sequential_execution", strategy.enable_sequential_execution),
        ("sync_batch_norm", strategy.sync_batch_norm),
        ("fuse_relu_depthwise_conv", strategy.fuse_relu_depthwise_conv),
        ("fuse_bn_act", strategy.fuse_bn_act_ops),
        ("fuse_elewise_add_act", strategy.fuse_elewise_add_act_ops),
        ("coalesce_grad_tensor", summed and strategy.fuse_all_reduce_ops),
        ("fuse_adam_op", summed and strategy.fuse_all_optimizer_ops),
        ("fuse_sgd_op", summed and strategy.fuse_all_optimizer_ops),
        ("fuse_momentum_op", summed and strategy.fuse_all_optimizer_ops),
        ("graph_viz", drawn),
        ("add_reader_dependency", True),
        (f"{mode}_multi_devices", True),
        ("fuse_all_reduce_op", summed and strategy.fuse_all_reduce_ops),
        ("multi_devices_print", drawn),
        ("all_reduce_deps", not one_update_each or (trainers and not strategy.enable_sequential_execution)),
        (
            "backward_optimizer_op_deps",
            trainers and strategy.enable_backward_optimizer_op_deps and mode.endswith("_mode"),
        ),
        ("runtime_context_cache", strategy.cache_runtime_context),
        ("modify_op_lock_and_record_event", strategy.remove_unnecessary_lock),
        ("multi_devices_check", True),
    )
    return [f"{name}_pass" for name, wanted in rows if wanted]


_KNOWN_PASSES = frozenset(
    f"{name}_pass"
    for name in (
        "add_reader_dependency",
        "all_reduce_deps",
        "all_reduce_mode_multi_devices",
        "async_multi_devices",
        "backward_optimizer_op_deps",
        "coalesce_grad_tensor",
        "dist_multi_devices",
        "fuse_adam_op",
        "fuse_all_reduce_op",
        "fuse_bn_act",
        "fuse_elewise_add_act",
        "fuse_momentum_op",
        "fuse_relu_depthwise_conv",
        "fuse_sgd_op",
        "graph_viz",
        "lock_free_optimize",
        "modify_op_lock_and_record_event",
        "multi_batch_merge",
        "multi_devices_check",
        "multi_devices_print",
        "reduce_mode_multi_devices",
        "runtime_context_cache",
        "sequential_execution",
        "sync_batch_norm",
    )
)


class Pass:
    """A step of compiling in fluid's words. Of those that a user can add, `graph_viz_pass` does something:
    it draws the program.
    """

    def __init__(self, name: str) -> None:
        if name not in _KNOWN_PASSES:
            raise NotFoundError(f"Pass {name} has not been registered{did_you_mean(name, _KNOWN_PASSES)}")
        self._name = name
        self.attributes: dict[str, Any] = {}

    def type(self) -> str:
        """Its name."""
        return self._name

    def has(self, name: str) -> bool:
        """True if an attribute is set."""
        return name in self.attributes

    def set(self, name: str, value: Any) -> None:
        """Set an attribute, such as `graph_viz_path`."""
        self.attributes[name] = value

    set_not_owned = set


class PassBuilder:
    """The list of passes of a BuildStrategy."""

    def __init__(self, names: Sequence[str]) -> None:
        self._passes = [Pass(name) for name in names]

    def all_passes(self) -> list[Pass]:
        """The passes, in order."""
        return list(self._passes)

    def append_pass(self, name: str) -> Pass:
        """Add a pass at the end; NotFoundError for an unknown one."""
        return self.insert_pass(len(self._passes), name)

    def insert_pass(self, index: int, name: str) -> Pass:
        """Add a pass in front of number `index`."""
        if not 0 <= index <= len(self._passes):
            raise EnforceNotMet(
                f"cannot insert pass {name} at index {index}: there are {len(self._passes)} passes"
            )
        made = Pass(name)
        self._passes.insert(index, made)
        return made

    def remove_pass(self, index: int) -> None:
        """Remove pass number `index`."""
        if not 0 <= index < len(self._passes):
            raise EnforceNotMet(f"there is no pass with index {index}: there are {len(self._passes)} passes")
        del self._passes[index]


class BuildStrategy(_Options):
    """Options of compiling, under fluid's names; those that a generated plan makes meaningless change
    nothing.
    """

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy
    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "reduce_strategy": ReduceStrategy.AllReduce,
        "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "num_trainers": 1,
        "trainer_id": 0,
        "trainers_endpoints": [],
        "is_distribution": False,
        "async_mode": False,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
        "sync_batch_norm": False,
        "fuse_elewise_add_act_ops": False,
        "fuse_bn_act_ops": False,
        "fuse_relu_depthwise_conv": False,
        "fuse_broadcast_ops": True,
        "fuse_all_optimizer_ops": False,
        "fuse_all_reduce_ops": True,
        "enable_auto_fusion": False,
        "memory_optimize": None,
        "enable_inplace": True,
        "cache_runtime_context": False,
        "remove_unnecessary_lock": True,
        "enable_sequential_execution": False,
        "enable_backward_optimizer_op_deps": True,
        "debug_graphviz_path": "",
        "mkldnn_enabled_op_types": set(),
    }

    # these decide about the passes, which are made once
    _BEFORE_PASSES = frozenset(
        (
            "reduce_strategy",
            "gradient_scale_strategy",
            "debug_graphviz_path",
            "enable_sequential_execution",
            "remove_unnecessary_lock",
            "fuse_elewise_add_act_ops",
            "fuse_bn_act_ops",
            "fuse_relu_depthwise_conv",
            "fuse_broadcast_ops",
            "fuse_all_optimizer_ops",
            "sync_batch_norm",
            "enable_auto_fusion",
        )
    )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._BEFORE_PASSES and self.__dict__.get("_passes") is not None:
            raise EnforceNotMet(f"BuildStrategy.{name} cannot be set any more: the strategy is finalized")
        super().__setattr__(name, value)

    def _finalize_strategy_and_create_passes(self) -> PassBuilder:
        """The passes that compiling goes through, by fluid's names; what they depend on is fixed then."""
        if self.__dict__.get("_passes") is None:
            self.__dict__["_passes"] = PassBuilder(_passes_of(self))
        found: PassBuilder = self.__dict__["_passes"]
        return found

    def drawings(self) -> list[str]:
        """The file into which the user wants images of the program."""
        passes = self.__dict__.get("_passes")
        wanted = passes.all_passes() if passes is not None else []
        more = [
            str(item.attributes["graph_viz_path"])
            for item in wanted
            if item.type() == "graph_viz_pass" and item.has("graph_viz_path")
        ]
        return ([self.debug_graphviz_path] if self.debug_graphviz_path else []) + more


class ExecutionStrategy(_Options):
    """Options of running, under fluid's names."""

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "num_threads": 0,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "use_thread_barrier": False,
        "allow_op_delay": False,
        "use_cuda": True,
        "use_experimental_executor": True,
        "_dry_run": False,
    }


# options that say how Paddle's executor should do what a generated plan does anyway, or has no use for; their
# defaults ask for nothing
_MEANINGLESS = {
    "enable_sequential_execution": "a plan runs its ops in program order",
    "remove_unnecessary_lock": "plans take no locks",
    "cache_runtime_context": "plans resolve all variables when they are made",
    "fuse_broadcast_ops": "the devices of a process share read-only memory",
    "fuse_all_optimizer_ops": "updates of one kind are fused where that pays",
    "fuse_elewise_add_act_ops": "element-wise ops are fused where that pays",
    "fuse_bn_act_ops": "element-wise ops are fused where that pays",
    "fuse_relu_depthwise_conv": "element-wise ops are fused where that pays",
    "enable_auto_fusion": "element-wise ops are fused where that pays",
    "enable_inplace": "buffers are shared by liveness, always",
    "memory_optimize": "buffers are shared by liveness, always",
    "enable_backward_optimizer_op_deps": "a plan runs its ops in program order",
    "nccl_comm_num": "one synchronisation of the devices serves all reductions",
    "use_hierarchical_allreduce": "the devices of a process are summed first, and then those of the "
    "processes, always",
    "hierarchical_allreduce_inter_nranks": "the devices of a process are summed first, and then those of the "
    "processes, always",
    "mkldnn_enabled_op_types": "there is one implementation of each op",
    "num_threads": "each device has one thread",
    "num_iteration_per_drop_scope": "buffers belong to the plan, and drop_local_exe_scopes() frees them",
    "use_thread_barrier": "devices always synchronise at barriers",
    "allow_op_delay": "a plan runs its ops in program order",
    "use_experimental_executor": "there is one executor",
}


def ignored(strategy: BuildStrategy | ExecutionStrategy) -> dict[str, str]:
    """The options that the user has set to something but change nothing, each with the reason."""
    options = strategy._DEFAULTS.keys() - vars(strategy).get("_unasked", ())
    return {
        name: reason
        for name, reason in _MEANINGLESS.items()
        if name in options and getattr(strategy, name) != strategy._DEFAULTS[name]
    }
