"""Constants that a block writes over entries of an array: what stood there before gets no gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers as L

ONE, TWO = (lambda number=number: L.fill_constant([1], "int64", number) for number in (1, 2))


def _plain(write: Callable[[Any], Any]) -> None:
    write(L.fill_constant([1], "int64", 0))


def _while(write: Callable[[Any], Any]) -> None:
    at, until = L.fill_constant([1], "int64", 0), ONE()
    condition = L.less_than(at, until)
    loop = L.While(condition)
    with loop.block():
        write(at)
        L.increment(at)
        L.less_than(at, until, cond=condition)


def _nested(write: Callable[[Any], Any]) -> None:
    _while(lambda at: _switch(write))


def _switch(write: Callable[[Any], Any]) -> None:
    with L.Switch() as switch, switch.case(L.less_than(ONE(), TWO())):
        write(L.fill_constant([1], "int64", 0))


def _cond(write: Callable[[Any], Any]) -> None:
    L.cond(L.less_than(ONE(), TWO()), lambda: write(L.fill_constant([1], "int64", 0)) and None)


@pytest.mark.parametrize("naive", [True, False])
@pytest.mark.parametrize("is_read_whole", [True, False])
@pytest.mark.parametrize("block", [_plain, _while, _nested, _switch, _cond])
def test_gradients_of_overwritten_entries(block: Any, is_read_whole: bool, naive: bool) -> None:
    x = fluid.data("x", [2, 2], "float64")
    x.stop_gradient = False
    first, second = L.fill_constant([1], "int64", 0), ONE()
    array = L.create_array("float64")
    L.array_write(x * 1.0, first, array)
    L.array_write(x * 2.0, second, array)
    constant = L.fill_constant([2, 2], "float64", 7.0)
    block(lambda at: L.array_write(constant, at, array))
    if is_read_whole:
        out = L.reduce_sum(L.tensor_array_to_tensor(array, axis=0)[0])
    else:
        out = L.reduce_sum(L.array_read(array, first)) * 3.0 + L.reduce_sum(L.array_read(array, second))
    (slope,) = fluid.gradients([out], [x])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    for use_prune in (False, True):
        (found,) = exe.run(feed={"x": np.ones((2, 2))}, fetch_list=[slope], use_prune=use_prune)
        np.testing.assert_array_equal(found, np.full((2, 2), 2.0))
