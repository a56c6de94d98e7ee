"""`CompiledProgram.with_data_parallel` on several CPU devices: equality with one device, feeds, fetches,
options, errors, threads.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import data_parallel_programs as programs
import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import compiler
from fluidlite.executor.comm.local.network import LocalNetwork, run_roles

X = np.random.default_rng(1).standard_normal((12, 5)).astype("float32")
Y = np.random.default_rng(2).standard_normal((12, 1)).astype("float32")
FEED = {"x": X, "y": Y}


@pytest.fixture
def exe() -> Iterator[Any]:
    executor = fluid.Executor(fluid.CPUPlace())
    yield executor
    executor.close()


def job(exe: Any, name: str = "sgd", make: Callable[..., Any] | None = None) -> SimpleNamespace:
    """A program of data_parallel_programs, or one that `make` builds, in a scope of its own."""
    item = (
        programs.Case(name, make, None)
        if make
        else next(case for case in programs.CASES if case.name == name)
    )
    main, startup, loss, fetches = programs.build(fluid, item)
    scope = fluid.Scope()
    exe.run(startup, scope=scope)
    programs.initialise(fluid, main, scope)
    return SimpleNamespace(main=main, startup=startup, loss=loss, fetches=fetches, scope=scope)


def on(devices: int, found: SimpleNamespace, build: Any = None, run: Any = None, **more: Any) -> Any:
    return fluid.CompiledProgram(found.main).with_data_parallel(
        found.loss.name, build, run, places=fluid.cpu_places(devices), **more
    )


def held(found: SimpleNamespace) -> dict[str, Any]:
    return {name: np.array(found.scope.find_var(name).get_tensor()) for name in found.scope.local_var_names()}


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


def test_with_and_without_buckets_is_bit_equal(exe: Any) -> None:
    results = []
    for megabytes, fused in ((-1.0, True), (0.0001, True), (-1.0, False)):
        fluid.set_flags({"FLAGS_fuse_parameter_memory_size": megabytes})
        try:
            found, strategy = job(exe), fluid.BuildStrategy()
            strategy.fuse_all_reduce_ops = fused
            exe.run(on(2, found, strategy), feed=FEED, scope=found.scope)
        finally:
            fluid.set_flags({"FLAGS_fuse_parameter_memory_size": -1.0})
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


# ---------------------------------------------------------------------- options
def test_reduce_keeps_accumulators_once(exe: Any) -> None:
    found, strategy = job(exe, "reduce_adam"), fluid.BuildStrategy()
    strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    parallel = on(2, found, strategy)
    exe.run(parallel, feed=FEED, scope=found.scope)
    own = [set(scope.local_var_names()) for scope in parallel._runner.devices.scopes]
    assert not any("moment" in name for names in own for name in names)
    updates = [
        {op.input("Param")[0] for op in program.global_block().ops if op.type == "adam"}
        for program in parallel._runner.division.programs
    ]
    assert updates[0] and updates[1] and not updates[0] & updates[1]
    (copies,) = exe.run(parallel, feed=FEED, fetch_list=["fc_0.w_0"], scope=found.scope, return_merged=False)
    assert (copies[0] == copies[1]).all()


def test_reduce_with_the_norm_of_all_gradients(exe: Any) -> None:
    one, many = job(exe, "global_norm"), job(exe, "global_norm")
    strategy = fluid.BuildStrategy()
    strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    parallel = on(3, many, strategy)
    for _ in range(3):
        exe.run(one.main, feed=FEED, scope=one.scope)
        exe.run(parallel, feed=FEED, scope=many.scope)
    for name, value in held(one).items():
        np.testing.assert_allclose(held(many)[name], value, rtol=1e-4, atol=1e-6)


def test_iterations_of_one_run(exe: Any) -> None:
    several, single = job(exe, "schedule"), job(exe, "schedule")
    run = fluid.ExecutionStrategy()
    run.num_iteration_per_run = 3
    (last,) = exe.run(on(2, several, run=run), feed=FEED, fetch_list=[several.loss], scope=several.scope)
    parallel = on(2, single)
    steps = [exe.run(parallel, feed=FEED, fetch_list=[single.loss], scope=single.scope)[0] for _ in range(3)]
    assert (last == steps[-1]).all()


def test_a_picture_of_the_program(exe: Any, tmp_path: Any) -> None:
    found, strategy = job(exe), fluid.BuildStrategy()
    strategy.debug_graphviz_path = str(tmp_path / "graphs" / "program.dot")
    exe.run(on(2, found, strategy), feed=FEED, scope=found.scope)
    text = (tmp_path / "graphs" / "program.dot").read_text()
    assert text.startswith("digraph") and text.endswith("}\n") and '"sgd"' in text
    assert len(list((tmp_path / "graphs").iterdir())) == 1


def test_passes_can_be_listed_and_drawn(exe: Any, tmp_path: Any) -> None:
    found, strategy = job(exe), fluid.BuildStrategy()
    passes = strategy._finalize_strategy_and_create_passes()
    count = len(passes.all_passes())
    picture = passes.append_pass("graph_viz_pass")
    picture.set("graph_viz_path", str(tmp_path / "program.dot"))
    passes.insert_pass(0, "fuse_bn_act_pass")
    passes.remove_pass(0)
    assert [item.type() for item in passes.all_passes()][count:] == ["graph_viz_pass"] and picture.has(
        "graph_viz_path"
    )
    for wrong in (
        lambda: passes.append_pass("nope_pass"),
        lambda: passes.insert_pass(99, "graph_viz_pass"),
        lambda: passes.remove_pass(99),
    ):
        with pytest.raises(fluid.core.EnforceNotMet):
            wrong()
    exe.run(on(2, found, strategy), feed=FEED, scope=found.scope)
    assert (tmp_path / "program.dot").read_text().endswith("}\n")


def test_a_dry_run_computes_nothing(exe: Any) -> None:
    found, run = job(exe), fluid.ExecutionStrategy()
    run._dry_run = True
    before = held(found)
    assert exe.run(on(2, found, run=run), fetch_list=[found.loss], scope=found.scope) == [None]
    assert all((held(found)[name] == value).all() for name, value in before.items())


@pytest.mark.parametrize(
    ("devices", "rates", "kept"),
    [(1, [1.0], 1.0), (2, [1.0], 1.0), (2, [0.5, 0.5], 0.5), (1, [1.0, 1.0], None)],
)
def test_learning_rates_can_be_fed(exe: Any, devices: int, rates: list[float], kept: float | None) -> None:
    found = job(exe)
    feed = {**FEED, "learning_rate_0": np.array(rates, "float32")}
    if kept is None:
        with pytest.raises(fluid.core.EnforceNotMet, match="learning_rate_0"):
            exe.run(on(devices, found), feed=feed, scope=found.scope)
        return
    exe.run(on(devices, found), feed=feed, scope=found.scope)
    assert held(found)["learning_rate_0"].tolist() == [kept]
    other = job(exe)
    other.scope.find_var("learning_rate_0").get_tensor().set(np.array([kept], "float32"), fluid.CPUPlace())
    exe.run(on(devices, other), feed=FEED, scope=other.scope)
    assert all((held(other)[name] == value).all() for name, value in held(found).items())


def test_meaningless_options_say_so_once(exe: Any) -> None:
    compiler._told.clear()
    build, run = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    build.memory_optimize, build.enable_sequential_execution, run.num_threads = True, True, 4
    found = job(exe)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            exe.run(on(2, found, build, run), feed=FEED, scope=found.scope)
    texts = [str(item.message) for item in caught]
    assert len(texts) == 3 and all(
        sum(text.startswith(name) for text in texts) == 1
        for name in ("memory_optimize", "enable_sequential_execution", "num_threads")
    )


def test_inference_runs_what_is_fetched(exe: Any) -> None:
    found = job(exe)
    before = held(found)
    compiled = fluid.CompiledProgram(found.main).with_inference_optimize(None)
    (out,) = exe.run(compiled, feed={"x": X}, fetch_list=["fc_1.tmp_1"], scope=found.scope)
    assert out.shape == (12, 1) and all((held(found)[name] == value).all() for name, value in before.items())
    with pytest.raises(AssertionError, match="Cannot compile with both"):
        compiled.with_data_parallel(found.loss.name)


def test_processes_with_several_devices_each(exe: Any) -> None:
    one = job(exe)
    for _ in range(3):
        exe.run(one.main, feed=FEED, scope=one.scope)

    def trainer(number: int) -> Callable[[], dict[str, Any]]:
        def work() -> dict[str, Any]:
            mine = fluid.Executor(fluid.CPUPlace())
            found, strategy = trainers[number], fluid.BuildStrategy()
            strategy.num_trainers, strategy.trainer_id = 2, number
            parallel = on(2, found, strategy)
            for _ in range(3):
                mine.run(
                    parallel,
                    feed={name: value[6 * number : 6 * number + 6] for name, value in FEED.items()},
                    scope=found.scope,
                )
            mine.close()
            return held(found)

        return work

    trainers = [job(exe), job(exe)]
    trainers[1].scope.find_var("fc_0.w_0").get_tensor().set(
        np.zeros((5, 6), "float32"), fluid.CPUPlace()
    )  # trainer 0's count
    results = run_roles(LocalNetwork(), [("trainer0", trainer(0)), ("trainer1", trainer(1))])
    for name, value in held(one).items():
        for role in ("trainer0", "trainer1"):
            np.testing.assert_allclose(results[role][name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["sgd", "sparse_sgd"])
def test_a_trainer_with_servers_has_several_devices(exe: Any, name: str) -> None:
    feed = {"y": Y, **({"x": X} if name == "sgd" else {"word": np.arange(12).reshape(12, 1) % 7})}
    one = job(exe, name)
    initial = held(one)
    for _ in range(3):
        exe.run(one.main, feed=feed, scope=one.scope)
    network, endpoint = LocalNetwork(), "127.0.0.1:6170"

    def transpiled() -> tuple[Any, Any]:
        main, startup, loss, _ = programs.build(
            fluid, next(case for case in programs.CASES if case.name == name)
        )
        made = fluid.DistributeTranspiler()
        made.transpile(0, main, pservers=endpoint, trainers=1, startup_program=startup)
        return SimpleNamespace(
            main=made.get_trainer_program(False), loss=loss, startup=startup, scope=fluid.Scope()
        ), made

    def server() -> None:
        _, made = transpiled()
        mine, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        program, startup = made.get_pserver_programs(endpoint)
        mine.run(startup, scope=scope)
        for key, value in initial.items():
            if scope.find_var(key) is not None:
                scope.find_var(key).get_tensor().set(value, fluid.CPUPlace())
        mine.run(program, scope=scope)

    def trainer() -> dict[str, Any]:
        found, _ = transpiled()
        mine = fluid.Executor(fluid.CPUPlace())
        mine.run(found.startup, scope=found.scope)
        parallel = on(2, found)
        for _ in range(3):
            mine.run(parallel, feed=feed, scope=found.scope)
        mine.close()
        return held(found)

    result = run_roles(network, [("server", server), ("trainer", trainer)])["trainer"]
    for param in one.main.all_parameters():
        if param.name == "embedding_0.w_0":  # the trainer holds no copy of the table
            continue
        np.testing.assert_allclose(
            result[param.name], held(one)[param.name], rtol=1e-4, atol=1e-6, err_msg=param.name
        )


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
        thread.join(10)
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
        with pytest.raises(RuntimeError, match="no CUDA device"):
            fluid.ParallelExecutor(use_cuda=True, loss_name=found.loss.name, main_program=found.main)
