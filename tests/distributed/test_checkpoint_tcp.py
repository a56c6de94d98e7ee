"""Jobs of processes over TCP that are killed, and go on from their last checkpoint to the very same
numbers.
"""

from __future__ import annotations

import pathlib
import subprocess
from typing import Any

import pytest
from ports import free_endpoints
from test_tcp import Processes, processes

SCRIPT = pathlib.Path(__file__).parent / "checkpoint_job.py"
pytestmark = pytest.mark.slow


def start(
    started: Processes, folder: pathlib.Path, servers: int = 2, **options: str
) -> tuple[list[Any], list[Any], dict[str, str]]:
    """Trainers and servers of a job, and what they have in common."""
    endpoints = free_endpoints(servers)
    common = {
        "ENDPOINTS": ",".join(endpoints),
        "TRAINERS": "2",
        "STEPS": "8",
        "EVERY": "2",
        "FOLDER": str(folder),
        **options,
    }
    trainers = [
        started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
    ]
    return (
        trainers,
        [started.start(SCRIPT, ROLE="PSERVER", ENDPOINT=endpoint, **common) for endpoint in endpoints],
        common,
    )


def finish(started: Processes, everybody: list[Any]) -> list[str]:
    return [started.finished(process)[0] for process in everybody]


def said(process: subprocess.Popen[str], word: str) -> None:
    """Read what a process prints until it says `word`."""
    assert process.stdout is not None
    if not any(line.strip() == word for line in process.stdout):
        raise AssertionError(f"a process ended before it said {word!r}: {process.communicate()[1]}")


def end(folder: pathlib.Path, number: int = 0) -> dict[str, bytes]:
    """The files that a trainer has written in the end."""
    return {path.name: path.read_bytes() for path in (folder / f"end_{number}").iterdir()}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the variables of a job that nobody disturbs."""
    folder = tmp_path_factory.mktemp("wanted")
    with processes() as started:
        trainers, servers, _ = start(started, folder, EVERY="3")
        finish(started, trainers + servers)
    return folder


@pytest.mark.parametrize("servers", [2, 3])
def test_a_job_that_is_killed(tmp_path: pathlib.Path, wanted: pathlib.Path, servers: int) -> None:
    with processes() as started:
        trainers, others, _ = start(started, tmp_path, PAUSE="0.02", STEPS="1000")
        said(trainers[0], "saved 4")
        for process in trainers + others:
            process.kill()
    with processes() as started:
        trainers, others, _ = start(started, tmp_path, servers)
        out = finish(started, trainers + others)
    assert out[0].startswith(("from 4", "from 6"))
    assert end(tmp_path) == end(wanted) and end(tmp_path, 1) == end(wanted, 1)


def test_a_server_that_is_killed_goes_on_from_its_checkpoint(
    tmp_path: pathlib.Path, wanted: pathlib.Path
) -> None:
    with processes() as started:
        trainers, servers, common = start(
            started, tmp_path, EVERY="1", PAUSE="0.4", FLAGS_rpc_server_wait="30000"
        )
        said(trainers[0], "saved 3")
        servers[0].kill()
        again = started.start(SCRIPT, ROLE="PSERVER", ENDPOINT=common["ENDPOINTS"].split(",")[0], **common)
        finish(started, [*trainers, servers[1], again])
    assert end(tmp_path) == end(wanted) and end(tmp_path, 1) == end(wanted, 1)


def test_a_server_from_an_old_checkpoint_is_refused(tmp_path: pathlib.Path) -> None:
    with processes() as started:
        trainers, servers, common = start(
            started, tmp_path, EVERY="3", PAUSE="0.2", FLAGS_rpc_server_wait="30000", STEPS="20"
        )
        said(trainers[0], "saved 3")
        said(trainers[0], "done 5")
        servers[0].kill()
        started.start(SCRIPT, ROLE="PSERVER", ENDPOINT=common["ENDPOINTS"].split(",")[0], **common)
        for trainer in trainers:
            assert (
                "was restored from a checkpoint of step 3, but this trainer has completed"
                in started.finished(trainer, 1)[1]
            )
