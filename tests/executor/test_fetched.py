"""Fetched arrays of one element are numbers to `float` and to formatting, as old scripts expect."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite.values.fetched import as_fetched


@pytest.fixture(name="loss")
def fetched_loss() -> np.ndarray:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 2], "float32")
        mean = fluid.layers.mean(x)
        exe = fluid.Executor(fluid.CPUPlace())
        return exe.run(
            fluid.default_main_program(), feed={"x": np.full((3, 2), 2.5, "float32")}, fetch_list=[mean]
        )[0]


def test_one_element_is_a_number(loss: np.ndarray) -> None:
    assert loss.shape == (1,) and isinstance(loss, np.ndarray)
    assert "%.2f %d" % (loss, loss) == "2.50 2"  # noqa: UP031 (as old scripts have it)
    assert (float(loss), int(loss), complex(loss), float(loss * 2), round(float(loss + loss), 1)) == (
        2.5,
        2,
        2.5,
        5.0,
        5.0,
    )
    assert float(np.sqrt(as_fetched(np.array([[4.0]])))) == 2.0


def test_several_elements_are_none() -> None:
    pair = as_fetched(np.ones(2))
    with pytest.raises((TypeError, ValueError)):
        float(pair)
    assert float(as_fetched(np.arange(6.0).reshape(3, 2))[1, 1:]) == 3.0


def test_results_are_what_plain_arrays_give(loss: np.ndarray) -> None:
    assert repr(loss) == "array([2.5], dtype=float32)" and str(loss) == "[2.5]"
    assert (
        type(np.mean(loss)) is np.float32 and type(loss.sum()) is np.float32 and type(loss[0]) is np.float32
    )
    assert type(np.array(loss)) is np.ndarray and type(pickle.loads(pickle.dumps(loss))) is np.ndarray


def test_fetched_values_are_fed_as_plain_ones(loss: np.ndarray) -> None:
    tensor = fluid.LoDTensor()
    tensor.set(loss, fluid.CPUPlace())
    assert type(tensor.array) is np.ndarray
