"""`paddle.tensor`'s arrays: what a loop writes, what comes of it, and the gradient through both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle

X = np.array([[1.0, 2.0, 3.0]])


def found(build: Any) -> list[np.ndarray]:
    """The result of a program, and its gradient by x."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [1, 3], "float64")
        x.stop_gradient = False
        out = build(x)
        fetches = [out, *paddle.static.gradients([paddle.sum(out * out)], [x])]
        values: list[np.ndarray] = paddle.static.Executor().run(main, feed={"x": X}, fetch_list=fetches)
    return values


def test_an_array_that_begins_with_tensors() -> None:
    def build(x: Any) -> Any:
        array = paddle.tensor.create_array("float64", initialized_list=[x, x * 2.0])
        paddle.tensor.array_write(x * 3.0, paddle.tensor.array_length(array), array)
        return paddle.tensor.manipulation.tensor_array_to_tensor(array, axis=0)[0]

    values, gradient = found(build)
    np.testing.assert_allclose(values, X * [[1], [2], [3]])
    np.testing.assert_allclose(gradient, 2 * (1 + 4 + 9) * X)


@pytest.mark.parametrize("use_stack", [True, False])
def test_an_array_of_a_loop(use_stack: bool) -> None:
    def build(x: Any) -> Any:
        def body(i: Any, y: Any, array: Any) -> list[Any]:
            return [i + 1, y * 2.0, paddle.tensor.array_write(y, i, array)]

        start = [paddle.zeros([1], "int64"), x * 1.0, paddle.tensor.create_array("float64")]
        *_, array = paddle.static.nn.while_loop(lambda i, y, array: i < 3, body, start)
        return paddle.tensor.manipulation.tensor_array_to_tensor(array, 0, use_stack)[0]

    values, gradient = found(build)
    np.testing.assert_allclose(values.reshape(3, 3), X * [[1], [2], [4]])
    np.testing.assert_allclose(gradient, 2 * (1 + 4 + 16) * X)


def test_only_tensors_begin_an_array() -> None:
    with pytest.raises(TypeError, match="initialized_list"):
        paddle.tensor.create_array("float64", [1.0])


def test_a_branch_that_gives_a_number() -> None:
    """Doubles, as in 2.6.2, whatever the default dtype."""
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        made = paddle.static.nn.cond(paddle.full([], 1.0) > 0, lambda: 1.5, lambda: 2.5)
        (value,) = paddle.static.Executor().run(fetch_list=[made])
    assert value.dtype == np.float64 and value == 1.5
