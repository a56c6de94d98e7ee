"""`Fleet`: a job of many processes, seen from one of them, under the names of 2.x."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

from fluidlite import io
from fluidlite.base.errors import ArgumentError, UninitializedError, UnsupportedError
from fluidlite.base.place import CPUPlace
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.compiler import CompiledProgram
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from fluidlite.paddle.distributed.fleet.base.role_maker import PaddleCloudRoleMaker, RoleMakerBase
from fluidlite.paddle.distributed.fleet.base.util_factory import UtilBase
from fluidlite.paddle.distributed.fleet.composition import refuse
from fluidlite.paddle.distributed.fleet.ranks import RankJob
from fluidlite.paddle.distributed.fleet.served import ServedJob
from fluidlite.paddle.distributed.fleet.utils.recomputation import checkpoints_of
from fluidlite.transpiler.modes import Job

__all__ = ["Fleet"]

_log = logging.getLogger(__name__)


class Fleet:
    """The processes of a job, seen from one of them.

        fleet.init(is_collective=True)
        optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.01), strategy)
        optimizer.minimize(loss)

    With servers the processes part ways then: `init_server` and `run_server` in one kind, `init_worker`,
    training and `stop_worker` in the other.
    """

    def __init__(self) -> None:
        self._role_maker: Any = None
        self._is_collective = False
        self._user_defined_strategy = DistributedStrategy()
        self._user_defined_optimizer: Any = None
        self._util = UtilBase()
        self._job: RankJob | ServedJob | None = None
        self._programs: tuple[Program, Program] | None = None

    # ------------------------------------------------------------------ beginning
    def init(
        self,
        role_maker: RoleMakerBase | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
        log_level: int | str = "INFO",
    ) -> Fleet:
        """Find out who this process is.

        role_maker: by default one that reads the environment.
        is_collective: the processes exchange among themselves, without servers.
        log_level: of the messages of this package, a name or number of `logging`.

        ValueError for other types.
        """
        logging.getLogger("fluidlite.paddle.distributed.fleet").setLevel(log_level)
        if role_maker is None:
            if not isinstance(is_collective, bool):
                raise ValueError(
                    f"`is_collective` should be instance of `bool`, but got {type(is_collective)}"
                )
            role_maker = PaddleCloudRoleMaker(is_collective=is_collective)
        elif not isinstance(role_maker, RoleMakerBase):
            raise ValueError(
                f"`role_maker` should be subclass of `RoleMakerBase`, but got {type(role_maker)}"
            )
        self._role_maker = role_maker
        if isinstance(role_maker, PaddleCloudRoleMaker):
            role_maker._exchanging().start()
            self._is_collective = role_maker._is_collective
        else:
            self._is_collective = is_collective
        self._user_defined_strategy = DistributedStrategy() if strategy is None else strategy
        self._util._set_role_maker(role_maker)
        self._job = self._programs = None
        return self

    def _role(self) -> Any:
        if self._role_maker is None:
            raise UninitializedError("fleet is not initialised: call fleet.init(role_maker) first")
        return self._role_maker

    @property
    def util(self) -> UtilBase:
        """Tools of a script besides training."""
        return self._util

    @util.setter
    def util(self, util: UtilBase) -> None:
        self._util = util

    # ------------------------------------------------------------------ who is who
    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return bool(self._role()._is_first_worker())

    def worker_index(self) -> int:
        """This process's number among the workers."""
        return int(self._role()._worker_index())

    def worker_num(self) -> int:
        """Number of workers."""
        return int(self._role()._worker_num())

    rank, nranks, world_size = worker_index, worker_num, worker_num

    def node_num(self) -> int:
        """Number of machines with workers."""
        return int(self._role()._node_num())

    def local_rank(self) -> Any:
        """This worker's number on its machine, if its launcher says it."""
        return self._role()._get_local_rank()

    rank_in_node = local_rank

    def local_device_ids(self) -> Any:
        """The devices of this machine, if the launcher says them."""
        return self._role()._get_local_device_ids()

    def world_device_ids(self) -> Any:
        """The devices of all machines, if the launcher says them."""
        return self._role()._get_world_device_ids()

    def is_worker(self) -> bool:
        """True if this process trains."""
        return bool(self._role()._is_worker())

    def is_coordinator(self) -> bool:
        """False: there is no federated learning."""
        return False

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """Endpoints of the workers: a list, or with `to_string` `ip:port,ip:port`."""
        places = self._role()._get_trainer_endpoints()
        return ",".join(places) if to_string else places

    def server_num(self) -> int:
        """Number of servers."""
        return len(self._role()._get_pserver_endpoints())

    def server_index(self) -> int:
        """This process's number among the servers."""
        return int(self._role()._server_index())

    def server_endpoints(self, to_string: bool = False) -> Any:
        """Endpoints of the servers: a list, or with `to_string` `ip:port,ip:port`."""
        places = self._role()._get_pserver_endpoints()
        return ",".join(places) if to_string else places

    def is_server(self) -> bool:
        """True if this process is a server."""
        return bool(self._role()._is_server())

    # ------------------------------------------------------------------ together
    def barrier_worker(self) -> None:
        """Wait for all workers."""
        self._role()._barrier("worker")

    def all_reduce(self, input: Any, mode: str = "sum") -> Any:
        """The "sum", "max" or "min" of `input` over all workers."""
        return self._role()._all_reduce(input, mode, "worker")

    # ------------------------------------------------------------------ programs
    def distributed_optimizer(self, optimizer: Any, strategy: DistributedStrategy | None = None) -> Fleet:
        """Take the optimizer, and the strategy by which its program is divided; gives the fleet itself, whose
        `minimize` does it.

        UnsupportedError for what the strategy asks for and there is not, by the name of its field.
        """
        if not callable(vars_of(optimizer).get("minimize")):
            raise ArgumentError(f"fleet.distributed_optimizer takes an optimizer, not {optimizer!r}")
        if strategy is not None:
            if not isinstance(strategy, DistributedStrategy):
                raise ArgumentError(
                    f"fleet.distributed_optimizer takes a DistributedStrategy, not {strategy!r}"
                )
            self._user_defined_strategy = strategy
        refuse(self._user_defined_strategy)
        self._user_defined_optimizer = optimizer
        return self

    @short_tracebacks
    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Iterable[Any] | None = None,
        no_grad_set: Iterable[Any] | None = None,
    ) -> Any:
        """Write backward pass and updates, and make main and startup program those of this process; gives
        (update ops, pairs of parameter and gradient).
        """
        if self._user_defined_optimizer is None:
            raise UninitializedError("fleet.minimize: call fleet.distributed_optimizer(optimizer) first")
        if isinstance(loss, list):
            raise UnsupportedError("fleet.minimize takes one loss")
        role = self._role()
        strategy = self._user_defined_strategy
        refuse(strategy)
        startup = default_startup_program() if startup_program is None else startup_program
        served = not self._is_collective and bool(role._get_pserver_endpoints())
        kept = checkpoints_of(loss.block.program)
        if served:
            self._job = ServedJob(role, self._user_defined_optimizer, strategy, kept)
        else:
            self._job = RankJob(role, self._user_defined_optimizer, strategy, kept)
        found = self._job.minimize(loss, startup, parameter_list, no_grad_set)
        self._programs = loss.block.program, startup
        return found

    def _made(self) -> RankJob | ServedJob:
        if self._job is None:
            raise UninitializedError("fleet has no programs yet: call minimize(loss) first")
        return self._job

    def job(self) -> Job:
        """All programs of the job, for `fluidlite.distributed.cluster.verify_job` and its like."""
        return self._made().job()

    def explain(self) -> str:
        """Text: the parts of the strategy that apply, and the programs of this process."""
        made = self._made()
        assert self._programs is not None
        main, startup = self._programs
        if isinstance(made, ServedJob):
            lines = [f"{made.mode} training with servers"]
            main = made.fleet.main_program or main
            startup = made.fleet.startup_program or startup
        else:
            lines = [f"applied, outermost first: {', '.join(made.applied) or 'nothing'}"]
            lines += [f"{name} does not apply: {why}" for name, why in made.composition.dropped.items()]
        return "\n".join([*lines, "", "startup program", str(startup), "", "main program", str(main)])

    def _get_applied_meta_list(self) -> list[str]:
        """2.6.2's names of the parts, from the outside in; [] before `minimize`."""
        made = self._job
        if made is None:
            return []
        return ["ParameterServerOptimizer"] if isinstance(made, ServedJob) else made.reported

    def _get_applied_graph_list(self) -> list[str]:
        """[]: all parts rewrite programs."""
        return []

    def _final_strategy(self) -> DistributedStrategy:
        """The strategy in use."""
        return self._user_defined_strategy

    # ------------------------------------------------------------------ optimizers inside
    def amp_init(
        self, place: Any, scope: Any = None, test_program: Any = None, use_fp16_test: bool = False
    ) -> None:
        """Round the parameters of a program of pure half precision, after its startup program."""
        self._half_precision().amp_init(place, scope, test_program, use_fp16_test)

    def get_loss_scaling(self) -> Any:
        """The variable with the scale of the loss, in half precision."""
        return self._half_precision().get_loss_scaling()

    def _half_precision(self) -> Any:
        made = self._made()
        if not isinstance(made, RankJob) or "amp" not in made.composition.applied:
            raise ArgumentError("strategy.amp is not applied: the program trains in single precision")
        found = made.composition.optimizer
        return found.inner_optimizer if "gradient_merge" in made.composition.applied else found

    # ------------------------------------------------------------------ a job's life
    def _begun(self, function: str) -> None:
        """ArgumentError before `init`."""
        if self._role_maker is None:
            raise ArgumentError(f"fleet.{function}: call fleet.init(role_maker) first")

    def init_worker(self, scopes: Any = None) -> None:
        """Begin to be a worker, after `minimize`. ArgumentError before `init`."""
        self._begun("init_worker")
        if self._job is not None:
            self._job.init_worker(scopes)

    def stop_worker(self) -> None:
        """Leave the job; servers end when all workers have left."""
        self._begun("stop_worker")
        if self._job is not None:
            self._job.stop_worker()

    def init_server(self, *args: Any, **kwargs: Any) -> None:
        """Initialise this server, after `minimize`; with the name of a folder, load what was saved there."""
        self._begun("init_server")
        names = dict(zip(("dirname", "var_names"), args, strict=False)) | kwargs
        if names.get("var_names"):
            raise UnsupportedError(
                "fleet.init_server: a server can only load all of its variables, not some of them"
            )
        if isinstance(self._job, ServedJob):
            self._job.fleet.init_server(names.get("dirname"))

    def run_server(self) -> None:
        """Serve until all workers have left."""
        self._begun("run_server")
        if isinstance(self._job, ServedJob):
            self._job.fleet.run_server()

    # ------------------------------------------------------------------ saving
    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: list[str],
        target_vars: list[Any],
        main_program: Program | None = None,
        export_for_deployment: bool = True,
        mode: int = 0,
    ) -> None:
        """Save what computes `target_vars`, of the program as it was before it was divided.

        TypeError for executors and programs of other kinds.
        """
        _check(executor, main_program, "save_inference_model")
        if isinstance(self._job, ServedJob):
            self._job.fleet.save_inference_model(
                executor, dirname, feeded_var_names, target_vars, main_program, export_for_deployment
            )
            return
        os.makedirs(dirname, exist_ok=True)
        io.save_inference_model(
            dirname,
            feeded_var_names,
            target_vars,
            executor,
            self._origin_main() if main_program is None else main_program,
            None,
            None,
            export_for_deployment,
        )

    def save_persistables(
        self, executor: Any, dirname: str, main_program: Program | None = None, mode: int = 0
    ) -> None:
        """Save all that training needs to go on, in a job with servers as these have it; TypeError for
        executors and programs of other kinds.
        """
        _check(executor, main_program, "save_persistables")
        if isinstance(self._job, ServedJob):
            self._job.fleet.save_persistables(executor, dirname, main_program)
            return
        program = self._origin_main() if main_program is None else main_program
        io.save_persistables(executor, dirname, program, None)

    def save(self, dirname: str, feed: Sequence[Any] = (), fetch: Sequence[Any] = (), **configs: Any) -> None:
        """Save what computes `fetch` of `feed`, variables or their names; without both all that training
        needs to go on. `configs` may have an "executor".
        """
        executor = configs.get("executor") or Executor(CPUPlace())
        if not feed or not fetch:
            self.save_persistables(executor, dirname)
            return
        main = self._programs[0] if self._programs is not None else default_main_program()
        names = [var if isinstance(var, str) else var.name for var in feed]
        wanted = [main.global_block().var(var) if isinstance(var, str) else var for var in fetch]
        self.save_inference_model(executor, dirname, names, wanted)

    def _origin_main(self) -> Program:
        origin = self._made().origin
        assert origin is not None
        return origin[0]


def vars_of(given: Any) -> dict[str, Any]:
    """The methods of an object's class and its bases."""
    return {name: value for kind in reversed(type(given).__mro__) for name, value in vars(kind).items()}


def _check(executor: Any, program: Any, function: str) -> None:
    if not isinstance(executor, Executor):
        raise TypeError(f"in fleet.{function}() function, executor must be as Executor type")
    if isinstance(program, CompiledProgram) or not (program is None or isinstance(program, Program)):
        raise TypeError(f"in fleet.{function}() function, main_program must be as Program type")
