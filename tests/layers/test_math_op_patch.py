"""Operators on Variables append what PaddlePaddle 1.8.5 appends (recorded cases), and do what Python does
where it fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import recorded
from recorded.facts import differences, observe

import fluidlite as fluid

FACTS = recorded.load()
CASES = [(group, name) for group in ("operators", "indices") for name in FACTS[group]]
X = np.arange(24, dtype="float32").reshape(4, 3, 2)


@pytest.mark.filterwarnings("ignore::fluidlite.errors.FluidWarning")
@pytest.mark.parametrize("group, name", CASES, ids=map("-".join, CASES))
def test_as_paddle(group: str, name: str) -> None:
    lines = differences(observe(fluid, recorded.GROUPS[group](fluid)[name]), FACTS[group][name])
    assert not lines, "\n".join(lines)


def run(var: Any, **feed: Any) -> Any:
    return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[var])[0]


@pytest.mark.parametrize(
    "index",
    [
        np.s_[::2],
        np.s_[..., 1],
        np.s_[1, ...],
        np.s_[...],
        np.s_[0, :, ::-1],
        np.s_[1, ::-1],
        np.s_[::2, ::-1],
        np.s_[3::-1],
        np.s_[:1:-1],
        np.s_[-1, ..., 0:2],
        np.s_[..., ::-1],
    ],
    ids=str,
)
def test_more_indices_than_paddle_takes(index: Any) -> None:
    x = fluid.data("x", [4, 3, 2], "float32")
    np.testing.assert_array_equal(run(x[index], x=X), X[index])


@pytest.mark.parametrize(
    "index, error",
    [
        (np.s_[4], IndexError),
        (np.s_[-5], IndexError),
        (np.s_[0, 0, 0, 0], IndexError),
        (np.s_[..., ...], IndexError),
        (1.5, TypeError),
        (np.s_[::0], ValueError),
        (np.s_[2:1], fluid.core.EnforceNotMet),
    ],
    ids=str,
)
def test_wrong_indices(index: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        fluid.data("x", [4, 3, 2], "float32")[index]


@pytest.mark.parametrize("left, right", [((3,), (2, 3)), ((2, 1), (1, 3)), ((1,), (2, 2))], ids=str)
def test_both_sides_are_broadcast(left: Any, right: Any) -> None:
    rng = np.random.RandomState(0)
    a, b = rng.rand(*left).astype("float32") + 0.5, rng.rand(*right).astype("float32") + 0.5
    x, y = fluid.data("x", left, "float32"), fluid.data("y", right, "float32")
    for found, wanted in ((x**y, a**b), (x % y, a % b), (x // y, a // b)):
        np.testing.assert_allclose(run(found, x=a, y=b), wanted, rtol=1e-5)


def test_comparisons_of_fewer_dimensions_with_more_are_refused() -> None:
    x, y = fluid.data("x", [3], "float32"), fluid.data("y", [2, 3], "float32")
    with pytest.raises(fluid.core.EnforceNotMet, match="fewer dimensions"):
        _ = x < y


@pytest.mark.filterwarnings("ignore::fluidlite.errors.FluidWarning")
def test_reversed_operators_on_integers() -> None:
    x = fluid.data("x", [-1, 2], "int32")
    assert run(7 - x, x=np.array([[2, -2]], "int32")).tolist() == [[5, 9]]
    assert run(7 / x, x=np.array([[2, -2]], "int32")).tolist() == [[3, -3]]


def test_variables_can_be_keys() -> None:
    x, y = fluid.data("x", [1]), fluid.data("y", [1])
    assert {x: 1, y: 2}[y] == 2
    with pytest.raises(TypeError, match="cannot be iterated over"):
        list(x)


def test_operators_write_into_the_block_that_is_written() -> None:
    x = fluid.data("x", [1], "float32")
    out = fluid.layers.cond(x < 3.0, lambda: x * 2 + 1, lambda: -x)
    assert run(out, x=np.array([2], "float32")).tolist() == [5]
    assert run(out, x=np.array([4], "float32")).tolist() == [-4]
