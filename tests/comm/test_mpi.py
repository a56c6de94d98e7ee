"""Jobs under a real `mpiexec`, from the wheels that `pip install fluidlite[mpi]` brings, started without
`-m mpi4py`.
"""

from __future__ import annotations

import sys
import time

import pytest
from mpi_jobs import DEADLINE, run, says, start

pytestmark = pytest.mark.mpi


# ---------------------------------------------------------------------- jobs
@pytest.mark.parametrize(
    "mode, servers",
    [
        ("pserver", 1),
        ("pserver", 2),
        ("grad_allreduce", 0),
        ("buckets", 0),
        ("local_sgd", 0),
        ("multi_thread", 0),
        ("single_process_multi_thread", 0),
        ("nccl2", 0),
        ("nccl2_groups", 0),
        ("nccl2_compiled", 0),
    ],
)
def test_equal_to_one_process(mode: str, servers: int) -> None:
    done = run(4, "comm/mpi_job.py", mode, str(servers))
    assert done.returncode == 0, says(done)
    assert "largest relative difference from one process" in done.stdout


def test_under_the_runner_of_mpi4py() -> None:
    done = run(2, "comm/mpi_job.py", "grad_allreduce", "0", module=True)
    assert done.returncode == 0, says(done)


# ---------------------------------------------------------------------- rings
@pytest.mark.parametrize("what", ["table", "groups", "exchange", "overlap"])
def test_rings(what: str) -> None:
    done = run(4, "comm/mpi_ring_job.py", what)
    assert done.returncode == 0, says(done)
    assert all(f"{rank} is done" in done.stdout for rank in range(4))


@pytest.mark.parametrize(
    "what, wanted",
    [
        (
            "shape",
            (
                "rank 0 (process 0) wants all-reduce sum of float32[3], "
                "rank 1 (process 1) wants all-reduce sum of float32[4]"
            ),
        ),
        ("op", "rank 1 (process 1) wants broadcast from 0 of float32[3]"),
        ("root", "rank 1 (process 1) wants broadcast from 1 of float32[3]"),
    ],
)
def test_ranks_that_do_not_agree_all_hear_of_it(what: str, wanted: str) -> None:
    done = run(3, "comm/mpi_ring_job.py", "disagree", what)
    assert done.returncode == 0, says(done)
    heard = [
        line
        for line in done.stdout.splitlines()
        if "heard: the ranks of ring 0 do not agree in call 1" in line
    ]
    assert len(heard) == 3 and all(wanted in line for line in heard)


# ---------------------------------------------------------------------- what goes wrong
def test_another_number_of_processes_is_an_error_at_once() -> None:
    done = run(3, "comm/mpi_job.py", "grad_allreduce", "0", "4")
    assert done.returncode != 0
    assert says(done).count("start 4 processes, and give each the program of its rank") >= 3  # each says so


def test_a_trainer_with_fewer_batches_does_not_hold_up_the_others() -> None:
    done = run(4, "comm/mpi_job.py", "pserver", "2", "fewer")
    assert done.returncode == 0, says(done)


@pytest.mark.parametrize("mode, servers", [("pserver", 2), ("grad_allreduce", 0)])
def test_an_error_of_one_trainer_ends_the_job(mode: str, servers: int) -> None:
    begin = time.monotonic()
    done = run(4, "comm/mpi_job.py", mode, str(servers), "broken")
    assert (
        done.returncode != 0
        and "process 1 of 4 failed, and stops the others" in says(done)
        and "The fed Variable 'x'" in says(done)
    )
    assert time.monotonic() - begin < DEADLINE / 2


def test_one_program_for_all_is_an_error_at_once() -> None:
    done = run(2, "comm/mpi_ring_job.py", "same_program")
    assert done.returncode != 0 and "processes 0 and 1 have the program of the same rank" in says(done)


@pytest.mark.parametrize(
    "what, wanted",
    [
        ("raise", "process 1 of 3 failed, and stops the others"),
        ("early", "process 1 of 3 failed, and stops the others"),
        ("exit", "(all-reduce sum, call 1), but process 1 has ended"),
        ("leave", "(all-reduce sum, call 1), but process 1 has ended"),
    ],
)
def test_who_fails_or_leaves_is_named_and_ends_the_job(what: str, wanted: str) -> None:
    begin = time.monotonic()
    done = run(3, "comm/mpi_ring_job.py", "fail", what)
    assert done.returncode != 0 and wanted in says(done)
    assert time.monotonic() - begin < DEADLINE / 2
    if what in ("exit", "leave"):
        assert "op 'c_allreduce_sum' on ring 0" in says(done) and "mpi_ring_job.py:" in says(done)


def test_who_does_not_come_is_named_after_the_deadline() -> None:
    done = run(3, "comm/mpi_ring_job.py", "fail", "sleep")
    assert done.returncode != 0
    assert (
        "nothing has arrived for 2 s (the limit is FLAGS_rpc_deadline); process 1 is not waiting and has not "
        "arrived" in says(done)
    )


def test_what_processes_say_does_not_mix() -> None:
    halves = (
        "import os, time\nfor _ in range(20): os.write(1, b'one '); time.sleep(0.01); os.write(1, b'line\\n')"
    )
    done = start(3, [sys.executable, "-c", halves])
    assert done.stdout.splitlines() == ["one line"] * 60, says(done)
