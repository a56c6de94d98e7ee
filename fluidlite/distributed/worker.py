"""A training script as one process of a job: the programs of its role, its share of the data, and a proof
afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.place import CPUPlace
from fluidlite.communicator import Communicator
from fluidlite.distributed.environment import HOW_TO_START, ProcessRole, roles_from_environment
from fluidlite.distributed.references import parameters
from fluidlite.distributed.shares import get, max_relative_difference, put
from fluidlite.distributed.trial import communicator_of
from fluidlite.executor.executor import Executor
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program, default_main_program, default_startup_program, program_guard
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.modes import LOCAL, Job, TrainingMode, all_modes, make_job
from fluidlite.transpiler.parts.roles import PSERVER, TRAINER
from fluidlite.values.scope import Scope, global_scope, scope_guard

__all__ = ["Worker", "add_job_options", "join_job", "script_modes"]


def script_modes() -> dict[str, TrainingMode]:
    """Name -> mode, of those that a script can be started in: "local", and modes of several processes."""
    return {mode.name: mode for mode in (LOCAL, *all_modes()) if mode is LOCAL or not mode.one_process}


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add `--mode` and `--pservers`, the arguments of `join_job`, and `--compare`, to train again in one
    process.
    """
    group = parser.add_argument_group("run as one of several processes (fluidlite docs running)")
    group.add_argument(
        "--mode",
        choices=tuple(script_modes()),
        default=LOCAL.name,
        help="how the processes work together (default: local)",
    )
    group.add_argument(
        "--pservers",
        type=int,
        default=1,
        metavar="N",
        help="under mpirun: the last N ranks are servers (default: 1)",
    )
    group.add_argument(
        "--compare", action="store_true", help="train again in one process and compare the parameters"
    )


def join_job(
    mode: str = LOCAL.name,
    pservers: int = 1,
    main: Program | None = None,
    startup: Program | None = None,
    config: DistributeTranspilerConfig | None = None,
) -> Worker:
    """This process's part in training `main` and `startup` (default: the default programs, which stay as they
    are).

    Parameters
    ----------
    mode: one of `script_modes()`; "local" is the whole job.
    pservers: how many of the processes of an `mpirun` are servers, where the mode has any; over TCP the
    environment says so.

    TranspilerError where the environment and the mode do not go together.
    """
    known = script_modes()
    if mode not in known:
        raise TranspilerError(f"no mode {mode!r}{did_you_mean(mode, known)} (modes: {', '.join(known)})")
    chosen = known[mode]
    main = main or default_main_program()
    startup = startup or default_startup_program()
    if chosen is LOCAL:
        return Worker(make_job(main, startup, chosen, 1), ProcessRole(TRAINER, 0, 1))
    process = roles_from_environment(pservers if chosen.has_servers else 0)
    if process.by == "alone":
        raise TranspilerError(f"mode {mode!r} needs the other processes of the job: {HOW_TO_START}")
    if process.by == "environment" and not chosen.has_servers:
        raise TranspilerError(
            f"mode {mode!r} has no servers, and its trainers find each other by MPI only: start them with "
            "mpirun"
        )
    places = list(process.servers) if chosen.has_servers else process.trainers
    in_step = config is None or config.sync_mode
    job = make_job(main, startup, chosen, process.trainers, places, in_step, config)
    return Worker(job, process)


class Worker:
    """One process of a job.

    Attributes
    ----------
    job, process, mode: the job, this process's place in it, and the name of the job's mode.
    index, count: this trainer's number, and how many there are.
    startup, main: the programs that this process runs once, and step by step.
    """

    def __init__(self, job: Job, process: ProcessRole) -> None:
        self.job = job
        self.process = process
        self.mode = job.mode.name
        self.index = process.index
        self.count = process.trainers
        self.communicator: Communicator | None = None  # sends and fetches beside an asynchronous trainer
        self.first: dict[str, Any] = {}  # the parameters that training began with
        self.main, (self.startup, *self.connect) = _programs(job, process)

    @property
    def serves(self) -> bool:
        """True if this process is a server."""
        return self.process.kind == PSERVER

    @property
    def reports(self) -> bool:
        """True for the trainer that speaks for all."""
        return not self.serves and self.index == 0

    def serve(self) -> None:
        """Be the server that this process is; returns when all trainers have left."""
        exe = Executor(CPUPlace())
        exe.run(self.startup)
        exe.run(self.main)

    def share(self, batch: Any) -> Any:
        """This trainer's rows of a batch: an array, a list of samples, or a dict of either."""
        if isinstance(batch, Mapping):
            return {name: self.share(value) for name, value in batch.items()}
        rows = len(batch)
        # every row goes to exactly one trainer, also where the trainers do not divide the batch
        return batch[self.index * rows // self.count : (self.index + 1) * rows // self.count]

    # ------------------------------------------------------------------ training
    def start(self, exe: Executor, keep: bool = False) -> None:
        """Initialise; the trainers then have the same parameters. `keep` remembers them for `compare`."""
        self.communicator = communicator_of(self.job, self.main)
        if self.communicator is not None:
            self.communicator.start()
        for program in (self.startup, *self.connect):
            exe.run(program)
        # tables of which trainers hold no whole copy are fetched once for it
        if keep:
            self.pull(exe)
            self.first = self.values()

    def finish(self, exe: Executor) -> None:
        """Fetch what only the servers have, and leave the job."""
        if self.communicator is not None:
            self.communicator.stop()
        # one of the trainers is enough, and each would fetch the whole tables
        if self.reports:
            self.pull(exe)
        if self.job.mode is not LOCAL:
            exe.close()

    def pull(self, exe: Executor) -> None:
        """Fetch the tables whose rows trainers ask for one by one."""
        tables = dict.fromkeys(piece.param for piece in self.job.slices if piece.sparse)
        if tables:
            exe.run(_pulling(self.job, list(tables), self.index))

    def values(self) -> dict[str, Any]:
        """The trained parameters as they are now."""
        return {name: get(global_scope(), name) for name in parameters(self.job)}

    # ------------------------------------------------------------------ afterwards
    def compare(self, train: Callable[[Worker, Executor], Any]) -> str:
        """Train in this process alone, from the same parameters, and say in one line how far the job's
        parameters are from that.

        `train(worker, exe)` does what the script did between `start` and `finish`.
        """
        found = self.values()
        alone = join_job(LOCAL.name, main=self.job.main, startup=self.job.startup)
        exe = Executor(CPUPlace())
        with scope_guard(Scope()):
            alone.start(exe)
            put(global_scope(), self.first)
            train(alone, exe)
            wanted = self.values()
        differences = {name: max_relative_difference(found[name], value) for name, value in wanted.items()}
        worst = max(differences, key=differences.__getitem__)
        servers = f", {len(self.process.servers)} servers" if self.process.servers else ""
        return (
            f"{self.mode}: {self.count} trainers{servers}: {len(differences)} parameters, largest relative "
            f"difference from one process {differences[worst]:.1e} ({worst})"
        )


def _programs(job: Job, process: ProcessRole) -> tuple[Program, list[Program]]:
    """The program that a process runs step by step, and those that it runs once before."""
    if process.kind == TRAINER:
        return job.mode.trainer(job, process.index)
    programs = job.programs(job.role(f"{process.kind}{process.index}"))
    return programs.main, [programs.startup]


def _pulling(job: Job, tables: list[str], trainer: int) -> Program:
    """A program that receives whole tables."""
    program = Program()
    block = program.global_block()
    source = job.main.global_block()
    with program_guard(program):
        for table in tables:
            var = source.var(table)
            pieces = [piece for piece in job.slices if piece.param == table]
            block.create_var(name=table, shape=var.shape, dtype=var.dtype, persistable=True)
            names = [piece.param_name for piece in pieces]
            for piece in pieces if len(pieces) > 1 else ():
                block.create_var(name=piece.param_name, shape=piece.shape, dtype=var.dtype)
            block.append_op(
                "recv",
                {},
                {"Out": names},
                {
                    "epmap": [piece.endpoint for piece in pieces],
                    "trainer_id": trainer,
                    "op_role": int(OpRole.RPC),
                },
            )
            if len(pieces) > 1:
                block.append_op("concat", {"X": names}, {"Out": [table]}, {"axis": 0})
    return program
