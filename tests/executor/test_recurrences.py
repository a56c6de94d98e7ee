"""Recurrences, arrays, rank tables, and ops that look in from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flowtools import RNG, check_gradients, constant, data, op, repeat, rows, run, values

import fluidlite as fluid
from fluidlite import layers
from fluidlite.errors import AssertError, EnforceNotMet
from fluidlite.values.tensor import LoDTensor


# ---------------------------------------------------------------------- StaticRNN
def test_static_rnn() -> None:
    x, start, w, u = data("x", [4, 2, 3]), data("start", [2, 3]), data("w", [3, 3]), data("u", [3, 3])
    rnn = layers.StaticRNN()
    with rnn.step():
        row, state = rnn.step_input(x), rnn.memory(init=start)
        total = rnn.memory(shape=[-1, 3], batch_ref=x, init_value=0.5)
        new = op("tanh", X=op("elementwise_add", X=op("mul", X=row, Y=w), Y=op("mul", X=state, Y=u)))
        rnn.update_memory(state, new)
        rnn.update_memory(total, op("elementwise_add", X=total, Y=new))
        rnn.output(new, total)
    states, totals = rnn()
    feeds = {"x": RNG.rand(4, 2, 3), "start": RNG.rand(2, 3), "w": RNG.rand(3, 3), "u": RNG.rand(3, 3)}
    state, total, wanted = feeds["start"], np.full((2, 3), 0.5), []
    for row in feeds["x"]:
        before, state = total, np.tanh(row @ feeds["w"] + state @ feeds["u"])
        total = total + state
        wanted.append((state, before))
    for found, column in zip(values([states, totals], feeds), zip(*wanted, strict=True), strict=True):
        np.testing.assert_allclose(found, np.stack(column))
    check_gradients(op("elementwise_mul", X=states, Y=totals), feeds, ["x", "start", "w", "u"])


def test_one_variable_in_two_places_of_static_rnn() -> None:
    """Gradients belong to places: a Variable that starts two states, and one that is read twice."""
    x, start = data("x", [3, 2, 3]), data("start", [2, 3])
    rnn = layers.StaticRNN()
    with rnn.step():
        one, other = rnn.step_input(x), rnn.step_input(x)
        left, right = rnn.memory(init=start), rnn.memory(init=start)
        rnn.update_memory(left, op("elementwise_mul", X=one, Y=left))
        rnn.update_memory(right, op("elementwise_sub", X=op("elementwise_mul", X=one, Y=other), Y=right))
        rnn.step_output(op("elementwise_mul", X=left, Y=right))
    check_gradients(rnn(), {"x": RNG.rand(3, 2, 3), "start": RNG.rand(2, 3)}, ["x", "start"])


def test_wrong_use_of_static_rnn() -> None:
    x, rnn = data("x", [4, 2, 3]), layers.StaticRNN()
    with pytest.raises(ValueError, match="You must invoke step_input in rnn block"):
        rnn.step_input(x)
    with pytest.raises(ValueError, match="only be retrieved after rnn block"):
        rnn()
    with pytest.raises(ValueError, match="need shape and batch_ref"), rnn.step():
        rnn.memory()
    with pytest.raises(ValueError, match="fix seq_len"), layers.StaticRNN().step():
        other = layers.StaticRNN()
        other.status = other.IN_RNN_BLOCK
        other.step_input(x)
        other.step_input(data("y", [5, 2, 3]))


# ---------------------------------------------------------------------- DynamicRNN
def test_dynamic_rnn() -> None:
    x, start, w, u = (
        data("x", [-1, 2], lod_level=1),
        data("start", [-1, 3]),
        data("w", [2, 3]),
        data("u", [3, 3]),
    )
    rnn = layers.DynamicRNN()
    with rnn.block():
        row = rnn.step_input(x)
        fixed = rnn.static_input(start)
        state = rnn.memory(init=start, need_reorder=True)
        count = rnn.memory(shape=[3], value=1.0, dtype="float64")
        mixed = op("elementwise_add", X=op("mul", X=row, Y=w), Y=op("mul", X=state, Y=u))
        new = op("tanh", X=op("elementwise_add", X=mixed, Y=fixed))
        rnn.update_memory(state, new)
        rnn.update_memory(count, op("scale", {"scale": 2.0}, X=count))
        rnn.output(new, count)
    out, counts = rnn()
    lengths = [2, 4, 1]
    feeds = {
        "x": rows(RNG.rand(7, 2), lengths),
        "start": RNG.rand(3, 3),
        "w": RNG.rand(2, 3),
        "u": RNG.rand(3, 3),
    }
    found = run([out, counts], feeds)
    wanted, doubled = [], []
    for sequence, stop in enumerate(np.cumsum(lengths)):
        state = feeds["start"][sequence]
        for step in range(lengths[sequence]):
            row = np.asarray(feeds["x"])[stop - lengths[sequence] + step]
            state = np.tanh(row @ feeds["w"] + state @ feeds["u"] + feeds["start"][sequence])
            wanted.append(state)
            doubled.append([2.0**step] * 3)
    np.testing.assert_allclose(np.asarray(found[0]), wanted)
    np.testing.assert_allclose(np.asarray(found[1]), doubled)
    assert found[0].recursive_sequence_lengths() == [lengths]
    check_gradients(out, feeds, ["x", "start", "w", "u"])


def test_wrong_use_of_dynamic_rnn() -> None:
    x, rnn = data("x", [-1, 2], lod_level=1), layers.DynamicRNN()
    with pytest.raises(ValueError, match="only be invoked inside rnn block"):
        rnn.step_input(x)
    with pytest.raises(ValueError, match="outside the rnn block"):
        rnn()
    with rnn.block():
        with pytest.raises(RuntimeError, match="after step_input"):
            rnn.static_input(x)
        with pytest.raises(ValueError, match="step_input should be invoked before"):
            rnn.memory(shape=[2])
        row = rnn.step_input(x)
        with pytest.raises(ValueError, match="invoke memory before update_memory"):
            rnn.update_memory(row, row)
        rnn.output(row)
    with pytest.raises(ValueError, match="only be invoke once"), rnn.block():
        pass


# ---------------------------------------------------------------------- arrays and rank tables
def test_arrays() -> None:
    x = data("x", [-1, 2], lod_level=1)
    array = layers.create_array("float64")
    layers.array_write(x, constant(2), array)
    layers.array_write(op("square", X=x), constant(0), array)
    feeds = {"x": rows(RNG.rand(3, 2), [1, 2])}
    found = run([layers.array_length(array), layers.array_read(array, constant(2)), array], feeds)
    assert np.asarray(found[0]).tolist() == [3]
    np.testing.assert_allclose(np.asarray(found[1]), np.asarray(feeds["x"]))
    assert found[1].recursive_sequence_lengths() == [[1, 2]]


def test_reading_what_was_never_written() -> None:
    array = layers.array_write(constant(1), constant(1))
    missing = layers.array_read(array, constant(0))
    with pytest.raises(EnforceNotMet, match="entry 0 of an array of length 2 was never written"):
        run([missing])


@pytest.mark.parametrize("axis, use_stack", [(0, False), (1, False), (0, True), (1, True)])
def test_tensor_array_to_tensor(axis: int, use_stack: bool) -> None:
    x = data("x", [2, 3])
    array = layers.array_write(x, constant(0))
    layers.array_write(op("square", X=x), constant(1), array)
    block = fluid.default_main_program().global_block()
    out, sizes = block.create_var(dtype="float64"), block.create_var(dtype="int32")
    block.append_op(
        type="tensor_array_to_tensor",
        inputs={"X": [array]},
        outputs={"Out": [out], "OutIndex": [sizes]},
        attrs={"axis": axis, "use_stack": use_stack},
    )
    feed = RNG.rand(2, 3)
    wanted = (np.stack if use_stack else np.concatenate)([feed, feed**2], axis)
    found = values([out, sizes], {"x": feed})
    np.testing.assert_allclose(found[0], wanted)
    assert found[1].tolist() == [feed.shape[axis]] * 2
    check_gradients(out, {"x": feed}, ["x"])


@pytest.mark.parametrize("lengths", [[[2, 4, 1]], [[2, 1], [1, 3, 2]]])
def test_sequences_to_arrays_and_back(lengths: list[list[int]]) -> None:
    x = data("x", [-1, 2], lod_level=len(lengths))
    table = layers.control_flow.lod_rank_table(x)
    array = layers.control_flow.lod_tensor_to_array(x, table)
    back = layers.control_flow.array_to_lod_tensor(array, table)
    feeds = {"x": rows(RNG.rand(sum(lengths[-1]), 2), *lengths)}
    longest, first, found = run(
        [layers.control_flow.max_sequence_len(table), layers.array_read(array, constant(0)), back], feeds
    )
    assert np.asarray(longest).tolist() == [max(lengths[0])]
    assert len(np.asarray(first)) == 3
    np.testing.assert_allclose(np.asarray(found), np.asarray(feeds["x"]))
    assert found.recursive_sequence_lengths() == lengths
    check_gradients(op("scale", {"scale": 2.0}, X=back), feeds, ["x"])


@pytest.mark.parametrize("lengths", [[], [[1, 3, 2]]])
def test_reordering_and_shrinking(lengths: list[list[int]]) -> None:
    reference = data("reference", [-1, 1], lod_level=1)
    x = data("x", [-1, 2], lod_level=len(lengths))
    table = layers.control_flow.lod_rank_table(reference)
    ordered = layers.reorder_lod_tensor_by_rank(x, table)
    shrunk = layers.control_flow.shrink_memory(ordered, constant(1), table)
    count = sum(lengths[0]) if lengths else 3
    array = RNG.rand(count, 2)
    feeds = {"reference": rows(np.zeros((6, 1)), [1, 3, 2]), "x": rows(array, *lengths) if lengths else array}
    order = [1, 2, 3, 4, 5, 0] if lengths else [1, 2, 0]
    found = run([ordered, shrunk], feeds)
    np.testing.assert_allclose(np.asarray(found[0]), array[order])
    np.testing.assert_allclose(np.asarray(found[1]), array[order[:-1]])
    assert found[0].recursive_sequence_lengths() == ([[3, 2, 1]] if lengths else [])
    check_gradients(shrunk, feeds, ["x"])


def test_wrong_arguments_of_arrays() -> None:
    x = constant(1)
    with pytest.raises(TypeError, match="tensor array"):
        layers.array_read(x, x)
    with pytest.raises(TypeError, match="tensor array"):
        layers.array_write(x, x, x)
    with pytest.raises(TypeError, match="tensor array"):
        layers.array_length(x)
    with pytest.raises(TypeError, match="LOD_RANK_TABLE"):
        layers.reorder_lod_tensor_by_rank(x, x)


# ---------------------------------------------------------------------- looking in from outside
def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    x = data("x", [2, 3])
    shown = layers.Print(x, message="hello", summarize=4)
    layers.Print(constant(3), print_tensor_name=False, print_tensor_shape=False, print_phase="forward")
    loss = op("mean", X=shown)
    fluid.backward.append_backward(loss)
    run([loss], {"x": np.array([[1, 2, 3], [4.5, 1e-7, 1e8]])})
    text = capsys.readouterr().out
    head = [line.split("\t")[1:] for line in text.splitlines() if "The place is" in line]
    assert head == [
        ["hello", "The place is:CPUPlace"],
        ["", "The place is:CPUPlace"],
        ["hello", "The place is:CPUPlace"],
    ]
    assert "Tensor[x]\n\tshape: [2,3,]\n\tdtype: d\n\tdata: 1,2,3,4.5,\n" in text
    assert (
        f"Tensor[{shown.name}@GRAD]\n\tshape: [2,3,]\n\tdtype: d\n\tdata: "
        f"0.166667,0.166667,0.166667,0.166667,\n" in text
    )
    assert "\tdtype: l\n\tdata: 3,\n" in text


def test_print_the_first_times_only(capsys: pytest.CaptureFixture[str]) -> None:
    x = data("x", [-1, 1], lod_level=1)
    repeat(constant(5), op("scale", {"scale": 1.0}, X=x), lambda state: layers.Print(state, first_n=2))
    run([x], {"x": rows(np.zeros((3, 1)), [1, 2])})
    text = capsys.readouterr().out
    assert text.count("The place is") == 2 and "\tLoD: [[ 0,1,3, ]]\n" in text


def test_assert() -> None:
    x = data("x", [1])
    layers.Assert(layers.less_than(x, constant(1, "float64")), [x], summarize=3)
    run([x], {"x": np.array([0.5])})
    with pytest.raises(AssertError, match=r"is false\n  x \[1\]: 2.5,\n  built at .*test_recurrences.py"):
        run([x], {"x": np.array([2.5])})


def output_like(shape: list[int]) -> Any:
    return (
        fluid.default_main_program().current_block().create_var(name="custom", dtype="float64", shape=shape)
    )


def test_py_func() -> None:
    x, out = data("x", [2, 3], lod_level=1), output_like([2, 3])
    seen = []

    def forward(value: LoDTensor) -> Any:
        seen.append(value.recursive_sequence_lengths())
        return np.sin(np.asarray(value))

    def backward(value: LoDTensor, result: LoDTensor, gradient: LoDTensor) -> Any:
        return np.cos(np.asarray(value)) * np.asarray(gradient)

    layers.py_func(func=forward, x=x, out=out, backward_func=backward)
    check_gradients(out, {"x": rows(RNG.rand(2, 3), [2])}, ["x"])
    assert seen[0] == [[2]]
    assert layers.py_func.registered_func(layers.py_func.registered_func_num() - 2) is forward


def test_py_func_without_some_arguments() -> None:
    x, out = data("x", [2, 3]), output_like([2, 3])
    layers.py_func(
        lambda value: np.asarray(value) * 2,
        x,
        out,
        lambda gradient: np.asarray(gradient) * 2,
        skip_vars_in_backward_input=[x, out],
    )
    check_gradients(out, {"x": RNG.rand(2, 3)}, ["x"])


def test_py_func_without_inputs_or_outputs() -> None:
    out, calls = output_like([1]), []
    layers.py_func(lambda: np.array([3.0]), None, out)
    layers.py_func(calls.append, out, None)
    np.testing.assert_allclose(values([out])[0], [3.0])
    assert len(calls) == 1


def test_wrong_arguments_of_py_func() -> None:
    x = data("x", [2, 3])
    with pytest.raises(TypeError, match="must be a Python function"):
        layers.py_func(3, x, output_like([2, 3]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Output shapes of py_func"):
        layers.py_func(
            lambda value: value, x, fluid.default_main_program().current_block().create_var(dtype="float32")
        )
    with pytest.raises(ValueError, match="not found in forward inputs and outputs"):
        layers.py_func(
            lambda value: value,
            x,
            output_like([2, 3]),
            lambda value: value,
            skip_vars_in_backward_input=[data("y", [1])],
        )


def test_functions_that_return_too_little() -> None:
    layers.py_func(lambda value: [], data("x", [2, 3]), output_like([2, 3]))
    with pytest.raises(EnforceNotMet, match="returned 0 values for 1 outputs"):
        run(["custom"], {"x": RNG.rand(2, 3)})
