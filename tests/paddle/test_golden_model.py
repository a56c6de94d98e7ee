"""A model that PaddlePaddle 2.6.2 trained and saved loads, and gives 2.6.2's numbers."""

from __future__ import annotations

import pathlib

import numpy as np

import fluidlite.paddle as paddle

PREFIX = pathlib.Path(__file__).parents[1] / "golden" / "models_2x" / "classifier"


def test_inference_model_of_paddle_runs() -> None:
    with np.load(PREFIX.with_suffix(".npz")) as recorded:
        example = dict(recorded)
    exe = paddle.static.Executor(paddle.CPUPlace())
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, targets = paddle.static.load_inference_model(str(PREFIX), exe)
        shares, best = exe.run(program, feed={name: example[name] for name in feeds}, fetch_list=targets)
    assert feeds == ["img", "ids"]
    np.testing.assert_allclose(shares, example["shares"], rtol=2e-5, atol=1e-6)
    np.testing.assert_array_equal(best, example["best"])
    assert best.dtype == np.int64


def test_the_model_is_written_again_and_read(tmp_path: pathlib.Path) -> None:
    exe = paddle.static.Executor(paddle.CPUPlace())
    with np.load(PREFIX.with_suffix(".npz")) as recorded:
        example = dict(recorded)
    again = str(tmp_path / "again")
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, targets = paddle.static.load_inference_model(str(PREFIX), exe)
        fed = [program.global_block().var(name) for name in feeds]
        paddle.static.save_inference_model(again, fed, targets, exe, program=program)
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, targets = paddle.static.load_inference_model(again, exe)
        shares = exe.run(program, feed={name: example[name] for name in feeds}, fetch_list=targets)[0]
    np.testing.assert_allclose(shares, example["shares"], rtol=2e-5, atol=1e-6)
