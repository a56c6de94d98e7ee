"""The documented ways to start a job in a real Slurm, which runs on this machine for these tests."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import slurm_cluster
from slurm_cluster import Slurm

HERE = pathlib.Path(__file__).parent
RANKS = HERE / "slurm_ranks.py"
SERVED = HERE.parent / "distributed" / "fleet_script.py"
LAUNCH = (sys.executable, "-m", "fluidlite.paddle.distributed.launch")
HEAD = "#!/bin/bash\n#SBATCH --ntasks={}\n"

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        bool(slurm_cluster.missing()),
        reason=f"needs Debian's slurm-wlm and munge, or the like: no {', '.join(slurm_cluster.missing())}",
    ),
]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm_cluster.cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found


def results(text: str) -> list[str]:
    """The lines that ranks print: their number, that of all, and the trained weights."""
    return sorted(re.findall(r"^rank .*$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def wanted(slurm: Slurm) -> list[str]:
    """The same job of two ranks under mpiexec."""
    done = slurm.run("mpiexec", "-n", "2", sys.executable, str(RANKS))
    assert done.returncode == 0, done
    found = results(done.stdout)
    assert len(found) == 2
    return found


def test_a_rank_that_is_not_told_of_the_others_says_so(slurm: Slurm) -> None:
    done = slurm.run("srun", "-n", "2", "--mpi=none", sys.executable, str(RANKS))
    assert done.returncode != 0
    for task in range(2):
        assert f"this process is task {task} of 2, but MPI says that it is alone" in done.stderr
    assert "srun --mpi=pmi2" in done.stderr


def test_srun(slurm: Slurm, wanted: list[str]) -> None:
    done = slurm.run("srun", "-n", "2", "--mpi=pmi2", sys.executable, str(RANKS))
    assert done.returncode == 0 and results(done.stdout) == wanted, done


def test_srun_of_the_launcher(slurm: Slurm, wanted: list[str]) -> None:
    done = slurm.run("srun", "-n", "2", "--mpi=pmi2", *LAUNCH, str(RANKS))
    assert done.returncode == 0 and results(done.stdout) == wanted, done


def test_the_launcher_asks_for_what_mpi_understands(slurm: Slurm, wanted: list[str]) -> None:
    command = " ".join([*LAUNCH, "--log_dir", str(slurm.folder / "log"), str(RANKS)])
    code, output = slurm.batch(HEAD.format(2) + command)
    # the launcher shows rank 0, and keeps the others' output in their logs
    assert code == 0 and results(output) == wanted[:1], output
    assert results((slurm.folder / "log" / "workerlog.1").read_text()) == wanted[1:]


def test_a_job_file_of_ranks(slurm: Slurm, wanted: list[str]) -> None:
    code, output = slurm.batch(job_file("-n", "2", str(RANKS)))
    assert code == 0 and results(output) == wanted, output


def test_a_job_file_with_servers(slurm: Slurm) -> None:
    code, output = slurm.batch(job_file("-n", "2", "--pservers", "1", str(SERVED)))
    assert code == 0, output
    assert "worker 0 of 2 is done" in output and "worker 1 of 2 is done" in output


def test_a_killed_rank_ends_the_job(slurm: Slurm) -> None:
    command = " ".join([*LAUNCH, str(RANKS), "kill"])
    code, output = slurm.batch(HEAD.format(2) + command)
    assert code != 0, output


def test_a_requeued_job_goes_on_from_its_checkpoint(slurm: Slurm, wanted: list[str]) -> None:
    text = HEAD.format(2) + (
        f"srun --mpi=pmi2 --kill-on-bad-exit=1 {sys.executable} {RANKS} resume && exit 0\n"
        'if [ "$SLURM_RESTART_COUNT" ]; then exit 1; fi\n'
        "scontrol requeue $SLURM_JOB_ID; sleep 60\n"
    )
    # a job that is queued again begins at a time that Slurm chooses, up to two minutes later
    code, output = slurm.batch(text, "--requeue", "--open-mode=append", limit=600)
    assert code == 0 and results(output) == wanted, output
    assert "from step 2" in output


def job_file(*arguments: str) -> str:
    """The file that `fluidlite-launch` writes for Slurm."""
    command = [sys.executable, "-m", "fluidlite.cli.launch", *arguments[:-1], "--slurm", arguments[-1]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
