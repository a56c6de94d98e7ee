"""The search for NaN and infinity without results that the environment names, as recorded of 1.8.5."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import fluidlite as fluid

OP, ROLE, VAR = (f"PADDLE_INF_NAN_SKIP_{word}" for word in ("OP", "ROLE", "VAR"))
FOUND = [
    ({}, False, "log"),
    ({OP: ""}, False, "log"),
    ({OP: "log"}, False, "scale"),
    ({OP: "log,scale"}, False, "mul"),
    ({OP: "log,scale,mul,mean"}, False, ""),
    ({OP: "log scale mul mean"}, False, "log"),
    ({OP: "log:x"}, False, "log"),
    ({ROLE: "forward"}, False, ""),
    ({ROLE: "backward"}, False, "log"),
    ({ROLE: "loss"}, False, "log"),
    ({ROLE: "default"}, False, "log"),
    ({ROLE: "forward"}, True, "mean"),
    ({ROLE: "forward,loss"}, True, "mul_grad"),
    ({ROLE: "loss"}, True, "log"),
    ({ROLE: "forward,backward,optimize,loss,rpc,dist,lrsched"}, True, ""),
    ({VAR: "log:log_0.tmp_0"}, False, "scale"),
    ({VAR: "log:bogus"}, False, "log"),
    ({VAR: "log:log_0.tmp_0,scale:scale_0.tmp_0"}, False, "mul"),
    ({VAR: "log:log_0.tmp_0,scale:bogus"}, False, "scale"),
]


@pytest.fixture(autouse=True)
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fluid.base.flags._values, "FLAGS_check_nan_inf", True)


def found(trains: bool) -> str:
    """The type of the first op that is told of; nothing where none is."""
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [2, 3])
        scaled = fluid.layers.scale(fluid.layers.log(x), 2.0)
        loss = fluid.layers.mean(fluid.layers.fc(scaled, 2, bias_attr=False))
        if trains:
            fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exe.run(feed={"x": np.array([[-1, 1, 2], [1, 2, 3]], "float32")}, fetch_list=[loss])
            except fluid.errors.NanInfError as error:
                return str(error).partition("'")[2].partition("'")[0]
    return ""


@pytest.mark.parametrize("skips, trains, op", FOUND)
def test_what_is_searched(
    skips: dict[str, str], trains: bool, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in skips.items():
        monkeypatch.setenv(name, text)
    assert found(trains) == op


@pytest.mark.parametrize(
    "name, text", [(ROLE, "bogus"), (ROLE, "Backward"), (ROLE, " backward"), (VAR, "log")]
)
def test_what_cannot_be_read_is_an_error(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(fluid.core.EnforceNotMet, match=name):
        found(False)


def test_the_gradient_of_a_loss_is_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    x = fluid.data("x", [2, 3])
    total = fluid.layers.reduce_sum(fluid.layers.scale(fluid.layers.fc(x, 2), 0.0))
    loss = fluid.layers.sqrt(total)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    for role, op in (("loss", "sqrt_grad"), ("backward", "sgd")):
        monkeypatch.setenv(ROLE, role)
        with pytest.raises(fluid.errors.NanInfError, match=f"op '{op}'"):
            exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[loss])


def test_in_a_process_of_its_own() -> None:
    code = (
        "import numpy as np, fluidlite as fluid\n"
        "y = fluid.layers.log(fluid.data('x', [1]))\n"
        "print(fluid.Executor().run(feed={'x': -np.ones(1, 'float32')}, fetch_list=[y]))\n"
    )
    environment = {**os.environ, "FLAGS_check_nan_inf": "1"}
    for skipped, wanted in (("log", 0), ("exp", 1)):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**environment, OP: skipped},
            capture_output=True,
            timeout=60,
        )
        assert run.returncode == wanted, run.stderr
