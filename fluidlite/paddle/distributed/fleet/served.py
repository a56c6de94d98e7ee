"""Jobs with servers: a strategy of 2.x as the configuration of fluid's transpilers and communicators."""

from __future__ import annotations

from typing import Any

from fluidlite.base.errors import UnsupportedError
from fluidlite.base.mpi_start import under_mpi
from fluidlite.incubate.fleet.base.roles import RoleMakerBase
from fluidlite.incubate.fleet.parameter_server import distribute_transpiler as of_fluid
from fluidlite.ir.program import Program, program_guard
from fluidlite.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from fluidlite.paddle.distributed.fleet.composition import compose
from fluidlite.transpiler.details.checkport import wait_server_ready
from fluidlite.transpiler.modes import Job, make_job
from fluidlite.values.scope import global_scope

__all__ = ["ServedJob", "mode_of", "strategy_of"]

_RUNTIME = {
    "max_merge_var_num": "communicator_max_merge_var_num",
    "send_queue_size": "communicator_send_queue_size",
    "independent_recv_thread": "communicator_independent_recv_thread",
    "min_send_grad_num_before_recv": "communicator_min_send_grad_num_before_recv",
    "thread_pool_size": "communicator_thread_pool_size",
    "send_wait_times": "communicator_send_wait_times",
}
_MODES = {"sync": "pserver", "async": "async", "half_async": "half_async", "geo": "geo_sgd"}


def mode_of(strategy: DistributedStrategy) -> str:
    """How the workers of a strategy keep in step: "sync", "async", "half_async" or "geo".

    `a_sync` False, or nothing chosen: sync. True: by `a_sync_configs["k_steps"]`: 0 async, more geo, -1
    half_async.
    """
    message = strategy.strategy
    if not (message.HasField("a_sync") or message.a_sync_configs.HasField("k_steps")) or not strategy.a_sync:
        return "sync"
    steps = strategy.a_sync_configs["k_steps"]
    if steps == 0:
        return "async"
    return "geo" if steps > 0 else "half_async"


def strategy_of(strategy: DistributedStrategy) -> Any:
    """The same as a strategy of fluid's."""
    mode = mode_of(strategy)
    make = of_fluid.StrategyFactory
    if mode == "geo":
        made: Any = make.create_geo_strategy(strategy.a_sync_configs["k_steps"])
    else:
        made = {
            "sync": make.create_sync_strategy,
            "async": make.create_async_strategy,
            "half_async": make.create_half_async_strategy,
        }[mode]()
    chosen = strategy.strategy.a_sync_configs
    runtime = {
        theirs: str(int(getattr(chosen, ours))) for ours, theirs in _RUNTIME.items() if chosen.HasField(ours)
    }
    made.set_trainer_runtime_config(runtime)
    made.get_program_config().wait_port = False  # 2.x waits when a worker begins
    return made


_NOT_SERVED = {
    "amp": "the loss scale would depend on the gradients of all servers",
    "gradient_merge": "a server updates when gradients arrive: let workers send less often by geo training",
}


def _refuse_parts(applied: list[str]) -> None:
    """UnsupportedError for parts of a strategy that servers cannot carry out."""
    for name in applied:
        if name in _NOT_SERVED:
            raise UnsupportedError(f"strategy.{name} is set in a job with servers, but {_NOT_SERVED[name]}")


class _Role(RoleMakerBase):
    """A role maker of 2.x, asked as fluid's fleet asks its own."""

    def __init__(self, role: Any) -> None:
        super().__init__()
        self._of_2x = role

    def generate_role(self) -> None:
        """Read what the role maker reads."""
        self._of_2x._generate_role()
        self._worker_endpoints = self._of_2x._get_trainer_endpoints()
        self._server_endpoints = self._of_2x._get_pserver_endpoints()

    def is_worker(self) -> bool:
        """True if this process trains."""
        return bool(self._of_2x._is_worker())

    def is_server(self) -> bool:
        """True if this process is a server."""
        return bool(self._of_2x._is_server())

    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return bool(self._of_2x._is_first_worker())

    def worker_num(self) -> int:
        """Number of workers."""
        return int(self._of_2x._worker_num())

    def worker_index(self) -> int:
        """This process's number."""
        return int(self._of_2x._worker_index())

    server_index = worker_index


def _has_value(name: str) -> bool:
    var = global_scope().find_var(name)
    return var is not None and bool(var.get_tensor()._is_initialized())


class ServedJob:
    """One process of a job with servers."""

    def __init__(
        self, role: Any, optimizer: Any, strategy: DistributedStrategy, checkpoints: list[str] | None = None
    ) -> None:
        composition = compose(strategy, optimizer, role._worker_num(), checkpoints)
        _refuse_parts(composition.applied)
        self.mode, self.strategy = mode_of(strategy), strategy_of(strategy)
        self.fleet = of_fluid.DistributedTranspiler()
        self.fleet.init(_Role(role))
        self.optimizer = self.fleet.distributed_optimizer(composition.optimizer, self.strategy)
        self.origin: tuple[Program, Program] | None = None
        self.trains = bool(role._is_worker())
        self.waits = bool(strategy.a_sync_configs["launch_barrier"])

    def minimize(self, loss: Any, startup: Program, parameter_list: Any, no_grad_set: Any) -> Any:
        """Make the programs this process's own."""
        main = loss.block.program
        with program_guard(main, startup):
            inner = self.optimizer._optimizer
            found = inner.minimize(loss, startup, parameter_list, no_grad_set)
            self.origin = main.clone(), startup.clone()
            self.fleet._set_opt_info(self.optimizer.opt_info)
            self.fleet._transpile(self.strategy)
            main._fleet_opt = self.optimizer.opt_info
        return found

    def job(self) -> Job:
        """All programs of the job."""
        assert self.origin is not None, "call minimize() first: it makes the programs"
        main, startup = self.origin
        config = self.strategy.get_program_config()
        places = self.fleet.server_endpoints()
        return make_job(main, startup, _MODES[self.mode], self.fleet.worker_num(), places, config=config)

    def init_worker(self, scopes: Any) -> None:
        """Start what exchanges gradients and parameters with the servers."""
        if scopes is not None:
            raise UnsupportedError("fleet.init_worker: a worker can only use the global scope")
        if self.waits and not under_mpi():  # processes of one `mpiexec` listen at no port
            wait_server_ready(list(self.fleet.server_endpoints()))
        self.fleet.init_worker()
        self._take_first_copies()

    def _take_first_copies(self) -> None:
        """Geo's communicator counts changes from the values that a startup program has left, where that ran
        already.
        """
        startup = self.fleet.startup_program
        if self.mode != "geo" or startup is None:
            return
        fetched = [
            name for op in startup.global_block().ops if op.type == "recv" for name in op.output("Out")
        ]
        if all(_has_value(name) for name in fetched):
            part = startup.clone()
            block = part.global_block()
            block.set_ops([op for op in block.ops if op.type == "send"])
            self.fleet._executor.run(part)

    def stop_worker(self) -> None:
        """Leave the job."""
        self.fleet.stop_worker()
