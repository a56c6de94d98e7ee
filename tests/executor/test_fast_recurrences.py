"""Compiled recurrences against the naive interpreter, which has none: values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

CPU = fluid.CPUPlace()
RAGGED = [3, 5, 2, 1, 1, 1, 7, 4, 9]


@pytest.fixture(autouse=True)
def _wait(flags: Callable[..., None]) -> Iterator[None]:
    flags(fast_loops="wait")
    yield


def drawn(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


def given(name: str, columns: int, lod_level: int = 0) -> Any:
    made = fluid.layers.data(name, [columns], lod_level=lod_level)
    made.stop_gradient = False
    return made


def weights() -> dict[str, Any]:
    normal = fluid.initializer.Normal(0, 0.2, seed=5)
    return {
        "param_attr": fluid.ParamAttr(name="w", initializer=normal),
        "bias_attr": fluid.ParamAttr(name="b", initializer=normal),
    }


def check(outputs: list[Any], inputs: list[Any], feed: dict[str, Any]) -> None:
    """Outputs and gradients are those of the naive interpreter, on the first run and later."""
    block = fluid.default_main_program().global_block()
    wanted = [*inputs, *block.all_parameters()]
    loss = fluid.layers.sums([fluid.layers.reduce_sum(out * fluid.layers.sin(out)) for out in outputs])
    # no op reads 2.x's flat copy of the weights
    fetches = [*outputs, *(one for one in fluid.gradients(loss, wanted) if one is not None)]
    exe = fluid.Executor(CPU)
    exe.run(fluid.default_startup_program())
    results = []
    for naive in (True, False, False):
        exe.naive = naive
        results.append([np.array(one) for one in exe.run(feed=feed, fetch_list=fetches, return_numpy=False)])
    for found in results[1:]:
        for one, other in zip(found, results[0], strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5 * max(abs(other).max(initial=0), 1))


@pytest.mark.parametrize("size", [5, 16, 50])
@pytest.mark.parametrize("lengths", [RAGGED, [4, 4], [1], [0, 3, 0, 2]])
@pytest.mark.parametrize(("peepholes", "reverse", "initial"), [(True, True, True), (False, False, False)])
def test_lstm(size: int, lengths: list[int], peepholes: bool, reverse: bool, initial: bool) -> None:
    x = given("x", 4 * size, 1)
    first = [given(name, size) for name in ("h", "c")] if initial else [None, None]
    outputs = fluid.layers.dynamic_lstm(
        x, 4 * size, *first, use_peepholes=peepholes, is_reverse=reverse, **weights()
    )
    feed = {"x": fluid.create_lod_tensor(drawn(sum(lengths), 4 * size), [lengths], CPU)}
    if initial:
        feed.update({name: drawn(len(lengths), size) for name in ("h", "c")})
    check(list(outputs), [x, *(one for one in first if one is not None)], feed)


@pytest.mark.parametrize(("size", "projected"), [(5, 3), (16, 32), (50, 20)])
@pytest.mark.parametrize("lengths", [RAGGED, [1], [0, 3, 0, 2], [40] * 8 + [4] * 60])
@pytest.mark.parametrize("is_full", [True, False])
def test_projected_lstm(size: int, projected: int, lengths: list[int], is_full: bool) -> None:
    """With peepholes, bounds, first states and a direction, or without."""
    x = given("x", 4 * size, 1)
    first = [given("h", projected), given("c", size)] if is_full else [None, None]
    bounds = {"cell_clip": 0.5, "proj_clip": 0.3} if is_full else {}
    outputs = fluid.layers.dynamic_lstmp(
        x,
        4 * size,
        projected,
        h_0=first[0],
        c_0=first[1],
        use_peepholes=is_full,
        is_reverse=is_full,
        proj_activation="tanh" if is_full else "identity",
        **bounds,
        param_attr=fluid.ParamAttr(initializer=fluid.initializer.Normal(0, 0.2, seed=5)),
        bias_attr=weights()["bias_attr"],
    )
    feed = {"x": fluid.create_lod_tensor(drawn(sum(lengths), 4 * size), [lengths], CPU)}
    if is_full:
        feed.update(h=drawn(len(lengths), projected), c=drawn(len(lengths), size))
    check(list(outputs), [x, *(one for one in first if one is not None)], feed)


@pytest.mark.parametrize("kinds", [("tanh", "relu", "sigmoid"), ("sigmoid", "identity", "tanh")])
def test_lstm_activations(kinds: tuple[str, str, str]) -> None:
    x = given("x", 64, 1)
    names = dict(zip(("gate_activation", "cell_activation", "candidate_activation"), kinds, strict=True))
    outputs = fluid.layers.dynamic_lstm(x, 64, **names, **weights())
    check(list(outputs), [x], {"x": fluid.create_lod_tensor(drawn(10, 64), [[6, 4]], CPU)})


def test_lstm_keeps_nan() -> None:
    """A NaN in one sequence stays in it, on two threads too."""
    x = given("x", 4 * 64, 1)
    hidden, _ = fluid.layers.dynamic_lstm(x, 4 * 64, **weights())
    data = drawn(32 * 20, 4 * 64)
    data[45, 3] = np.nan
    exe = fluid.Executor(CPU)
    exe.run(fluid.default_startup_program())
    feed = {"x": fluid.create_lod_tensor(data, [[20] * 32], CPU)}
    for _ in range(2):
        found = np.array(exe.run(feed=feed, fetch_list=[hidden], return_numpy=False)[0])
        rows = np.flatnonzero(np.isnan(found).any(axis=1))
        assert rows.tolist() == list(range(45, 60))


@pytest.mark.parametrize("size", [5, 16, 50])
@pytest.mark.parametrize("lengths", [RAGGED, [4, 4], [1], [0, 3, 0, 2]])
@pytest.mark.parametrize(("origin", "reverse", "initial"), [(True, True, True), (False, False, False)])
def test_gru(size: int, lengths: list[int], origin: bool, reverse: bool, initial: bool) -> None:
    x = given("x", 3 * size, 1)
    first = given("h", size) if initial else None
    out = fluid.layers.dynamic_gru(x, size, is_reverse=reverse, h_0=first, origin_mode=origin, **weights())
    feed = {"x": fluid.create_lod_tensor(drawn(sum(lengths), 3 * size), [lengths], CPU)}
    if initial:
        feed["h"] = drawn(len(lengths), size)
    check([out], [x] if first is None else [x, first], feed)


@pytest.mark.parametrize(("size", "rows"), [(7, 9), (150, 60)])
def test_gru_unit(size: int, rows: int) -> None:
    x, state = given("x", 3 * size), given("h", size)
    out, _, _ = fluid.layers.gru_unit(x, state, 3 * size, **weights())
    check([out], [x, state], {"x": drawn(rows, 3 * size), "h": drawn(rows, size)})


@pytest.mark.parametrize(("layers", "both"), [(2, False), (1, True)])
def test_padded_lstm(layers: int, both: bool) -> None:
    x = fluid.layers.data("x", [6, 3, 10], append_batch_size=False)
    x.stop_gradient = False
    count = layers * (2 if both else 1)
    first = [fluid.layers.data(name, [count, 3, 20], append_batch_size=False) for name in ("h", "c")]
    for each in first:
        each.stop_gradient = False
    out, last, cells = fluid.layers.lstm(x, *first, 6, 20, layers, is_bidirec=both)
    feed = {"x": drawn(6, 3, 10), "h": drawn(count, 3, 20), "c": drawn(count, 3, 20)}
    check([out, last, cells], [x, *first], feed)


@pytest.mark.parametrize("lengths", [[90, 3, 40, 1, 1, 60, 2, 30], [40] * 8 + [4] * 60])
def test_two_threads_agree(lengths: list[int]) -> None:
    """Sequences of very unlike lengths over two threads, of which one is done long before the other."""
    size = 64
    x = given("x", 4 * size, 1)
    outputs = fluid.layers.dynamic_lstm(x, 4 * size, **weights())
    check(list(outputs), [x], {"x": fluid.create_lod_tensor(drawn(sum(lengths), 4 * size), [lengths], CPU)})


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_weights_that_the_program_leaves(kind: str) -> None:
    """They are laid out once, and again where the user has set or changed them."""
    x = given("x", 4 * 48 if kind == "lstm" else 3 * 48, 1)
    if kind == "lstm":
        out, _ = fluid.layers.dynamic_lstm(x, 4 * 48, **weights())
    else:
        out = fluid.layers.dynamic_gru(x, 48, **weights())
    exe = fluid.Executor(CPU)
    exe.run(fluid.default_startup_program())
    feed = {"x": fluid.create_lod_tensor(drawn(80, x.shape[1]), [[30, 50]], CPU)}
    held = fluid.global_scope().find_var("w").get_tensor()
    for change in (lambda: None, lambda: held.set(np.array(held) * 2, CPU)):
        change()
        results = []
        for naive in (False, False, True):
            exe.naive = naive
            results.append(np.array(exe.run(feed=feed, fetch_list=[out], return_numpy=False)[0]))
        for found in results[:2]:
            np.testing.assert_allclose(found, results[2], rtol=2e-5, atol=2e-5)


def test_large_rows_around_a_recurrence() -> None:
    """Bias, its gradient and maxima of many rows, whose arrays are views of one another."""
    size = 96
    x = given("x", size, 1)
    bias = fluid.layers.create_parameter([4 * size], "float32", name="b2")
    wide = fluid.layers.elementwise_add(fluid.layers.fc(x, 4 * size, bias_attr=False), bias)
    hidden, _ = fluid.layers.dynamic_lstm(wide, 4 * size, **weights())
    flat = fluid.layers.reshape(hidden, [-1, size])
    most = fluid.layers.sequence_pool(flat, "max")
    lengths = [40] * 20 + [3]
    feed = {"x": fluid.create_lod_tensor(drawn(sum(lengths), size), [lengths], CPU)}
    check([most, fluid.layers.sequence_pool(hidden, "sum")], [x, bias], feed)
