"""`fluid.incubate.fleet.parameter_server.distribute_transpiler`: the fleet whose programs
`DistributeTranspiler` makes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fluidlite import io
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.communicator import Communicator
from fluidlite.compiler import CompiledProgram
from fluidlite.executor.executor import Executor
from fluidlite.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet
from fluidlite.incubate.fleet.base.mode import Mode
from fluidlite.incubate.fleet.base.role_maker import MPISymetricRoleMaker
from fluidlite.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    AsyncStrategy,
    DistributedStrategy,
    GeoStrategy,
    HalfAsyncStrategy,
    StrategyFactory,
    SyncStrategy,
    TrainerRuntimeConfig,
)
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.optimizer import Optimizer
from fluidlite.parallel_executor import ParallelExecutor
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from fluidlite.transpiler.distribute_transpiler import DistributeTranspiler
from fluidlite.transpiler.geo_sgd_transpiler import GeoSgdTranspiler

__all__ = [
    "AsyncStrategy",
    "DistributeTranspilerConfig",
    "DistributedMode",
    "DistributedStrategy",
    "DistributedTranspiler",
    "GeoStrategy",
    "HalfAsyncStrategy",
    "MPISymetricRoleMaker",
    "ServerRuntimeConfig",
    "StrategyFactory",
    "SyncStrategy",
    "TrainerRuntimeConfig",
    "TranspilerOptimizer",
    "fleet",
]


class DistributedTranspiler(Fleet):
    """Workers that train, and servers that keep the parameters.

    Attributes
    ----------
    main_program, startup_program: the programs of this process, from `minimize` on.
    """

    def __init__(self) -> None:
        super().__init__(Mode.TRANSPILER)
        self._transpile_config: Any = None
        self._transpiler: Any = None
        self._origin_program: Program | None = None
        self.startup_program: Program | None = None
        self.main_program: Program | None = None
        self._communicator: Any = None
        self._opt_info: dict[str, Any] = {}

    # ------------------------------------------------------------------ workers
    def init_worker(self) -> None:
        """Start the communicator, which sends gradients and fetches parameters during training; after
        `minimize`.
        """
        config = self._transpile_config.get_program_config()
        runtime = self._transpile_config.get_trainer_runtime_config()
        facts: dict[str, Any] | None = None
        if runtime.mode == DistributedMode.GEO:
            facts = {
                "push_vars": self._transpiler._get_vars_info(),
                "trainers": self.worker_num(),
                "push_nums": config.geo_sgd_need_push_nums,
            }
        elif runtime.mode == DistributedMode.SYNC:
            facts = {"pserver_endpoints": self.server_endpoints(), "trainer_id": self.worker_index()}
        assert self.main_program is not None
        self._communicator = Communicator(
            self.main_program, runtime.mode, facts, runtime.get_communicator_flags()
        )
        self._communicator.start()

    def stop_worker(self) -> None:
        """Send what is left, and leave the job; the servers end when all workers have left. ArgumentError for
        a worker that has not begun.
        """
        if self._communicator is None:
            raise ArgumentError(
                "fleet.stop_worker: this worker has not started: call fleet.init_worker() first"
            )
        self._communicator.stop()
        self._executor.close()

    # ------------------------------------------------------------------ servers
    def init_server(self, model_dir: str | None = None) -> None:
        """Initialise this server, or load what it had saved in `model_dir`; ValueError where there is no
        such folder, and before `minimize`.
        """
        if self.startup_program is None:
            raise ValueError("startup_program is None, need invoke DistributedOptimizer.minimize first")
        self._executor.run(self.startup_program)
        if model_dir:
            if not os.path.isdir(model_dir):
                raise ValueError(f"There is no directory named '{model_dir}'")
            io.load_persistables(self._executor, model_dir, self.main_program)

    def run_server(self) -> None:
        """Serve until all workers have left; ValueError before `minimize`."""
        if self.main_program is None:
            raise ValueError("main_program is None, need invoke DistributedOptimizer.minimize first")
        self._executor.run(self.main_program)

    # ------------------------------------------------------------------ programs
    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> TranspilerOptimizer:
        """The optimizer that makes this process's program.

        strategy: one of `StrategyFactory`, or a DistributeTranspilerConfig, or None for one in which all take
        each step together.

        ValueError before `init` and for what is no optimizer, TypeError unless it is a strategy.
        """
        if not isinstance(optimizer, Optimizer):
            raise ValueError("optimizer must be an instance of Optimizer")
        self._optimizer = TranspilerOptimizer(optimizer, strategy, self)
        return self._optimizer

    def _transpile(self, config: Any) -> None:
        """Make this process's programs of the default ones."""
        self._origin_program = default_main_program().clone(for_test=False)
        self._transpile_config = (
            _strategy_of(config) if isinstance(config, DistributeTranspilerConfig) else config
        )
        chosen = self._transpile_config.get_program_config()
        self._transpiler = (GeoSgdTranspiler if chosen.geo_sgd_mode else DistributeTranspiler)(chosen)
        self._transpiler._set_server_config(self._transpile_config.get_server_runtime_config())
        index = self.worker_index() if self.is_worker() else min(self.worker_index(), self.worker_num() - 1)
        self._transpiler.transpile(
            trainer_id=index,
            pservers=self.server_endpoints(to_string=True),
            trainers=self.worker_num(),
            sync_mode=chosen.sync_mode,
        )
        if self.is_worker():
            self.main_program = self._transpiler.get_trainer_program(wait_port=chosen.wait_port)
            self.startup_program = default_startup_program()
        else:
            here = self.server_endpoints()[self.server_index()]
            self.main_program, self.startup_program = self._transpiler.get_pserver_programs(here)

    def _set_opt_info(self, opt_info: dict[str, Any]) -> None:
        self._opt_info = opt_info

    # ------------------------------------------------------------------ saving
    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: Any,
        target_vars: Any,
        main_program: Any = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Save what computes `target_vars`, of the program as it was before `minimize` divided it, with the
        servers' parameters.

        TypeError for executors and programs of other kinds.
        """
        _check_executor(executor, "save_inference_model")
        if main_program is None:
            assert self._origin_program is not None and self.main_program is not None
            main_program = self._origin_program.clone()
            main_program._copy_dist_param_info_from(self.main_program)
        _check_program(main_program, "save_inference_model")
        io.save_inference_model(
            dirname, feeded_var_names, target_vars, executor, main_program, None, None, export_for_deployment
        )

    def save_persistables(self, executor: Any, dirname: str, main_program: Any = None) -> None:
        """Save all that training needs to go on, as the servers have it; TypeError and ValueError for
        programs that are not this job's.
        """
        _check_executor(executor, "save_persistables")
        program: Any = self.main_program if main_program is None else main_program
        _check_program(program, "save_persistables")
        if not program._is_distributed:  # AttributeError for what is no program, as in fluid
            raise ValueError("main_program is for local, may not use fleet.save_persistables")
        io.save_persistables(executor, dirname, program, None)


def _check_executor(executor: Any, function: str) -> None:
    if isinstance(executor, ParallelExecutor):
        raise TypeError(
            f"in fleet.{function}() function, executor must be as Executor type, ParallelExecutor is not "
            f"allowed"
        )
    if not isinstance(executor, Executor):
        raise TypeError(f"in fleet.{function}() function, executor must be as Executor type")


def _check_program(program: Any, function: str) -> None:
    if isinstance(program, CompiledProgram):
        raise TypeError(
            f"in fleet.{function}() function, main_program must be as Program type, CompiledProgram is not "
            f"allowed"
        )


def _strategy_of(config: DistributeTranspilerConfig) -> DistributedStrategy:
    """The strategy of a configuration, which becomes its program configuration."""
    kind: type[DistributedStrategy]
    if config.sync_mode:
        kind = SyncStrategy
    elif not config.runtime_split_send_recv:
        kind = HalfAsyncStrategy
    elif config.geo_sgd_mode:
        kind = GeoStrategy
    else:
        kind = HalfAsyncStrategy if config.half_async else AsyncStrategy
    strategy = kind()
    strategy.set_program_config(config)
    return strategy


class TranspilerOptimizer(DistributedOptimizer):
    """The optimizer of one process of a job: its `minimize` makes the default programs this process's own.

    `strategy` may be None or empty: all trainers then take each step together.

    ValueError before `fleet.init`, TypeError unless it is a strategy.
    """

    def __init__(
        self, optimizer: Any, strategy: Any = None, fleet_: DistributedTranspiler | None = None
    ) -> None:
        super().__init__(optimizer, strategy)
        self._fleet = fleet_ if fleet_ is not None else fleet
        if not self._fleet._is_initialized:
            raise ValueError(
                "use fleet.init(role) to initialize the role of current node before optimizer.minimize(loss)"
            )
        if not strategy:
            self._strategy = StrategyFactory.create_sync_strategy()
        elif not isinstance(strategy, (DistributedStrategy, DistributeTranspilerConfig)):
            raise TypeError(
                f"In {self._fleet._mode} mode, strategy must be an instance of DistributeTranspilerConfig, "
                "SyncStrategy, HalfAsyncStrategy, AsyncStrategy, or GeoStrategy"
            )
        debug = self._strategy.get_debug_opt() if isinstance(self._strategy, DistributedStrategy) else {}
        self.opt_info: dict[str, Any] = {
            **debug,
            "mpi_rank": self._fleet.worker_index(),
            "mpi_size": self._fleet.worker_num(),
            "trainer": "MultiTrainer",
            "device_worker": "Hogwild",
        }

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """Write the backward pass."""
        return self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Any) -> Any:
        """Write the updates."""
        return self._optimizer.apply_gradients(params_grads)

    @short_tracebacks
    def minimize(
        self,
        loss: Any,
        scopes: Any = None,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """Write backward pass and updates, and make this process's programs of the default ones; TypeError
        for lists.
        """
        if isinstance(loss, list):
            raise TypeError("DistributedTranspiler's minimize can not accept loss with list")
        if isinstance(startup_program, list):
            raise TypeError("DistributedTranspiler's minimize can not accept program with list")
        found = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        self._fleet._set_opt_info(self.opt_info)
        self._fleet._transpile(self._strategy)
        loss.block.program._fleet_opt = self.opt_info
        return found


fleet = DistributedTranspiler()

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
