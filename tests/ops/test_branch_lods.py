"""Levels of detail of what a branch leaves, and of masks that have one themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

layers = fluid.layers
PLACE = fluid.CPUPlace()
ROWS = np.arange(5, dtype="float32").reshape(5, 1)


def runs(fetched: list[Any], feed: dict[str, Any], naive: bool) -> list[fluid.LoDTensor]:
    exe = fluid.Executor(PLACE)
    exe.naive = naive
    exe.run(fluid.default_startup_program())
    return list(exe.run(feed=feed, fetch_list=fetched, return_numpy=False))


def is_small(x: Any) -> Any:
    return layers.less_than(layers.reduce_sum(x), layers.fill_constant([1], "float32", 1.0))


BRANCHES: dict[str, Callable[[Any, Any], Any]] = {
    "cond": lambda x, z: layers.cond(is_small(x), lambda: z, lambda: layers.tanh(x)),
    "case": lambda x, z: layers.case([(is_small(x), lambda: z)], default=lambda: layers.tanh(x)),
    "switch_case": lambda x, z: layers.switch_case(
        layers.fill_constant([1], "int32", 1), [lambda: z, lambda: layers.tanh(x)]
    ),
}


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("name", BRANCHES)
def test_branches_keep_sequences(name: str, naive: bool) -> None:
    x, z = fluid.data("x", [-1, 1], lod_level=1), fluid.data("z", [-1, 1])
    x.stop_gradient = False
    out = BRANCHES[name](x, z)
    reversed_ = layers.sequence_reverse(out)
    (d,) = fluid.gradients(layers.reduce_sum(reversed_ * reversed_), [x])
    feed = {"x": fluid.create_lod_tensor(ROWS, [[3, 2]], PLACE), "z": ROWS}
    found, turned, gradient = runs([out, reversed_, d], feed, naive)
    assert found.recursive_sequence_lengths() == turned.recursive_sequence_lengths() == [[3, 2]]
    np.testing.assert_allclose(np.array(turned), np.tanh(ROWS)[[2, 1, 0, 4, 3]], rtol=1e-6)
    wanted = 2 * np.tanh(ROWS) * (1 - np.tanh(ROWS) ** 2)
    np.testing.assert_allclose(np.array(gradient), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("naive", [False, True])
def test_branches_have_no_sequences_of_others(naive: bool) -> None:
    x, z = fluid.data("x", [-1, 1], lod_level=1), fluid.data("z", [-1, 1])
    out = layers.cond(is_small(x), lambda: layers.tanh(x), lambda: layers.scale(z, 2.0))
    feed = {"x": fluid.create_lod_tensor(ROWS, [[3, 2]], PLACE), "z": ROWS}
    (found,) = runs([out], feed, naive)
    assert found.recursive_sequence_lengths() == []


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("least", [-9.0, 2.0, 9.0])
def test_masks_with_sequences(least: float, naive: bool) -> None:
    x, m = fluid.data("x", [-1, 1]), fluid.data("m", [-1, 1], lod_level=1)
    x.stop_gradient = False
    chosen = layers.IfElse(layers.less_than(m, layers.fill_constant([1], "float32", least)))
    with chosen.true_block():
        chosen.output(chosen.input(x) * 2.0)
    with chosen.false_block():
        chosen.output(chosen.input(x) * 3.0)
    (out,) = chosen()
    (d,) = fluid.gradients(out, [x])
    feed = {"x": ROWS, "m": fluid.create_lod_tensor(ROWS, [[3, 2]], PLACE)}
    found, gradient = runs([out, d], feed, naive)
    factor = np.where(ROWS < least, 2.0, 3.0)
    np.testing.assert_allclose(np.array(found), ROWS * factor)
    np.testing.assert_allclose(np.array(gradient), factor)
    assert found.recursive_sequence_lengths() == []


@pytest.mark.parametrize("lengths", [[1] * 5, [1, 1, 0, 2, 1], [2, 3]])
@pytest.mark.parametrize("naive", [False, True])
def test_sequences_of_a_mask_are_not_those_of_the_result(naive: bool, lengths: list[int]) -> None:
    x, mask = fluid.data("x", [-1, 1]), fluid.data("mask", [-1, 1], "bool", lod_level=1)
    choice = layers.IfElse(mask)
    with choice.true_block():
        choice.output(layers.scale(choice.input(x), 2.0))
    with choice.false_block():
        choice.output(layers.scale(choice.input(x), 3.0))
    masks = fluid.create_lod_tensor(np.array([[True]] * 2 + [[False]] * 3), [lengths], PLACE)
    (found,) = runs(choice(), {"x": ROWS, "mask": masks}, naive)
    assert found.recursive_sequence_lengths() == []
    np.testing.assert_array_equal(np.array(found).ravel(), [0, 2, 6, 9, 12])


@pytest.mark.parametrize("naive", [False, True])
def test_sequences_that_are_expanded(naive: bool) -> None:
    x, times = fluid.data("x", [-1, 1], lod_level=1), fluid.data("times", [2], "int32")
    fixed, fed = layers.expand(x, [1, 2]), layers.expand(x, times)
    assert (fixed.lod_level, fed.lod_level) == (1, 1)
    feed = {"x": fluid.create_lod_tensor(ROWS, [[3, 2]], PLACE), "times": np.array([1, 2], "int32")}
    found = runs([fixed, fed], feed, naive)
    # 1.8.5 asks whether rows stay where they are before it reads the times
    assert [one.recursive_sequence_lengths() for one in found] == [[[3, 2]], []]


def test_a_level_stays_where_a_variable_is_reshaped_in_place() -> None:
    x, y = fluid.data("x", [-1, 4], lod_level=1), fluid.data("y", [-1, 4], lod_level=1)
    assert layers.reshape(x, [2, 2]).lod_level == 0
    assert layers.reshape(y, [2, 2], inplace=True).lod_level == 1


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("place", ["branch", "loop"])
def test_gradients_in_blocks_have_the_levels_of_their_variables(place: str, naive: bool) -> None:
    """The incoming gradient of a block is cut into sequences as the result is."""
    x, lengths = fluid.data("x", [3, 5, 1], "float64"), fluid.data("n", [3], "int64")
    x.stop_gradient = False

    def unpadded() -> Any:
        return layers.sequence_unpad(layers.tanh(x), lengths)

    if place == "branch":
        out = layers.cond(is_small(layers.cast(x, "float32")), unpadded, unpadded)
    else:
        start, end = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 1)
        rows = unpadded()
        _, out = layers.while_loop(
            lambda i, r: i < end, lambda i, r: [i + 1, unpadded() * 1.0], [start, rows]
        )
    (d,) = fluid.gradients(layers.square(out), [x])
    values = np.linspace(-1, 1, 15).reshape(3, 5, 1)
    (gradient,) = runs([d], {"x": values, "n": np.array([4, 2, 1])}, naive)
    kept = (np.arange(5) < np.array([[4], [2], [1]]))[..., None]
    wanted = 2 * np.tanh(values) * (1 - np.tanh(values) ** 2) * kept
    np.testing.assert_allclose(np.array(gradient), wanted, rtol=1e-12, atol=1e-14)
