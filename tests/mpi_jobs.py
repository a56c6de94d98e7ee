"""Jobs under a real `mpiexec`, from the wheels that `pip install fluidlite[mpi]` brings."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

__all__ = ["DEADLINE", "MPIEXEC", "TESTS", "run", "says", "start"]

DEADLINE = 200.0
"""Seconds that a process waits for another; an error that ends all at once comes long before."""
TESTS = pathlib.Path(__file__).parent
MPIEXEC = shutil.which(
    "mpiexec", path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")])
)
# the process that mpiexec starts becomes Python, and keeps its number
_OWN_FILE = 'exec "$@" >"$0/$$"'


def start(
    count: int, command: list[str], deadline: float = DEADLINE, cwd: pathlib.Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """A job of `count` processes that run `command`, once it has ended.

    Each process writes into a file of its own, and `stdout` has one file after another: mpiexec passes on
    what comes as it comes, so a line of one process may begin in the middle of another one's.
    """
    assert MPIEXEC is not None
    version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=False).stdout
    options = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version else []
    variables = {"OMP_NUM_THREADS": "1", "FLAGS_rpc_deadline": str(int(deadline * 1000)), **env}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [MPIEXEC, *options, "-n", str(count), "sh", "-c", _OWN_FILE, folder, *command],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **variables},
            cwd=cwd,
            check=False,
        )
        files = sorted(pathlib.Path(folder).iterdir())
        done.stdout += "".join(file.read_text(encoding="utf8") for file in files)
    return done


def run(
    count: int, script: str, *arguments: str, deadline: float = DEADLINE, module: bool = False
) -> subprocess.CompletedProcess[str]:
    """A job of a script of the tests, with `module` under mpi4py's runner."""
    runner = ["-m", "mpi4py"] if module else []
    return start(count, [sys.executable, *runner, str(TESTS / script), *arguments], deadline)


def says(done: subprocess.CompletedProcess[str]) -> str:
    """All that a job has written."""
    return done.stdout + done.stderr
