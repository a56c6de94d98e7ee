"""Processes that `mpirun` started: telling that they are, and ending all when one fails. Imports no MPI."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import time
from typing import Any

from fluidlite.base.errors import CommunicatorError

__all__ = [
    "LAUNCHED",
    "check_not_alone",
    "mpi_place",
    "remove_segments_of_earlier_runs",
    "stop_all_on_error",
    "under_mpi",
]

LAUNCHED = "FLUIDLITE_LAUNCHED"
"""The variable by which `fluidlite-launch` tells a job's first trainer how many processes there are."""

# each launcher has its own: Open MPI, then the protocols of MPICH and its kin
_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
# the rank and the size, where a launcher says both; `srun` alone sets those of Slurm
_PLACE_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
_SHARED_MEMORY = pathlib.Path("/dev/shm")
_OTHERS_TOO = 0.3  # seconds for the others to say what is wrong, where all have found the same


def under_mpi() -> bool:
    """True if `mpirun` started this process as one of several."""
    return any(
        os.environ.get(name, "1").isdigit() and int(os.environ.get(name, "1")) > 1 for name in _SIZE_VARIABLES
    )


def mpi_place() -> tuple[int, int] | None:
    """Rank and number of the processes that `mpirun` or `srun` started; None where neither did."""
    for rank, size in _PLACE_VARIABLES:
        found = os.environ.get(rank, ""), os.environ.get(size, "")
        if all(text.isdigit() for text in found) and under_mpi():
            return int(found[0]), int(found[1])
    return None


def check_not_alone(size: int) -> None:
    """CommunicatorError where Slurm has started several tasks, and MPI, which counts `size` processes, does
    not know of them.
    """
    tasks = os.environ.get("SLURM_STEP_NUM_TASKS", "1")
    if size == 1 and tasks.isdigit() and int(tasks) > 1:
        raise CommunicatorError(
            f"Slurm says that this process is task {os.environ.get('SLURM_PROCID', '?')} of {tasks}, but MPI "
            "says that it is alone: start the tasks with srun --mpi=pmi2, or with what `srun --mpi=list` "
            "offers for this MPI (pmix for Open MPI)"
        )


def stop_all_on_error() -> None:
    """Let an error that nobody catches end all processes of the job: the others would wait for this one."""
    before = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        try:
            from mpi4py import MPI
        except ImportError:
            before(kind, error, trace)
            return
        import traceback

        text = "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write(
            f"process {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size} failed, and stops the others:\n{text}"
        )
        sys.stderr.flush()
        sys.stdout.flush()
        if not MPI.Is_finalized():
            time.sleep(_OTHERS_TOO)
            # plain `mpirun python` would go on waiting for the ranks that wait for this one
            MPI.COMM_WORLD.Abort(1)

    sys.excepthook = hook


def remove_segments_of_earlier_runs(folder: pathlib.Path = _SHARED_MEMORY) -> None:
    """Remove the shared memory that MPICH's ranks left when they were killed, in a job that Slurm has queued
    again. It is named by job and step, whose numbers are the same again, and this run's ranks would read it.
    """
    if os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
        return
    limit = _process_start() - 1  # Slurm starts the ranks of a run together
    for segment in folder.glob("mpich_shm_*"):
        # other users' files are not ours
        with contextlib.suppress(OSError):
            found = segment.stat()
            if found.st_uid == os.getuid() and found.st_mtime < limit:
                segment.unlink()


def _process_start() -> float:
    """When this process began, in seconds since 1970: imports may have taken long."""
    # the numbers behind the command's name, which may contain blanks
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[19])
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


# at import, so that it also covers what fails before the first run
if under_mpi():
    stop_all_on_error()
    remove_segments_of_earlier_runs()
