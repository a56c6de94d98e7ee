"""`fluidlite-run --model` and `--summary`: saved models at the command line."""

from __future__ import annotations

import pathlib
import runpy
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.cli.run import main
from fluidlite.cli.scripts.names import paddle_names

BUILD = """\
import paddle.fluid as fluid
x = fluid.data("x", [None, 3])
w = fluid.data("w", [None, 1], "int64", lod_level=1)
words = fluid.layers.reshape(fluid.layers.embedding(w, [10, 4]), [-1, 4])
pooled = fluid.layers.sequence_pool(words, "sum")
y = fluid.layers.fc([x, pooled], 2, act="softmax")
loss = fluid.layers.mean(y)
"""
NO_MODEL = "there is no folder 'gone' with a model, and no .pdmodel file of that name"
SUMMARY = """\
layer            ops                                   output shape  parameters  FLOPs
embedding_0      lookup_table                             [None, 4]          40
reshape2_0       reshape2                                 [None, 4]
sequence_pool_0  sequence_pool                            [None, 4]
fc_0             2 mul, sum, elementwise_add, softmax     [None, 2]          16    112
"""


@pytest.fixture
def models(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder with the model in three forms, and its inputs."""
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    guards = fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope())
    with paddle_names(), fluid.unique_name.guard(), guards[0], guards[1]:
        exec(BUILD, made)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        fluid.io.save_inference_model("apart", ["x", "w"], [made["y"]], exe)
        fluid.io.save_inference_model("one", ["x", "w"], [made["y"]], exe, params_filename="weights")
        program = fluid.default_main_program().clone(for_test=True)
        paddle.static.save_inference_model("new", [made["x"], made["w"]], [made["y"]], exe, program=program)
        feed = {"x": np.ones((2, 3), "float32"), "w": np.array([[1], [2], [3]])}
        words = fluid.create_lod_tensor(feed["w"], [[2, 1]], fluid.CPUPlace())
        (expected,) = exe.run(program, {**feed, "w": words}, [made["y"]])
    np.save("x.npy", feed["x"].astype("float64"))
    np.savez("both.npz", **feed)
    np.save("w.npy", feed["w"])
    np.save("y.npy", expected)
    return tmp_path


@pytest.mark.parametrize("model", ["apart", "one", "one/__model__", "new", "new.pdmodel"])
def test_models_run(models: pathlib.Path, model: str) -> None:
    for inputs in (["--input", "x=x.npy", "--input", "w=w.npy"], ["--input", "both.npz"]):
        assert main(["--model", model, *inputs, "--lengths", "w=2,1", "--output", "out.npy"]) == 0
        np.testing.assert_array_equal(np.load("out.npy"), np.load("y.npy"))


def test_results_are_shown(models: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "one", "--input", "both.npz", "--lengths", "w=2,1"]) == 0
    assert "[2, 2] float32\n[[0." in capsys.readouterr().out
    assert main(["--model", "one", "--input", "both.npz", "--lengths", "w=2,1", "--output", "out.npz"]) == 0
    assert len(np.load("out.npz").files) == 1


@pytest.mark.parametrize(
    "argv, said",
    [
        ("--model gone", f"Cannot open file gone/__model__: {NO_MODEL}"),
        ("--model one", "--input is missing for x [None, 3] float32, w [None, 1] int64"),
        ("--model one --input z=x.npy", "the model has no input 'z': x [None, 3] float32, w [None, 1] int64"),
        (
            "--model one --input x=w.npy --input w=w.npy",
            "--input x has shape [3, 1], but the model expects [None, 3]",
        ),
        (
            "--model one --input x=x.npy --input w=x.npy",
            "--input w has dtype float64, but the model expects int64",
        ),
        ("--model one --input x=gone.npy", "cannot read gone.npy: No such file or directory"),
        ("--model one --input both.npz --lengths w=2,x", "--lengths w: '2,x' are not integers"),
        ("--model one --input both.npz --lengths 2", "--lengths expects INPUT=2,3,..., but got '2'"),
        ("--model one train.py", "--model runs a saved model: remove the script and --check"),
        ("--input x=x.npy train.py", "--input can only be used with --model"),
        ("--model one --batch 0", "--batch 0 is not a positive number of samples"),
    ],
)
def test_mistakes(models: pathlib.Path, capsys: pytest.CaptureFixture[str], argv: str, said: str) -> None:
    assert main(argv.split()) == 2
    assert capsys.readouterr() == ("", f"fluidlite-run: error: {said}\n")


def test_parameters_that_are_not_found(models: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (models / "one" / "notes.txt").write_text("")
    argv = ["--model", "one", "--input", "both.npz", "--lengths", "w=2,1"]
    assert main(argv) == 2
    assert "or are in another folder; --params names a file with all parameters\n" in capsys.readouterr().err
    assert main([*argv, "--params", "weights"]) == 0


def test_a_model_that_is_cut_off(models: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = models / "one" / "__model__"
    path.write_bytes(path.read_bytes()[:50])
    assert main(["--model", "one"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fluidlite-run: error: one: these 50 bytes ") and said.count("\n") == 1


def test_summary(models: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "apart", "--summary", "--batch", "4"]) == 0
    shown = capsys.readouterr().out
    assert "parameters: 56 (224 B)\nFLOPs: 112 for 4 samples" in shown and "[None, 4]          40" in shown
    assert "\nmemory for 4 samples: inputs " in shown
    (models / "train.py").write_text(
        BUILD + "fluid.optimizer.SGD(0.1).minimize(loss)\n"
        "fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())\n"
    )
    assert main(["--summary", "--batch", "4", "train.py"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(SUMMARY) and shown.endswith(" ops of the backward pass and of updates\n")


def test_onnx(models: pathlib.Path) -> None:
    assert main(["--model", "new", "--to-onnx", "model.onnx"]) == 0
    x, w = np.ones((1, 3), "float32"), np.array([[1], [2]])
    np.savez("one.npz", x=x, w=w)
    assert main(["--model", "new", "--input", "one.npz", "--lengths", "w=2", "--output", "out.npy"]) == 0
    (found,) = onnxruntime.InferenceSession("model.onnx").run(None, {"x": x, "w": w})
    np.testing.assert_allclose(found, np.load("out.npy"), rtol=1e-5)


def test_onnx_options(models: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    to_onnx = ["--model", "new", "--to-onnx", "model.onnx"]
    assert main([*to_onnx, "--opset", "13", "--check"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("largest difference from onnxruntime:\n  ") and " of values up to " in shown
    assert onnx.load("model.onnx").opset_import[0].version == 13
    assert main([*to_onnx, "--shape", "x=1,3"]) == 0
    sizes = onnx.load("model.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [size.dim_value for size in sizes] == [1, 3]
    for wrong, said in (
        (["--opset", "12"], "opset 12 is not between 13 and"),
        (["--shape", "y=1,3"], "the model has no input 'y'"),
        (["--shape", "x=1,a"], "--shape expects INPUT=1,3,640,640"),
        (["--shape", "x=1,4"], "does not fit"),
    ):
        assert main([*to_onnx, *wrong]) == 2
        assert said in capsys.readouterr().err
    assert main(["--model", "new", "--opset", "17"]) == 2
    assert "--opset can only be used with --to-onnx" in capsys.readouterr().err


def test_from_onnx(models: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that was exported runs, is checked, and becomes a saved model again."""
    assert main(["--model", "new", "--to-onnx", "model.onnx"]) == 0
    np.savez("one.npz", x=np.ones((1, 3), "float32"), w=np.array([[1], [2]]))
    assert main(["--model", "new", "--input", "one.npz", "--lengths", "w=2", "--output", "out.npy"]) == 0
    from_onnx = ["--from-onnx", "model.onnx"]
    assert main([*from_onnx, "--input", "one.npz", "--check", "--convert", "2.x", "--output", "again/x"]) == 0
    assert capsys.readouterr().out.startswith("largest difference from onnxruntime:\n  ")
    for model in (from_onnx, ["--model", "again"]):
        assert main([*model, "--input", "one.npz", "--output", "back.npy"]) == 0
        np.testing.assert_allclose(np.load("back.npy"), np.load("out.npy"), rtol=1e-5)
    assert main([*from_onnx, "--summary", "--to-onnx", "second.onnx", "--opset", "20"]) == 0
    assert "softmax" in capsys.readouterr().out and pathlib.Path("second.onnx").exists()


@pytest.mark.parametrize(
    "argv, said",
    [
        ("--from-onnx gone.onnx", "cannot open gone.onnx: there is no such file"),
        ("--from-onnx x.npy", "x.npy is not an ONNX file"),
        ("--from-onnx x.npy --model new", "--model and --from-onnx both name a model: remove one of them"),
        ("--from-onnx x.npy --params y", "--params can only be used with --model"),
        ("--from-onnx x.npy train.py", "remove the script"),
    ],
)
def test_wrong_from_onnx(
    models: pathlib.Path, argv: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv.split()) == 2
    written = capsys.readouterr().err
    assert said in written and written.count("\n") == 1


def test_the_runtime_is_named(
    models: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert main(["--model", "new", "--to-onnx", "model.onnx", "--check"]) == 2
    assert "needs onnxruntime: pip install 'fluidlite[onnx]'" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ other forms
@pytest.fixture
def picture(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model of 2.x, of ops that 1.8.5 has under other names, and of shapes that it has not."""
    monkeypatch.chdir(tmp_path)
    functional = paddle.nn.functional
    main_program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main_program, startup), fluid.scope_guard(fluid.Scope()):
        x = paddle.static.data("x", [None, 3, 8, 8])
        made = functional.silu(paddle.nn.BatchNorm2D(4)(paddle.nn.Conv2D(3, 4, 3, padding=1)(x)))
        made = functional.interpolate(made, scale_factor=2, mode="bilinear")
        made = functional.interpolate(made, size=[8, 8], mode="nearest")
        made = paddle.nn.Linear(64, 10)(paddle.flatten(functional.max_pool2d(made, 2), 1))
        results = [functional.softmax(paddle.matmul(made, made, transpose_y=True)), made.mean()]
        exe = paddle.static.Executor(paddle.CPUPlace())
        exe.run(startup)
        program = main_program.clone(for_test=True)
        paddle.static.save_inference_model("picture/x", [x], results, exe, program=program)
    return "picture/x"


def test_forms(picture: str, capsys: pytest.CaptureFixture[str]) -> None:
    to_1x = ["--model", picture, "--convert", "1.x", "--output", "one", "--check"]
    assert main(to_1x) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["one/__model__", "one/__params__", "largest difference from the model before:"]
    assert main(["--model", "one", "--convert", "2.x", "--output", "two/x", "--check"]) == 0
    names = [
        {op.type for block in program.blocks for op in block.ops}
        for program in (
            fluid.Program.parse_from_string(pathlib.Path(path).read_bytes())
            for path in ("picture/x.pdmodel", "one/__model__", "two/x.pdmodel")
        )
    ]
    new = {"silu", "matmul_v2", "flatten_contiguous_range", "bilinear_interp_v2", "nearest_interp_v2"}
    assert names[0] >= new and not names[1] & new and names[1] == names[2]


def test_a_shape_is_fixed(picture: str, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = ["--model", picture, "--fix-shape", "--output", "fixed/x", "--shape"]
    assert main([*fixed, "x=5,3,8,8", "--check"]) == 0
    program = fluid.Program.parse_from_string(pathlib.Path("fixed/x.pdmodel").read_bytes())
    assert all(size >= 0 for var in program.list_vars() if not var.persistable for size in var.shape)
    assert program.file_version >= 2000000
    assert main([*fixed, "x=5,4,8,8"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fluidlite-run: error: ") and "conv2d" in said


@pytest.mark.parametrize(
    "argv, said",
    [
        ("--convert 1.x", "--convert and --fix-shape write one model, to --output: remove other requests"),
        ("--fix-shape --output a", "--fix-shape can only be used with --shape"),
        ("--convert 3.x --output a", "argument --convert: invalid choice: '3.x'"),
        ("--convert 2.x --output x.npy/a", "cannot write x.npy/a: "),
    ],
)
def test_wrong_requests_for_forms(
    models: pathlib.Path, capsys: pytest.CaptureFixture[str], argv: str, said: str
) -> None:
    assert main(["--model", "one", *argv.split()]) == 2
    assert said in capsys.readouterr().err


def test_ops_that_1x_lacks_are_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    recurrent = str(pathlib.Path(__file__).parents[1] / "golden" / "models_2x" / "recurrent")
    assert main(["--model", recurrent, "--convert", "1.x", "--output", str(tmp_path / "one")]) == 2
    said = "the model cannot be written for 1.x: PaddlePaddle 1.8.5 has no 'rnn'\n"
    assert capsys.readouterr().err.endswith(said) and not (tmp_path / "one").exists()


def test_the_ops_of_1x() -> None:
    home = pathlib.Path(__file__).parents[1] / "house" / "ops_of_1x.py"
    script = runpy.run_path(str(home))
    assert script["PAGE"].read_text(encoding="utf8") == script["text"](), f"run: python {home}"
