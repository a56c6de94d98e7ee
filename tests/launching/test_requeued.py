"""Shared memory of killed ranks, whose name a job that Slurm queues again would use once more."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from fluidlite.base import mpi_start


@pytest.mark.parametrize("restarts, left", [("2", ["mpich_shm_new", "other"]), ("0", None), ("", None)])
def test_segments_of_earlier_runs(
    restarts: str, left: list[str] | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if restarts:
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    for name in ("mpich_shm_1_0", "mpich_shm_new", "other"):
        (tmp_path / name).touch()
        if name != "mpich_shm_new":
            os.utime(tmp_path / name, (mpi_start._process_start() - 2,) * 2)
    mpi_start.remove_segments_of_earlier_runs(tmp_path)
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == (left or ["mpich_shm_1_0", "mpich_shm_new", "other"])


def test_the_start_of_this_process() -> None:
    began = time.time()
    code = "from fluidlite.base import mpi_start; print(mpi_start._process_start())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert began - 0.1 <= float(said) <= time.time()
