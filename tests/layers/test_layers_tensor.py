"""Layers on tensors build and compute what PaddlePaddle 1.8.5 does (recorded cases), and more where that
is no loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import recorded
from recorded.facts import differences, observe

import fluidlite as fluid
from fluidlite import layers
from fluidlite.errors import ShapeError

FACTS = recorded.load()
CASES = [
    (group, name) for group, cases in FACTS.items() for name in cases if group not in ("operators", "indices")
]


# second derivatives that 1.8.5 does not have: it leaves out terms, or whole gradients
LEFT_OUT = ("concat", "softmax", "stack", "tanh", "transpose")


@pytest.mark.parametrize("group, name", CASES, ids=map("-".join, CASES))
def test_as_paddle(group: str, name: str) -> None:
    lines = differences(observe(fluid, recorded.GROUPS[group](fluid)[name]), FACTS[group][name])
    if group == "second" and name in LEFT_OUT:
        assert lines and lines[0].startswith("main: the ops are")
        return
    if (group, name) == ("gradients", "scatter"):
        # 1.8.5 hands gradients to rows that are written over
        (line,) = lines
        assert line.startswith("values of result 1: [11.0, 13.0, 15.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.0")
        return
    assert not lines, "\n".join(lines)


def run(fetches: list[Any], **feed: Any) -> list[Any]:
    """The fetches of one run, after the startup program."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found: list[Any] = exe.run(feed=feed, fetch_list=fetches)
    return found


# ---------------------------------------------------------------------- better than 1.8.5
def test_infinity_is_a_constant() -> None:
    (found,) = run([layers.fill_constant([2], "float32", float("-inf"))])
    assert np.isneginf(found).all()


def test_hash_takes_ids() -> None:
    x = fluid.data("x", [3, 2], "int64")
    (found,) = run([layers.hash(x, 100)], x=(np.arange(6).reshape(3, 2) * 7919 + 3))
    assert found.reshape(-1).tolist() == [
        79,
        26,
        86,
    ]  # the numbers of 1.8.5's op, whose layer refuses everything


def test_clamp_without_lower_bound_keeps_negative_numbers() -> None:
    x = fluid.data("x", [3], "float32")
    (found,) = run([layers.clamp(x, max=1.0)], x=np.array([-2, 0, 3], "float32"))
    assert found.tolist() == [-2, 0, 1]


def test_expand_as_knows_its_shape() -> None:
    out = layers.expand_as(fluid.data("x", [2, 3]), fluid.data("y", [4, 3]))
    assert out.shape == (4, 3)


def test_slice_of_an_array() -> None:
    x = fluid.data("x", [2], "float32")
    array = layers.array_write(x, layers.fill_constant([1], "int64", 0))
    layers.array_write(x * 2, layers.fill_constant([1], "int64", 1), array)
    (found,) = run([layers.concat(layers.slice(array, [0], [1], [2]))], x=np.array([1, 2], "float32"))
    assert found.tolist() == [2, 4]


# ---------------------------------------------------------------------- counters, selected rows
def test_step_counter_counts_runs() -> None:
    counter = layers.autoincreased_step_counter(begin=5, step=2)
    assert layers.autoincreased_step_counter() is counter
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    assert [exe.run(fetch_list=[counter])[0].item() for _ in range(3)] == [6, 8, 10]


def test_selected_rows() -> None:
    rows = (
        fluid.default_main_program()
        .global_block()
        .create_var(
            name="rows",
            type=fluid.core.VarDesc.VarType.SELECTED_ROWS,
            dtype="float32",
            shape=[6, 2],
            persistable=True,
        )
    )
    merged = layers.merge_selected_rows(rows)
    assert merged.type == fluid.core.VarDesc.VarType.SELECTED_ROWS
    dense = layers.get_tensor_from_selected_rows(merged)
    fluid.global_scope().var("rows").set(
        fluid.SelectedRows([4, 1, 4], 6, np.arange(6, dtype="float32").reshape(3, 2))
    )
    (found,) = run([dense])
    assert found.tolist() == [[2, 3], [4, 6]]
    with pytest.raises(TypeError, match="SELECTED_ROWS"):
        layers.get_tensor_from_selected_rows(fluid.data("x", [2, 2]))


# ---------------------------------------------------------------------- errors name values
@pytest.mark.parametrize(
    "build, message",
    [
        (
            lambda: layers.elementwise_add(fluid.data("x", [2, 3]), fluid.data("y", [2])),
            r"X\[2, 3\] and Y\[2\] do not match",
        ),
        (
            lambda: layers.reshape(fluid.data("x", [2, 3]), [4, -1]),
            r"\[2, 3\] \(6 elements\) does not fill shape \[4, -1\]",
        ),
        (
            lambda: layers.concat([fluid.data("x", [2, 3]), fluid.data("y", [3, 3])], 1),
            r"X\[2, 3\] and X\[3, 3\] differ outside axis 1",
        ),
        (lambda: layers.topk(fluid.data("x", [2, 3]), 4), r"k is 4, but the last dimension of X\[2, 3\]"),
        (
            lambda: layers.gather_nd(fluid.data("x", [2]), fluid.data("i", [1, 2], "int64")),
            r"addresses 2 dimensions of X\[2\]",
        ),
        (lambda: layers.squeeze(fluid.data("x", [2, 3]), [0]), r"dimension 0 of X\[2, 3\] must be 1"),
    ],
)
def test_shape_errors(build: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        build()


def test_places() -> None:
    from fluidlite.layers.device import get_places

    assert get_places(device_count=2).name == "get_places_0.out_0"
    with pytest.raises(ValueError, match="XPU"):
        get_places(device_type="XPU")


def test_multiplex_wants_a_place_for_each_row() -> None:
    feed = {name: np.full((4, 2), value, "float32") for value, name in enumerate("ab")}
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        rows = [fluid.data(name, [4, 2]) for name in feed]
        out = layers.multiplex(rows, fluid.data("ids", [2, 1], "int32"))
        with pytest.raises(ShapeError, match=r"'multiplex': Ids names 2 rows, but X\[0\] has 4"):
            feed["ids"] = np.array([[1], [0]], "int32")
            fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[out])


def test_unbind() -> None:
    with fluid.program_guard(fluid.Program()):
        x = fluid.data("x", [2, 3, 4])
        parts = fluid.layers.unbind(x, axis=1)
        found = fluid.Executor(fluid.CPUPlace()).run(
            feed={"x": np.arange(24, dtype="float32").reshape(2, 3, 4)}, fetch_list=parts
        )
        assert [part.shape for part in parts] == [(2, 4)] * 3
        with pytest.raises(ValueError, match="is unknown"):
            fluid.layers.unbind(fluid.data("y", [-1, 3]))
    np.testing.assert_array_equal(np.stack(found, 1), np.arange(24).reshape(2, 3, 4))


DECLARED: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "a scale and an actual shape": (
        lambda x, size: layers.resize_nearest(x, scale=2.0, actual_shape=size),
        (-1, 2, 6, 8),
        (1, 2, 5, 7),
    ),
    "out_shape and an actual shape": (
        lambda x, size: layers.resize_bilinear(x, out_shape=[6, 6], actual_shape=size),
        (-1, 2, 6, 6),
        (1, 2, 5, 7),
    ),
    "a reshape to numbers and a Variable": (
        lambda x, size: layers.reshape(x, [layers.fill_constant([1], "int32", 6), 4]),
        (-1, 4),
        (6, 4),
    ),
}


@pytest.mark.filterwarnings("ignore:actual_shape will:UserWarning")
@pytest.mark.parametrize("name", DECLARED)
def test_shapes_that_a_run_decides(name: str) -> None:
    """The declared shape is 1.8.5's; the op, and those that follow it, run with the real one."""
    build, declared, real = DECLARED[name]
    x, size = fluid.data("x", [None, 2, 3, 4]), fluid.data("size", [2], "int32")
    x.stop_gradient = False
    out = build(x, size)
    mean = layers.mean(out)
    (gradient,) = fluid.gradients(mean, x)
    feed = {"x": np.ones((1, 2, 3, 4), "float32"), "size": np.array([5, 7], "int32")}
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(feed=feed, fetch_list=[out, mean, gradient])
    assert out.shape == declared
    assert found[0].shape == real
    np.testing.assert_allclose([found[1].item(), found[2].sum()], 1.0, rtol=1e-5)


def test_increment_refuses_more_than_one_number() -> None:
    for shape in ([2], [None, 1]):
        with pytest.raises(fluid.core.EnforceNotMet, match="one element"):
            layers.increment(fluid.data(f"x{len(shape)}", shape))


def test_topk_declares_one_of_a_number_that_a_run_knows() -> None:
    values, _ = layers.topk(fluid.data("x", [None, 4]), layers.fill_constant([1], "int32", 3))
    exe = fluid.Executor(fluid.CPUPlace())
    (found,) = exe.run(feed={"x": np.ones((2, 4), "float32")}, fetch_list=[values])
    assert (values.shape, found.shape) == ((-1, 1), (2, 3))
