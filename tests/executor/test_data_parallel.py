"""`CompiledProgram.with_data_parallel` on several CPU devices: equality with one device, feeds, fetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import data_parallel_programs as programs
import numpy as np
import pytest
from data_parallel_runs import FEED, X, Y, held, job, on

import fluidlite as fluid

# two losses share their parameters here
pytestmark = pytest.mark.filterwarnings("ignore:minimize. .*updated twice:UserWarning")


# ---------- the same as one device on the whole batch
@pytest.mark.parametrize(
    "name",
    ["sgd", "global_norm", "schedule", "decay", "two_losses", "recurrent", "adamax", "lamb", "averages"],
)
@pytest.mark.parametrize("devices", [2, 3])
def test_equals_one_device_on_the_whole_batch(exe: Any, name: str, devices: int) -> None:
    one, many = job(exe, name), job(exe, name)
    parallel = on(devices, many)
    for _ in range(4):
        (alone,) = exe.run(one.main, feed=FEED, fetch_list=[one.loss], scope=one.scope)
        (shared,) = exe.run(parallel, feed=FEED, fetch_list=[many.loss], scope=many.scope)
        assert shared.shape == (devices,)
        np.testing.assert_allclose(shared.mean(), alone[0], rtol=2e-5)
    for name_of, value in held(one).items():
        np.testing.assert_allclose(held(many)[name_of], value, rtol=1e-4, atol=1e-6, err_msg=name_of)


def normalised(fluid: Any) -> Any:
    x, y = programs.data(fluid)
    hidden = fluid.layers.batch_norm(fluid.layers.fc(x, 4), act="tanh")
    loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(hidden, 1), y))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_synchronised_batch_norm(exe: Any, devices: int) -> None:
    one, many = job(exe, make=normalised), job(exe, make=normalised)
    strategy = fluid.BuildStrategy()
    strategy.sync_batch_norm = True
    parallel = on(devices, many, strategy)
    for _ in range(3):
        exe.run(one.main, feed=FEED, fetch_list=[one.loss], scope=one.scope)
        exe.run(parallel, feed=FEED, fetch_list=[many.loss], scope=many.scope)
    for name, value in held(one).items():
        np.testing.assert_allclose(held(many)[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    (means,) = exe.run(
        parallel, feed=FEED, fetch_list=["batch_norm_0.w_1"], scope=many.scope, return_merged=False
    )
    assert all((mean == means[0]).all() for mean in means)


def test_two_runs_are_bit_equal(exe: Any) -> None:
    first, second = (
        programs.train(fluid, next(case for case in programs.CASES if case.name == name), 3, exe, steps=5)
        for name in ("batch_norm", "batch_norm")
    )
    assert all((a[0] == b[0]).all() for a, b in zip(first[0], second[0], strict=True))
    assert all((first[1][name] == second[1][name]).all() for name in first[1])


def test_with_and_without_buckets_is_bit_equal(exe: Any, flags: Callable[..., None]) -> None:
    results = []
    for megabytes, fused in ((-1.0, True), (0.0001, True), (-1.0, False)):
        flags(fuse_parameter_memory_size=megabytes)
        found, strategy = job(exe), fluid.BuildStrategy()
        strategy.fuse_all_reduce_ops = fused
        exe.run(on(2, found, strategy), feed=FEED, scope=found.scope)
        results.append(held(found))
    assert all((other[name] == value).all() for other in results[1:] for name, value in results[0].items())


def test_the_interpreter_says_the_same(exe: Any) -> None:
    plans, naive = job(exe, "schedule"), job(exe, "schedule")
    for found, slowly in ((plans, False), (naive, True)):
        parallel = on(2, found)
        for _ in range(3):
            exe.naive = slowly
            exe.run(parallel, feed=FEED, fetch_list=[found.loss], scope=found.scope)
        exe.naive = False
    for name, value in held(plans).items():
        np.testing.assert_allclose(held(naive)[name], value, rtol=1e-5, atol=1e-7)


# ---------------------------------------------------------------------- feeds and fetches
def test_rows_go_to_devices_in_order(exe: Any) -> None:
    found = job(exe)
    parallel = on(2, found)
    for count, rows in ((2, [1, 1]), (3, [1, 2]), (5, [2, 3]), (12, [6, 6])):
        (hidden,) = exe.run(
            parallel,
            feed={"x": X[:count], "y": Y[:count]},
            fetch_list=["fc_0.tmp_2"],
            scope=found.scope,
            return_merged=False,
        )
        assert [len(part) for part in hidden] == rows


def test_list_feeds_and_unmerged_fetches(exe: Any) -> None:
    found = job(exe)
    parallel = on(2, found)
    parts = [{"x": X[:1], "y": Y[:1]}, {"x": X[1:6], "y": Y[1:6]}]
    loss, out = exe.run(
        parallel, feed=parts, fetch_list=[found.loss, "fc_1.tmp_1"], scope=found.scope, return_merged=False
    )
    assert [value.shape for value in loss] == [(1,), (1,)] and [value.shape for value in out] == [
        (1, 1),
        (5, 1),
    ]
    (merged,) = exe.run(
        parallel, feed=tuple(parts), fetch_list=["fc_1.tmp_1"], scope=found.scope, return_numpy=False
    )
    assert isinstance(merged, fluid.LoDTensor) and merged.shape() == [6, 1]
    twice = exe.run(parallel, feed=FEED, fetch_list=[found.loss, found.loss], scope=found.scope)
    assert (twice[0] == twice[1]).all()
    assert exe.run(parallel, feed=FEED, scope=found.scope) == []


def test_sequences_are_split_and_merged(exe: Any) -> None:
    def build(fluid: Any) -> Any:
        word = fluid.data("word", [None, 1], lod_level=2)
        return fluid.layers.mean(fluid.layers.scale(word, 2.0))

    found = job(exe, make=build)
    lengths = [[2, 1, 2], [1, 2, 3, 1, 2]]
    fed = fluid.create_lod_tensor(np.arange(9, dtype="float32").reshape(9, 1), lengths, fluid.CPUPlace())
    parallel = on(2, found)
    first, second = exe.run(
        parallel, feed={"word": fed}, fetch_list=["scale_0.tmp_0"], return_numpy=False, return_merged=False
    )[0]
    assert first.recursive_sequence_lengths() == [[2], [1, 2]] and second.recursive_sequence_lengths() == [
        [1, 2],
        [3, 1, 2],
    ]
    (merged,) = exe.run(parallel, feed={"word": fed}, fetch_list=["scale_0.tmp_0"], return_numpy=False)
    assert (
        merged.recursive_sequence_lengths() == lengths and (np.array(merged)[:, 0] == 2 * np.arange(9)).all()
    )
    with pytest.raises(RuntimeError, match="LoD information"):
        exe.run(parallel, feed={"word": fed}, fetch_list=["scale_0.tmp_0"])


def test_forward_programs_take_fewer_rows_than_devices(exe: Any) -> None:
    found = job(exe)
    test = fluid.CompiledProgram(found.main.clone(for_test=True)).with_data_parallel(
        places=fluid.cpu_places(4)
    )
    assert exe.run(test, feed={"x": X[:2], "y": Y[:2]}, fetch_list=[found.loss.name], scope=found.scope)[
        0
    ].shape == (2,)
    assert exe.run(test, feed=[FEED], fetch_list=[found.loss.name], scope=found.scope)[0].shape == (1,)


def test_parameters_can_be_fed_and_set(exe: Any) -> None:
    found = job(exe)
    parallel = on(2, found)
    ones = np.ones((5, 6), "float32")
    (fed,) = exe.run(parallel, feed={**FEED, "fc_0.w_0": ones}, fetch_list=["fc_0.tmp_0"], scope=found.scope)
    np.testing.assert_allclose(fed, X @ ones, rtol=1e-5)
    for value in (2 * ones, 3 * ones):
        found.scope.find_var("fc_0.w_0").get_tensor().set(value, fluid.CPUPlace())
        (product,) = exe.run(parallel, feed=FEED, fetch_list=["fc_0.tmp_0"], scope=found.scope)
        np.testing.assert_allclose(product, X @ value, rtol=1e-5)
    exe.run(found.startup, scope=found.scope)  # another program that changes them
    initial = held(found)["fc_0.w_0"]
    (product,) = exe.run(parallel, feed=FEED, fetch_list=["fc_0.tmp_0"], scope=found.scope)
    np.testing.assert_allclose(product, X @ initial, rtol=1e-4, atol=1e-6)


def test_readers_give_each_device_a_batch(exe: Any) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 3])
        loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=4, iterable=False)
        total = fluid.layers.reduce_sum(x)
        loss = fluid.layers.mean(fluid.layers.fc(x, 1))
        fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 1, 0.5)).minimize(loss)
    loader.set_batch_generator(lambda: ([np.full((2, 3), number, "float32")] for number in range(5)))
    exe.run(startup)
    parallel = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=fluid.cpu_places(2))
    for _ in range(2):
        loader.start()
        assert [exe.run(parallel, fetch_list=[total])[0].tolist() for _ in range(2)] == [
            [0.0, 6.0],
            [12.0, 18.0],
        ]
        with pytest.raises(fluid.core.EOFException):
            exe.run(parallel, fetch_list=[total])
        loader.reset()
    assert np.array(fluid.global_scope().find_var("@LR_DECAY_COUNTER@").get_tensor()).tolist() == [3]


def test_a_test_program_shares_the_variables_of_each_device(exe: Any) -> None:
    found = job(exe, make=normalised)
    parallel = on(2, found)
    test = fluid.CompiledProgram(found.main.clone(for_test=True)).with_data_parallel(
        share_vars_from=parallel, places=fluid.cpu_places(2)
    )
    with pytest.raises(ValueError, match="The shared Program is not compiled and executed"):
        exe.run(test, feed=FEED, fetch_list=[found.loss.name], scope=found.scope)
    exe.run(parallel, feed=FEED, fetch_list=[found.loss], scope=found.scope)
    (trained,) = exe.run(
        parallel, feed=FEED, fetch_list=["batch_norm_0.w_1"], scope=found.scope, return_merged=False
    )
    (tested,) = exe.run(test, feed=FEED, fetch_list=["batch_norm_0.w_1"], return_merged=False)
    assert not (trained[0] == trained[1]).all() and all(
        (a == b).all() for a, b in zip(trained, tested, strict=True)
    )


def test_dropout_differs_from_device_to_device(exe: Any) -> None:
    def build(fluid: Any) -> Any:
        return fluid.layers.mean(fluid.layers.dropout(fluid.data("x", [None, 5]), 0.5))

    found = job(exe, make=build)
    first, second = exe.run(
        on(2, found),
        feed={"x": np.ones((64, 5), "float32")},
        fetch_list=["dropout_0.tmp_0"],
        return_merged=False,
    )[0]
    assert not (first == second).all()
