"""`fluid.incubate.fleet.base.fleet_base`: what all kinds of fleet have, and what their optimizers are."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.base.place import CPUPlace
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.executor.executor import Executor
from fluidlite.incubate.fleet.base.mode import Mode
from fluidlite.incubate.fleet.base.role_maker import RoleMakerBase
from fluidlite.optimizer import Optimizer

__all__ = ["DistributedOptimizer", "Fleet", "Mode"]


class Fleet:
    """The processes of a job, seen from one of them. Derived classes define how they train.

    fleet.init(role_maker)
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        fleet.init_worker()
        exe.run(fleet.startup_program)
        ... exe.run(fleet.main_program, feed=...)
        fleet.stop_worker()
    """

    def __init__(self, mode: int) -> None:
        self._is_initialized = False
        self._mode = mode
        self._optimizer: Any = None
        self._role_maker: Any = None
        self._executor: Any = None

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Find out who this process is; TypeError unless it is a role maker, AttributeError where none is
        given.
        """
        self._executor = Executor(CPUPlace())
        if role_maker is not None and not isinstance(role_maker, RoleMakerBase):
            raise TypeError("role_maker must be an instance of RoleMakerBase")
        self._role_maker = role_maker
        self._role_maker.generate_role()
        self._is_initialized = True

    # ------------------------------------------------------------------ who is who
    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return self._role_maker.is_first_worker()

    def worker_index(self) -> int:
        """This process's number among the workers."""
        return self._role_maker.worker_index()

    def worker_num(self) -> int:
        """Number of workers."""
        return self._role_maker.worker_num()

    def is_worker(self) -> bool:
        """True if this process trains."""
        return self._role_maker.is_worker()

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """Endpoints of the workers: a list, or with `to_string` `ip:port,ip:port`."""
        places = self._role_maker.get_trainer_endpoints()
        return ",".join(places) if to_string else places

    def server_num(self) -> int:
        """Number of servers."""
        return len(self._role_maker.get_pserver_endpoints())

    def server_index(self) -> int:
        """This process's number among the servers."""
        return self._role_maker.server_index()

    def server_endpoints(self, to_string: bool = False) -> Any:
        """Endpoints of the servers: a list, or with `to_string` `ip:port,ip:port`."""
        places = self._role_maker.get_pserver_endpoints()
        return ",".join(places) if to_string else places

    def is_server(self) -> bool:
        """True if this process is a server."""
        return self._role_maker.is_server()

    # ------------------------------------------------------------------ together
    def split_files(self, files: list[str]) -> list[str]:
        """This worker's share of the files: neighbours, and the first workers get one more where they do
        not come out even.
        """
        if not isinstance(files, list):
            raise TypeError("files should be a list of file need to be read.")
        index, workers = self.worker_index(), self.worker_num()
        each, more = divmod(len(files), workers)
        first = index * each + min(index, more)
        return files[first : first + each + (index < more)]

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Put the sum of all workers' `input` into `output`."""
        self._role_maker.all_reduce_worker(input, output)

    def barrier_worker(self) -> None:
        """Wait for all workers."""
        self._role_maker.barrier_worker()

    # ------------------------------------------------------------------ what kinds of fleet do
    @abc.abstractmethod
    def init_worker(self) -> None:
        """Begin to be a worker."""

    @abc.abstractmethod
    def init_server(self, model_dir: str | None = None) -> None:
        """Begin to be a server, with the parameters saved in `model_dir`, if there is one."""

    @abc.abstractmethod
    def run_server(self) -> None:
        """Serve until all workers have left."""

    @abc.abstractmethod
    def stop_worker(self) -> None:
        """Leave the job."""

    @abc.abstractmethod
    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> Any:
        """The optimizer that makes this process's program of `optimizer`'s."""

    @abc.abstractmethod
    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: Any,
        target_vars: Any,
        main_program: Any = None,
        export_for_deployment: bool = True,
    ) -> Any:
        """Save what inference needs."""

    @abc.abstractmethod
    def save_persistables(self, executor: Any, dirname: str, main_program: Any = None) -> Any:
        """Save all that training needs to go on."""


class DistributedOptimizer:
    """An optimizer of a job, around that of one process; TypeError where that is not an optimizer."""

    def __init__(self, optimizer: Any, strategy: Any = None) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError("optimizer must be an instance of Optimizer")
        self._optimizer: Any = optimizer  # or one that wraps it, as the strategy says
        self._strategy = strategy

    @abc.abstractmethod
    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Any:
        """Write the backward pass."""

    @abc.abstractmethod
    def apply_gradients(self, params_grads: Any) -> Any:
        """Write the updates."""

    @abc.abstractmethod
    @short_tracebacks
    def minimize(
        self,
        losses: Any,
        scopes: Any = None,
        startup_programs: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """Write backward pass and updates, and make this process's program of all."""


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
