"""Processes of a job over TCP that are killed, stopped and started again."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from ports import free_endpoint
from test_tcp import processes
from waiting import LIMIT

SCRIPT = pathlib.Path(__file__).parent / "fault_job.py"


# ---------------------------------------------------------------------- processes
def environment(**more: str) -> dict[str, str]:
    return {"ENDPOINTS": free_endpoint(), "TRAINERS": "2", **more}


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    """Read what a process prints until it says `word`."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"a process ended before it said {word!r}")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["stop", "go_on"])
def test_kill_9_of_a_trainer(policy: str) -> None:
    common = environment(
        FLAGS_rpc_lost_trainer=policy, FLAGS_rpc_lost_trainer_wait="1000", STEPS="400", PAUSE="0.01"
    )
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        first, second = (
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        )
        wait_for(second, "step 20")
        second.kill()
        if policy == "go_on":
            assert "step 399" in started.finished(first)[0]
            started.finished(server)
        else:
            assert "says: trainer 1 disconnected without notice" in started.finished(first, 1)[1]
            assert "trainer 1 disconnected without notice" in started.finished(server, 1)[1]


@pytest.mark.slow
def test_kill_9_of_an_asynchronous_trainer() -> None:
    common = environment(SYNC="0", FLAGS_rpc_lost_trainer_wait="1000", STEPS="300", PAUSE="0.005")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        first, second = (
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        )
        wait_for(second, "step 20")
        second.kill()
        assert "step 299" in started.finished(first)[0]
        started.finished(server)


@pytest.mark.slow
def test_kill_9_of_a_server() -> None:
    common = environment(STEPS="1000", PAUSE="0.01")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        ]
        wait_for(trainers[0], "step 20")
        server.kill()
        begin = time.monotonic()
        for trainer in trainers:
            assert f"the server at {common['ENDPOINTS']} disconnected" in started.finished(trainer, 1)[1]
        assert time.monotonic() - begin < 10


@pytest.mark.slow
@pytest.mark.parametrize("sync", ["1", "0"])
def test_a_server_that_comes_back(sync: str) -> None:
    common = environment(SYNC=sync, STEPS="150", PAUSE="0.01", FLAGS_rpc_server_wait="30000")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(number), **common) for number in range(2)
        ]
        wait_for(trainers[0], "step 20")
        server.kill()
        server.wait(LIMIT)
        again = started.start(SCRIPT, ROLE="PSERVER", **common)
        for trainer in trainers:
            out, err = started.finished(trainer)
            assert "step 149" in out and "waiting up to 30 s for it to come back" in err
        started.finished(again)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_signals_end_a_server(number: signal.Signals) -> None:
    common = environment(STEPS="1000", PAUSE="0.01")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(index), **common) for index in range(2)
        ]
        wait_for(trainers[0], "step 20")
        assert os.path.exists(f"/tmp/paddle.{server.pid}.port")
        server.send_signal(number)
        out, err = started.finished(server)
        assert re.fullmatch(r"listening at \S+\n", err)
        assert "after the server" not in out and not os.path.exists(f"/tmp/paddle.{server.pid}.port")
        for trainer in trainers:
            assert f"says: it was told to stop ({number.name})" in started.finished(trainer, 1)[1]


@pytest.mark.slow
def test_a_stopped_trainer_is_named() -> None:
    common = environment(STEPS="1000", PAUSE="0.01", FLAGS_rpc_deadline="4000")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        trainers = [
            started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID=str(index), **common) for index in range(2)
        ]
        wait_for(trainers[0], "step 20")
        trainers[1].send_signal(signal.SIGSTOP)
        assert "says: trainer 1 has not reached the barrier" in started.finished(trainers[0], 1)[1]
        started.finished(server, 1)


@pytest.mark.slow
def test_a_trainer_with_an_error_is_no_trainer_that_is_done() -> None:
    common = environment(FLAGS_rpc_lost_trainer_wait="500", STEPS="1000", PAUSE="0.01")
    with processes() as started:
        server = started.start(SCRIPT, ROLE="PSERVER", **common)
        first = started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID="0", **common)
        second = started.start(SCRIPT, ROLE="TRAINER", TRAINER_ID="1", **{**common, "ERROR_AT": "20"})
        assert "a mistake of the user" in started.finished(second, 1)[1]
        assert "says: trainer 1 disconnected without notice" in started.finished(first, 1)[1]
        started.finished(server, 1)
