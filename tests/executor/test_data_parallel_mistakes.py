"""Wrong feeds and uses of `with_data_parallel`, its threads, and fluid's ParallelExecutor."""

from __future__ import annotations

import concurrent.futures
import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest
from data_parallel_runs import FEED, X, Y, held, job, on
from waiting import LIMIT

import fluidlite as fluid
from fluidlite.executor.devices.ring import DeviceBarrier


# ---------------------------------------------------------------------- mistakes
@pytest.mark.parametrize(
    ("feed", "error", "text"),
    [
        (
            {"x": X[:1], "y": Y[:1]},
            fluid.core.EnforceNotMet,
            r"The number\(1\) of samples\[x\] .* less than the count\(2\) of devices\(CPU\)",
        ),
        ([FEED], fluid.core.EnforceNotMet, "The feed data number 1 does not match the device number 2"),
        ([FEED] * 3, fluid.core.EnforceNotMet, "The feed data number 3 does not match the device number 2"),
        ([X, Y], TypeError, "Each element of feed list should be a dict"),
        (3, TypeError, "feed requires dict"),
        ({**FEED, "z": X}, ValueError, "var z not in this block"),
        (
            {**FEED, "x": X.astype("float64")},
            ValueError,
            "The data type of fed Variable 'x' must be 'float32'",
        ),
        ({**FEED, "x": X[:, :2]}, ValueError, "The fed Variable 'x' should have dimensions"),
        ({"y": Y}, fluid.core.EnforceNotMet, "'x' holds no value: feed it"),
    ],
)
def test_wrong_feeds(exe: Any, feed: Any, error: Any, text: str) -> None:
    found = job(exe)
    parallel = on(2, found)
    for _ in range(2):
        with pytest.raises(error, match=text):
            exe.run(parallel, feed=feed, fetch_list=[found.loss], scope=found.scope)
    exe.run(parallel, feed=FEED, fetch_list=[found.loss], scope=found.scope)  # and the devices still work


def test_wrong_uses(exe: Any) -> None:
    found = job(exe)
    with pytest.raises(AssertionError, match="The loss name of CompiledProgram is None"):
        fluid.CompiledProgram(found.main).with_data_parallel()
    for places, error in (([], AssertionError), (["cpu"], TypeError)):
        wrong = fluid.CompiledProgram(found.main).with_data_parallel(found.loss.name, places=places)
        with pytest.raises(error):
            exe.run(wrong, feed=FEED, scope=found.scope)
    parallel = on(2, found)
    with pytest.raises(AssertionError, match="Already compiled with parallel"):
        parallel.with_data_parallel(found.loss.name)
    with pytest.raises(ValueError, match=r"Cannot find fetched variable\(nope\)"):
        exe.run(parallel, feed=FEED, fetch_list=["nope"], scope=found.scope)
    with pytest.raises(ValueError, match="different scope"):
        exe.run(parallel, feed=FEED, scope=fluid.Scope())
    empty = fluid.Scope()
    with pytest.raises(fluid.core.EnforceNotMet, match="run the startup program"):
        exe.run(on(2, found), feed=FEED, scope=empty)


def test_what_cannot_be_merged(exe: Any) -> None:
    found = job(exe, make=lambda fluid: fluid.layers.transpose(fluid.data("x", [None, 5]), [1, 0]))
    parallel = on(2, found)
    with pytest.raises(fluid.core.EnforceNotMet, match="differ in more than the first dimension"):
        exe.run(parallel, feed={"x": X[:3]}, fetch_list=[found.loss])
    assert [
        part.shape
        for part in exe.run(parallel, feed={"x": X[:3]}, fetch_list=[found.loss], return_merged=False)[0]
    ] == [(5, 1), (5, 2)]


def test_customized_scale_must_be_fed(exe: Any) -> None:
    found, strategy = job(exe), fluid.BuildStrategy()
    strategy.gradient_scale_strategy = fluid.BuildStrategy.GradientScaleStrategy.Customized
    with pytest.raises(fluid.core.EnforceNotMet, match="mean_0.tmp_0@GRAD"):
        exe.run(on(2, found, strategy), feed=FEED, scope=found.scope)


def test_an_error_on_one_device_stops_all(exe: Any) -> None:
    found = job(exe, "sparse_sgd")
    parallel = on(3, found)
    ids = np.zeros((12, 1), "int64")
    exe.run(parallel, feed={"word": ids, "y": Y}, scope=found.scope)
    wrong = ids.copy()
    wrong[5] = 99
    before = held(found)
    with pytest.raises(fluid.core.EnforceNotMet) as caught:
        exe.run(parallel, feed={"word": wrong, "y": Y}, scope=found.scope)
    text = str(caught.value)
    assert (
        "lookup_table" in text
        and "data_parallel_programs.py" in text
        and text.count("on device 1 of 3 (CPUPlace)") == 1
    )
    assert all((held(found)[name] == value).all() for name, value in before.items())
    exe.run(parallel, feed={"word": ids, "y": Y}, scope=found.scope)


# ---------------------------------------------------------------------- threads
def device_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("fluidlite-device")}


def test_devices_that_come_first_to_a_ring_share_its_board() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            together, begin = DeviceBarrier(count=200, seconds=LIMIT), threading.Barrier(4)

            def look(_: int, together: DeviceBarrier = together, begin: threading.Barrier = begin) -> Any:
                begin.wait()
                return together.board(0)

            with concurrent.futures.ThreadPoolExecutor(4) as devices:
                first, *others = devices.map(look, range(4))
            assert all(other is first for other in others)
    finally:
        sys.setswitchinterval(before)


def test_threads_end_with_the_executor_or_the_program() -> None:
    before = device_threads()
    executor = fluid.Executor(fluid.CPUPlace())
    found = job(executor)
    parallel = on(3, found)
    executor.run(parallel, feed=FEED, scope=found.scope)
    assert len(device_threads() - before) == 2
    executor.run(parallel, feed=FEED, scope=found.scope)
    assert len(device_threads() - before) == 2
    executor.close()
    assert not device_threads() - before
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(on(3, found), feed=FEED, scope=found.scope)
    started = device_threads() - before
    gc.collect()
    for thread in started:
        thread.join(LIMIT)
    assert started and not device_threads() - before


def test_several_threads_may_run_one_program(exe: Any) -> None:
    found = job(exe)
    parallel = on(2, found)
    losses: list[Any] = []

    def work() -> None:
        losses.extend(
            exe.run(parallel, feed=FEED, fetch_list=[found.loss], scope=found.scope)[0].shape
            for _ in range(5)
        )

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert losses == [(2,)] * 15


# ---------------------------------------------------------------------- ParallelExecutor
def test_parallel_executor(exe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")
    found = job(exe)
    test = found.main.clone(for_test=True)
    trainer = fluid.ParallelExecutor(False, found.loss.name, found.main, scope=found.scope)
    assert trainer.device_count == 2
    (first,) = trainer.run([found.loss.name], feed=FEED)
    with pytest.warns(UserWarning, match="feed_dict"):
        (second,) = trainer.run(fetch_list=[found.loss], feed_dict=FEED)
    assert first.shape == second.shape == (2,) and second.mean() < first.mean()
    tester = fluid.ParallelExecutor(use_cuda=False, main_program=test, share_vars_from=trainer)
    assert tester.run([found.loss.name], [FEED, FEED])[0].shape == (2,)
    trainer.drop_local_exe_scopes()
    assert trainer._need_create_local_exe_scopes()
    assert not any(executor._plans for executor in trainer._compiled_program._runner.devices.executors)
    assert trainer.run([found.loss.name], FEED, return_numpy=False)[0].shape() == [2]
    with pytest.raises(AssertionError, match="The share_vars_from should be ParallelExecutor"):
        fluid.ParallelExecutor(use_cuda=False, main_program=test, share_vars_from=exe)
    with pytest.raises(AssertionError, match="The loss name of CompiledProgram is None"):
        fluid.ParallelExecutor(use_cuda=False, main_program=found.main)
    if not fluid.is_compiled_with_cuda():
        with pytest.raises(RuntimeError, match="needs a CUDA device"):
            fluid.ParallelExecutor(use_cuda=True, loss_name=found.loss.name, main_program=found.main)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("where", ["cond", "Switch", "behind"])
def test_branches_that_update_parameters(devices: int, where: str) -> None:
    """Each device may take another branch: gradients in them cannot be averaged, and 1.8.5 refuses, too."""
    x, which = fluid.data("x", [None, 3]), fluid.data("which", [1], "int64")
    hidden = fluid.layers.fc(x, 1)
    losses = fluid.layers.mean(hidden), fluid.layers.mean(fluid.layers.square(hidden))
    chosen = fluid.layers.equal(which, fluid.layers.fill_constant([1], "int64", 1))
    first, second = fluid.optimizer.SGD(0.1), fluid.optimizer.Adam(0.1)
    loss = losses[0]
    if where == "behind":
        loss = fluid.layers.cond(chosen, lambda: losses[0], lambda: losses[1])
        first.minimize(loss)
    elif where == "Switch":
        with fluid.layers.Switch() as switch:
            with switch.case(chosen):
                first.minimize(losses[0])
            with switch.default():
                second.minimize(losses[1])
    else:
        fluid.layers.cond(
            chosen, lambda: first.minimize(losses[0]) and None, lambda: second.minimize(losses[1]) and None
        )
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss.name, places=[fluid.CPUPlace()] * devices
    )
    feed = [{"x": np.ones((2, 3), "float32"), "which": np.array([1])}] * devices
    if devices == 1 or where == "behind":
        assert np.isfinite(exe.run(program, feed, [loss])[0]).all()
    else:
        for run in (exe.run, lambda *_: program._compile(fluid.global_scope(), exe.place)):
            with pytest.raises(NotImplementedError, match="optimizer is used in control flow"):
                run(program, feed, [loss])
