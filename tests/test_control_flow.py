"""Loops, branches, recurrences and arrays: what they compute, their gradients, and how mistakes are told."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optest import differences

import fluidlite as fluid
from fluidlite import layers
from fluidlite.errors import AssertError, EnforceNotMet
from fluidlite.tensor import LoDTensor, offsets_of

RNG = np.random.RandomState(11)


@pytest.fixture(autouse=True)
def main() -> Any:
    """A fresh main program."""
    program = fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(program, fluid.Program()):
        yield program


def data(name: str, shape: list[int], dtype: str = "float64", lod_level: int = 0) -> Any:
    var = fluid.data(name=name, shape=shape, dtype=dtype, lod_level=lod_level)
    var.stop_gradient = dtype != "float64"
    return var


def op(kind: str, attrs: dict[str, Any] | None = None, **inputs: Any) -> Any:
    """The output of an op that is appended without a layer."""
    block = fluid.default_main_program().current_block()
    first = next(iter(inputs.values()))
    out = block.create_var(dtype=(first[0] if isinstance(first, list) else first).dtype)
    block.append_op(type=kind, inputs=inputs, outputs={"Out": [out]}, attrs=attrs or {})
    return out


def constant(value: float, dtype: str = "int64", shape: tuple[int, ...] = (1,)) -> Any:
    return layers.fill_constant(shape=list(shape), dtype=dtype, value=value)


def run(fetches: list[Any], feeds: dict[str, Any] | None = None, program: Any = None) -> list[Any]:
    found: list[Any] = fluid.Executor(fluid.CPUPlace()).run(program or fluid.default_main_program(), feeds or {}, fetches,
                                                            scope=fluid.Scope(), return_numpy=False)
    return found


def values(fetches: list[Any], feeds: dict[str, Any] | None = None) -> list[np.ndarray]:
    return [np.asarray(found) for found in run(fetches, feeds)]


def rows(array: np.ndarray, *lengths: list[int]) -> LoDTensor:
    return LoDTensor(array, offsets_of(lengths))


def check_gradients(out: Any, feeds: dict[str, Any], names: list[str]) -> None:
    """The gradients of `out`'s squares equal central differences."""
    loss = op("mean", X=op("square", X=out))
    forward = fluid.default_main_program().clone()
    fluid.backward.append_backward(loss)
    for name, found in zip(names, values([f"{name}@GRAD" for name in names], feeds), strict=True):
        wanted = differences(lambda feed: float(np.asarray(run([loss.name], feed, forward)[0]).sum()), feeds, name, 1e-5)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-8, err_msg=name)


# ---------------------------------------------------------------------- while
def repeat(times: Any, start: Any, step: Callable[[Any], Any]) -> Any:
    """`step` applied `times` times to `start`."""
    def body(count: Any, state: Any) -> list[Any]:
        return [layers.increment(count), step(state)]
    return layers.while_loop(lambda count, state: layers.less_than(count, times), body, [constant(0), start])[1]


def test_while_with_arrays() -> None:
    x, w = data("x", [3, 2]), data("w", [2])
    steps = op("lod_tensor_to_array", X=x, RankTable=layers.lod_rank_table(data("table", [3, 1], lod_level=1)))
    counter, limit = constant(0), constant(3)
    memory = layers.array_write(constant(1, "float64", (1, 2)), i=counter)
    going = layers.less_than(counter, limit)
    loop = layers.While(going)
    with loop.block():
        new = op("elementwise_mul", {"axis": -1}, X=layers.array_read(memory, counter), Y=w)
        new = op("elementwise_add", X=new, Y=layers.array_read(steps, counter))
        counter = layers.increment(counter)
        layers.array_write(new, i=counter, array=memory)
        layers.less_than(counter, limit, cond=going)
    feeds = {"x": rows(RNG.rand(3, 2), [3]), "w": RNG.rand(2), "table": rows(np.zeros((3, 1)), [3])}
    last = layers.array_read(memory, counter)
    state = np.ones((1, 2))
    for row in np.asarray(feeds["x"]):
        state = state * feeds["w"] + row
    np.testing.assert_allclose(values([last], feeds)[0], state)
    check_gradients(last, feeds, ["x", "w"])


def test_gradient_of_what_a_loop_replaces() -> None:
    x, w = data("x", [2, 3]), data("w", [3, 3])
    out = repeat(constant(4), op("tanh", X=x), lambda state: op("tanh", X=op("mul", X=state, Y=w)))
    check_gradients(out, {"x": RNG.rand(2, 3), "w": RNG.rand(3, 3)}, ["x", "w"])


def test_number_of_steps_from_the_data() -> None:
    x, times = data("x", [2]), data("times", [1], "int64")
    out = repeat(times, op("scale", {"scale": 1.0}, X=x), lambda state: op("scale", {"scale": 2.0}, X=state))
    for count in (3, 1, 0):
        feeds = {"x": np.array([1.0, -2.0]), "times": np.array([count])}
        np.testing.assert_allclose(values([out], feeds)[0], feeds["x"] * 2 ** count)


def test_gradient_of_no_steps() -> None:
    x, w = data("x", [2, 2]), data("w", [2, 2])
    out = repeat(constant(0), op("square", X=x), lambda state: op("mul", X=state, Y=w))
    check_gradients(out, {"x": RNG.rand(2, 2), "w": RNG.rand(2, 2)}, ["x", "w"])


def test_loop_in_a_loop() -> None:
    x, w = data("x", [2, 2]), data("w", [2, 2])

    def outer(state: Any) -> Any:
        inner = repeat(constant(2), op("tanh", X=state), lambda deep: op("mul", X=deep, Y=w))
        return op("elementwise_add", X=inner, Y=state)
    out = repeat(constant(3), op("scale", {"scale": 0.5}, X=x), outer)
    check_gradients(out, {"x": RNG.rand(2, 2), "w": RNG.rand(2, 2)}, ["x", "w"])


def test_only_the_last_step_of_what_is_not_read_counts() -> None:
    x = data("x", [3])
    start = op("square", X=x)

    def body(count: Any, power: Any, seen: Any) -> list[Any]:
        return [layers.increment(count), op("elementwise_mul", X=power, Y=x), op("scale", {"scale": 3.0}, X=power)]
    last = constant(0, "float64", (3,))
    last.stop_gradient = False
    _, _, seen = layers.while_loop(lambda count, *rest: layers.less_than(count, constant(3)), body,
                                   [constant(0), start, last])
    feeds = {"x": np.array([1.0, 2.0, -0.5])}
    np.testing.assert_allclose(values([seen], feeds)[0], 3 * feeds["x"] ** 4)
    check_gradients(seen, feeds, ["x"])


def test_branch_in_a_loop() -> None:
    x, w = data("x", [2, 2]), data("w", [2, 2])

    def step(state: Any) -> Any:
        total = op("reduce_sum", {"reduce_all": True}, X=state)
        return layers.cond(layers.less_than(total, constant(1.5, "float64")), lambda: op("mul", X=state, Y=w),
                           lambda: op("tanh", X=state))
    out = repeat(constant(4), op("scale", {"scale": 0.4}, X=x), step)
    check_gradients(out, {"x": RNG.rand(2, 2), "w": RNG.rand(2, 2) + 1}, ["x", "w"])


def test_loop_in_a_branch() -> None:
    x, flag = data("x", [2, 2]), data("flag", [1], "bool")
    out = layers.cond(flag, lambda: repeat(constant(3), op("scale", {"scale": 1.0}, X=x), lambda state: op("square", X=state)),
                      lambda: op("tanh", X=x))
    feeds = {"x": RNG.rand(2, 2), "flag": np.array([True])}
    np.testing.assert_allclose(values([out], feeds)[0], feeds["x"] ** 8)
    check_gradients(out, feeds, ["x"])


def test_sparse_gradients_add_up_over_steps(main: Any) -> None:
    table = main.global_block().create_parameter(name="table", shape=[5, 2], dtype="float32")
    ids = data("ids", [2, 1], "int64")

    def step(state: Any) -> Any:
        row = op("lookup_table", {"is_sparse": True, "padding_idx": -1}, W=table, Ids=ids)
        return op("elementwise_add", X=state, Y=row)
    out = repeat(constant(3), constant(0, "float32", (2, 2)), step)
    out.stop_gradient = False
    (_, gradient), = fluid.backward.append_backward(op("mean", X=out))
    scope = fluid.Scope()
    scope.var("table").set(np.zeros((5, 2), "float32"))
    found, = fluid.Executor(fluid.CPUPlace()).run(main, {"ids": np.array([[1], [4]])}, [gradient], scope=scope, return_numpy=False)
    np.testing.assert_allclose(found.dense(np), np.array([0, 1, 0, 0, 1])[:, None] * np.full((5, 2), 0.75))


def test_loop_that_never_ends_is_an_error() -> None:
    going = layers.less_than(constant(0), constant(1))
    loop = layers.While(going)
    with loop.block():
        layers.increment(constant(0))
    with pytest.raises(EnforceNotMet, match=r"never writes its condition '.*'[\s\S]*test_control_flow.py"):
        run([going])


def test_structures_of_loop_variables() -> None:
    start = {"a": constant(1, "float64"), "b": [constant(2, "float64")]}

    def body(count: Any, state: Any) -> Any:
        state["a"] = op("elementwise_add", X=state["a"], Y=state["b"][0])
        return [layers.increment(count), state]
    _, state = layers.while_loop(lambda count, state: layers.less_than(count, constant(3)), body, [constant(0), start])
    assert state is start
    np.testing.assert_allclose(np.ravel(values([state["a"], state["b"][0]])), [7, 2])


@pytest.mark.parametrize("condition, error", [("x", "condition should be a variable"), (lambda: constant(1), "boolean variable"),
                                              (lambda: constant(1, "bool", (2,)), "shape as")])
def test_wrong_conditions(condition: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        layers.While(condition() if callable(condition) else condition)


@pytest.mark.parametrize("arguments, kind, message", [
    ((1, lambda n: [n], [1]), TypeError, "cond in while_loop should be callable"),
    ((lambda n: n, 1, [1]), TypeError, "body in while_loop should be callable"),
    ((lambda n: n, lambda n: n, 1), TypeError, "should be a list or tuple"),
    ((lambda n: n, lambda n: n, []), ValueError, "should not be empty"),
    ((lambda n: 1, lambda n: n, [1]), TypeError, "should return a variable"),
])
def test_wrong_while_loops(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        layers.while_loop(*arguments)


def test_body_of_another_arity() -> None:
    count = constant(0)
    with pytest.raises(ValueError, match="same arity"):
        layers.while_loop(lambda n: layers.less_than(n, constant(3)), lambda n: [n, n], [count])


# ---------------------------------------------------------------------- branches
@pytest.mark.parametrize("flag", [True, False])
def test_gradient_of_a_branch(flag: bool) -> None:
    x, w, u, which = data("x", [2, 3]), data("w", [3, 2]), data("u", [3, 2]), data("which", [1], "bool")
    out = layers.cond(which, lambda: op("mul", X=x, Y=w), lambda: op("tanh", X=op("mul", X=op("square", X=x), Y=u)))
    check_gradients(out, {"x": RNG.rand(2, 3), "w": RNG.rand(3, 2), "u": RNG.rand(3, 2), "which": np.array([flag])}, ["x", "w", "u"])


def test_structures_of_branches() -> None:
    which = data("which", [1], "bool")
    one, two = constant(1), constant(2)
    found = layers.cond(which, lambda: (one, [two]), lambda: (two, [one]))
    for flag in (True, False):
        got = values([found[0], found[1][0]], {"which": np.array([flag])})
        assert [int(value[0]) for value in got] == ([1, 2] if flag else [2, 1])


def test_branches_without_result() -> None:
    which, target = data("which", [1], "bool"), layers.fill_constant([1], "int64", 5)
    assert layers.cond(which, lambda: layers.assign(constant(7), target) and None, lambda: None) is None
    assert [int(values([target], {"which": np.array([flag])})[0][0]) for flag in (True, False)] == [7, 5]


@pytest.mark.parametrize("true, false, message", [
    (lambda: constant(1), lambda: None, "true_fn returns non-None while false_fn returns None"),
    (lambda: None, lambda: constant(1), "true_fn returns None while false_fn returns non-None"),
    (lambda: [constant(1)], lambda: [constant(1), constant(2)], "Incompatible return values"),
])
def test_branches_that_do_not_match(true: Any, false: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layers.cond(data("which", [1], "bool"), true, false)


def test_wrong_arguments_of_cond() -> None:
    with pytest.raises(TypeError, match="'pred'"):
        layers.cond(data("number", [1], "int64"), lambda: None, lambda: None)
    with pytest.raises(TypeError, match="true_fn in cond must be callable"):
        layers.cond(data("which", [1], "bool"), 3, None)                                       # type: ignore[arg-type]


def test_first_condition_that_holds() -> None:
    x = data("x", [1], "int64")
    pairs = [(layers.less_than(x, constant(limit)), lambda limit=limit: constant(limit)) for limit in (1, 3, 5)]
    with_default = layers.case(pairs, default=lambda: constant(-1))
    without = layers.case(pairs)
    for value, wanted in ((0, (1, 1)), (2, (3, 3)), (4, (5, 5)), (9, (-1, 5))):
        got = values([with_default, without], {"x": np.array([value])})
        assert tuple(int(item[0]) for item in got) == wanted


@pytest.mark.parametrize("branches", [{1: 10, 4: 40, 2: 20}, [(1, 10), (4, 40), (2, 20)], [0, 10, 20]])
def test_switch_case(branches: Any) -> None:
    def functions(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: functions(item) for key, item in value.items()}
        if isinstance(value, list):
            return [functions(item) for item in value]
        return (value[0], functions(value[1])) if isinstance(value, tuple) else (lambda: constant(value))
    index = data("index", [1], "int32")
    known = branches if isinstance(branches, dict) else dict(branches) if isinstance(branches[0], tuple) else dict(enumerate(branches))
    found = [layers.switch_case(index, functions(branches), default=lambda: constant(-1)),
             layers.switch_case(index, functions(branches))]
    for key in (0, 1, 2, 4, 7):
        got = [int(value[0]) for value in values(found, {"index": np.array([key], "int32")})]
        assert got == [known.get(key, -1), known.get(key, known[max(known)])]


@pytest.mark.parametrize("branches, kind, message", [
    (3, TypeError, "'branch_fns'"), ([(1, len), 2], TypeError, "The elements' type"), ([(1, len, 2)], TypeError, "The tuple's size"),
    ([("a", len)], TypeError, "The key's type"), ([(1, len), (1, len)], ValueError, "must be unique"),
    ([(1, 2)], TypeError, "function for key 1"),
])
def test_wrong_branches_of_switch_case(branches: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        layers.switch_case(data("index", [1], "int64"), branches)


@pytest.mark.parametrize("pairs, message", [
    (3, "'pred_fn_pairs'"), ([3], "The elements' type"), ([(1, 2, 3)], "The tuple's size"), ([(1, len)], "The pred's type")])
def test_wrong_pairs_of_case(pairs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        layers.case(pairs)


def test_switch_assigns_in_one_block() -> None:
    x, target = data("x", [1], "int64"), constant(0)
    with layers.Switch() as switch:
        with switch.case(layers.less_than(x, constant(1))):
            layers.assign(constant(10), target)
        with switch.case(layers.less_than(x, constant(5))):
            layers.assign(constant(20), target)
        with switch.default():
            layers.assign(constant(30), target)
    assert [int(values([target], {"x": np.array([value])})[0][0]) for value in (0, 3, 8)] == [10, 20, 30]


def test_switch_without_default_leaves_the_rest() -> None:
    x, target = data("x", [1], "int64"), constant(4)
    with layers.Switch() as switch, switch.case(layers.less_than(x, constant(1))):
        layers.assign(constant(10), target)
    assert [int(values([target], {"x": np.array([value])})[0][0]) for value in (0, 3)] == [10, 4]


def test_wrong_use_of_switch() -> None:
    switch = layers.Switch()
    with pytest.raises(ValueError, match="inside with"):
        switch.case(data("which", [1], "bool"))
    with pytest.raises(ValueError, match="at least one condition"):
        switch.default()


@pytest.mark.parametrize("mask", [[True, False, True], [True, True, True], [False, False, False]])
def test_if_else(mask: list[bool]) -> None:
    x, w, choice = data("x", [-1, 2]), data("w", [2, 2]), data("choice", [-1, 1], "bool")
    split = layers.IfElse(choice)
    with split.true_block():
        split.output(op("mul", X=split.input(x), Y=w))
    with split.false_block():
        split.output(op("square", X=split.input(x)))
    out, = split()
    feeds = {"x": RNG.rand(3, 2), "w": RNG.rand(2, 2), "choice": np.array(mask)[:, None]}
    wanted = np.where(feeds["choice"], feeds["x"] @ feeds["w"], feeds["x"] ** 2)
    np.testing.assert_allclose(values([out], feeds)[0], wanted)
    check_gradients(out, feeds, ["x", "w"])


def test_wrong_use_of_if_else() -> None:
    split = layers.IfElse(data("choice", [-1, 1], "bool"))
    with pytest.raises(ValueError, match="must in true/false blocks"):
        split.input(data("x", [-1, 2]))
    with pytest.raises(ValueError, match="only be invoked in the sub-block"):
        split.output(data("y", [-1, 2]))
    with pytest.raises(ValueError, match="Must invoke true_block/false_block"):
        split()
    with pytest.raises(ValueError, match="Must set output inside block"), split.true_block():
        pass


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
    x, start, w, u = data("x", [-1, 2], lod_level=1), data("start", [-1, 3]), data("w", [2, 3]), data("u", [3, 3])
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
    feeds = {"x": rows(RNG.rand(7, 2), lengths), "start": RNG.rand(3, 3), "w": RNG.rand(2, 3), "u": RNG.rand(3, 3)}
    found = run([out, counts], feeds)
    wanted, doubled = [], []
    for sequence, stop in enumerate(np.cumsum(lengths)):
        state = feeds["start"][sequence]
        for step in range(lengths[sequence]):
            row = np.asarray(feeds["x"])[stop - lengths[sequence] + step]
            state = np.tanh(row @ feeds["w"] + state @ feeds["u"] + feeds["start"][sequence])
            wanted.append(state)
            doubled.append([2.0 ** step] * 3)
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
    block.append_op(type="tensor_array_to_tensor", inputs={"X": [array]}, outputs={"Out": [out], "OutIndex": [sizes]},
                    attrs={"axis": axis, "use_stack": use_stack})
    feed = RNG.rand(2, 3)
    wanted = (np.stack if use_stack else np.concatenate)([feed, feed ** 2], axis)
    found = values([out, sizes], {"x": feed})
    np.testing.assert_allclose(found[0], wanted)
    assert found[1].tolist() == ([1, 1] if use_stack else [feed.shape[axis]] * 2)
    check_gradients(out, {"x": feed}, ["x"])


@pytest.mark.parametrize("lengths", [[[2, 4, 1]], [[2, 1], [1, 3, 2]]])
def test_sequences_to_arrays_and_back(lengths: list[list[int]]) -> None:
    x = data("x", [-1, 2], lod_level=len(lengths))
    table = layers.control_flow.lod_rank_table(x)
    array = layers.control_flow.lod_tensor_to_array(x, table)
    back = layers.control_flow.array_to_lod_tensor(array, table)
    feeds = {"x": rows(RNG.rand(sum(lengths[-1]), 2), *lengths)}
    longest, first, found = run([layers.control_flow.max_sequence_len(table), layers.array_read(array, constant(0)), back], feeds)
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
    assert head == [["hello", "The place is:CPUPlace"], ["", "The place is:CPUPlace"], ["hello", "The place is:CPUPlace"]]
    assert "Tensor[x]\n\tshape: [2,3,]\n\tdtype: d\n\tdata: 1,2,3,4.5,\n" in text
    assert f"Tensor[{shown.name}@GRAD]\n\tshape: [2,3,]\n\tdtype: d\n\tdata: 0.166667,0.166667,0.166667,0.166667,\n" in text
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
    with pytest.raises(AssertError, match=r"is false\n  x \[1\]: 2.5,\n  built at .*test_control_flow.py"):
        run([x], {"x": np.array([2.5])})


def output_like(shape: list[int]) -> Any:
    return fluid.default_main_program().current_block().create_var(name="custom", dtype="float64", shape=shape)


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
    layers.py_func(lambda value: np.asarray(value) * 2, x, out, lambda gradient: np.asarray(gradient) * 2,
                   skip_vars_in_backward_input=[x, out])
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
        layers.py_func(3, x, output_like([2, 3]))                                              # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Output shapes of py_func"):
        layers.py_func(lambda value: value, x, fluid.default_main_program().current_block().create_var(dtype="float32"))
    with pytest.raises(ValueError, match="not found in forward inputs and outputs"):
        layers.py_func(lambda value: value, x, output_like([2, 3]), lambda value: value, skip_vars_in_backward_input=[data("y", [1])])


def test_functions_that_return_too_little() -> None:
    layers.py_func(lambda value: [], data("x", [2, 3]), output_like([2, 3]))
    with pytest.raises(EnforceNotMet, match="returned 0 values for 1 outputs"):
        run(["custom"], {"x": RNG.rand(2, 3)})
