"""The figures of a training as files: events are read back as TensorBoard reads them."""

from __future__ import annotations

import csv
import pathlib
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.graph_pb2 import GraphDef

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.base.errors import MissingExtraError
from fluidlite.contrib import CsvLog, TrainingLog


def events(folder: pathlib.Path) -> Iterator[Any]:
    """The records of the one event file: u64 length, u32 check, the event, u32 check."""
    (path,) = folder.iterdir()
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]


def values(folder: pathlib.Path) -> dict[str, list[tuple[int, Any]]]:
    found: dict[str, list[tuple[int, Any]]] = {}
    for event in events(folder):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value))
    return found


def graph_of(folder: pathlib.Path) -> dict[str, Any]:
    (data,) = [event.graph_def for event in events(folder) if event.graph_def]
    return {node.name: node for node in GraphDef.FromString(data).node}


def test_a_training(tmp_path: pathlib.Path) -> None:
    x, label = fluid.data("x", [None, 3]), fluid.data("label", [None, 1])
    frozen = fluid.ParamAttr("frozen", trainable=False)
    cost = fluid.layers.square_error_cost(fluid.layers.fc(fluid.layers.fc(x, 4), 1, bias_attr=frozen), label)
    loss = fluid.layers.mean(cost)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((2, 3), "float32"), "label": np.ones((2, 1), "float32")}
    costs = []
    with TrainingLog(tmp_path / "run") as log:
        log.graph()
        log.text("settings", "rate 0.1")
        for step in range(3):
            (each,) = exe.run(feed=feed, fetch_list=[cost])
            costs.append(each.mean())
            log.scalars(step, {"train/cost": each}, rate=0.1)
        log.histograms(2)
    found = values(tmp_path / "run")
    assert [(step, value.simple_value) for step, value in found["train/cost"]] == [
        (step, pytest.approx(each)) for step, each in enumerate(costs)
    ]
    assert {"rate", "settings/text_summary", "fc_0.w_0", "fc_0.b_0", "fc_1.w_0"} < set(found)
    assert "frozen" not in found and found["fc_0.w_0"][0][1].histo.num == 12
    nodes = graph_of(tmp_path / "run")
    # every op is a node, and whatever a node reads is one
    assert len(fluid.default_main_program().global_block().ops) == sum(
        node.op not in ("Feed", "Parameter") for node in nodes.values()
    )
    assert all(name in nodes for node in nodes.values() for name in node.input)
    (first,) = [node for node in nodes.values() if node.op == "mul" and node.name.startswith("fc_0/")]
    assert [nodes[name].op for name in first.input] == ["Feed", "Parameter"]
    assert [size.size for size in first.attr["_output_shapes"].list.shape[0].dim] == [-1, 4]


@pytest.mark.parametrize("value", ["high", None, [], np.array(["a"])])
def test_figures_are_numbers(tmp_path: pathlib.Path, value: Any) -> None:
    for log in (CsvLog(tmp_path / "a.csv"), TrainingLog(tmp_path / "a")):
        with pytest.raises(ValueError, match="figure 'loss' must be a number"):
            log.scalars(0, loss=value)


def test_a_table(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")
    log = CsvLog(path)
    log.scalars(0, {"train/loss": np.array([1.0, 2.0])}, rate=0.5)
    log.scalars(1, rate=0.25)
    with pytest.raises(ValueError, match="has the columns train/loss, rate, but other came with step 2"):
        log.scalars(2, other=1)
    with open(path, newline="") as file:
        assert list(csv.reader(file)) == [
            ["step", "train/loss", "rate"],
            ["0", "1.5", "0.5"],
            ["1", "", "0.25"],
        ]


def test_the_extra_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fluidlite\[watch\]'"):
        TrainingLog(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match="needs the package wandb: pip install wandb"):
        paddle.callbacks.WandbCallback()


def test_callbacks(tmp_path: pathlib.Path) -> None:
    source = np.random.RandomState(0)
    data = [(source.randn(3, 4).astype("float32"), source.randint(0, 3, (3, 1))) for _ in range(2)]
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        shapes = [
            paddle.static.InputSpec([None, size], *rest)
            for size, *rest in ((4, "float32", "x"), (1, "int64", "label"))
        ]
        model = paddle.Model(paddle.nn.Linear(4, 3), *shapes)
        optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
        model.prepare(optimizer, paddle.nn.CrossEntropyLoss(), paddle.metric.Accuracy())
        calls = [
            paddle.callbacks.TensorBoard(str(tmp_path / "run"), histogram_freq=1),
            paddle.callbacks.CSVLogger(str(tmp_path / "a.csv")),
        ]
        model.fit(data, data, epochs=2, verbose=0, callbacks=calls)
    found = values(tmp_path / "run")
    assert [step for step, _ in found["train/loss"]] == [1, 2, 3, 4]
    assert [step for step, _ in found["eval/acc"]] == [1, 2]
    assert any(name.endswith(".w_0") for name in found) and graph_of(tmp_path / "run")
    with open(tmp_path / "a.csv", newline="") as file:
        first, *rows = list(csv.reader(file))
    assert first == ["step", "train/loss", "train/acc", "eval/loss", "eval/acc"]
    assert [row[0] for row in rows] == ["0", "1"] and all(map(float, rows[1][1:4]))
