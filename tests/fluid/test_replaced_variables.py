"""Gradients through variables that are written again, and of loops: each by hand, in the interpreter and as a
plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite import layers

X = 2.0


def number(value: float, dtype: str = "float64") -> Any:
    return layers.fill_constant([1], dtype, value)


def counted(rounds: int, body: Callable[..., list[Any]], *start: Any) -> Any:
    """The results of a loop of `rounds` over `start`."""
    count, limit = number(0, "int64"), number(rounds, "int64")
    return layers.while_loop(
        lambda i, *_: layers.less_than(i, limit), lambda i, *v: [i + 1, *body(*v)], [count, *start]
    )[1:]


def assigned(x: Any) -> Any:
    z = x * x
    layers.assign(x * 5.0, z)
    return z


def assigned_from_itself(x: Any) -> Any:
    y = x * 3.0
    seen = layers.square(y)
    layers.assign(y * y, y)
    return seen + y


def assigned_in_a_case(x: Any) -> Any:
    y = layers.assign(x * 3.0)
    with layers.Switch() as switch, switch.case(layers.less_than(number(0.0), number(1.0))):
        layers.assign(x * x, y)
    return y


def not_assigned_in_a_case(x: Any) -> Any:
    y = layers.assign(x * 3.0)
    with layers.Switch() as switch, switch.case(layers.less_than(number(1.0), number(0.0))):
        layers.assign(x * x, y)
    return y


def assigned_in_cond(x: Any) -> Any:
    y = layers.assign(x * 3.0)

    def true() -> Any:
        layers.assign(x * y, y)
        return y * 1.0

    return layers.cond(layers.less_than(number(0.0), number(1.0)), true, lambda: y * 2.0) + y


def filled(x: Any) -> Any:
    z = x * x
    layers.fill_constant([1], "float64", 7.0, out=z)
    return z * x


def clamped(x: Any) -> Any:
    z = x * x
    layers.clamp(x * 5.0, -100.0, 100.0, output=z)
    return z


def summed(x: Any) -> Any:
    z = x * x
    layers.sums([z, x * 3.0], out=z)
    return z * z


def entry_written_twice(x: Any) -> Any:
    array = layers.array_write(x * 2.0, number(0, "int64"))
    layers.array_write(layers.array_read(array, number(0, "int64")) * 3.0, number(0, "int64"), array)
    return layers.array_read(array, number(0, "int64"))


def counted_on(x: Any) -> Any:
    y = x * x
    old = y * 1.0
    layers.increment(y, 1.0)
    return y * old + layers.increment(x * 3.0, 2.0, in_place=False)


def unread_loop_variable(x: Any) -> Any:
    return counted(3, lambda p, q: [q, q * x], x * 7.0, x * 1.0)[0]


def exchanged(x: Any) -> Any:
    return counted(3, lambda a, b: [b, a], x * 7.0, x * x)[0]


def rotated(x: Any) -> Any:
    return counted(2, lambda a, b, c: [b, c * x, a], x * 7.0, x * x, x * 3.0)[0]


def constant_loop_variable(x: Any) -> Any:
    return counted(2, lambda a, b: [number(1.5), a * x], x * 7.0, x * x)[1]


def loop_without_a_round(x: Any) -> Any:
    return counted(0, lambda a, b: [b, a], x * 7.0, x * x)[0]


def assigned_in_a_loop(x: Any) -> Any:
    a = layers.assign(x * 3.0)
    count, limit = number(0, "int64"), number(2, "int64")
    going = layers.less_than(count, limit)
    with layers.While(going).block():
        layers.assign(x * x, a)
        layers.increment(count)
        layers.less_than(count, limit, cond=going)
    return a


def loop_in_a_loop(x: Any) -> Any:
    return counted(2, lambda a: [counted(2, lambda b: [b * x], a * 1.0)[0]], x * 1.0)[0]


CASES: dict[Callable[[Any], Any], tuple[float, float]] = {
    assigned: (10.0, 5.0),
    assigned_from_itself: (72.0, 72.0),
    assigned_in_a_case: (4.0, 4.0),
    not_assigned_in_a_case: (6.0, 3.0),
    assigned_in_cond: (24.0, 24.0),
    filled: (14.0, 7.0),
    clamped: (10.0, 5.0),
    summed: (100.0, 140.0),
    entry_written_twice: (12.0, 6.0),
    counted_on: (28.0, 39.0),
    unread_loop_variable: (8.0, 12.0),
    exchanged: (4.0, 4.0),
    rotated: (12.0, 12.0),
    constant_loop_variable: (3.0, 1.5),
    loop_without_a_round: (14.0, 7.0),
    assigned_in_a_loop: (4.0, 4.0),
    loop_in_a_loop: (32.0, 80.0),
}


@pytest.mark.parametrize("naive", [True, False], ids=["interpreter", "plan"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_gradient(case: Callable[[Any], Any], naive: bool) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [1], "float64")
        x.stop_gradient = False
        result = case(x)
        found = fluid.gradients(result, x)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.naive = naive
        for _ in range(2):
            values = exe.run(feed={"x": np.array([X])}, fetch_list=[result, *found], scope=fluid.Scope())
            np.testing.assert_allclose(np.ravel(values), CASES[case], rtol=1e-12)


@pytest.mark.parametrize("weights", [None, [1.0, 10.0]])
def test_targets_that_depend_on_each_other(weights: list[float] | None) -> None:
    """A target is a part of the gradient of what it is computed from."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [1], "float64")
        x.stop_gradient = False
        y = x * x
        given = None if weights is None else [number(weight) for weight in weights]
        found = fluid.gradients([y, y * y], [x], given) + fluid.gradients([y, y, x], [x])
        values = fluid.Executor().run(feed={"x": np.array([1.5])}, fetch_list=found)
    wanted = [3.0 + 13.5 * (1.0 if weights is None else weights[1]), 2 * 3.0 + 1.0]
    np.testing.assert_allclose(np.ravel(values), wanted)


@pytest.mark.parametrize("while_loop", [layers.while_loop, paddle.static.nn.while_loop])
@pytest.mark.parametrize(
    ("order", "wanted", "assigns"),
    [
        ((0, 1, 2), [1.0, 2.0, 3.0], 5),
        ((1, 0, 2), [2.0, 1.0, 3.0], 6),
        ((1, 2, 0), [2.0, 3.0, 1.0], 6),
        ((2, 0, 1), [3.0, 1.0, 2.0], 7),
        ((1, 1, 1), [2.0, 2.0, 2.0], 5),
    ],
)
def test_exchanged_loop_variables(
    while_loop: Any, order: tuple[int, ...], wanted: list[float], assigns: int
) -> None:
    """All loop variables are assigned at once; a copy is made only where one is read after it was written."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        limit = number(1, "int64")
        start = [number(value) for value in (1.0, 2.0, 3.0)]
        out = while_loop(
            lambda i, *_: layers.less_than(i, limit),
            lambda i, *v: [i + 1, *(v[index] for index in order)],
            [number(0, "int64"), *start],
        )
        ops = [op.type for op in fluid.default_main_program().block(1).ops]
        assert np.ravel(fluid.Executor().run(fetch_list=out[1:])).tolist() == wanted
    assert ops.count("assign") == assigns


def test_lengths_of_a_recurrence_alone() -> None:
    """A DynamicRNN of which only lengths are used does not train; what is behind it does."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x, sequence = fluid.data("x", [None, 4]), fluid.data("sequence", [None, 4], lod_level=1)
        rnn = layers.DynamicRNN()
        with rnn.block():
            word = rnn.step_input(sequence)
            memory = rnn.memory(shape=[5], value=0.5)
            hidden = layers.fc([word, memory], 5)
            rnn.update_memory(memory, hidden)
            rnn.output(hidden)
        pooled = layers.sequence_pool(layers.sequence_expand_as(x, rnn()), "average")
        optimizer = fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1))
        pairs = optimizer.minimize(layers.mean(layers.fc(pooled, 1)))[1]
    assert sorted(param.name for param, grad in pairs if grad is not None) == ["fc_1.b_0", "fc_1.w_0"]


@pytest.mark.parametrize("devices", [1, 2])
def test_gradients_of_what_is_kept_have_their_names(devices: int) -> None:
    """A variable that is persistable, so that it can be looked at, is written before it is read: nothing
    depends on what an earlier run left in it, and its gradient is the one of the value that is read.
    """
    x = layers.data("x", [1])
    x.stop_gradient = False
    y = layers.scale(x, 3.0)
    z = layers.square(y)
    y.persistable = z.persistable = True
    loss = layers.mean(z)
    fluid.backward.append_backward(loss, parameter_list=[x.name])
    types = [op.output_arg_names for op in fluid.default_main_program().global_block().ops]
    assert types[-2:] == [[f"{y.name}@GRAD"], ["x@GRAD"]]
    exe = fluid.Executor(fluid.CPUPlace())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss.name, places=[fluid.CPUPlace()] * devices
    )
    fed = np.arange(1, 5, dtype="float32")[:, None]
    for _ in range(2):
        found = exe.run(program, {"x": fed}, [y, f"{y.name}@GRAD", "x@GRAD"])
        # the gradient of the loss starts with 1 / devices; that of `x`, which was asked for, is summed
        np.testing.assert_allclose(found[0], 3 * fed)
        np.testing.assert_allclose(found[1], 2 * 3 * fed / 4, rtol=1e-6)
        if devices == 1:
            np.testing.assert_allclose(found[2], 2 * 9 * fed / 4, rtol=1e-6)


def test_masked_rows_have_gradients_at_their_level() -> None:
    x = layers.data("x", [1], lod_level=2)
    x.stop_gradient = False
    mask = layers.data("mask", [1], dtype="bool")
    first, second = layers.control_flow.split_lod_tensor(x, mask, level=1)
    out = layers.control_flow.merge_lod_tensor(
        layers.scale(first, 2.0), layers.scale(second, 3.0), x=x, mask=mask, level=1
    )
    fluid.backward.append_backward(layers.mean(out), parameter_list=[x.name])
    rows = np.arange(7, dtype="float32")[:, None]
    feed = {
        "x": fluid.create_lod_tensor(rows, [[2, 1], [2, 2, 3]], fluid.CPUPlace()),
        "mask": np.array([[True], [False], [True]]),
    }
    exe = fluid.Executor(fluid.CPUPlace())
    found = exe.run(feed=feed, fetch_list=[out, "x@GRAD", f"{first.name}@GRAD"], return_numpy=False)
    factor = np.array([2, 2, 3, 3, 2, 2, 2], "float32")[:, None]
    np.testing.assert_allclose(np.array(found[0]), rows * factor)
    np.testing.assert_allclose(np.array(found[1]), factor / 7)
    assert found[1].lod() == [[0, 2, 3], [0, 2, 4, 7]] and found[2].lod() == [[0, 2, 5]]
