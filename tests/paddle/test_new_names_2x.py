"""Functions of 2.x with known results: windows, transducers, initialisers, gradients of one's own."""

from __future__ import annotations

import numpy as np

import fluidlite.paddle as paddle


def _run(fetches: list[object], feed: dict[str, np.ndarray] | None = None) -> list[np.ndarray]:
    exe = paddle.static.Executor()
    exe.run(paddle.static.default_startup_program())
    found: list[np.ndarray] = exe.run(
        paddle.static.default_main_program(), feed=feed or {}, fetch_list=fetches
    )
    return found


def _programs() -> object:
    return paddle.static.program_guard(paddle.static.Program(), paddle.static.Program())


def test_windows_are_those_of_their_formulas() -> None:
    with _programs():
        hann = paddle.audio.functional.get_window("hann", 4)
        found = _run([hann])[0]
    np.testing.assert_allclose(found, [0, 0.5, 1, 0.5], atol=1e-12)


def test_orthogonal_rows() -> None:
    attr = paddle.ParamAttr(initializer=paddle.nn.initializer.Orthogonal(gain=2.0))
    with _programs():
        weight = paddle.create_parameter([2, 5], "float64", attr=attr)
        found = _run([weight])[0]
    np.testing.assert_allclose(found @ found.T, 4 * np.eye(2), atol=1e-12)


def test_a_transducer_of_one_label() -> None:
    """Two alignments: the label in the first step, or in the second."""
    logs = np.log(np.full((1, 2, 2, 2), 0.5))
    with _programs():
        x = paddle.static.data("x", [1, 2, 2, 2], "float64")
        x.stop_gradient = False
        label = paddle.static.data("label", [1, 1], "int32")
        steps = paddle.static.data("steps", [1], "int32")
        count = paddle.static.data("count", [1], "int32")
        loss = paddle.nn.functional.rnnt_loss(x, label, steps, count, fastemit_lambda=0.0)
        slope = paddle.static.gradients([loss], [x])[0]
        feed = {"x": logs, "label": np.array([[1]], "int32")}
        feed |= {"steps": np.array([2], "int32"), "count": np.array([1], "int32")}
        found, slopes = _run([loss, slope], feed)
    np.testing.assert_allclose(found, -np.log(2 * 0.5**3))
    np.testing.assert_allclose(slopes[0, 0, 0], [-0.5, -0.5])


def test_a_gradient_of_ones_own() -> None:
    with _programs():
        x = paddle.static.data("x", [3], "float64")
        x.stop_gradient = False
        y = paddle.static.nn.static_pylayer(paddle.tanh, [x], lambda g: paddle.scale(g, 2.0))
        slope = paddle.static.gradients([paddle.sum(y)], [x])[0]
        found = _run([slope], {"x": np.ones(3)})[0]
    np.testing.assert_allclose(found, 2.0)
