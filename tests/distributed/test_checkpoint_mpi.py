"""Checkpoints of jobs under `mpiexec`."""

from __future__ import annotations

import pathlib

import pytest
from mpi_jobs import run, says

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("mode, servers", [("pserver", 1), ("grad_allreduce", 0), ("local_sgd", 0)])
def test_a_job_goes_on(tmp_path: pathlib.Path, mode: str, servers: int) -> None:
    for _ in range(2):
        done = run(3, "distributed/mpi_checkpoint_job.py", mode, str(servers), str(tmp_path))
        assert done.returncode == 0, says(done)
    assert all(f"{rank} has gone on from step 2" in done.stdout for rank in range(3 - servers))
