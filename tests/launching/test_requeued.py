"""Shared memory of killed ranks, whose name a job that Slurm queues again would use once more."""

import os
import pathlib
import time

import pytest

from fluidlite.base.mpi_start import remove_segments_of_earlier_runs


@pytest.mark.parametrize("restarts, left", [("2", ["mpich_shm_new", "other"]), ("0", None), ("", None)])
def test_segments_of_earlier_runs(
    restarts: str, left: list[str] | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if restarts:
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
    for name in ("mpich_shm_1_0", "mpich_shm_new", "other"):
        (tmp_path / name).touch()
        if name != "mpich_shm_new":
            os.utime(tmp_path / name, (time.time() - 100,) * 2)
    remove_segments_of_earlier_runs(tmp_path)
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == (left or ["mpich_shm_1_0", "mpich_shm_new", "other"])
