"""Models saved for inference that are trained further: as the program that they came from."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.base.errors import NotFoundError

RNG = np.random.RandomState(0)
FEED = {
    "x": RNG.rand(8, 1, 8, 8).astype("float32"),
    "i": RNG.randint(0, 11, (8, 5)).astype("int64"),
    "y": RNG.randint(0, 3, (8, 1)).astype("int64"),
}
MODELS = pathlib.Path(__file__).parents[1] / "golden" / "models_2x"


def network() -> Any:
    x, i = fluid.data("x", [None, 1, 8, 8]), fluid.data("i", [None, 5], "int64")
    hidden = fluid.layers.batch_norm(fluid.layers.conv2d(x, 4, 3, padding=1), act="relu")
    hidden = fluid.layers.pool2d(hidden, 2, "max", 2)
    words = fluid.layers.reduce_mean(fluid.embedding(i, [11, 6]), dim=1)
    hidden = fluid.layers.concat([fluid.layers.flatten(hidden), words], axis=1)
    hidden = fluid.layers.layer_norm(fluid.layers.fc(hidden, 6, act="tanh"))
    return fluid.layers.fc(fluid.layers.dropout(hidden, 0.0), 3, act="softmax")


def losses(program: fluid.Program, out: Any, exe: Any, **options: Any) -> list[float]:
    """Of four steps of SGD."""
    startup = fluid.Program()
    with fluid.program_guard(program, startup):
        loss = fluid.layers.mean(fluid.layers.cross_entropy(out, fluid.data("y", [None, 1], "int64")))
        fluid.optimizer.SGD(0.1).minimize(loss, **options)
    exe.run(startup)
    return [float(exe.run(program, feed=FEED, fetch_list=[loss])[0][0]) for _ in range(4)]


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> tuple[str, list[float]]:
    """A folder with the network, and the losses of the program that it came from."""
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor()
    startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        out = network()
        exe.run(startup)
        fluid.io.save_inference_model(str(tmp_path), ["x", "i"], [out], exe, main)
        return str(tmp_path), losses(main, out, exe)


def loaded(folder: str, exe: Any) -> tuple[fluid.Program, Any]:
    program, _, (out,) = fluid.io.load_inference_model(folder, exe)
    return program, out


def test_as_the_program_that_was_saved(saved: tuple[str, list[float]]) -> None:
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        program, out = loaded(saved[0], exe)
        found = fluid.io.trainable(program)
        np.testing.assert_allclose(losses(program, out, exe), saved[1], rtol=1e-5)
    assert len(found.parameters) == 11
    assert set(found.frozen) == {"batch_norm_0.w_1", "batch_norm_0.w_2"}
    assert "batch_norm_0.w_1: frozen, op 'batch_norm' writes it" in str(found)
    assert "op 'dropout' is in training mode again" in str(found)


def test_outputs_that_the_file_lacks(saved: tuple[str, list[float]]) -> None:
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        program, out = loaded(saved[0], exe)
        for op in program.global_block().ops:
            for slot in ("Mask", "SavedMean", "SavedVariance", "XShape"):
                op.outputs.pop(slot, None)
            if op.type == "layer_norm":
                op.outputs = {"Y": op.outputs["Y"]}
        fluid.io.trainable(program)
        np.testing.assert_allclose(losses(program, out, exe), saved[1], rtol=1e-5)


def test_some_stay(saved: tuple[str, list[float]]) -> None:
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        program, out = loaded(saved[0], exe)
        found = fluid.io.trainable(program, frozen=["conv2d_0.w_0"], train_mode=False)
        scope = fluid.global_scope()
        names = ["conv2d_0.w_0", "batch_norm_0.w_1", "batch_norm_0.w_0", "fc_0.w_0"]
        before = {name: np.array(scope.find_var(name).get_tensor()).copy() for name in names}
        assert losses(program, out, exe)[-1] < saved[1][0]
        moved = [
            name for name in names if (np.array(scope.find_var(name).get_tensor()) != before[name]).any()
        ]
    assert found.frozen["conv2d_0.w_0"] == "named as frozen"
    assert moved == ["batch_norm_0.w_0", "fc_0.w_0"]


def test_statistics_that_stay_have_the_gradient_of_inference(saved: tuple[str, list[float]]) -> None:
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        program, out = loaded(saved[0], exe)
        fluid.io.trainable(program, train_mode=False)
        with fluid.program_guard(program, fluid.Program()):
            loss = fluid.layers.reduce_sum(fluid.layers.square(out))
            (gradient,) = fluid.gradients([loss], [program.global_block().var("batch_norm_0.b_0")])
        feed = {name: FEED[name] for name in "xi"}
        held = fluid.global_scope().find_var("batch_norm_0.b_0").get_tensor()
        start = np.array(held).copy()
        (found,) = exe.run(program, feed=feed, fetch_list=[gradient])
        sums = []
        for step in (1e-2, -1e-2):
            held.set(start + np.array([step, 0, 0, 0], "float32"), fluid.CPUPlace())
            sums.append(float(exe.run(program, feed=feed, fetch_list=[loss])[0][0]))
    np.testing.assert_allclose(found[0], (sums[0] - sums[1]) / 2e-2, rtol=2e-2)


def test_names_in_the_list_of_parameters(saved: tuple[str, list[float]]) -> None:
    exe = fluid.Executor()
    with fluid.scope_guard(fluid.Scope()):
        program, out = loaded(saved[0], exe)
        first, *_, last = losses(program, out, exe, parameter_list=["fc_0.w_0", "fc_1.w_0"])
    assert last < first


def test_an_unknown_name(saved: tuple[str, list[float]]) -> None:
    with fluid.scope_guard(fluid.Scope()):
        program, _ = loaded(saved[0], fluid.Executor())
        with pytest.raises(NotFoundError, match="no weight 'fc_0.w'; did you mean"):
            fluid.io.trainable(program, frozen=["fc_0.w"])


def test_layers_that_inference_alone_has() -> None:
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 4])
        w = fluid.layers.create_global_var([4, 3], 0.5, "float32", persistable=True, name="w")
        b = fluid.layers.create_global_var([3], 0.1, "float32", persistable=True, name="b")
        out = main.global_block().create_var(name="out", shape=[-1, 3], dtype="float32")
        main.global_block().append_op(
            type="fc",
            inputs={"Input": x, "W": w, "Bias": b},
            outputs={"Out": out},
            attrs={"activation_type": "relu"},
        )
        exe.run(startup)
        feed = {"x": np.ones((2, 4), "float32")}
        (before,) = exe.run(main, feed=feed, fetch_list=[out])
        found = fluid.io.trainable(main)
        (after,) = exe.run(main, feed=feed, fetch_list=[out])
        np.testing.assert_array_equal(before, after)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(out))
        exe.run(startup)
        exe.run(main, feed=feed, fetch_list=[out])
    assert found.changed == ["op 'fc' is written as mul, elementwise_add, relu"]
    assert {param.name for param in found.parameters} == {"w", "b"}
    np.testing.assert_allclose(
        np.array(fluid.global_scope().find_var("b").get_tensor()), 0.1 - 0.1 / 3, rtol=1e-6
    )


def test_a_model_of_2x() -> None:
    paddle.enable_static()
    values = np.load(MODELS / "classifier.npz")
    feed = {name: values[name] for name in ("img", "ids")}
    exe = paddle.static.Executor()
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, _, targets = paddle.static.load_inference_model(str(MODELS / "classifier"), exe)
        assert len(fluid.io.trainable(program, train_mode=False).parameters) == 9
        startup = paddle.static.Program()
        with paddle.static.program_guard(program, startup):
            loss = paddle.mean(-paddle.log(targets[0][:, 1]))
            paddle.optimizer.Adam(0.01).minimize(loss)
        exe.run(startup)
        found = [float(exe.run(program, feed=feed, fetch_list=[loss])[0]) for _ in range(5)]
    assert found == sorted(found, reverse=True)
