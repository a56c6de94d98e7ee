"""`CompiledProgram` and its strategies: how a program is compiled for one or more devices."""
from __future__ import annotations

import enum
import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar

import numpy as np

from fluidlite.errors import EnforceNotMet, did_you_mean
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.place import CUDAPlace, cpu_places, cuda_places, is_compiled_with_cuda

__all__ = ["BuildStrategy", "CompiledProgram", "ExecutionStrategy", "ParallelExecutor"]


class ReduceStrategy(enum.IntEnum):
    """How gradients come together."""

    AllReduce = 0
    Reduce = 1
    _NoReduce = 2


class GradientScaleStrategy(enum.IntEnum):
    """What the loss gradient of each device starts from."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


class _Options:
    """Options by name; each keeps the type of its default (a switch takes any number for a truth value)."""

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        for name, value in self._DEFAULTS.items():
            super().__setattr__(name, copy(value))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{did_you_mean(name, self._DEFAULTS)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._DEFAULTS:
            self.__getattr__(name)
        kind = type(self._DEFAULTS[name])
        if kind is bool and (value is None or isinstance(value, (int, np.bool_))):
            value = bool(value)
        elif kind is int and isinstance(value, np.integer):
            value = int(value)
        elif kind not in (type(None), set) and not isinstance(value, kind):
            raise TypeError(f"{type(self).__name__}.{name} is of type {kind.__name__}, not {value!r}")
        super().__setattr__(name, value)


class BuildStrategy(_Options):
    """Options of compiling, under fluid's names; those that a generated plan makes meaningless change nothing."""

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy
    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "reduce_strategy": ReduceStrategy.AllReduce, "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "num_trainers": 1, "trainer_id": 0, "trainers_endpoints": [], "is_distribution": False, "async_mode": False,
        "nccl_comm_num": 1, "use_hierarchical_allreduce": False, "hierarchical_allreduce_inter_nranks": 0, "sync_batch_norm": False,
        "fuse_elewise_add_act_ops": False, "fuse_bn_act_ops": False, "fuse_relu_depthwise_conv": False, "fuse_broadcast_ops": True,
        "fuse_all_optimizer_ops": False, "fuse_all_reduce_ops": True, "enable_auto_fusion": False,
        "memory_optimize": None, "enable_inplace": True, "cache_runtime_context": False, "remove_unnecessary_lock": True,
        "enable_sequential_execution": False, "enable_backward_optimizer_op_deps": True,
        "debug_graphviz_path": "", "mkldnn_enabled_op_types": set(),
    }


class ExecutionStrategy(_Options):
    """Options of running, under fluid's names."""

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "num_threads": 0, "num_iteration_per_drop_scope": 100, "num_iteration_per_run": 1, "use_thread_barrier": False,
        "allow_op_delay": False, "use_cuda": True, "use_experimental_executor": True,
    }


class CompiledProgram:
    """A program with the options of its compiling; `Executor.run` takes it where it takes a Program."""

    def __init__(self, program_or_graph: Any, build_strategy: BuildStrategy | None = None) -> None:
        if not isinstance(program_or_graph, Program):
            raise TypeError(f"The type of program_to_graph parameter is wrong, expected Program, but received {type(program_or_graph)}")
        self._program = program_or_graph
        self._build_strategy = build_strategy or BuildStrategy()
        self._exec_strategy = ExecutionStrategy()
        self._is_data_parallel = False
        self._is_inference = False
        self._loss_name: str | None = None
        self._places: list[Any] | None = None
        self._share_vars_from: CompiledProgram | None = None
        self._scope: Any = None                     # scope and place of the first run, to which it is bound
        self._place: Any = None

    def with_data_parallel(self, loss_name: str | None = None, build_strategy: BuildStrategy | None = None,
                           exec_strategy: ExecutionStrategy | None = None, share_vars_from: CompiledProgram | None = None,
                           places: Any = None) -> CompiledProgram:
        """Split each batch over `places` (default: all CUDA devices, or CPU_NUM CPU devices) and average the gradients."""
        if self._is_data_parallel:
            raise AssertionError("Already compiled with parallel, cannot be recompiled.")
        if self._is_inference:
            raise AssertionError("Cannot compile with both data parallel and inference.")
        self._is_data_parallel = True
        self._loss_name = loss_name.name if isinstance(loss_name, Variable) else loss_name
        self._build_strategy = build_strategy or self._build_strategy
        self._exec_strategy = exec_strategy or self._exec_strategy
        self._share_vars_from = share_vars_from
        if places is not None:
            self._places = list(places) if isinstance(places, (list, tuple)) else [places]
        return self

    def with_inference_optimize(self, config: Any) -> CompiledProgram:
        """Mark the program as one that only infers; plans need no further advice."""
        if self._is_data_parallel:
            raise AssertionError("Cannot compile with both data parallel and inference.")
        self._is_inference = True
        return self

    _with_inference_optimize = with_inference_optimize

    def devices(self, place: Any) -> list[Any]:
        """The places that this program runs on when the executor's is `place`."""
        if not self._is_data_parallel:
            return [place]
        if self._places is not None:
            return self._places
        return list(cuda_places()) if isinstance(place, CUDAPlace) else list(cpu_places())

    def _run(self, executor: Any, feed: Any, fetch_list: Any, scope: Any, return_numpy: bool, return_merged: bool) -> list[Any]:
        devices = self.devices(executor.place)
        if len(devices) != 1:
            raise EnforceNotMet(f"data parallel runs on {len(devices)} devices are not built yet: they come with the cluster runtime; "
                                "set CPU_NUM=1 or pass one place")
        self._bind(scope, executor.place)
        result: list[Any] = executor.run(self._program, feed=feed, fetch_list=fetch_list, scope=scope, return_numpy=return_numpy)
        return result if return_merged else [[value] for value in result]


    def _bind(self, scope: Any, place: Any) -> None:
        """ValueError unless this is the first run, or one with the scope and on the place of the first."""
        if self._scope is not None and scope is not self._scope:
            raise ValueError("Cannot compile program with different scope.")
        if self._place is not None and place != self._place:
            raise ValueError("Cannot compile program with different place.")
        shared = self._share_vars_from
        if shared is not None and not shared._is_data_parallel:
            raise ValueError("The shared Program is not data parallel, cannot share variables from it.")
        if shared is not None and shared._scope is None:
            raise ValueError("The shared Program is not compiled and executed, so there is no variables to share.")
        self._scope, self._place = scope, place


class ParallelExecutor:
    """Fluid's older front door to data parallel runs: a program, an executor and a scope in one object."""

    def __init__(self, use_cuda: bool, loss_name: str | None = None, main_program: Program | None = None,
                 share_vars_from: ParallelExecutor | None = None, exec_strategy: ExecutionStrategy | None = None,
                 build_strategy: BuildStrategy | None = None, num_trainers: int = 1, trainer_id: int = 0, scope: Any = None) -> None:
        from fluidlite.executor.executor import Executor
        from fluidlite.ir.program import default_main_program
        from fluidlite.place import CPUPlace
        from fluidlite.scope import global_scope
        if use_cuda and not is_compiled_with_cuda():
            raise RuntimeError("ParallelExecutor(use_cuda=True), but there is no CUDA device")
        strategy = build_strategy or BuildStrategy()
        strategy.num_trainers, strategy.trainer_id = num_trainers, trainer_id
        self._scope = scope if scope is not None else global_scope()
        if not isinstance(share_vars_from, (ParallelExecutor, type(None))):
            raise AssertionError(f"The share_vars_from should be ParallelExecutor, not {share_vars_from!r}.")
        shared = share_vars_from._compiled if share_vars_from is not None else None
        self._compiled: CompiledProgram = CompiledProgram(main_program or default_main_program()).with_data_parallel(
            loss_name, strategy, exec_strategy, shared)
        self._executor = Executor(CUDAPlace(0) if use_cuda else CPUPlace())

    @property
    def device_count(self) -> int:
        """The number of devices that a batch is split over."""
        return len(self._compiled.devices(self._executor.place))

    def run(self, fetch_list: Any, feed: Any = None, feed_dict: Any = None, return_numpy: bool = True) -> list[Any]:
        """One step; `feed_dict` is the old name of `feed`."""
        if feed_dict is not None and feed is None:
            warnings.warn("`feed_dict` is deprecated. Please use `feed=`", stacklevel=2)
            feed = feed_dict
        result: list[Any] = self._executor.run(self._compiled, feed=feed, fetch_list=fetch_list, scope=self._scope, return_numpy=return_numpy)
        return result

    def drop_local_exe_scopes(self) -> None:
        """Forget the buffers of earlier runs."""
        self._executor._plans.clear()
