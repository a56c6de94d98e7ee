"""`fluid.DistributeTranspiler`: fluid's way to ask for the programs of one process of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.imported_names import imported_names
from fluidlite.base.mpi_start import under_mpi
from fluidlite.ir.distribution import VarsDistributed
from fluidlite.ir.program import Program, default_main_program, default_startup_program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from fluidlite.transpiler.details.checkport import wait_server_ready
from fluidlite.transpiler.modes import Job, TrainingMode, mode_of_config
from fluidlite.transpiler.modes.nccl2 import Nccl2
from fluidlite.transpiler.modes.rings import RankMode, RingMode
from fluidlite.transpiler.modes.servers import ServerMode
from fluidlite.transpiler.parts.endpoints import RankClaim, parse_endpoints
from fluidlite.transpiler.ps_dispatcher import HashName, PSDispatcher, RoundRobin
from fluidlite.transpiler.pserver.placement import Placement, distributed_tables
from fluidlite.transpiler.pserver.server import make_server_startup
from fluidlite.transpiler.pserver.slices import VarBlock, slice_variable

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "DistributedMode",
    "HashName",
    "PSDispatcher",
    "RoundRobin",
    "ServerRuntimeConfig",
    "VarBlock",
    "slice_variable",
]


class DistributeTranspiler:
    """Turns a training program into what one process of a distributed job runs.

        t = fluid.DistributeTranspiler(config)
        t.transpile(trainer_id, pservers="ip:port,ip:port", trainers=4)
        if role == "PSERVER":
            main, startup = t.get_pserver_programs(current_endpoint)
        else:
            main, startup = t.get_trainer_program(), fluid.default_startup_program()

    A job's programs all at once: `fluidlite.transpiler.make_job`.
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        self.config = config if config is not None else DistributeTranspilerConfig()
        self.server_config = ServerRuntimeConfig()
        # a string may be the name of a dispatcher: `place` looks it up
        method = self.config.split_method
        if (
            method is not None
            and not (isinstance(method, type) and issubclass(method, PSDispatcher))
            and not isinstance(method, str)
        ):
            raise TranspilerError(
                f"split_method should be RoundRobin, HashName or another PSDispatcher, not {method!r}"
            )
        self.sync_mode = True
        self.trainer_id = 0
        self.trainer_num: int | str = 1
        self.pserver_endpoints: list[str] = []
        self.origin_program: Program = default_main_program()
        self.startup_program: Program = default_startup_program()
        self.table_name: str | None = None
        self._job: Job | None = None

    def transpile(
        self,
        trainer_id: int,
        program: Program | None = None,
        pservers: str = "127.0.0.1:6174",
        trainers: int | str = 1,
        sync_mode: bool = True,
        startup_program: Program | None = None,
        current_endpoint: str = "127.0.0.1:6174",
    ) -> None:
        """Rewrite `program` and `startup_program` (the default ones) in place for trainer number
        `trainer_id`.

        Parameters
        ----------
        pservers: "ip:port,ip:port" of the servers.
        trainers: how many trainers; in the modes "nccl2" and "collective" their endpoints "ip:port,ip:port".
        sync_mode: all trainers take each step together.
        current_endpoint: of this process, in the modes without servers.

        TranspilerError where a program cannot be transpiled, or these do not fit together; the programs are
        then as before.
        """
        main = default_main_program() if program is None else program
        startup = default_startup_program() if startup_program is None else startup_program
        self.origin_program = main
        self.startup_program = startup
        self.trainer_id = trainer_id
        self.trainer_num = trainers
        self.sync_mode = sync_mode
        mode = mode_of_config(self.config)
        if isinstance(mode, RankMode):
            claim = RankClaim(trainer_id, str(trainers), current_endpoint)
            mode.transpile(main, startup, claim, self.config)
        else:
            if self.config.geo_sgd_mode:
                self.sync_mode = False
            self._to_servers(
                mode if self.sync_mode else mode.asynchronous(self.config), pservers, current_endpoint
            )

    # ------------------------------------------------------------------ the modes
    def _to_servers(self, mode: TrainingMode, pservers: str, current_endpoint: str) -> None:
        """Put the trainer's programs into the user's."""
        assert isinstance(mode, ServerMode)
        trainers = self._check_job(pservers)
        # the trainer's programs take over the user's: what the servers are made from is kept apart
        origin, startup = self.origin_program.clone(), self.startup_program.clone()
        # fluid writes the user's choices into the programs, also where `sync_mode` says otherwise
        config = self.config.copy()
        job = Job(origin, startup, mode, trainers, tuple(self.pserver_endpoints), config)
        made = mode.make_trainer(job, self.trainer_id)
        self._job = job
        self.table_name = next(iter(distributed_tables(origin)), None)
        self.origin_program.take_over(made.main)
        self.startup_program.take_over(made.startup)
        mode.describe(job, self.origin_program, self.trainer_id == 0, current_endpoint)

    def _check_job(self, pservers: str) -> int:
        """Take the servers, and give the number of trainers; TranspilerError where one of them is wrong."""
        self.pserver_endpoints = list(parse_endpoints(pservers, "pservers"))
        trainers = _count(self.trainer_num)
        if (
            isinstance(self.trainer_id, bool)
            or not isinstance(self.trainer_id, int)
            or not 0 <= self.trainer_id < trainers
        ):
            raise TranspilerError(
                f"trainer_id is {self.trainer_id!r}, but must be between 0 and {trainers - 1} for {trainers} "
                f"trainers"
            )
        return trainers

    def _transpile_nccl2(
        self,
        trainer_id: int,
        trainers: str,
        current_endpoint: str,
        startup_program: Program | None = None,
        wait_port: bool = True,
    ) -> None:
        """The mode "nccl2", whatever the configuration says."""
        startup = default_startup_program() if startup_program is None else startup_program
        claim = RankClaim(trainer_id, trainers, current_endpoint)
        Nccl2().transpile(self.origin_program, startup, claim, self.config)

    def _transpile_collective(
        self,
        collective_mode: str,
        trainer_id: int,
        trainers: str,
        current_endpoint: str,
        startup_program: Program | None = None,
        main_program: Program | None = None,
        wait_port: bool = True,
    ) -> None:
        """The mode "collective" with this `collective_mode`, whatever the configuration says."""
        config = self.config.copy()
        # the caller's configuration stays as it is
        config.mode = RingMode.config_mode
        config.collective_mode = collective_mode
        mode = mode_of_config(config)
        assert isinstance(mode, RankMode)
        mode.transpile(
            default_main_program() if main_program is None else main_program,
            default_startup_program() if startup_program is None else startup_program,
            RankClaim(trainer_id, trainers, current_endpoint),
            config,
        )

    # ------------------------------------------------------------------ the programs of a process
    @property
    def job(self) -> Job:
        """The job with servers that `transpile` made; TranspilerError before it, and in modes without
        servers.
        """
        if self._job is None:
            raise TranspilerError(f"there are no servers: call transpile() first (mode {self.config.mode!r})")
        return self._job

    @property
    def placement(self) -> Placement:
        """The slices of all parameters on their servers; TranspilerError as `job`."""
        return self.job.placement

    @property
    def _mode(self) -> ServerMode:
        mode = self.job.mode
        assert isinstance(mode, ServerMode)
        return mode

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """The trainer's main program, once the servers listen (with `wait_port`, here and in the
        configuration).
        """
        self.job  # noqa: B018 (asked for its error)
        if wait_port and self.config.wait_port and not under_mpi():  # where servers listen at no port
            wait_server_ready(self.pserver_endpoints)
        return self.origin_program

    def get_pserver_program(self, endpoint: str) -> Program:
        """The main program of the server at `endpoint`."""
        self._check_server(endpoint)
        program = self._mode.make_server(self.job, endpoint, self.trainer_id, self.server_config)
        # a server's program is the chief's if trainer 0 made it
        self._mode.describe(self.job, program, self.trainer_id == 0, endpoint)
        return program

    def get_pserver_programs(self, endpoint: str) -> tuple[Program, Program]:
        """Main and startup program of the server at `endpoint`."""
        main = self.get_pserver_program(endpoint)
        return main, self.get_startup_program(endpoint, pserver_program=main)

    def get_startup_program(
        self, endpoint: str, pserver_program: Program | None = None, startup_program: Program | None = None
    ) -> Program:
        """The startup program of the server at `endpoint`.

        `startup_program` is the whole job's, if another than what was transpiled; `pserver_program` is looked
        at for what the server holds, and made where it is missing.
        """
        self._check_server(endpoint)
        main = pserver_program if pserver_program is not None else self.get_pserver_program(endpoint)
        whole = startup_program
        if whole is None or whole is self.startup_program:
            # the user's own has become the trainer's: the job's is the copy from before
            whole = self.job.startup
        return make_server_startup(self.placement, endpoint, main, whole)

    def _check_server(self, endpoint: str) -> None:
        if endpoint not in self.placement.endpoints:
            raise TranspilerError(
                f"no server at {endpoint!r}{did_you_mean(str(endpoint), self.placement.endpoints)} "
                f"(servers: {', '.join(self.placement.endpoints)})"
            )

    def _set_server_config(self, server_config: ServerRuntimeConfig | None = None) -> None:
        if server_config is None:
            self.server_config = ServerRuntimeConfig()
        elif isinstance(server_config, ServerRuntimeConfig):
            self.server_config = server_config
        else:
            raise TypeError(
                f"In DistributeTranspiler, server_config must be an instance of ServerRuntimeConfig, not "
                f"{server_config!r}"
            )

    # ------------------------------------------------------------------ attributes that old programs read
    @property
    def has_distributed_lookup_table(self) -> bool:
        """True if a table lives on the servers only."""
        return self.table_name is not None

    @property
    def vars_overview(self) -> VarsDistributed:
        """Every parameter (and accumulator on servers that update), its slices, and their servers."""
        return self.job.parts

    @property
    def param_name_to_grad_name(self) -> dict[str, str]:
        """Parameter -> gradient."""
        return {update.param: update.grad for update in self.placement.training.updates}

    @property
    def grad_name_to_param_name(self) -> dict[str, str]:
        """Gradient -> parameter."""
        return {update.grad: update.param for update in self.placement.training.updates}

    @property
    def param_grad_ep_mapping(self) -> dict[str, dict[str, list[Variable]]]:
        """Endpoint -> the slices of parameters and gradients ("params", "grads") that it holds, as a
        trainer declares them.
        """
        found: dict[str, dict[str, list[Variable]]] = {
            place: {"params": [], "grads": []} for place in self.placement.endpoints
        }
        block = self.origin_program.global_block()
        for piece in self.placement.slices:
            found[piece.endpoint]["params"].append(block.var(piece.param_name))
            found[piece.endpoint]["grads"].append(
                block.var(self.placement.local_name(piece, self.trainer_id))
            )
        return found


def _count(trainers: Any) -> int:
    if isinstance(trainers, bool) or not isinstance(trainers, int) or trainers < 1:
        raise TranspilerError(f"trainers should be the number of trainers, not {trainers!r}")
    return trainers


def log(*args: Any) -> None:
    """Print nothing: a transpiled program says what was done (`fluidlite-transpile --diff`)."""


def same_or_split_var(p_name: str, var_name: str) -> bool:
    """True if `p_name` names a variable or one of its slices, as fluid spells them."""
    return p_name == var_name or p_name.startswith(f"{var_name}.block")


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
