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


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize(
    ("declared", "sizes"),
    [
        (([-1, 3], [3, -1]), ([2, 3], [3, 4])),
        (([-1, -1], [-1, -1]), ([2, 3], [3, 4])),
        (([-1, 1], [-1, 4]), ([2, 1], [3, 4])),
        (([2, 3], [1, 4]), ([2, 3], [1, 4])),
        (([2, -1], [1, -1]), ([2, 3], [1, 4])),
    ],
)
def test_tensordot(declared: Any, sizes: Any, naive: bool) -> None:
    """A dimension of size 1 stands for as many as the other tensor has; any size may be open."""
    first, second = (np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for shape in sizes)
    exe = paddle.static.Executor()
    exe.naive = naive
    with paddle.static.program_guard(paddle.static.Program()):
        x, y = (
            paddle.static.data(name, shape, "float64") for name, shape in zip("xy", declared, strict=True)
        )
        x.stop_gradient = False
        out = paddle.tensordot(x, y, 1)
        (slope,) = paddle.static.gradients([out], [x])
        found, gradient = exe.run(feed={"x": first, "y": second}, fetch_list=[out, slope])
    inner = np.broadcast_shapes(first.shape[1:], second.shape[:1])
    wide, high = np.broadcast_to(first, (2, *inner)), np.broadcast_to(second, (*inner, 4))
    np.testing.assert_allclose(found, wide @ high)
    wanted = np.broadcast_to(high.sum(1), wide.shape)
    np.testing.assert_allclose(gradient, wanted.sum(1, keepdims=True) if sizes[0][1] == 1 else wanted)


def test_tensordot_of_unlike_sizes() -> None:
    """As many elements in all say nothing."""
    with paddle.static.program_guard(paddle.static.Program()):
        x, y = paddle.static.data("x", [2, 3]), paddle.static.data("y", [3, 2])
        with pytest.raises(ValueError, match=r"dimension 0 of x\[2, 3\] has 2, and dimension 0 of y"):
            paddle.tensordot(x, y, 2)


@pytest.mark.parametrize("naive", [True, False])
def test_unflatten_by_a_variable(naive: bool) -> None:
    """Its -1 is the only one, whatever is open beside it."""
    exe = paddle.static.Executor()
    exe.naive = naive
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [-1, -1, 4])
        found = [paddle.unflatten(x, axis, paddle.full([1], -1, "int64")) for axis in range(3)]
        found.append(paddle.unflatten(x, -1, paddle.assign(np.array([2, -1]))))
        values = exe.run(feed={"x": np.zeros((2, 3, 4), "float32")}, fetch_list=found)
    assert [value.shape for value in values] == [(2, 3, 4)] * 3 + [(2, 3, 2, 2)]


@pytest.mark.parametrize("naive", [True, False])
def test_whole_powers(naive: bool) -> None:
    """`logspace` of integers takes its limits and its base as integers, Variables as numbers."""
    exe = paddle.static.Executor()
    exe.naive = naive
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [1])
        found = [
            paddle.logspace(x, 3.9, 4, dtype=dtype, base=base)
            for dtype, base in (("int32", 10.0), ("int64", 2.5), ("float64", 10.0))
        ]
        whole, small, exact = exe.run(feed={"x": np.array([0.5], "float32")}, fetch_list=found)
    assert (whole.tolist(), small.tolist()) == ([1, 10, 100, 1000], [1, 2, 4, 8])
    np.testing.assert_allclose(exact, 10 ** np.linspace(0.5, np.float32(3.9), 4), rtol=1e-6)
