"""The op `rnn` with and without compiled code, against a loop over its cells and the naive interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.paddle import nn
from tests.executor.test_fast_recurrences import check, drawn

CPU = fluid.CPUPlace()
STACKS = {
    "LSTM": (nn.LSTM, nn.LSTMCell),
    "GRU": (nn.GRU, nn.GRUCell),
    "RNN": (nn.SimpleRNN, nn.SimpleRNNCell),
}
LENGTHS = [None, [4, 1, 6, 2, 2], [0, 3, 0, 6, 1], [0] * 5]
TIME, BATCH, WIDTH = 6, 5, 3


@pytest.fixture(params=["wait", "off"], autouse=True)
def _loops(flags: Callable[..., None], request: pytest.FixtureRequest) -> None:
    flags(fast_loops=request.param)


def given(name: str, *shape: int, dtype: str = "float32") -> Any:
    made = fluid.data(name, list(shape), dtype)
    made.stop_gradient = dtype != "float32"
    return made


def states(mode: str, count: int, size: int) -> tuple[list[Any], dict[str, Any]]:
    """First states [count, BATCH, size], and what to feed for them."""
    names = ["h", "c"] if mode == "LSTM" else ["h"]
    feed = {name: drawn(count, BATCH, size) for name in names}
    return [given(name, count, BATCH, size) for name in names], feed


def joined(given: list[Any]) -> Any:
    return given[0] if len(given) == 1 else tuple(given)


def split(state: Any) -> list[Any]:
    return list(state) if isinstance(state, (list, tuple)) else [state]


@pytest.mark.parametrize("mode", sorted(STACKS))
@pytest.mark.parametrize("lengths", LENGTHS[:3])
@pytest.mark.parametrize("size", [5, 16, 50])
def test_a_stack_of_one_is_a_loop_over_its_cell(mode: str, lengths: list[int] | None, size: int) -> None:
    """Outputs, last states and the gradients of input, first states and weights."""
    stack, cell = STACKS[mode]
    x, (first, feed) = given("x", BATCH, TIME, WIDTH), states(mode, 1, size)
    feed["x"] = drawn(BATCH, TIME, WIDTH)
    if lengths is not None:
        feed["n"] = np.array(lengths, "int32")
    counts = None if lengths is None else given("n", BATCH, dtype="int32")
    fused, plain = stack(WIDTH, size), cell(WIDTH, size)
    out, last = fused(x, joined(first), counts)
    inner = [fluid.layers.squeeze(state, [0]) for state in first]
    other, ends = nn.RNN(plain)(x, joined(inner), counts)
    if counts is not None:
        # the loop goes on beyond an end, with the states that it had there
        mask = fluid.layers.sequence_mask(counts, maxlen=TIME, dtype="float32")
        other = fluid.layers.elementwise_mul(other, mask, axis=0)
    results = []
    sides = (
        (fused, [out, *(fluid.layers.squeeze(s, [0]) for s in split(last))]),
        (plain, [other, *split(ends)]),
    )
    for layer, outputs in sides:
        loss = fluid.layers.sums([fluid.layers.reduce_sum(each * fluid.layers.sin(each)) for each in outputs])
        results.append([*outputs, *fluid.gradients(loss, [x, *first, *layer.parameters()])])
    exe = fluid.Executor(CPU)
    exe.run(fluid.default_startup_program())
    for one, two in zip(fused.parameters(), plain.parameters(), strict=True):
        value = fluid.global_scope().find_var(one.name).get_tensor()
        fluid.global_scope().find_var(two.name).get_tensor().set(np.array(value), CPU)
    for _ in range(2):
        found = exe.run(feed=feed, fetch_list=[each for side in results for each in side])
        half = len(found) // 2
        for k in range(half):
            np.testing.assert_allclose(found[k], found[half + k], rtol=2e-5, atol=2e-5, err_msg=str(k))


@pytest.mark.parametrize(
    ("mode", "more"),
    [("LSTM", {}), ("GRU", {}), ("RNN", {"activation": "tanh"}), ("RNN", {"activation": "relu"})],
)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_two_layers_in_both_directions(mode: str, lengths: list[int] | None, more: dict[str, str]) -> None:
    x, (first, feed) = given("x", BATCH, TIME, WIDTH), states(mode, 4, 20)
    feed["x"] = drawn(BATCH, TIME, WIDTH)
    if lengths is not None:
        feed["n"] = np.array(lengths, "int32")
    counts = None if lengths is None else given("n", BATCH, dtype="int32")
    net = STACKS[mode][0](WIDTH, 20, num_layers=2, direction="bidirect", **more)
    out, last = net(x, joined(first), counts)
    check([out, *split(last)], [x, *first], feed)
