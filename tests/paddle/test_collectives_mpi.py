"""The collective functions of 2.x under a real `mpiexec`."""

from __future__ import annotations

import pytest
from mpi_jobs import run, says

pytestmark = pytest.mark.mpi
JOB = "paddle/collective_job.py"


def test_the_table() -> None:
    done = run(4, JOB, "table")
    assert done.returncode == 0 and done.stdout.count("is done") == 4, says(done)


def test_members_that_call_different_things_hear_of_all_calls() -> None:
    done = run(4, JOB, "mixed")
    assert done.stdout.count("heard: the ranks of ring 0 do not agree in call 1") == 4, says(done)
    for wish in (
        "rank 0 (process 0) wants all-reduce sum",
        "rank 1 (process 1) wants all-gather",
        "rank 2 (process 2) wants gather to 0",
        "rank 3 (process 3) wants all-to-all",
    ):
        assert done.stdout.count(wish) == 4, says(done)


def test_a_receiver_whose_sender_reduces() -> None:
    done = run(2, JOB, "waits", deadline=2.0)
    assert done.returncode == 0 and "is done" in done.stdout, says(done)
    assert "process 0 waits for rank 1 of ring 0 to send" in done.stdout, says(done)
    assert "all-reduce sum" in done.stdout, says(done)
