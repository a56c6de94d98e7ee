"""`ParallelExecutor`, the older front door to data parallel runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import CPUPlace, CUDAPlace, is_compiled_with_cuda
from fluidlite.base.strategies import BuildStrategy, ExecutionStrategy
from fluidlite.compiler import CompiledProgram
from fluidlite.executor.executor import Executor
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program, default_main_program
from fluidlite.ir.warned import warn_user
from fluidlite.values.scope import global_scope

__all__ = ["BuildStrategy", "ExecutionStrategy", "ParallelExecutor"]


class ParallelExecutor:
    """A program, an executor and a scope in one object, which runs the program on all devices."""

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Any = None,
    ) -> None:
        self._place = CUDAPlace(0) if use_cuda else CPUPlace()
        if isinstance(self._place, CUDAPlace) and not is_compiled_with_cuda():
            raise RuntimeError(
                "ParallelExecutor(use_cuda=True) needs a CUDA device, but there is none: use_cuda=False, or "
                "`fluidlite run --cpu`"
            )
        strategy = build_strategy or BuildStrategy()
        self._take_trainers(strategy, num_trainers, trainer_id)
        if not isinstance(share_vars_from, (ParallelExecutor, type(None))):
            raise AssertionError(f"The share_vars_from should be ParallelExecutor, not {share_vars_from!r}.")
        shared: CompiledProgram | None = (
            share_vars_from._compiled_program if share_vars_from is not None else None
        )
        if shared is not None:
            scope = shared._scope
        self._scope = global_scope() if scope is None else scope
        self._exe = Executor(self._place)
        self._compiled_program: CompiledProgram = CompiledProgram(
            main_program or default_main_program()
        ).with_data_parallel(loss_name, strategy, exec_strategy, shared)

    @staticmethod
    def _take_trainers(strategy: BuildStrategy, num_trainers: int, trainer_id: int) -> None:
        if num_trainers != 1 and strategy.num_trainers != num_trainers:
            if strategy.num_trainers != 1:
                warn_user(
                    f"The value of build_strategy.num_trainers[{strategy.num_trainers}] is overwritten by "
                    f"the passed "
                    f"num_trainers[{num_trainers}].",
                    category=UserWarning,
                )
            strategy.num_trainers = num_trainers
        if trainer_id != 0:
            strategy.trainer_id = trainer_id

    @property
    def device_count(self) -> int:
        """The number of devices that a batch is split over."""
        return len(self._compiled_program.devices(self._place))

    def run(
        self, fetch_list: Any, feed: Any = None, feed_dict: Any = None, return_numpy: bool = True
    ) -> list[Any]:
        """One step; `feed_dict` is the old name of `feed`."""
        if feed_dict is not None and feed is None:
            warn_user("`feed_dict` is deprecated. Please use `feed=`", category=UserWarning)
            feed = feed_dict
        result: list[Any] = self._exe.run(
            self._compiled_program,
            feed=feed,
            fetch_list=fetch_list,
            scope=self._scope,
            return_numpy=return_numpy,
        )
        return result

    def _need_create_local_exe_scopes(self) -> bool:
        """True if the buffers of earlier runs were freed, or there were none."""
        runner = self._compiled_program._runner
        return not any(
            executor._plans
            for executor in [self._exe, *(runner.devices.executors if runner is not None else ())]
        )

    def drop_local_exe_scopes(self) -> None:
        """Free the buffers of earlier runs."""
        self._exe._plans.clear()
        if self._compiled_program._runner is not None:
            self._compiled_program._runner.devices.drop()


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
