"""Jobs under a real `mpiexec`, from the wheels that `pip install fluidlite[mpi]` brings."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent / "mpi_job.py"
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]))
pytestmark = [pytest.mark.mpi, pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install 'fluidlite[mpi]'")]


def run(count: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert MPIEXEC is not None
    says = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=False).stdout
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in says else []
    command = [MPIEXEC, *options, "-n", str(count), sys.executable, "-m", "mpi4py", str(SCRIPT), *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "FLAGS_rpc_deadline": "60000"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)


@pytest.mark.parametrize("mode, servers", [("pserver", 1), ("pserver", 2), ("grad_allreduce", 0), ("multi_thread", 0)])
def test_equal_to_one_process(mode: str, servers: int) -> None:
    done = run(4, mode, str(servers))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "largest relative difference from one process" in done.stdout


def test_another_number_of_processes_is_an_error_at_once() -> None:
    done = run(3, "grad_allreduce", "0", "4")
    assert done.returncode != 0 and "start 4 processes, and give each the program of its rank" in done.stdout + done.stderr
