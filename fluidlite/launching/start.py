"""The whole of a launcher's command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fluidlite.base.command_line import BROKEN_PIPE, drop_output
from fluidlite.base.errors import FluidError
from fluidlite.base.mpi_start import under_mpi
from fluidlite.launching.options import LaunchOptions, parse_options
from fluidlite.launching.plan import plan_job, rank_command
from fluidlite.launching.ports import HeldPorts
from fluidlite.launching.rank import main as be_rank
from fluidlite.launching.supervise import run_job

__all__ = ["main", "start"]

_MISTAKE = 2  # the exit code of a command that cannot be followed


def main(arguments: Sequence[str], program: str, servers: bool = False) -> int:
    """Start what a command line says, and give the exit code. `program` is what the command is called."""
    try:
        options = parse_options(arguments, program, servers)
    except BrokenPipeError:
        # whoever read the help has seen enough
        drop_output()
        return BROKEN_PIPE
    except OSError as error:
        # the help, on a disk that is full
        drop_output()
        sys.stderr.write(f"{program}: error: {error.strerror}, where the output goes\n")
        return _MISTAKE
    return start(options, program)


def start(options: LaunchOptions, program: str) -> int:
    """Run a job, and give the exit code of the process that failed first, or 0."""
    if under_mpi() and not options.has_servers:
        # `srun` or `mpiexec` has started this command itself, once for each rank
        be_rank(list(rank_command(options)))
        return 0
    try:
        with HeldPorts() as ports:
            shown_as = program if options.shows_all else ""
            return run_job(lambda folder: plan_job(options, folder, ports), shown_as)
    except FluidError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return _MISTAKE
