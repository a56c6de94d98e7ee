"""The programs that start processes: `mpiexec` of MPICH or Open MPI, and Slurm's `srun`."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from fluidlite.base.errors import MissingExtraError
from fluidlite.base.records import dataclass

__all__ = ["Allocation", "find_allocation", "find_mpiexec", "start_command", "understood_by_mpi"]


@dataclass(frozen=True)
class Allocation:
    """Hosts that a scheduler has reserved for this job.

    by: "slurm", "pbs", or "" where there is no scheduler.
    processes: how many it was asked for; 0 where it does not say.
    node_file: PBS's list of hosts, one for each process.
    """

    by: str = ""
    processes: int = 0
    node_file: str = ""


def find_allocation(environ: Mapping[str, str]) -> Allocation:
    """The scheduler's reservation that this process runs in, as its variables say."""
    if "SLURM_JOB_ID" in environ and shutil.which("srun", path=environ.get("PATH")):
        count = environ.get("SLURM_NTASKS", "")
        return Allocation("slurm", int(count) if count.isdigit() else 0)
    node_file = environ.get("PBS_NODEFILE", "")
    if node_file and pathlib.Path(node_file).is_file():
        lines = pathlib.Path(node_file).read_text(encoding="utf8").split()
        return Allocation("pbs", len(lines), node_file)
    return Allocation()


def start_command(
    count: int, hosts: Sequence[str], on_each: int, allocation: Allocation, environ: Mapping[str, str]
) -> list[str]:
    """The command that starts `count` processes of what follows it, `on_each` on each of the hosts, or where
    a scheduler says. MissingExtraError where there is none.
    """
    if allocation.by == "slurm" and not hosts:
        return ["srun", "--ntasks", str(count), "--kill-on-bad-exit=1", *_pmi(environ)]
    mpiexec = _mpiexec(environ)
    if _is_open_mpi(mpiexec):
        return [mpiexec, *_open_mpi(count, hosts, on_each, allocation)]
    command = [mpiexec, "-n", str(count)]
    if hosts:
        command += ["-hosts", ",".join(hosts), "-ppn", str(on_each)]
    elif allocation.by == "pbs":
        command += ["-f", allocation.node_file]
    return command


def understood_by_mpi(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The ways in which Slurm can tell its tasks to the MPI at hand, the best one first."""
    try:
        open_mpi = _is_open_mpi(_mpiexec(environ))
    except MissingExtraError:
        open_mpi = False
    return ("pmix", "pmi2") if open_mpi else ("pmi2", "pmix")


def _pmi(environ: Mapping[str, str]) -> list[str]:
    """The option for what both Slurm and MPI understand: by default Slurm tells nothing, and each rank
    believes that it is alone. [] where there is no such way.
    """
    said = subprocess.run(["srun", "--mpi=list"], capture_output=True, text=True, check=False, env=environ)
    offered = (said.stdout + said.stderr).split()
    return next(([f"--mpi={kind}"] for kind in understood_by_mpi(environ) if kind in offered), [])


def find_mpiexec(environ: Mapping[str, str]) -> str | None:
    """The path of the `mpiexec` that starts ranks."""
    # beside Python first: that of `pip install 'fluidlite[mpi]'` goes with its mpi4py
    folders = os.pathsep.join([str(pathlib.Path(sys.executable).parent), environ.get("PATH", "")])
    return shutil.which("mpiexec", path=folders)


def _mpiexec(environ: Mapping[str, str]) -> str:
    found = find_mpiexec(environ)
    if found is None:
        raise MissingExtraError(
            "several processes that reduce together are started by mpiexec, which is not there: "
            "pip install 'fluidlite[mpi]'"
        )
    return found


def _is_open_mpi(mpiexec: str) -> bool:
    # MPICH's wrapper says so in its name, which saves a process
    if "hydra" in pathlib.Path(mpiexec).resolve().name:
        return False
    said = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    return "Open MPI" in said or "OpenRTE" in said


def _open_mpi(count: int, hosts: Sequence[str], on_each: int, allocation: Allocation) -> list[str]:
    options = ["-n", str(count), "--oversubscribe"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # not on Windows; Open MPI refuses root otherwise
        options.append("--allow-run-as-root")
    if hosts:
        options += ["-host", ",".join(f"{host}:{on_each}" for host in hosts)]
    elif allocation.by == "pbs":
        options += ["--hostfile", allocation.node_file]
    return options
