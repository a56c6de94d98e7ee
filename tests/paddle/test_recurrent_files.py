"""Recurrences that PaddlePaddle 2.6.2 saved load here, and files written here hold what 2.6.2 asks for."""

from __future__ import annotations

import pathlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from golden.recurrent_2x import FLAT, PREFIX, build

import fluidlite.paddle as paddle
from fluidlite.saving.flat_weights import flat_weights

PATH = str(PREFIX)
with np.load(PREFIX.with_suffix(".npz")) as recorded:
    EXAMPLE = dict(recorded)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with paddle.static.scope_guard(paddle.static.Scope()):
        yield


def run(program: Any, out: Any) -> np.ndarray:
    """The output of the recorded input."""
    exe = paddle.static.Executor(paddle.CPUPlace())
    found: np.ndarray = exe.run(program, feed={"x": EXAMPLE["x"]}, fetch_list=[out])[0]
    return found


def through_static_load(program: Any, layer: Any) -> None:
    paddle.static.load(program, PATH)


def through_program_state(program: Any, layer: Any) -> None:
    paddle.static.set_program_state(program, paddle.static.load_program_state(PATH))


def through_state_of_the_program(program: Any, layer: Any) -> None:
    program.set_state_dict(paddle.load(PATH + ".pdparams"))


def through_state_of_the_layer(program: Any, layer: Any) -> None:
    assert layer.set_state_dict(paddle.load(PATH + ".layer")) == ([], [])


@pytest.mark.parametrize(
    "put",
    [through_static_load, through_program_state, through_state_of_the_program, through_state_of_the_layer],
)
def test_files_of_paddle_load(put: Callable[[Any, Any], None]) -> None:
    plain, _, startup, layer, _, out = build(paddle)
    paddle.static.Executor(paddle.CPUPlace()).run(startup)
    put(plain, layer)
    np.testing.assert_allclose(run(plain, out), EXAMPLE["out"], rtol=1e-5, atol=1e-6)


def test_inference_model_of_paddle_runs() -> None:
    exe = paddle.static.Executor(paddle.CPUPlace())
    program, _, (out,) = paddle.static.load_inference_model(PATH, exe)
    np.testing.assert_allclose(run(program, out), EXAMPLE["out"], rtol=1e-5, atol=1e-6)


def test_flat_weights_are_declared_and_saved_as_they_are_by_then(tmp_path: pathlib.Path) -> None:
    """2.6.2 refuses a file without them, and where they differ from the weights the former win."""
    plain, main, startup, _, _, _ = build(paddle)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    paddle.static.load(plain, PATH)  # and then two more steps
    for _ in range(2):
        exe.run(main, feed={"x": EXAMPLE["x"]})
    paddle.static.save(main, str(tmp_path / "again"))
    saved = pickle.loads((tmp_path / "again.pdparams").read_bytes())
    theirs = pickle.loads(pathlib.Path(PATH + ".pdparams").read_bytes())
    assert {name: value.shape for name, value in saved.items()} == {
        name: value.shape for name, value in theirs.items()
    }
    parts = flat_weights(main)
    assert {name: saved[name].size for name in parts} == FLAT
    for values in (saved, theirs):
        for name, weights in parts.items():
            wanted = np.concatenate([values[weight].ravel() for weight in weights])
            np.testing.assert_array_equal(values[name], wanted, err_msg=name)
    assert not np.array_equal(saved["lstm_0.w_0"], theirs["lstm_0.w_0"])
    assert np.array_equal(main.state_dict()["gru_0.w_0"], saved["gru_0.w_0"])


def test_a_program_from_a_file_has_them_too() -> None:
    _, main, _, _, _, _ = build(paddle)
    again = paddle.static.deserialize_program(main.desc.serialize_to_string())
    assert flat_weights(again) == flat_weights(main)
    assert not flat_weights(paddle.static.Program())
