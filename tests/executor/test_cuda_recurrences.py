"""Recurrences by one launch beside the naive interpreter of the host, with their gradients."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.cuda.recurrences import DeviceRecurrences

pytestmark = pytest.mark.gpu
layers = fluid.layers
LENGTHS = [3, 7, 1, 5]


def _attr(seed: int) -> Any:
    return fluid.ParamAttr(initializer=fluid.initializer.Uniform(-0.4, 0.4, seed=seed))


def _lstm(x: Any, size: int, **options: Any) -> Any:
    hidden, cell = layers.dynamic_lstm(x, 4 * size, param_attr=_attr(1), bias_attr=_attr(2), **options)
    return layers.reduce_sum(hidden * hidden) + layers.reduce_sum(cell * cell * cell)


def _run(loss: Any, gradients: list[Any], feed: Any) -> tuple[list[Any], list[Any]]:
    """Fetched on the host by the naive interpreter, and on a device."""
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe, scope = fluid.Executor(place), fluid.Scope()
        exe.naive = isinstance(place, fluid.CPUPlace)
        exe.run(fluid.default_startup_program(), scope=scope)
        fetches = [loss, *gradients]
        tensors = exe.run(feed=feed, fetch_list=fetches, scope=scope, return_numpy=False)
        found.append([np.array(tensor) for tensor in tensors])
    return found[0], found[1]


def _check(loss: Any, wrt: list[Any], feed: Any) -> None:
    calls = []
    run, back = DeviceRecurrences.recurrence, DeviceRecurrences.recurrence_back

    def counted(function: Any) -> Any:
        def call(*args: Any) -> Any:
            calls.append(function(*args))
            return calls[-1]

        return call

    with (
        mock.patch.object(DeviceRecurrences, "recurrence", counted(run)),
        mock.patch.object(DeviceRecurrences, "recurrence_back", counted(back)),
    ):
        wanted, found = _run(loss, fluid.gradients(loss, wrt), feed)
    assert len(calls) >= 2 and all(call is not None for call in calls)
    for want, have in zip(wanted, found, strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5 * max(1, np.abs(want).max()))


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"use_peepholes": False},
    "peepholes": {"use_peepholes": True},
    "reverse": {"is_reverse": True},
    "activations": {"candidate_activation": "relu", "cell_activation": "identity"},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("size", [5, 40])
def test_lstm_of_sequences(name: str, size: int) -> None:
    x = fluid.data("x", [None, 4 * size], "float32", lod_level=1)
    x.stop_gradient = False
    loss = _lstm(x, size, **OPTIONS[name])
    parameters = fluid.default_main_program().all_parameters()
    rows = np.random.default_rng(0).normal(0, 0.7, (sum(LENGTHS), 4 * size)).astype("float32")
    _check(loss, [x, *parameters], {"x": fluid.create_lod_tensor(rows, [LENGTHS], fluid.CPUPlace())})


def test_first_states() -> None:
    size = 6
    x = fluid.data("x", [None, 4 * size], "float32", lod_level=1)
    first = [fluid.data(name, [len(LENGTHS), size]) for name in ("h", "c")]
    for value in (x, *first):
        value.stop_gradient = False
    loss = _lstm(x, size, h_0=first[0], c_0=first[1])
    random = np.random.default_rng(0)
    rows = random.normal(0, 0.7, (sum(LENGTHS), 4 * size)).astype("float32")
    states = {name: random.normal(0, 1, (len(LENGTHS), size)).astype("float32") for name in ("h", "c")}
    _check(
        loss,
        [x, *first, *fluid.default_main_program().all_parameters()],
        {"x": fluid.create_lod_tensor(rows, [LENGTHS], fluid.CPUPlace()), **states},
    )


@pytest.mark.parametrize("is_bidirec", [False, True])
def test_stacked_layers(is_bidirec: bool) -> None:
    """`cudnn_lstm`, whose last cells have gradients of their own."""
    size, directions = 5, 2 if is_bidirec else 1
    x = fluid.data("x", [4, 3, 6])
    first = [fluid.data(name, [2 * directions, 3, size]) for name in ("h", "c")]
    for value in (x, *first):
        value.stop_gradient = False
    out, last_h, last_c = layers.lstm(
        x, first[0], first[1], 4, size, 2, is_bidirec=is_bidirec, default_initializer=_attr(3).initializer
    )
    loss = layers.reduce_sum(out * out) + layers.reduce_sum(last_h) + layers.reduce_sum(last_c * last_c)
    random = np.random.default_rng(0)
    feed = {"x": random.normal(0, 1, (4, 3, 6)).astype("float32")}
    for name in ("h", "c"):
        feed[name] = random.normal(0, 1, (2 * directions, 3, size)).astype("float32")
    _check(loss, [x, *first, *fluid.default_main_program().all_parameters()], feed)


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("has_first", [False, True])
@pytest.mark.parametrize("size", [5, 40])
def test_gru_of_sequences(size: int, has_first: bool, origin: bool) -> None:
    x = fluid.data("x", [None, 3 * size], "float32", lod_level=1)
    first = fluid.data("h", [len(LENGTHS), size])
    x.stop_gradient = first.stop_gradient = False
    hidden = layers.dynamic_gru(
        x,
        size,
        param_attr=_attr(1),
        bias_attr=_attr(2),
        is_reverse=origin,
        h_0=first if has_first else None,
        origin_mode=origin,
    )
    loss = layers.reduce_sum(hidden * hidden * hidden)
    random = np.random.default_rng(0)
    rows = random.normal(0, 0.7, (sum(LENGTHS), 3 * size)).astype("float32")
    feed = {"x": fluid.create_lod_tensor(rows, [LENGTHS], fluid.CPUPlace())}
    feed["h"] = random.normal(0, 1, (len(LENGTHS), size)).astype("float32")
    wrt = [x, *([first] if has_first else []), *fluid.default_main_program().all_parameters()]
    _check(loss, wrt, feed)
