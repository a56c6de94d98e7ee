"""Inference models: what is saved of a program, and what runs again."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest
from saved_models import Net

import fluidlite as fluid
from fluidlite import io
from fluidlite.errors import FormatError


@pytest.fixture
def net(exe: fluid.Executor) -> Net:
    return Net(exe)


# ---------- inference models
@pytest.mark.parametrize("files", [{}, {"model_filename": "model", "params_filename": "params"}])
def test_inference_models(net: Net, tmp_path: pathlib.Path, files: dict[str, str]) -> None:
    before, expected = str(net.main), net.infer()
    names = io.save_inference_model(str(tmp_path), ["x"], [net.out, net.hidden], net.exe, net.main, **files)
    assert names == ["save_infer_model/scale_0.tmp_0", "save_infer_model/scale_1.tmp_0"]
    params = net.names(io.is_parameter)
    assert sorted(os.listdir(tmp_path)) == (
        sorted(files.values()) if files else sorted(["__model__", *params])
    )
    assert str(net.main) == before
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, targets = io.load_inference_model(str(tmp_path), net.exe, **files)
        assert feeds == ["x"] and [target.name for target in targets] == names
        assert [op.type for op in program.global_block().ops] == [
            "feed",
            "mul",
            "elementwise_add",
            "relu",
            "dropout",
            "mul",
            "elementwise_add",
            "scale",
            "scale",
            "fetch",
            "fetch",
        ]
        assert program.global_block().ops[4].attr("is_test") and not program.global_block().has_var("y")
        assert [var.name for var in program.all_parameters()] == params
        program.verify()
        np.testing.assert_allclose(
            net.exe.run(program, feed={"x": net.x}, fetch_list=targets)[0], expected, rtol=1e-6
        )


def test_feeds_stand_in_reverse_order(exe: fluid.Executor, tmp_path: pathlib.Path) -> None:
    main = fluid.Program()
    with fluid.program_guard(main):
        a, b = fluid.data("a", [None, 2]), fluid.data("b", [None, 2])
        out = fluid.layers.elementwise_sub(a, b)
    io.save_inference_model(str(tmp_path), ["b", "a"], out, exe, main)
    program, feeds, targets = io.load_inference_model(str(tmp_path), exe)
    assert feeds == ["b", "a"]
    assert [(op.output("Out"), op.attr("col")) for op in program.global_block().ops[:2]] == [
        (["a"], 1),
        (["b"], 0),
    ]
    value = exe.run(
        program, feed={"a": np.ones((1, 2), "float32"), "b": np.zeros((1, 2), "float32")}, fetch_list=targets
    )[0]
    assert value.tolist() == [[1, 1]]


def test_other_ways_to_save_a_model(net: Net, tmp_path: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="program_only"):
        io.save_inference_model(
            str(tmp_path / "only"), ["x"], [net.out], net.exe, net.main, program_only=True
        )
    assert os.listdir(tmp_path / "only") == ["__model__"]
    io.save_inference_model(
        str(tmp_path / "all"), ["x"], [net.out], net.exe, net.main, export_for_deployment=False
    )
    assert sorted(os.listdir(tmp_path / "all")) == sorted(["__model__.main_program", *net.names()])
    io.save_inference_model(
        str(tmp_path / "mem"), ["x"], [net.out], net.exe, net.main, params_filename="params"
    )
    parts = [(tmp_path / "mem" / name).read_bytes() for name in ("__model__", "params")]
    program, feeds, targets = io.load_inference_model(None, net.exe, *parts)
    np.testing.assert_allclose(
        net.exe.run(program, feed={feeds[0]: net.x}, fetch_list=targets)[0], net.infer(), rtol=1e-6
    )


def test_mistakes_in_inference_models(net: Net, tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path / "model")
    for feeds, targets, match in (
        ([3], [net.out], "'feed_var_names' should be a list of str"),
        (["x"], ["out"], "'target_vars' should be a list of Variable"),
        (["x"], [], "'target_vars' should be a list of Variable"),
        (["zz"], [net.out], "var zz not in this block"),
        (["x", "y"], [net.out], "no target depends on"),
    ):
        with pytest.raises(ValueError, match=match):
            io.save_inference_model(folder, feeds, targets, net.exe, net.main)
    with pytest.raises(ValueError, match="There is no directory named"):
        io.load_inference_model(folder, net.exe)
    io.save_params(net.exe, folder, net.main)
    with pytest.raises(FileNotFoundError, match="__model__"):
        io.load_inference_model(folder, net.exe)
    (tmp_path / "model" / "__model__").write_bytes(b"garbage")
    with pytest.raises(FormatError):
        io.load_inference_model(folder, net.exe)
    with pytest.raises(ValueError, match="params_filename cannot be None"):
        io.load_inference_model(None, net.exe, b"x")


def test_endpoints_of_a_distributed_table(exe: fluid.Executor, tmp_path: pathlib.Path) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.layers.data("ids", [1], dtype="int64")
        out = fluid.layers.embedding(ids, [9, 2])
    exe.run(startup)
    io.save_inference_model(str(tmp_path), ["ids"], [out], exe, main)
    program, _, _ = io.load_inference_model(str(tmp_path), exe, pserver_endpoints=["1.2.3.4:1"])
    assert [op.attr("epmap") for op in program.global_block().ops if op.has_attr("epmap")] == [["1.2.3.4:1"]]


def test_a_parameter_is_saved_without_what_updates_it(tmp_path: pathlib.Path) -> None:
    loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [2, 3]), 1))
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    weight = fluid.default_main_program().global_block().var("fc_0.w_0")
    fluid.io.save_inference_model(str(tmp_path), [], [weight], exe)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["__model__", "fc_0.w_0"]


@pytest.mark.filterwarnings("ignore:no variable in your model")
@pytest.mark.parametrize("filename", [None, "params"])
def test_models_without_variables(tmp_path: pathlib.Path, filename: str | None) -> None:
    x = fluid.data("x", [None, 2])
    y = fluid.layers.scale(x, 3.0)
    exe, main, folder = fluid.Executor(fluid.CPUPlace()), fluid.default_main_program(), str(tmp_path / "m")
    fluid.io.save_inference_model(folder, ["x"], [y], exe, main, params_filename=filename)
    program, feeds, fetches = fluid.io.load_inference_model(folder, exe, params_filename=filename)
    (found,) = exe.run(program, {feeds[0]: np.ones((1, 2), "float32")}, fetches)
    assert found.tolist() == [[3, 3]]
    for save, load in (
        (fluid.io.save_persistables, fluid.io.load_persistables),
        (fluid.io.save_params, fluid.io.load_params),
    ):
        save(exe, folder, main, filename)
        load(exe, folder, main, filename)
    fluid.save(main, str(tmp_path / "state"))
    fluid.load(main, str(tmp_path / "state"), exe)
    assert fluid.io.load_program_state(str(tmp_path / "state")) == {}
