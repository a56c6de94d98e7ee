"""Numbers of NumPy's types as arguments: what Python's own numbers give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle

F = paddle.nn.functional
X = np.sin(np.arange(24.0)).reshape(2, 3, 4)
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "arange": lambda x, whole, real: paddle.arange(real(0.0), real(2.0), real(0.5)),
    "layer_norm": lambda x, whole, real: F.layer_norm(x, whole(4)),
    "LayerNorm": lambda x, whole, real: paddle.nn.LayerNorm(whole(4))(paddle.cast(x, "float32")),
    "masked_fill": lambda x, whole, real: paddle.masked_fill(x, x > 0, whole(1)),
    "pow": lambda x, whole, real: paddle.pow(x, whole(2)),
    "split": lambda x, whole, real: paddle.concat(paddle.split(x, whole(2), axis=0)[::-1]),
    "repeat_interleave": lambda x, whole, real: paddle.repeat_interleave(x, whole(2), 0),
    "pad": lambda x, whole, real: F.pad(x, whole(1), data_format="NCL"),
    "interpolate": lambda x, whole, real: F.interpolate(x, whole(8), mode="linear", data_format="NCW"),
    "scale_factor": lambda x, whole, real: F.interpolate(
        x, scale_factor=real(2.0), mode="linear", data_format="NCW"
    ),
    "dropout": lambda x, whole, real: F.dropout(x, real(0.0), axis=whole(0)),
    "operators": lambda x, whole, real: x * real(2.0) + whole(1),
}


def value(call: Callable[[Any, Any, Any], Any], whole: Any, real: Any) -> np.ndarray:
    """The result of a program whose numbers `whole` and `real` make."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", X.shape, "float64")
        out = call(x, whole, real)
        exe = paddle.static.Executor()
        exe.run(startup)
        found: np.ndarray = exe.run(main, feed={"x": X}, fetch_list=[out])[0]
    return found


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("whole", [np.int64, np.int32])
def test_numbers(name: str, whole: Any) -> None:
    found, wanted = value(CALLS[name], whole, np.float32), value(CALLS[name], int, float)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("given", [0.5, np.float64(0.5), np.array(0.5)], ids=type)
@pytest.mark.parametrize("shape", [[], [1], [-1]])
def test_a_number_is_fed(shape: list[int], given: Any) -> None:
    """As 2.6.2 does: to a variable of no dimensions a number of none."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        out = paddle.static.data("x", shape, "float64") * 2.0
        if isinstance(given, np.ndarray) and shape:
            given = given.reshape(1)
        (found,) = paddle.static.Executor().run(main, feed={"x": given}, fetch_list=[out])
    assert found.shape == (1,) * len(shape) and found.dtype == np.float64
    assert float(found.reshape(-1)[0]) == 1.0
