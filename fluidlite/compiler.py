"""`CompiledProgram` and its strategies: how a program is compiled for one or more devices."""
from __future__ import annotations

import enum
import warnings
from typing import Any

from fluidlite.errors import EnforceNotMet
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


class BuildStrategy:
    """Options of compiling, under fluid's names; those that a generated plan makes meaningless change nothing."""

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy

    def __init__(self) -> None:
        self.reduce_strategy = ReduceStrategy.AllReduce
        self.gradient_scale_strategy = GradientScaleStrategy.CoeffNumDevice
        self.debug_graphviz_path = ""
        self.enable_sequential_execution = False
        self.remove_unnecessary_lock = True
        self.num_trainers = 1
        self.trainer_id = 0
        self.trainers_endpoints: list[str] = []
        self.fuse_elewise_add_act_ops = False
        self.fuse_bn_act_ops = False
        self.fuse_relu_depthwise_conv = False
        self.fuse_broadcast_ops = False
        self.fuse_all_optimizer_ops = False
        self.fuse_all_reduce_ops = True
        self.sync_batch_norm = False
        self.memory_optimize: bool | None = None
        self.enable_inplace = True
        self.enable_auto_fusion = False
        self.cache_runtime_context = False
        self.async_mode = False
        self.nccl_comm_num = 1
        self.use_hierarchical_allreduce = False
        self.hierarchical_allreduce_inter_nranks = 0
        self.mkldnn_enabled_op_types: set[str] = set()


class ExecutionStrategy:
    """Options of running, under fluid's names."""

    def __init__(self) -> None:
        self.num_threads = 0
        self.num_iteration_per_drop_scope = 100
        self.num_iteration_per_run = 1
        self.use_thread_barrier = False
        self.allow_op_delay = False
        self.use_experimental_executor = False
        self.dry_run = False


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

    def with_data_parallel(self, loss_name: str | None = None, build_strategy: BuildStrategy | None = None,
                           exec_strategy: ExecutionStrategy | None = None, share_vars_from: CompiledProgram | None = None,
                           places: Any = None) -> CompiledProgram:
        """Split each batch over `places` (default: all CUDA devices, or CPU_NUM CPU devices) and average the gradients."""
        if self._is_data_parallel:
            raise RuntimeError("Already compiled with parallel, cannot be recompiled.")
        if self._is_inference:
            raise RuntimeError("Cannot compile with both data parallel and inference.")
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
            raise RuntimeError("Cannot compile with both data parallel and inference.")
        self._is_inference = True
        return self

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
        if self._share_vars_from is not None and not self._share_vars_from._is_data_parallel:
            raise ValueError("The shared Program is not data parallel, cannot be shared")
        result: list[Any] = executor.run(self._program, feed=feed, fetch_list=fetch_list, scope=scope, return_numpy=return_numpy)
        return result if return_merged else [[value] for value in result]


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
