"""`paddle.jit.load`: a saved model is called with arrays, and with Variables of a program."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from golden import predict_1x, predict_2x

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.cli.scripts.check import problem
from fluidlite.cli.scripts.names import paddle_names
from fluidlite.cli.scripts.usage import Use
from fluidlite.errors import FeedError, MissingFileError, NotFoundError, ShapeError, UnsupportedError
from fluidlite.lod_tensor import create_lod_tensor
from fluidlite.values.tensor import LoDTensor

MODELS = predict_2x.HERE / "models_2x"
PREFIX = str(MODELS / "classifier")
CPU = paddle.CPUPlace()


def example() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with np.load(f"{PREFIX}.npz") as recorded:
        return recorded["img"], recorded["ids"], recorded["shares"]


def inputs() -> tuple[Any, Any]:
    """Inputs under other names than the file's."""
    return paddle.static.data("picture", [None, 1, 8, 8]), paddle.static.data("img", [None, 3], "int64")


def test_called_with_arrays_it_gives_the_numbers_of_paddle() -> None:
    img, ids, shares = example()
    model = paddle.jit.load(PREFIX)
    assert isinstance(model, paddle.jit.TranslatedLayer) and not model.training
    for fed in ((img, ids), (LoDTensor(img), ids.tolist())):
        found = model(*fed)
        np.testing.assert_allclose(found[0], shares, rtol=2e-5, atol=1e-6)
        assert isinstance(found, list) and found[1].dtype == np.int64
    layer = paddle.jit.load(str(MODELS / "layer"))
    recorded = predict_1x.read(predict_2x.HERE / "predict_2x.json.gz")["layer"]
    x, _ = predict_2x.models()["layer"][1]["x"]
    # one output is itself, as in 2.6.2
    np.testing.assert_allclose(layer(x), recorded[0]["values"], rtol=1e-5)


def test_called_with_variables_it_is_a_part_of_the_program() -> None:
    img, ids, shares = example()
    model = paddle.jit.load(PREFIX)
    exe = paddle.static.Executor(CPU)
    for _ in range(2):
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            picture, words = inputs()
            first = model(picture, words)
            twice = model(picture * 2.0, words)
            assert [tuple(var.shape) for var in first] == [(-1, 3), (-1,)]
        exe.run(startup)
        found = exe.run(main, feed={"picture": img, "img": ids}, fetch_list=[first[0], twice[0]])
        np.testing.assert_allclose(found[0], shares, rtol=2e-5, atol=1e-6)
        assert not np.allclose(found[0], found[1])
        assert all(not param.trainable for param in main.all_parameters())
        names = [param.name for param in main.all_parameters()]
        assert len(names) == 11 and f"{model.full_name()}.fc_0.w_0" in names
    assert sorted(model.state_dict()) == sorted(f"param_{number}" for number in range(11))


def test_it_is_trained_and_infers_with_what_it_learned(tmp_path: pathlib.Path) -> None:
    img, ids, _ = example()
    model = paddle.jit.load(PREFIX)
    model.train()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        shares, _ = model(*inputs())
        loss = paddle.mean(-paddle.log(shares[:, 1]))
        paddle.optimizer.SGD(0.2).minimize(loss)
    exe = paddle.static.Executor(CPU)
    exe.run(startup)
    feed = {"picture": img, "img": ids}
    losses = [float(exe.run(main, feed=feed, fetch_list=[loss])[0]) for _ in range(20)]
    assert losses[-1] < 0.1 * losses[0]
    frozen = {param.name.rpartition(".")[0][-6:] for param in main.all_parameters() if not param.trainable}
    # batch_norm's mean and variance
    assert len([param for param in main.all_parameters() if not param.trainable]) == 2, frozen
    with pytest.raises(UnsupportedError, match=r"call eval\(\) first"):
        model(img, ids)
    model.eval()
    learned = model(img, ids)[0]
    assert (learned[:, 1] > 0.9).all()
    test = main.clone(for_test=True)
    again = exe.run(test, feed=feed, fetch_list=[shares.name])[0]
    np.testing.assert_allclose(learned, again, rtol=1e-5, atol=1e-6)
    fed = [main.global_block().var(name) for name in feed]
    paddle.static.save_inference_model(str(tmp_path / "tuned"), fed, [shares], exe, program=main)
    tuned = paddle.jit.load(str(tmp_path / "tuned"))
    np.testing.assert_allclose(tuned(img, ids), learned, rtol=1e-5, atol=1e-6)


def test_only_what_stands_around_a_frozen_model_is_trained() -> None:
    img, ids, _ = example()
    model = paddle.jit.load(PREFIX)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        shares, _ = model(*inputs())
        loss = paddle.mean(paddle.static.nn.fc(shares, 1))
        paddle.optimizer.SGD(0.2).minimize(loss)
    exe = paddle.static.Executor(CPU)
    exe.run(startup)
    before = model(img, ids)[0]
    exe.run(main, feed={"picture": img, "img": ids}, fetch_list=[loss])
    np.testing.assert_array_equal(model(img, ids)[0], before)
    updated = [op.input("Param")[0] for op in main.global_block().ops if op.type == "sgd"]
    assert len(updated) == 2 and not any(model.full_name() in name for name in updated)


def saved(folder: pathlib.Path, name: str, build: Any) -> tuple[str, dict[str, Any], list[np.ndarray]]:
    """A model of what `build` writes, in a folder; what it is fed, and what it gives."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        feed, fetches = build()
    exe = fluid.Executor(CPU)
    exe.run(startup)
    fluid.io.save_inference_model(str(folder / name), list(feed), fetches, exe, main)
    outs = exe.run(main, feed=feed, fetch_list=fetches, return_numpy=False)
    return str(folder / name), feed, [np.array(out) for out in outs]


def loop() -> tuple[dict[str, Any], list[Any]]:
    """x doubled until its sum is above 100; and a branch on it."""
    x = fluid.data("x", [3])

    def is_small(value: Any) -> Any:
        return fluid.layers.less_than(
            fluid.layers.reduce_sum(value), fluid.layers.fill_constant([1], "float32", 100)
        )

    (out,) = fluid.layers.while_loop(is_small, lambda value: [value * 2.0], [x * 1.0])
    chosen = fluid.layers.cond(is_small(x), lambda: x + 1.0, lambda: x - 1.0)
    return {"x": np.arange(3, dtype="float32")}, [out, chosen]


def recurrence() -> tuple[dict[str, Any], list[Any]]:
    """A StaticRNN, which ties its step to its sequence by name."""
    x = fluid.data("x", [4, 2, 3])
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        memory = rnn.memory(shape=[-1, 3], batch_ref=word)
        total = memory + fluid.layers.fc(word, 3, act="tanh")
        rnn.update_memory(memory, total)
        rnn.step_output(total)
    return {"x": np.random.RandomState(0).rand(4, 2, 3).astype("float32")}, [rnn()]


def sequences() -> tuple[dict[str, Any], list[Any]]:
    """Sums over sequences of several lengths."""
    x = fluid.data("x", [None, 2], lod_level=1)
    rows = create_lod_tensor(np.arange(10, dtype="float32").reshape(5, 2), [[2, 3]], CPU)
    return {"x": rows}, [fluid.layers.sequence_pool(fluid.layers.fc(x, 3), "sum")]


@pytest.mark.parametrize("build", [loop, recurrence, sequences], ids=lambda build: build.__name__)
def test_loops_branches_recurrences_and_sequences(build: Any, tmp_path: pathlib.Path) -> None:
    path, feed, wanted = saved(tmp_path, "m", build)
    model = paddle.jit.load(path)
    found = model(feed["x"])
    for out, expected in zip(found if isinstance(found, list) else [found], wanted, strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        is_sequence = isinstance(feed["x"], LoDTensor)
        shape = [None, 2] if is_sequence else list(feed["x"].shape)
        x = fluid.data("mine", shape, lod_level=int(is_sequence))
        first, second = model(x), model(x)
    fetches = [*first, *second] if isinstance(first, list) else [first, second]
    outs = fluid.Executor(CPU).run(main, feed={"mine": feed["x"]}, fetch_list=fetches, return_numpy=False)
    for out, expected in zip(outs, [*wanted, *wanted], strict=True):
        np.testing.assert_allclose(np.array(out), expected, rtol=1e-6)


def test_ops_mean_what_they_meant_in_the_version_of_the_file(tmp_path: pathlib.Path) -> None:
    rows = np.arange(8, dtype="float32").reshape(2, 4)
    path, _, _ = saved(tmp_path, "old", lambda: ({"x": rows}, [fluid.layers.mean(fluid.data("x", [-1, 4]))]))
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [None, 4])
        exe = paddle.static.Executor(CPU)
        paddle.static.save_inference_model(str(tmp_path / "new"), [x], [paddle.mean(x)], exe)
    for file, shape in ((path, (1,)), (str(tmp_path / "new"), ())):
        model = paddle.jit.load(file)
        assert model(rows).shape == shape
        for kind, guard, data in (
            (fluid.Program, fluid.program_guard, fluid.data),
            (paddle.static.Program, paddle.static.program_guard, paddle.static.data),
        ):
            main = kind()
            with guard(main, kind()):
                mean = model(data("y", [-1, 4]))
            (found,) = fluid.Executor(CPU).run(main, feed={"y": rows}, fetch_list=[mean])
            assert mean.shape == np.shape(found) == shape and float(np.asarray(found).sum()) == 3.5


def test_files_of_other_names() -> None:
    for path, files in (
        ("mlp/inference", {}),
        ("mlp/inference", {"model_filename": "__model__"}),
        ("mlp/inference_combined", {"model_filename": "model", "params_filename": "__params__"}),
    ):
        model = paddle.jit.load(str(predict_1x.HERE / "models" / path), **files)
        with np.load(str(predict_1x.HERE / "models" / "mlp" / "example.npz")) as recorded:
            np.testing.assert_allclose(model(recorded["in/x"]), recorded["out/0"], rtol=1e-5)


def test_what_does_not_fit_is_one_clear_error() -> None:
    img, ids, _ = example()
    model = paddle.jit.load(PREFIX)
    with pytest.raises(FeedError, match=r"takes 2 inputs \(img, ids\), not 1"):
        model(img)
    with pytest.raises(FeedError, match="input 'img' is of float32, but was given an array of float64"):
        model(img.astype("float64"), ids)
    with paddle.static.program_guard(paddle.static.Program()):
        picture, words = inputs()
        with pytest.raises(TypeError, match="not with both"):
            model(picture, ids)
        wrong = paddle.static.data("wrong", [None, 2, 8, 8])
        with pytest.raises(ShapeError, match=r"'conv2d': Input has 2 channels(.|\n)*built at .*test_jit.py"):
            model(wrong, words)
    with pytest.raises(MissingFileError, match="no .pdmodel file of that name"):
        paddle.jit.load("/nope")
    with pytest.raises(ValueError, match="has no 'files'"):
        paddle.jit.load(PREFIX, files="a")
    with pytest.raises(NotFoundError, match="one method, 'forward'"):
        model.program("other")
    with pytest.raises(TypeError, match=r"made by paddle.jit.load"):
        paddle.jit.TranslatedLayer(3)  # type: ignore[arg-type]


def test_the_program_is_a_copy() -> None:
    img, ids, shares = example()
    model = paddle.jit.load(PREFIX)
    program = model.program()
    assert isinstance(program, paddle.static.Program) and program.global_block().ops[-1].type == "fetch"
    program.global_block().set_ops([])
    np.testing.assert_allclose(model(img, ids)[0], shares, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "enable_to_static",
        "ignore_module",
        "not_to_static",
        "save",
        "set_code_level",
        "set_verbosity",
        "to_static",
    ],
)
def test_what_traces_imperative_code_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"paddle\.jit\.{name}: static graphs only.*jit\.load runs"):
        getattr(paddle.jit, name)(lambda x: x)


def test_the_check_of_scripts_tells_the_two_apart() -> None:
    with paddle_names():
        assert problem(Use("paddle.jit.load", "a.py", 1)) is None
        said = problem(Use("paddle.jit.to_static", "a.py", 1))
    assert said is not None and "static graphs only" in said
