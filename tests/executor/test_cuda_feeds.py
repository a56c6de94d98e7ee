"""Feeds of a captured step: other numbers each time, on a stream of their own, while the host goes on."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.executor.run.cuda import CapturedStep, FeedCopies, Namespace

pytestmark = pytest.mark.gpu


def model() -> tuple[Any, Any]:
    x, y = fluid.data("x", [None, 6], "float32"), fluid.data("y", [None, 1], "int64")
    start = fluid.ParamAttr(name="w", initializer=fluid.initializer.Uniform(-0.5, 0.5, seed=3))
    logits = fluid.layers.fc(x, 5, param_attr=start)
    loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, y))
    fluid.optimizer.SGD(0.5).minimize(loss)
    return loss, fluid.default_main_program()


def feed(step: int) -> dict[str, Any]:
    random = np.random.default_rng(step)
    return {"x": random.random((9, 6), "float32"), "y": random.integers(0, 5, (9, 1))}


def trained(place: Any, steps: int, fetched: list[Any]) -> Any:
    """The weight after steps of which nothing is fetched until then."""
    exe, scope = fluid.Executor(place), fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=scope)
    for step in range(steps):
        given = feed(step)
        exe.run(feed=given, fetch_list=fetched, scope=scope)
        given["x"][...] = np.nan  # the caller's arrays are the caller's again
    return np.array(scope.find_var("w").get_tensor())


@pytest.mark.parametrize("is_fetched", [False, True])
def test_steps_get_their_own_batches(is_fetched: bool) -> None:
    loss, _ = model()
    fetched = [loss] if is_fetched else []
    host, device = (trained(place, 7, fetched) for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)))
    np.testing.assert_allclose(device, host, rtol=1e-5, atol=1e-6)


def test_the_host_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    model()
    gc.collect()  # steps of before are waited for when they go
    waits: list[int] = []
    runs: list[int] = []
    before, call = cupy.cuda.Stream.synchronize, CapturedStep.__call__

    def counted(self: Any) -> None:
        waits.append(len(runs))
        before(self)

    def noted(self: CapturedStep, *arguments: Any) -> Any:
        runs.append(self.runs)
        return call(self, *arguments)

    monkeypatch.setattr(cupy.cuda.Stream, "synchronize", counted)
    monkeypatch.setattr(CapturedStep, "__call__", noted)
    trained(fluid.CUDAPlace(0), 6, [])
    assert max(runs) == 5
    assert not [wait for wait in waits if 3 < wait < 6]  # the last is for the weight


def test_feeds_pass_through_page_locked_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model()
    fed: list[Any] = []
    before = FeedCopies.feed

    def noted(self: FeedCopies, number: int, target: Any, item: Any) -> None:
        fed.append(type(item))
        before(self, number, target, item)

    monkeypatch.setattr(FeedCopies, "feed", noted)
    trained(fluid.CUDAPlace(0), 6, [])
    assert fed == 2 * 5 * [np.ndarray]  # x and y of each step but the first, which makes their places


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_step_without_a_graph_is_fed(order: Any) -> None:
    x = fluid.data("x", [None, 6], "float32")
    kept = fluid.layers.where(fluid.layers.greater_than(x, fluid.layers.zeros([1], "float32")))
    exe = fluid.Executor(fluid.CUDAPlace(0))
    for step in range(3):
        given = np.array(feed(step)["x"] - 0.5, order=order)
        found = exe.run(feed={"x": given}, fetch_list=[kept])[0]
        np.testing.assert_array_equal(found, np.argwhere(given > 0))


def test_devices_arrays_and_host_arrays_take_turns() -> None:
    import cupy

    loss, _ = model()
    found = []
    for place in (fluid.CPUPlace(), fluid.CUDAPlace(0)):
        exe, scope = fluid.Executor(place), fluid.Scope()
        exe.run(fluid.default_startup_program(), scope=scope)
        losses = []
        for step in range(6):
            given = feed(step)
            if step % 2 and place != fluid.CPUPlace():
                given = {name: cupy.asarray(value) for name, value in given.items()}
            losses.append(exe.run(feed=given, fetch_list=[loss], scope=scope)[0].item())
        found.append(losses)
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_tf32_by_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    name = "FLAGS_enable_cublas_tensor_op_math"
    monkeypatch.delenv("CUPY_TF32", raising=False)
    Namespace(cupy)
    assert "CUPY_TF32" not in os.environ
    monkeypatch.setenv("CUPY_TF32", "0")
    fluid.set_flags({name: True})
    try:
        Namespace(cupy)
    finally:
        fluid.set_flags({name: False})
    assert os.environ["CUPY_TF32"] == "1"
