"""The trainer that 2.x's guide to distributed training begins with, in one process."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle

SCRIPT = """
import fluidlite.paddle as paddle
from nets import mlp
from utils import gen_data

input_x = paddle.static.data(name="x", shape=[None, 32], dtype='float32')
input_y = paddle.static.data(name="y", shape=[None, 1], dtype='int64')
cost = mlp(input_x, input_y)
optimizer = paddle.optimizer.SGD(learning_rate=0.01)
optimizer.minimize(cost)
place = paddle.CPUPlace()

exe = paddle.static.Executor(place)
exe.run(paddle.static.default_startup_program())
step = 21
for i in range(step):
    cost_val = exe.run(feed=gen_data(), fetch_list=[cost.name])
    print("step%d cost=%f" % (i, cost_val[0]))
"""


def mlp(input_x: Any, input_y: Any, hid_dim: int = 128, label_dim: int = 2) -> Any:
    paddle = fluidlite.paddle
    first = paddle.static.nn.fc(x=input_x, size=hid_dim, activation="tanh")
    second = paddle.static.nn.fc(x=first, size=hid_dim, activation="tanh")
    prediction = paddle.static.nn.fc(x=[second], size=label_dim, activation="softmax")
    cost = paddle.nn.functional.cross_entropy(input=prediction, label=input_y, use_softmax=False)
    return paddle.mean(x=cost)


def gen_data() -> dict[str, Any]:
    return {
        "x": np.random.random(size=(128, 32)).astype("float32"),
        "y": np.random.randint(2, size=(128, 1)).astype("int64"),
    }


def test_trainer_of_the_guide(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, function in (("nets", mlp), ("utils", gen_data)):
        module = types.ModuleType(name)
        setattr(module, function.__name__, function)
        monkeypatch.setitem(sys.modules, name, module)
    paddle = fluidlite.paddle
    np.random.seed(3)
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        with paddle.static.scope_guard(paddle.static.Scope()):
            exec(compile(SCRIPT, "trainer.py", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    costs = [float(line.partition("=")[2]) for line in lines]
    assert lines[0].startswith("step0 cost=") and len(lines) == 21
    assert 0.5 < np.mean(costs) < 1.5  # near ln 2: the labels are drawn
