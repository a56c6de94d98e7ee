"""Dimensions that Variables name: what is computed is what a number at building time gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.base.errors import KernelError

SHAPE = (2, 3, 4)
X = np.sin(np.arange(24.0)).reshape(SHAPE)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": paddle.sum,
    "mean": paddle.mean,
    "max": paddle.max,
    "prod": paddle.prod,
    "std": paddle.std,
    "count_nonzero": paddle.count_nonzero,
}
ALONG_ONE: dict[str, Callable[..., Any]] = {
    "argmax": paddle.argmax,
    "argmin": paddle.argmin,
    "cumsum": paddle.cumsum,
}


def results(function: Callable[..., Any], axis: Any, given: np.ndarray | None = None) -> list[np.ndarray]:
    """The value, and its gradient by x where it has one; `given` is fed as the Variable `axis` names."""
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        x = paddle.static.data("x", [-1, *SHAPE[1:]], "float64")
        x.stop_gradient = False
        feed = {"x": X}
        if given is not None:
            axis = axis(paddle.static.data("axis", given.shape, str(given.dtype)))
            feed["axis"] = given
        fetches = [function(x, axis)]
        if not fetches[0].stop_gradient and "float" in str(np.dtype(X.dtype)) and fetches[0].dtype == x.dtype:
            fetches += paddle.static.gradients([fetches[0] * fetches[0]], [x])
        found: list[np.ndarray] = paddle.static.Executor().run(main, feed=feed, fetch_list=fetches)
    return found


def assert_alike(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("axis", range(-3, 3))
@pytest.mark.parametrize("name", [*FUNCTIONS, *ALONG_ONE])
def test_one_dimension(name: str, axis: int) -> None:
    function = {**FUNCTIONS, **ALONG_ONE}[name]
    found = results(function, lambda var: var, np.array([axis], ("int32", "int64")[axis % 2]))
    assert_alike(found, results(function, axis))


@pytest.mark.parametrize("axes", [*itertools.permutations(range(3), 2), (-1, 0)])
def test_two_dimensions_of_one_variable(axes: tuple[int, int]) -> None:
    for function in FUNCTIONS.values():
        found = results(function, lambda var: var, np.array(axes))
        assert_alike(found, results(function, list(axes)))


def test_a_list_with_a_variable() -> None:
    found = results(paddle.sum, lambda var: [0, var], np.array([2]))
    assert_alike(found, results(paddle.sum, [0, 2]))


@pytest.mark.parametrize("axes", [[3], [-4], [1, 1], [1, -2]])
def test_what_names_no_dimensions_ends_the_run(axes: list[int]) -> None:
    with pytest.raises((KernelError, ValueError, RuntimeError), match="(?i)assert"):
        results(paddle.sum, lambda var: var, np.array(axes))


def test_too_many_choices_are_refused() -> None:
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program()):
        x = paddle.static.data("x", [1] * 6, "float32")
        with pytest.raises(ValueError, match="select one of 216 lists of dimensions, but at most 64"):
            paddle.sum(x, paddle.static.data("axis", [3], "int64"))
