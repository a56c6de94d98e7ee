"""The timeline of a job: its processes, ops, steps, and both ends of each message."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from launcher import launch

import fluidlite as fluid
from fluidlite.base.tracing import tracer
from fluidlite.cli.launch import main
from fluidlite.distributed import verify
from fluidlite.executor.timeline import merge_traces
from fluidlite.profiler import recorder

SERVED = pathlib.Path(__file__).parents[1] / "distributed" / "fleet_script.py"


def events(path: pathlib.Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf8"))["traceEvents"]
    return found


def check(found: list[dict[str, Any]], roles: set[str]) -> None:
    """Each role is a process with ops; every message leaves one process and arrives later at another."""
    names = {event["pid"]: event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert set(names.values()) == roles
    assert {event["pid"] for event in found if event.get("cat") == "op"} == set(names)
    sent = {event["id"]: event for event in found if event["ph"] == "s"}
    taken = {event["id"]: event for event in found if event["ph"] == "f"}
    # a trainer that leaves has not read the last answer
    lost = set(sent) - set(taken)
    assert taken and set(taken) <= set(sent) and all("answer" in flow for flow in lost) and len(lost) <= 4
    for flow, event in taken.items():
        kinds = {names[one["pid"]].rstrip("0123456789") for one in (event, sent[flow])}
        assert kinds == {"trainer", "pserver"}
        assert sent[flow]["ts"] <= event["ts"]
    assert sum(event["args"]["bytes"] for event in found if event.get("cat") == "send") > 0
    assert min(event["ts"] for event in found if "ts" in event) == 0
    steps = [event for event in found if event.get("cat") == "step"]
    assert {names[event["pid"]] for event in steps} == {name for name in roles if name.startswith("trainer")}


def test_verify_records_the_threads_of_its_roles(tmp_path: pathlib.Path) -> None:
    x, y = fluid.data("x", [None, 4]), fluid.data("y", [None, 1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    feeds = [{"x": np.ones([4, 4], "float32"), "y": np.ones([4, 1], "float32")}] * 3
    path = tmp_path / "trace.json"
    programs = fluid.default_main_program(), fluid.default_startup_program()
    proof = verify(*programs, feeds, "pserver", 2, 2, trace=str(path))
    assert proof.ok and not (tracer.active or recorder.active or tracer.events or recorder.events)
    found = events(path)
    check(found, {"trainer0", "trainer1", "pserver0", "pserver1"})
    assert any(event["name"] == "SEND fc_0.w_0@GRAD.trainer_0" for event in found)
    assert {"mul", "mul_grad", "send", "recv", "sgd"} <= {
        event["name"] for event in found if event.get("cat") == "op"
    }


def test_a_launched_job_leaves_one_timeline(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.json"
    command = ["-n", "2", "--pservers", "1", "--trace", str(path), str(SERVED)]
    done = launch(tmp_path, *command)
    assert done.returncode == 0, done
    assert done.stderr == f"fluidlite-launch: the timeline of 3 processes is in {path}\n"
    check(events(path), {"trainer0", "trainer1", "pserver0"})


FAILS = """
import os, time
import numpy as np
import fluidlite as fluid
loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
exe.run(feed={"x": np.ones([2, 4], "float32")}, fetch_list=[loss])
if os.environ["PADDLE_TRAINER_ID"] == "1":
    open("ready", "w")
    time.sleep(60)
while not os.path.exists("ready"):
    time.sleep(0.05)
exe.run(feed={"x": np.ones([2, 5], "float32")}, fetch_list=[loss])
"""


@pytest.mark.mpi
def test_a_job_that_fails_leaves_what_was_recorded(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.py").write_text(FAILS, encoding="utf8")
    done = launch(tmp_path, "-n", "2", "--trace", "trace.json", "train.py")
    assert done.returncode == 1 and "the timeline of" in done.stderr
    found = events(tmp_path / "trace.json")
    names = {event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert "trainer0" in names and any(event["name"] == "mul" for event in found)
    (why,) = [event["name"] for event in found if event.get("cat") == "failure" and "Error" in event["name"]]
    assert "x" in why


def test_a_process_that_is_ended_saves_what_was_recorded(tmp_path: pathlib.Path) -> None:
    script = (
        "import os, signal\nimport fluidlite as fluid\nexe = fluid.Executor(fluid.CPUPlace())\n"
        "out = fluid.layers.fill_constant([1], 'float32', 1)\nexe.run(fetch_list=[out])\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    variables = {"FLUIDLITE_TRACE": str(tmp_path / "one.json"), "FLUIDLITE_TRACE_ROLE": "trainer0"}
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, **variables}, check=False)
    assert done.returncode == -signal.SIGTERM
    assert merge_traces(str(tmp_path), str(tmp_path / "trace.json")) == 1
    assert {"fill_constant", "ended"} <= {event["name"] for event in events(tmp_path / "trace.json")}


@pytest.mark.parametrize("line", ["--trace /nowhere/t.json", "--trace .", "--trace t.json --slurm"])
def test_a_trace_that_cannot_be_written_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-n", "1", *line.split(), str(SERVED)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
