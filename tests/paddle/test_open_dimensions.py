"""Functions of the 2.x door on tensors whose sizes a program does not know: the values of known sizes, or an
error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden.functions_2x import INPUTS, Built, expressions, feeds, is_random, used_inputs
from test_functions import ATOL, GRADIENT_IS_WRONG, PROMOTED, RECORDED, RTOL, TRAINS_MORE

import fluidlite.paddle as paddle
from fluidlite import unique_name

CODES = [
    code
    for code in expressions()
    if "values" in RECORDED[code]
    and used_inputs(code)
    and not is_random(code)
    and code not in {*GRADIENT_IS_WRONG, *PROMOTED, *TRAINS_MORE}
]


@pytest.mark.parametrize("code", CODES)
def test_open_dimensions(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first dimension of each operand is open, then the last one."""
    for at in (0, -1):
        for name in used_inputs(code):
            shape: list[Any] = list(feeds()[name].shape)
            if shape:
                shape[at] = -1
            monkeypatch.setitem(INPUTS, name, (shape, *INPUTS[name][1:]))
        try:
            values = Built(paddle, unique_name.guard, code).run()
        except Exception:  # a size that has to be known is named by errors of many kinds
            continue
        for value, (dtype, dims, numbers) in zip(values, RECORDED[code]["values"], strict=True):
            assert (str(value.dtype), list(value.shape)) == (dtype, dims)
            wanted = np.array(numbers, dtype).reshape(dims)
            np.testing.assert_allclose(value, wanted, rtol=RTOL, atol=ATOL)


def test_the_number_of_no_elements_is_known() -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [-1, 0], "float32")
        flat = [paddle.cumsum(x), paddle.logcumsumexp(x), paddle.flatten(x)]
        flat.append(paddle.unique(x, return_inverse=True)[1])
        assert [found.shape for found in flat] == [(0,)] * 4


def test_closeness_has_the_shape_of_both() -> None:
    with paddle.static.program_guard(paddle.static.Program()):
        x, y = paddle.static.data("x", [2, 1]), paddle.static.data("y", [-1, 1])
        assert paddle.isclose(x, y).shape == (2, 1)
        for function in (paddle.isclose, paddle.allclose):
            with pytest.raises(ValueError, match=r"Other has the shape \[2, 3\], but Input has \[2, 1\]"):
                function(x, paddle.static.data("z", [2, 3]))


REDUCTIONS = [paddle.sum, paddle.mean, paddle.max, paddle.amin, paddle.prod, paddle.logsumexp, paddle.var]
REDUCTIONS += [paddle.all, paddle.nansum, paddle.count_nonzero]


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("function", REDUCTIONS)
def test_reductions_of_what_turns_out_to_be_a_number(function: Any, naive: bool) -> None:
    """`squeeze` of two open sizes declares two; both may go away in a run."""
    exe = paddle.static.Executor()
    exe.naive = naive
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.squeeze(paddle.static.data("x", [-1, -1], "float64"))
        found = [function(x, axis=0), function(x, axis=-1, keepdim=True)]
        values = exe.run(feed={"x": np.array([[2.0]])}, fetch_list=found)
    assert [value.shape for value in values] == [(), ()]
    wanted = {paddle.var: 0.0, paddle.all: 1.0, paddle.count_nonzero: 1.0}.get(function, 2.0)
    assert [float(value) for value in values] == [wanted] * 2
