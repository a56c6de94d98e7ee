"""Options of `with_data_parallel`: strategies, passes, learning rates, and jobs of several processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import data_parallel_programs as programs
import numpy as np
import pytest
from data_parallel_runs import FEED, X, Y, held, job, on

import fluidlite as fluid
from fluidlite import compiler
from fluidlite.executor.comm.local.network import LocalNetwork
from fluidlite.executor.comm.local.session import run_roles


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

    # built here: the default programs and names of fluid belong to no thread
    (_, made), (found, _) = transpiled(), transpiled()

    def server() -> None:
        mine, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        program, startup = made.get_pserver_programs(endpoint)
        mine.run(startup, scope=scope)
        for key, value in initial.items():
            if scope.find_var(key) is not None:
                scope.find_var(key).get_tensor().set(value, fluid.CPUPlace())
        mine.run(program, scope=scope)

    def trainer() -> dict[str, Any]:
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


def test_what_the_passes_depend_on_is_fixed_with_them() -> None:
    strategy = fluid.BuildStrategy()
    strategy._finalize_strategy_and_create_passes()
    with pytest.raises(fluid.core.EnforceNotMet, match="finalized"):
        strategy.fuse_elewise_add_act_ops = True
    strategy.memory_optimize = True
    strategy.num_trainers = 2
