"""`fluid.incubate.fleet.collective`: the fleet whose trainers reduce their gradients."""

from __future__ import annotations

import json
import logging
import os
import uuid
from typing import TYPE_CHECKING, Any

from fluidlite import io
from fluidlite.base.errors import ArgumentError
from fluidlite.base.imported_names import imported_names
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.compiler import CompiledProgram
from fluidlite.contrib.mixed_precision import decorate
from fluidlite.executor.executor import Executor
from fluidlite.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet
from fluidlite.incubate.fleet.base.mode import Mode
from fluidlite.incubate.fleet.collective.strategy import (
    DistFCConfig,
    DistributedStrategy,
    LambConfig,
    TrainStatus,
)
from fluidlite.incubate.fleet.utils.fs import FS, LocalFS
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import Program, default_startup_program, program_guard
from fluidlite.optimizer import RecomputeOptimizer
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.distribute_transpiler import DistributeTranspiler
from fluidlite.values.serialize import replace_file

__all__ = [
    "Collective",
    "CollectiveOpBasedOptimizer",
    "CollectiveOptimizer",
    "DistFCConfig",
    "DistributedStrategy",
    "LambConfig",
    "TrainStatus",
    "fleet",
]

_log = logging.getLogger(__name__)
_STATUS = "fleet_train_status"


class Collective(Fleet):
    """Trainers that reduce their gradients; there are no servers.

    Attributes
    ----------
    main_program: the program of a step, from `minimize` on: a CompiledProgram, or in mode "collective" the
        program itself.
    startup_program: the program that runs once before.
    """

    def __init__(self) -> None:
        super().__init__(Mode.COLLECTIVE)
        self._local_ip = 0
        self.startup_program: Program | None = None
        self._origin_program: Program | None = None
        self._transpiled_program: Program | None = None
        self.main_program: Any = None
        self._checkoint_prefix = "__paddle_fleet_checkpoint__"
        self._param_file_name = "_paddle_fleet_param__"

    def init_worker(self) -> None:
        """Warn: there is nothing to begin."""
        _needless("init_worker")

    def run_worker(self, main_programs: Any = None, scopes: Any = None) -> None:
        """Warn: a worker runs its program itself."""
        _needless("run_worker")

    def init_server(self, model_dir: str | None = None) -> None:
        """Warn: there are no servers."""
        _needless("init_server")

    def run_server(self) -> None:
        """Warn: there are no servers."""
        _needless("run_server")

    def stop_worker(self) -> None:
        """Warn: there is nothing to stop."""
        _needless("stop_worker")

    def distributed_optimizer(
        self, optimizer: Any, strategy: DistributedStrategy | None = None
    ) -> CollectiveOptimizer:
        """The optimizer that makes this trainer's program; TypeError unless it is an optimizer."""
        self._optimizer = CollectiveOptimizer(
            optimizer, DistributedStrategy() if strategy is None else strategy, self
        )
        return self._optimizer

    # ------------------------------------------------------------------ saving
    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: Any = None,
        target_vars: Any = None,
        main_program: Any = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Save what computes `target_vars`; AssertionError for executors and programs of other kinds."""
        program = self._checked(executor, main_program)
        io.save_inference_model(
            dirname, feeded_var_names, target_vars, executor, program, None, None, export_for_deployment
        )

    def save_persistables(
        self, executor: Any, dirname: str, main_program: Any = None, filename: str | None = None
    ) -> None:
        """Save all that training needs to go on; AssertionError for executors and programs of other kinds."""
        io.save_persistables(executor, dirname, self._checked(executor, main_program), filename)

    def _checked(self, executor: Any, main_program: Any) -> Program:
        assert isinstance(executor, Executor), (
            "In fleet.save_inference_model() function, executor must be as Executor type."
        )
        program = self._origin_program if main_program is None else main_program
        assert isinstance(program, Program), (
            "In fleet.save_inference_model() function, main_program must be as Program type."
        )
        return program

    # ------------------------------------------------------------------ checkpoints
    def save_check_point(
        self,
        executor: Any,
        path: str,
        train_status: TrainStatus,
        main_program: Any = None,
        fs: FS = LocalFS(),  # noqa: B008
        local_cache_path: str = ".cache",
        remain_all_checkpoint: bool = True,
    ) -> None:
        """Save all that training needs to go on in a new numbered folder below `path`; it is there as a whole
        or not at all.

        fs: where `path` is; what has to be uploaded is written below `local_cache_path` first.
        remain_all_checkpoint: False removes the ones before.
        """
        if not fs.stat(path):
            fs.mkdir(path)
        number = self._get_last_checkpoint_no(path, fs=fs) + 1
        target, unfinished = self._folder(path, number), f"{self._folder(path, number)}.tmp"
        fs.delete(unfinished)
        written = (
            os.path.join(local_cache_path, f"{self._checkoint_prefix}.{number}.{uuid.uuid4().hex}")
            if fs.need_upload_download()
            else unfinished
        )
        os.makedirs(written)
        self.save_persistables(executor, written, main_program, self._param_file_name)
        self._save_train_status(written, train_status)
        if fs.need_upload_download():
            fs.upload(written, unfinished)
            LocalFS().delete(written)
        fs.mv(unfinished, target)
        if not remain_all_checkpoint:
            self.clean_redundant_check_points(path, fs)

    def load_check_point(
        self,
        executor: Any,
        path: str,
        trainer_id: int,
        main_program: Any = None,
        fs: FS = LocalFS(),  # noqa: B008
        local_cache_path: str = ".cache",
        ignore_empty: bool = True,
    ) -> TrainStatus | None:
        """Load the newest checkpoint below `path`; None where there is none (AssertionError unless
        `ignore_empty`).
        """
        number = self._get_last_checkpoint_no(path, fs)
        assert ignore_empty or number >= 0, "Can't find checkpoint"
        if number < 0:
            return None
        folder = self._folder(path, number)
        if fs.need_upload_download():
            cached = os.path.join(local_cache_path, f"{self._checkoint_prefix}.{number}.{trainer_id}")
            LocalFS().delete(cached)
            os.makedirs(local_cache_path, exist_ok=True)
            fs.download(folder, cached)
            folder = cached
        io.load_persistables(
            executor,
            folder,
            self._origin_program if main_program is None else main_program,
            self._param_file_name,
        )
        return self._load_train_status(folder)

    def clean_redundant_check_points(
        self,
        root_path: str,
        fs: FS = LocalFS(),  # noqa: B008  # fluid's default, and it has no state
        checkpoint_num: int = 1,
    ) -> None:
        """Remove all checkpoints but the newest `checkpoint_num`, of which one always stays."""
        last = self._get_last_checkpoint_no(root_path, fs)
        for number in self._numbers(root_path, fs):
            if number <= last - max(1, checkpoint_num):
                fs.delete(self._folder(root_path, number))

    def _folder(self, root: str, number: int) -> str:
        return f"{root}/{self._checkoint_prefix}.{number}"

    def _numbers(self, root: str, fs: FS) -> list[int]:
        parts = [name.rpartition(".") for name in fs.list_dirs(root)]
        return sorted(
            int(number)
            for prefix, _, number in parts
            if prefix == self._checkoint_prefix and number.isdecimal()
        )

    def _get_last_checkpoint_no(self, root_path: str, fs: FS) -> int:
        return max(self._numbers(root_path, fs), default=-1)

    def _save_train_status(self, path: str, train_status: TrainStatus) -> None:
        text = json.dumps({"epoch_no": train_status._epoch_no})
        replace_file(os.path.join(path, _STATUS), [text.encode()])

    def _load_train_status(self, path: str) -> TrainStatus:
        status = TrainStatus()
        file = os.path.join(path, _STATUS)
        if os.path.isfile(file):
            with open(file, encoding="utf8") as source:
                status._epoch_no = int(json.load(source).get("epoch_no", -1))
        return status


def _needless(name: str) -> None:
    _log.warning("You should not call '%s' method for collective mode.", name)


class CollectiveOpBasedOptimizer(DistributedOptimizer):
    """An optimizer of a collective job; AssertionError without a strategy."""

    def __init__(self, optimizer: Any, strategy: DistributedStrategy | None = None) -> None:
        assert isinstance(strategy, DistributedStrategy), "strategy must be DistributedStrategy"
        super().__init__(optimizer, strategy)

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


class CollectiveOptimizer(DistributedOptimizer):
    """The optimizer of one trainer: its `minimize` makes the trainer's program, which is left in
    `fleet.main_program`.

    `fleet.startup_program` has the rings' ops; `fleet._origin_program` is the program as one process would
    run it.
    """

    def __init__(
        self, optimizer: Any, strategy: DistributedStrategy | None = None, fleet_: Collective | None = None
    ) -> None:
        strategy = DistributedStrategy() if strategy is None else strategy
        super().__init__(optimizer, strategy)
        self._fleet = fleet_ if fleet_ is not None else fleet
        self._forward_recompute = strategy.forward_recompute
        if not isinstance(strategy.recompute_checkpoints, list):
            raise ValueError("DistStrategy.recompute_checkpoints should be a List")
        self._recompute_checkpoints = strategy.recompute_checkpoints
        self._use_amp, self._amp_loss_scaling = strategy.use_amp, strategy.amp_loss_scaling
        self.print_config = False
        self._loss: Any = None
        self._compiled_program: CompiledProgram | None = None

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
    def minimize(  # type: ignore[override]  # as in fluid
        self, loss: Any, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> Any:
        """Write backward pass and updates, and make this trainer's program of all.

        ValueError where the strategy contradicts itself, or asks for what there is not.
        """
        strategy, main = self._strategy, loss.block.program
        startup = default_startup_program() if startup_program is None else startup_program
        self._loss, self._fleet.startup_program = loss, startup
        self._refuse(strategy)
        self._check_collective_mode(main, self._optimizer, strategy)
        if strategy.forward_recompute:
            if not self._recompute_checkpoints:
                raise ValueError(
                    "please set strategy.recompute_checkpoints when strategy.forward_recompute is True"
                )
            self._optimizer = RecomputeOptimizer(self._optimizer)
            self._optimizer._set_checkpoints(self._recompute_checkpoints)
        if strategy.use_amp:
            wrapped: Any = decorate(self._optimizer, init_loss_scaling=self._amp_loss_scaling)
            self._optimizer = wrapped
        found = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        self._fleet._origin_program = main.clone(for_test=False)
        self._fleet._transpiled_program = main
        with program_guard(main, startup):
            self._fleet.main_program = self._try_to_compile(startup, main)
        return found

    @staticmethod
    def _refuse(strategy: DistributedStrategy) -> None:
        if strategy.use_dist_fc:
            assert strategy.dist_fc_config is not None, "DistributedStrategy.dist_fc_config should be set"
            raise ArgumentError(
                "strategy.use_dist_fc is set, but fluidlite does not have it: train without it"
            )

    # ------------------------------------------------------------------ the mode
    def _check_condition(self, name: str, **kwargs: Any) -> None:
        for other, chosen in kwargs.items():
            assert not chosen, f"you can't use {name} and {other} together"

    def _check_collective_mode(
        self, main_program: Program, optimizer: Any, strategy: DistributedStrategy
    ) -> None:
        """Choose what follows from the strategy; AssertionError where it contradicts itself."""
        if strategy.use_local_sgd:
            strategy.mode, strategy.collective_mode = "collective", "local_sgd"
            self._check_condition(
                "use_local_sgd",
                use_dgc=_is_dgc(optimizer),
                use_dist_fc=strategy.use_dist_fc,
                use_lamb=getattr(optimizer, "type", "") == "lamb",
            )
        if strategy._ut4grad_allreduce:
            strategy.mode, strategy.collective_mode = "collective", "grad_allreduce"
            self._check_condition(
                "_ut4grad_allreduce",
                use_dgc=_is_dgc(optimizer),
                use_lamb=getattr(optimizer, "type", "") == "lamb",
            )
        assert strategy.mode == "collective" or strategy.collective_mode not in (
            "local_sgd",
            "grad_allreduce",
        ), "local_sgd and grad_allreduce can be used under collective mode"

    def raiseOptimizeError(self, strategy_name: str, optimize_name: str) -> None:
        """Raise ValueError: the strategy and the optimizer do not go together."""
        raise ValueError(f"can not use {strategy_name} when you set DistStrategy.{optimize_name} as True")

    # ------------------------------------------------------------------ the program
    def _transpile(self, startup_program: Program, main_program: Program) -> None:
        """Rewrite the programs for this trainer, as the strategy says."""
        places = self._fleet.worker_endpoints()
        strategy, index = self._strategy, self._fleet.worker_index()
        config = DistributeTranspilerConfig()
        config.mode, config.collective_mode = strategy.mode, strategy.collective_mode
        config.nccl_comm_num = strategy.nccl_comm_num
        config.use_hierarchical_allreduce = strategy.use_hierarchical_allreduce
        config.hierarchical_allreduce_inter_nranks = strategy.hierarchical_allreduce_inter_nranks
        config.wait_port = False
        if self._node_num() <= 1 and config.use_hierarchical_allreduce:
            _log.warning("set use_hierarchical_allreduce=False since you only have 1 node.")
            config.use_hierarchical_allreduce = strategy.use_hierarchical_allreduce = False
        transpiler = DistributeTranspiler(config=config)
        transpiler.transpile(
            index,
            program=main_program,
            startup_program=startup_program,
            trainers=",".join(places),
            current_endpoint=places[index],
        )

    def _get_node_ips_from_endpoints(self, endpoints: list[str]) -> list[str]:
        """The different addresses, in order."""
        return list(dict.fromkeys(place.split(":")[0].strip() for place in endpoints))

    def _node_num(self) -> int:
        return len(self._get_node_ips_from_endpoints(self._fleet.worker_endpoints()))

    def _try_to_compile(self, startup_program: Program, main_program: Program) -> Any:
        """The program that a step runs, compiled where the strategy allows it."""
        self._transpile(startup_program, main_program)
        strategy, execution = self._strategy, self._strategy.exec_strategy
        if strategy.mode == "collective":
            return main_program
        if execution.num_threads < strategy.nccl_comm_num + 1:
            execution.set_unasked(num_threads=strategy.nccl_comm_num + 1)
        strategy.num_trainers, strategy.trainer_id = self._fleet.worker_num(), self._fleet.worker_index()
        strategy.trainers_endpoints = self._fleet.worker_endpoints()
        strategy.set_unasked(enable_backward_optimizer_op_deps=True)
        self._compiled_program = CompiledProgram(main_program)
        return self._compiled_program.with_data_parallel(
            loss_name=self._loss.name, build_strategy=strategy, exec_strategy=execution, share_vars_from=None
        )


def _is_dgc(optimizer: Any) -> bool:
    return type(optimizer).__name__ == "DGCMomentumOptimizer"


fleet = Collective()

if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
