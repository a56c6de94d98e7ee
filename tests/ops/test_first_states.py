"""First states of recurrent ops that do not fit the batch: more rows than it has would go unnoticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle

BATCH, SIZE = 2, 4
WRONG = [[1, 3, 4], [2, 2, 4], [1, 1, 4], [1, 2, 5], [2, 4]]


def run(outputs: Any, shape: list[int]) -> None:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((BATCH, BATCH, 3), "float32"), "h": np.ones(shape, "float32")}
    exe.run(feed=feed, fetch_list=[outputs[0]])


def lstm(x: Any, h: Any) -> Any:
    return fluid.layers.lstm(x, h, h, BATCH, SIZE, 1)


def layer_of_2x(name: str) -> Any:
    def build(x: Any, h: Any) -> Any:
        paddle.enable_static()
        return getattr(paddle.nn, name)(3, SIZE)(x, (h, h) if name == "LSTM" else h)

    return build


LAYERS = [lstm, layer_of_2x("LSTM"), layer_of_2x("GRU"), layer_of_2x("SimpleRNN")]


@pytest.mark.parametrize("build", LAYERS, ids=["fluid", "LSTM", "GRU", "SimpleRNN"])
@pytest.mark.parametrize("shape", WRONG)
@pytest.mark.parametrize("declared", [True, False])
def test_first_states_that_do_not_fit(build: Any, shape: list[int], declared: bool) -> None:
    x = fluid.data("x", [None, None, 3])
    with pytest.raises(fluid.errors.ShapeError, match="hidden size"):
        run(build(x, fluid.data("h", shape if declared else [None] * len(shape))), shape)


@pytest.mark.parametrize("build", LAYERS, ids=["fluid", "LSTM", "GRU", "SimpleRNN"])
def test_first_states_that_fit(build: Any) -> None:
    x, h = fluid.data("x", [None, None, 3]), fluid.data("h", [1, None, SIZE])
    run(build(x, h), [1, BATCH, SIZE])
