"""Models that do more than to compute are refused, unless their maker is trusted."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core
from fluidlite.base import registry
from fluidlite.cli.run import main
from fluidlite.errors import UntrustedError
from fluidlite.ir.trust import check_reach
from fluidlite.saving.onnx.export import onnx_model

FEED = np.ones((2, 3), "float32")


def _model(folder: pathlib.Path, add: Callable[[Any], None]) -> str:
    """A folder with a model, to which `add` has appended an op."""
    x = fluid.data("x", [2, 3])
    y = fluid.layers.scale(x, 2.0)
    exe = fluid.Executor(fluid.CPUPlace())
    fluid.io.save_inference_model(str(folder), ["x"], [y], exe)
    path = folder / "__model__"
    program = fluid.Program.parse_from_string(path.read_bytes())
    add(program)
    path.write_bytes(program.desc.serialize_to_string())
    return str(folder)


def _saves(path: pathlib.Path) -> Callable[[Any], None]:
    def add(program: fluid.Program) -> None:
        block = program.global_block()
        block.append_op(type="save", inputs={"X": ["x"]}, attrs={"file_path": str(path)})

    return add


def test_the_predictor(tmp_path: pathlib.Path) -> None:
    written = tmp_path / "written"
    config = core.AnalysisConfig(_model(tmp_path / "m", _saves(written)))
    with pytest.raises(UntrustedError, match=r"'save' of this model writes a file .*written.*trust=True"):
        core.create_paddle_predictor(config)
    core.create_paddle_predictor(config, trust=True).run([core.PaddleTensor(FEED)])
    assert written.exists()


def test_the_command(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", FEED)
    written = tmp_path / "written"
    folder = _model(tmp_path / "m", _saves(written))
    run = ["--model", folder, "--input", "x=x.npy"]
    for command in (run, ["--model", folder, "--to-onnx", "m.onnx"]):
        assert main(command) != 0
        said = capsys.readouterr().err
        assert "op 'save' of this model writes a file" in said and "--trust" in said
        assert not written.exists() and not os.path.exists("m.onnx")
    assert main(["--model", folder, "--summary"]) == 0
    assert main([*run, "--trust"]) == 0
    assert written.exists()


def test_the_export(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("onnx")
    x = fluid.data("x", [2, 3])
    y = fluid.layers.scale(x, 2.0)
    program = fluid.default_main_program()
    _saves(tmp_path / "written")(program)
    with pytest.raises(UntrustedError, match=r"built at .*test_trust"):
        onnx_model(program, ["x"], [y.name])
    assert onnx_model(program, ["x"], [y.name], trust=True)


def test_ops_in_blocks_count() -> None:
    x = fluid.data("x", [1])
    out = fluid.default_main_program().current_block().create_var(name="out", dtype="float32", shape=[1])

    def branch() -> Any:
        fluid.layers.py_func(lambda value: value, x, out)
        return out

    fluid.layers.cond(fluid.layers.less_than(x, x), branch, lambda: x)
    with pytest.raises(UntrustedError, match="'py_func' of this model calls a function of this process"):
        check_reach(fluid.default_main_program())


def test_ops_that_reach_out_say_so() -> None:
    """Whoever declares an op whose kernel opens files says it in the block: these are all of them."""
    reaching = {name for name in registry.known_types() if registry.get(name).reaches}
    assert reaching == {"save", "save_combine", "load", "load_combine", "read_file", "py_func"}
