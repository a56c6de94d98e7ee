"""Processes with several devices each under `mpiexec`, held against one process with one device."""

from __future__ import annotations

import pytest
from mpi_jobs import run, says

pytestmark = pytest.mark.mpi


def test_two_processes_with_two_devices() -> None:
    done = run(2, "executor/data_parallel_job.py")
    assert done.returncode == 0, says(done)
    assert all(f"process {rank} agrees" in done.stdout for rank in range(2))
