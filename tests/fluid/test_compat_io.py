"""Saving, loading, readers, feeders and strategies, held to what PaddlePaddle 1.8.5 was seen to do."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core, io, layers

PLACE = fluid.CPUPlace()


@pytest.fixture
def net(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A small network with Adam whose startup program has run, in a scope and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = layers.data("x", [4]), layers.data("y", [1])
        p = layers.fc(
            layers.dropout(x, 0.3),
            1,
            param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.5)),
            bias_attr=fluid.ParamAttr(name="b"),
        )
        loss = layers.mean(layers.square_error_cost(p, y))
        fluid.optimizer.Adam(0.1).minimize(loss)
    exe = fluid.Executor(PLACE)
    with fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        exe.run(startup)
        yield SimpleNamespace(
            main=main, exe=exe, p=p, loss=loss, x=x, block=main.global_block(), w=main.global_block().var("w")
        )


STATE = ["_beta1_pow_acc_0", "_beta2_pow_acc_0", "_moment1_0", "_moment2_0"]
PERSISTABLE = sorted(["w", "b", "learning_rate_0", *(name + suffix for name in "wb" for suffix in STATE)])


def weight() -> np.ndarray:
    return np.array(fluid.global_scope().find_var("w").get_tensor())


def forget(net: SimpleNamespace) -> None:
    for var in io.get_program_persistable_vars(net.main):
        held = fluid.global_scope().find_var(var.name).get_tensor()
        held.set(np.zeros_like(np.array(held)), PLACE)


# ---------- which variables
def test_kinds_of_variables(net: SimpleNamespace) -> None:
    assert sorted(var.name for var in io.get_program_parameter(net.main)) == ["b", "w"]
    assert sorted(var.name for var in io.get_program_persistable_vars(net.main)) == PERSISTABLE
    rate = net.block.var("learning_rate_0")
    kinds = [
        (io.is_parameter(var), io.is_persistable(var), io.is_belong_to_optimizer(var))
        for var in (net.w, rate, net.x)
    ]
    assert kinds == [(True, True, False), (False, True, True), (False, False, False)]
    assert io.get_parameter_value(net.w, net.exe).tolist() == [[0.5]] * 4
    assert io.get_parameter_value_by_name("w", net.exe, net.main).tolist() == [[0.5]] * 4
    with pytest.raises(AssertionError):
        io.get_parameter_value(net.x, net.exe)
    with pytest.raises(ValueError, match="var nope not in this block"):
        io.get_parameter_value_by_name("nope", net.exe, net.main)


SAVED: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "parameters": (lambda n: io.save_params(n.exe, "d", n.main), ["b", "w"]),
    "parameters in one file": (lambda n: io.save_params(n.exe, "d", n.main, "all"), ["all"]),
    "persistables": (lambda n: io.save_persistables(n.exe, "d", n.main), PERSISTABLE),
    "variables": (lambda n: io.save_vars(n.exe, "d", n.main, vars=[n.w]), ["w"]),
    "what a predicate chooses": (
        lambda n: io.save_vars(n.exe, "d", n.main, predicate=lambda var: var.name == "w"),
        ["w"],
    ),
    "a predicate, one file": (
        lambda n: io.save_vars(n.exe, "d", n.main, predicate=lambda var: var.name in "wb", filename="f"),
        ["f"],
    ),
    "variables without a program": (lambda n: io.save_vars(n.exe, "d", None, vars=[n.w]), ["w"]),
    "the same twice": (lambda n: io.save_vars(n.exe, "d", n.main, vars=[n.w, n.w], filename="f"), ["f"]),
}


@pytest.mark.parametrize("what", SAVED)
def test_saving(net: SimpleNamespace, what: str) -> None:
    save, files = SAVED[what]
    assert save(net) is None and sorted(os.listdir("d")) == files


@pytest.mark.parametrize(
    ("save", "error"),
    [
        (lambda n: io.save_params(n.exe, "d", "abc"), TypeError),
        (lambda n: io.save_params(n.exe, "d", 3), TypeError),
        (lambda n: io.save_vars(n.exe, "d", n.main), core.EnforceNotMet),
        (lambda n: io.save_vars(n.exe, "d", n.main, vars=[n.block.var("fc_0.tmp_0")]), core.EnforceNotMet),
        (lambda n: fluid.save(n.main, "d/"), AssertionError),
        (lambda n: fluid.save(n.main, ""), AssertionError),
        (lambda n: io.save_inference_model("d", [n.x], [n.p], n.exe, n.main), ValueError),
        (lambda n: io.save_inference_model("d", ["x"], ["fc_0.tmp_1"], n.exe, n.main), ValueError),
        (lambda n: io.save_inference_model("d", ["x"], None, n.exe, n.main), ValueError),
        (lambda n: io.save_inference_model("d", ["x"], [], n.exe, n.main), ValueError),
        (lambda n: io.save_inference_model("d", ["zz"], [n.p], n.exe, n.main), ValueError),
        (lambda n: io.save_inference_model("d", ["x", "y"], [n.p], n.exe, n.main), ValueError),
        (lambda n: io.save_inference_model("d", ["x"], [n.p], n.exe), ValueError),
        (lambda n: io.save_inference_model("d", ["x"], [n.p], n.exe, "abc"), TypeError),
    ],
)
def test_saving_refuses(net: SimpleNamespace, save: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        save(net)


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({}, ["__model__", "b", "w"]),
        ({"model_filename": "M", "params_filename": "P"}, ["M", "P"]),
        ({"model_filename": "a/M", "params_filename": "q/P"}, ["M", "P"]),
        ({"program_only": True}, ["__model__"]),
        ({"export_for_deployment": False}, sorted(["__model__.main_program", *PERSISTABLE])),
    ],
)
@pytest.mark.filterwarnings("ignore:save_inference_model specified")
def test_inference_models(net: SimpleNamespace, options: dict[str, Any], files: list[str]) -> None:
    assert io.save_inference_model("d", ["x"], [net.p], net.exe, net.main, **options) == [
        "save_infer_model/scale_0.tmp_0"
    ]
    assert sorted(os.listdir("d")) == files


def test_inference_models_run(net: SimpleNamespace) -> None:
    io.save_inference_model("d", "x", net.p, net.exe, net.main)
    forget(net)
    program, feeds, fetches = io.load_inference_model("d", net.exe)
    assert [op.type for op in program.global_block().ops] == [
        "feed",
        "dropout",
        "mul",
        "elementwise_add",
        "scale",
        "fetch",
    ]
    assert feeds == ["x"] and [var.name for var in fetches] == ["save_infer_model/scale_0.tmp_0"]
    (found,) = net.exe.run(program, feed={"x": np.ones((2, 4), "float32")}, fetch_list=fetches)
    np.testing.assert_allclose(found, [[1.4]] * 2, rtol=1e-6)


# ------------------------------------------------------------------------------------------------ loading
LOADED: dict[str, Callable[[Any], Any]] = {
    "persistables": lambda n: io.load_persistables(n.exe, "many", n.main),
    "persistables in one file": lambda n: io.load_persistables(n.exe, "one", n.main, "all"),
    "parameters": lambda n: io.load_params(n.exe, "many", n.main),
    "a variable": lambda n: io.load_vars(n.exe, "many", n.main, vars=[n.w]),
    "what a predicate chooses": lambda n: io.load_vars(
        n.exe, "many", n.main, predicate=lambda var: var.name == "w"
    ),
    "what fluid.save wrote": lambda n: fluid.load(n.main, "saved/m", n.exe),
    "that, without an executor": lambda n: fluid.load(n.main, "saved/m"),
    "that, by the name of a file": lambda n: fluid.load(n.main, "saved/m.pdparams", n.exe),
    "a folder": lambda n: fluid.load(n.main, "many", n.exe),
    "a file": lambda n: fluid.load(n.main, "one/all", n.exe, io.get_program_persistable_vars(n.main)),
    "a state": lambda n: fluid.set_program_state(n.main, fluid.load_program_state("saved/m")),
    "the state in a folder": lambda n: fluid.set_program_state(n.main, fluid.load_program_state("many")),
}


def save_all(net: SimpleNamespace) -> None:
    io.save_persistables(net.exe, "many", net.main)
    io.save_persistables(net.exe, "one", net.main, "all")
    fluid.save(net.main, "saved/m")


@pytest.mark.parametrize("what", LOADED)
def test_loading(net: SimpleNamespace, what: str) -> None:
    save_all(net)
    forget(net)
    LOADED[what](net)
    assert weight().tolist() == [[0.5]] * 4


@pytest.mark.parametrize(
    ("load", "error"),
    [
        (lambda n: io.load_params(n.exe, "nodir", n.main), core.EnforceNotMet),
        (lambda n: io.load_params(n.exe, "one", n.main, "no"), core.EnforceNotMet),
        (lambda n: io.load_params(n.exe, "one", n.main, "all"), core.EnforceNotMet),
        (lambda n: io.load_vars(n.exe, "many", n.main), core.EnforceNotMet),
        (lambda n: io.load_vars(n.exe, "many", "abc", vars=[n.w]), TypeError),
        (lambda n: io.load_params(n.exe, "many", fluid.CompiledProgram(n.main)), TypeError),
        (lambda n: io.load_inference_model("nodir", n.exe), ValueError),
        (lambda n: io.load_inference_model("many", n.exe), FileNotFoundError),
        (lambda n: io.load_inference_model(None, n.exe), ValueError),
        (lambda n: io.load_inference_model(None, n.exe, None, b"x"), TypeError),
        (lambda n: fluid.load(n.main, "saved/no", n.exe), FileNotFoundError),
        (lambda n: fluid.load(n.main, "one/all", n.exe), ValueError),
        (lambda n: fluid.load(n.main, "one/all", n.exe, [n.w]), RuntimeError),
        (lambda n: fluid.load_program_state("one/all"), ValueError),
        (lambda n: fluid.load_program_state("one/all", [n.w]), RuntimeError),
        (lambda n: fluid.load_program_state("many", ["w"]), TypeError),
        (lambda n: fluid.set_program_state(n.main, {"w": np.ones((4, 2), "float32")}), AssertionError),
        (lambda n: fluid.set_program_state(n.main, {"w": np.ones((4, 1))}), AssertionError),
    ],
)
def test_loading_refuses(net: SimpleNamespace, load: Callable[[Any], Any], error: type[Exception]) -> None:
    save_all(net)
    with pytest.raises(error):
        load(net)
    assert weight().tolist() == [[0.5]] * 4


@pytest.mark.parametrize("data", [b"hello", b"", b"garbage!!"])
def test_files_that_hold_something_else(net: SimpleNamespace, data: bytes) -> None:
    os.makedirs("d")
    for name in ("w", "__model__"):
        pathlib.Path("d", name).write_bytes(data)
    with pytest.raises(core.EnforceNotMet):
        io.load_vars(net.exe, "d", net.main, vars=[net.w])
    with pytest.raises(core.EnforceNotMet):
        io.load_inference_model("d", net.exe)


def test_states(net: SimpleNamespace) -> None:
    save_all(net)
    assert (
        sorted(fluid.load_program_state("saved/m")) == PERSISTABLE == sorted(fluid.load_program_state("many"))
    )
    assert sorted(fluid.load_program_state("many", [net.w])) == ["w"]
    with pytest.warns(UserWarning, match="zz"):
        fluid.set_program_state(net.main, {"w": np.ones((4, 1), "float32"), "zz": np.ones(2)})
    assert weight().tolist() == [[1.0]] * 4
    with (
        fluid.scope_guard(fluid.Scope()),
        pytest.raises(AssertionError, match="Please make sure run startup program"),
    ):
        fluid.set_program_state(net.main, {"w": np.ones((4, 1), "float32")})


# ---------- feeders and readers
def feed(names: str, rows: Any) -> dict[str, Any]:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        layers.data("x", [2, 3])
        layers.data("y", [1], dtype="int64")
        layers.data("s", [1], dtype="int64", lod_level=1)
        layers.data("s2", [1], dtype="int64", lod_level=2)
        layers.data("nb", [2, 2], append_batch_size=False)
        fluid.data("ld", [None, 2], "float32", lod_level=1)
        fluid.data("dd", [3, 4], "float32")
    return fluid.DataFeeder(names.split(), PLACE, program).feed(rows)


@pytest.mark.parametrize(
    ("name", "rows", "shape", "lod"),
    [
        ("x", [([1, 2, 3, 4, 5, 6],), ([0] * 6,)], [2, 2, 3], []),
        ("x", [(np.ones((2, 3)),)], [1, 2, 3], []),
        ("y", [(3,), (4,)], [2, 1], []),
        ("y", [([3],), ([4],)], [2, 1], []),
        ("y", iter([(3,)]), [1, 1], []),
        ("s", [([1, 2],), ([3],)], [3, 1], [[0, 2, 3]]),
        ("s", [([1, 2],), ([],)], [2, 1], [[0, 2, 2]]),
        ("s2", [([[1, 2], [3]],), ([[4]],)], [4, 1], [[0, 2, 3], [0, 2, 3, 4]]),
        ("ld", [([[1, 2], [3, 4]],), ([[5, 6]],)], [3, 2], [[0, 2, 3]]),
        ("nb", [([1, 2],), ([3, 4],)], [2, 2], []),
        ("dd", [([1, 2, 3, 4],)] * 3, [3, 4], []),
        ("dd", [([1, 2, 3, 4],)] * 2, [2, 4], []),
    ],
)
def test_rows_are_fed(name: str, rows: Any, shape: list[int], lod: list[list[int]]) -> None:
    found = feed(name, rows)[name]
    assert (found.shape(), found.lod()) == (shape, lod)


@pytest.mark.parametrize(
    ("names", "rows", "error"),
    [
        ("x", [([1, 2, 3, 4, 5],)], ValueError),
        ("x", [([1, 2, 3],), ([1],)], ValueError),
        ("x y", [([1] * 6,)], AssertionError),
        ("y", [(1, 2)], AssertionError),
        ("zz", [], ValueError),
    ],
)
def test_rows_that_do_not_fit(names: str, rows: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        feed(names, rows)


def test_what_a_feeder_says() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        variables = [layers.data("x", [2, 3]), layers.data("s", [1], dtype="int64", lod_level=1)]
    feeder = fluid.DataFeeder(variables, PLACE, program)
    assert (feeder.feed_names, feeder.feed_lod_level, feeder.feed_shapes) == (
        ["x", "s"],
        [0, 1],
        [(-1, 2, 3), (-1, 1)],
    )
    assert feeder.feed_dtypes == [core.VarDesc.VarType.FP32, core.VarDesc.VarType.INT64]
    converter = fluid.data_feeder.DataToLoDTensorConverter(PLACE, 0, [-1, 3], core.VarDesc.VarType.FP32)
    for row in ([1, 2, 3], [4, 5, 6]):
        converter.feed(row)
    assert np.array(converter.done()).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_readers_refuse() -> None:
    for wrong in ("abc", []):
        with pytest.raises(AssertionError):
            io.multiprocess_reader(wrong)
    with pytest.raises(AssertionError, match="num_workers should be a non-negative value"):
        io.DataLoader([1, 2], places=PLACE, return_list=True, num_workers=-1)


# ---------- strategies, compiled programs
def test_options_keep_their_types() -> None:
    build, run = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    assert (build.fuse_broadcast_ops, build.enable_backward_optimizer_op_deps, build.is_distribution) == (
        True,
        True,
        False,
    )
    assert (run.num_threads, run.num_iteration_per_drop_scope, run.use_experimental_executor) == (
        0,
        100,
        True,
    )
    build.sync_batch_norm, build.memory_optimize, run.num_threads = 1, True, 7
    build.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    assert (build.sync_batch_norm, build.memory_optimize, run.num_threads) == (True, True, 7)
    for options, name, value in (
        (build, "reduce_strategy", 3),
        (build, "fuse_all_reduce_ops", "x"),
        (run, "num_threads", "x"),
        (run, "num_threads", 1.5),
    ):
        with pytest.raises(TypeError):
            setattr(options, name, value)
    with pytest.raises(AttributeError):
        build.foo = 3
    assert not fluid.BuildStrategy().sync_batch_norm


def test_compiled_programs_are_bound_to_their_first_run(net: SimpleNamespace) -> None:
    program = net.main.clone(for_test=True)
    feeds = {"x": np.ones((1, 4), "float32"), "y": np.ones((1, 1), "float32")}
    compiled = fluid.CompiledProgram(program).with_data_parallel(places=fluid.cpu_places(1))
    with pytest.raises(AssertionError):
        compiled.with_data_parallel()
    for wrong in (3, None, "abc"):
        with pytest.raises(TypeError):
            fluid.CompiledProgram(wrong)
    sharing = [
        fluid.CompiledProgram(program).with_data_parallel(share_vars_from=other, places=fluid.cpu_places(1))
        for other in (fluid.CompiledProgram(program), compiled)
    ]
    for refused in sharing:
        with pytest.raises(ValueError, match="The shared Program is not"):
            net.exe.run(refused, feed=feeds, fetch_list=[net.p])
    net.exe.run(compiled, feed=feeds, fetch_list=[net.p])
    assert net.exe.run(sharing[1], feed=feeds, fetch_list=[net.p])[0].shape == (1, 1)
    with pytest.raises(ValueError, match="Cannot compile program with different scope"):
        net.exe.run(compiled, feed=feeds, fetch_list=[net.p], scope=fluid.Scope())
    with pytest.raises(AssertionError):
        fluid.ParallelExecutor(use_cuda=False, main_program=program, share_vars_from=3)


@pytest.mark.skipif(fluid.is_compiled_with_cuda(), reason="there is a CUDA device")
def test_places_without_cuda() -> None:
    for places in (fluid.cuda_places, fluid.cuda_pinned_places):
        with pytest.raises(AssertionError, match="Not compiled with CUDA"):
            places()
