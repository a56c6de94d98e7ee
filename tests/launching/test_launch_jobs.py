"""Jobs that `launch`, `launch_ps` and `spawn` start: their environment, output, failures and end."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import mpi_jobs
import pytest
from waiting import LIMIT, until

HERE = pathlib.Path(__file__).parent
JOB = str(HERE / "launched.py")
DEADLINE = 200
"""Seconds that a rank waits for another."""
pytestmark = pytest.mark.mpi


def command(*arguments: str, module: str = "launch") -> list[str]:
    return [sys.executable, "-m", f"fluidlite.paddle.distributed.{module}", *arguments]


def launch(folder: pathlib.Path, *arguments: str, module: str = "launch") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "FLAGS_rpc_deadline": str(DEADLINE * 1000)}
    return subprocess.run(
        command(*arguments, module=module),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def is_running(marker: str) -> bool:
    """True if some process has the marker in its command line."""
    lines = pathlib.Path("/proc").glob("[0-9]*/cmdline")
    return any(marker.encode() in read(line) for line in lines)


def read(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it has ended meanwhile


# ---------------------------------------------------------------------- ranks
def test_rank_0_is_shown_and_every_rank_has_a_log(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "--nproc_per_node", "3", JOB)
    assert done.returncode == 0, done
    assert done.stdout == "rank 0 of 3: 6\n" and done.stderr == ""
    logs = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert logs == ["workerlog.0", "workerlog.1", "workerlog.2"]
    assert (tmp_path / "log" / "workerlog.2").read_text() == "rank 2 of 3: 6\n"


def test_without_logs_all_output_is_shown(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "--nproc_per_node", "2", "--log_dir", "", JOB)
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2: 3", "rank 1 of 2: 3"], done
    assert not (tmp_path / "log").exists()


def test_what_ranks_are_told(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "--gpus", "4,6", "--start_port", "7000", JOB, "environment", "--gpus", "x")
    told = [json.loads((tmp_path / "log" / f"workerlog.{rank}").read_text()) for rank in range(2)]
    assert done.returncode == 0 and json.loads(done.stdout) == told[0]
    assert told[1]["argv"] == ["environment", "--gpus", "x"]
    wanted = {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:7000,127.0.0.1:7001",
        "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:7001",
        "PADDLE_RANK_IN_NODE": "1",
        "PADDLE_LOCAL_SIZE": "2",
        "CUDA_VISIBLE_DEVICES": "6",
        "FLAGS_selected_gpus": "0",
    }
    assert {name: told[1][name] for name in wanted} == wanted


def test_one_process_needs_no_mpiexec(tmp_path: pathlib.Path) -> None:
    done = launch(tmp_path, "--gpus", "cpu", JOB)
    assert done.returncode == 0 and done.stdout == "rank 0 of 1: 1\n", done


def test_ranks_that_mpiexec_has_started_are_ranks(tmp_path: pathlib.Path) -> None:
    done = mpi_jobs.start(2, command(JOB), cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2: 3", "rank 1 of 2: 3"], done


# ---------------------------------------------------------------------- failures
@pytest.mark.parametrize(
    "what, code, says",
    [
        ("later", 1, "worker 1 failed with exit code 1, and the others were ended:\nTraceback"),
        ("first", 1, "worker 0 failed with exit code 1, and the others were ended:\nTraceback"),
        ("before", 1, "worker 1 failed with exit code 1, and the others were ended:\nTraceback"),
        ("exit", 7, "worker 1 failed with exit code 7, and the others were ended\n"),
        (
            "leave",
            1,
            "worker 1 exited with code 0 in the middle of the job without an error, as os._exit(0) does",
        ),
        ("kill", 9, ("worker 1 ended with exit code 9", "the ranks ended with exit code 9")),
    ],
)
def test_the_first_failure_is_shown_once_and_ends_all(
    what: str, code: int, says: str | tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    start = time.monotonic()
    done = launch(tmp_path, "--nproc_per_node", "3", JOB, what, str(tmp_path))
    assert done.returncode == code and done.stderr.startswith(says), done
    assert done.stderr.count("Traceback") == str(says).count("Traceback") and "Traceback" not in done.stdout
    assert "runpy" not in done.stderr and "rank.py" not in done.stderr
    assert time.monotonic() - start < DEADLINE * 0.8  # it is the failure that ends them
    assert not is_running(str(tmp_path))


@pytest.mark.parametrize(
    "number, code",
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["ctrl-c", "term", "hang-up"],
)
def test_a_signal_ends_all_quietly(number: int, code: int, tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(
        command("--nproc_per_node", "2", JOB, "wait", str(tmp_path)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        log = tmp_path / "log" / "workerlog.0"
        until(lambda: log.is_file() and log.read_text())
        child.send_signal(number)
        _, said = child.communicate(timeout=LIMIT)
    assert child.returncode == code and said == ""
    assert not is_running(str(tmp_path))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no death signal of a parent")
def test_a_launcher_that_is_killed_takes_its_job_along(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(
        command("--nproc_per_node", "2", JOB, "wait", str(tmp_path)),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        log = tmp_path / "log" / "workerlog.0"
        until(lambda: log.is_file() and log.read_text())
        child.kill()
    until(lambda: not is_running(str(tmp_path)))


def test_a_job_costs_little_more_than_mpiexec(tmp_path: pathlib.Path) -> None:
    assert mpi_jobs.MPIEXEC is not None
    took: dict[str, list[float]] = {"launch": [], "mpiexec": []}
    commands = {
        "launch": command("--nproc_per_node", "4", JOB),
        "mpiexec": [mpi_jobs.MPIEXEC, "-n", "4", sys.executable, JOB],
    }
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(3):
        for name, each in commands.items():
            start = time.monotonic()
            subprocess.run(each, cwd=tmp_path, env=env, capture_output=True, check=True, timeout=300)
            took[name].append(time.monotonic() - start)
    # the bound is a second on an idle machine; where others run beside, both take a multiple of their time
    assert min(took["launch"]) < 2.0 + 2.0 * min(took["mpiexec"]), took


# ---------------------------------------------------------------------- servers and functions
def test_servers_and_trainers(tmp_path: pathlib.Path) -> None:
    script = str(HERE.parent / "distributed" / "fleet_script.py")
    done = launch(tmp_path, "--server_num", "2", "--worker_num", "2", script)
    assert done.returncode == 0 and done.stderr == "", done
    assert done.stdout.splitlines()[-1] == "worker 0 of 2 is done"
    assert (tmp_path / "log" / "workerlog.1").read_text().splitlines()[-1] == "worker 1 of 2 is done"
    assert (tmp_path / "log" / "serverlog.1").is_file()


def test_a_trainer_that_fails_ends_the_servers(tmp_path: pathlib.Path) -> None:
    script = str(HERE.parent / "distributed" / "fleet_script.py")
    done = launch(tmp_path, "--worker_num", "2", "--server_num", "1", script, "fail", module="launch_ps")
    assert done.returncode == 1 and done.stderr.startswith("worker 1 failed with exit code 1"), done
    assert "ValueError: step 3" in done.stderr and done.stderr.count("Traceback") == 1


def test_functions(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "spawner.py")],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    *lines, call, place = done.stdout.splitlines()
    assert lines == [
        "[[5, 0], [5, 1]]",
        "[4.0, 4.0]",
        "True",
        "a spawned process failed with exit code 1: see above",
    ], done
    assert "in paddle.distributed.spawn(" in call and "spawner.py" in place, done
    assert "ValueError: three" in done.stderr and done.stderr.count("Traceback") == 1
