"""Loops and branches: what they compute, their gradients, and how mistakes are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flowtools import RNG, check_gradients, constant, data, op, repeat, rows, run, values

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite import layers
from fluidlite.errors import EnforceNotMet


# ---------------------------------------------------------------------- while
def test_while_with_arrays() -> None:
    x, w = data("x", [3, 2]), data("w", [2])
    steps = op(
        "lod_tensor_to_array", X=x, RankTable=layers.lod_rank_table(data("table", [3, 1], lod_level=1))
    )
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


SEVERAL: dict[str, Callable[[Any], list[Any]]] = {
    "split": lambda x: layers.split(layers.concat([layers.cos(x), layers.sin(x)], axis=-1), 2, dim=-1),
    "unstack": lambda x: layers.unstack(layers.stack([layers.cos(x), layers.sin(x)], axis=1), axis=1),
    "broadcast_tensors": lambda x: paddle.broadcast_tensors([layers.cos(x), layers.sin(x)]),
    "meshgrid": lambda x: [
        layers.reduce_sum(part, dim=[1 - at])
        for at, part in enumerate(paddle.meshgrid(layers.cos(x), layers.sin(x)))
    ],
}


@pytest.mark.parametrize("rounds", [None, 3])
@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("name", SEVERAL)
def test_one_of_several_results(name: str, used: int, rounds: int | None) -> None:
    """The others have gradients of zeros, also in the body of a loop."""
    x = data("x", [3])
    state = layers.scale(x, 1.1)
    if rounds is None:
        state = SEVERAL[name](state)[used]
    else:
        counter, limit = constant(0), constant(rounds)
        going = layers.less_than(counter, limit)
        with layers.While(going).block():
            layers.assign(layers.scale(SEVERAL[name](state)[used], 0.7), state)
            layers.increment(counter)
            layers.less_than(counter, limit, cond=going)
    check_gradients(state, {"x": RNG.rand(3)}, ["x"])


def test_gradient_of_what_a_loop_replaces() -> None:
    x, w = data("x", [2, 3]), data("w", [3, 3])
    out = repeat(constant(4), op("tanh", X=x), lambda state: op("tanh", X=op("mul", X=state, Y=w)))
    check_gradients(out, {"x": RNG.rand(2, 3), "w": RNG.rand(3, 3)}, ["x", "w"])


def test_number_of_steps_from_the_data() -> None:
    x, times = data("x", [2]), data("times", [1], "int64")
    out = repeat(times, op("scale", {"scale": 1.0}, X=x), lambda state: op("scale", {"scale": 2.0}, X=state))
    for count in (3, 1, 0):
        feeds = {"x": np.array([1.0, -2.0]), "times": np.array([count])}
        np.testing.assert_allclose(values([out], feeds)[0], feeds["x"] * 2**count)


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
        return [
            layers.increment(count),
            op("elementwise_mul", X=power, Y=x),
            op("scale", {"scale": 3.0}, X=power),
        ]

    last = constant(0, "float64", (3,))
    last.stop_gradient = False
    _, _, seen = layers.while_loop(
        lambda count, *rest: layers.less_than(count, constant(3)), body, [constant(0), start, last]
    )
    feeds = {"x": np.array([1.0, 2.0, -0.5])}
    np.testing.assert_allclose(values([seen], feeds)[0], 3 * feeds["x"] ** 4)
    check_gradients(seen, feeds, ["x"])


def test_branch_in_a_loop() -> None:
    x, w = data("x", [2, 2]), data("w", [2, 2])

    def step(state: Any) -> Any:
        total = op("reduce_sum", {"reduce_all": True}, X=state)
        return layers.cond(
            layers.less_than(total, constant(1.5, "float64")),
            lambda: op("mul", X=state, Y=w),
            lambda: op("tanh", X=state),
        )

    out = repeat(constant(4), op("scale", {"scale": 0.4}, X=x), step)
    check_gradients(out, {"x": RNG.rand(2, 2), "w": RNG.rand(2, 2) + 1}, ["x", "w"])


def test_loop_in_a_branch() -> None:
    x, flag = data("x", [2, 2]), data("flag", [1], "bool")
    out = layers.cond(
        flag,
        lambda: repeat(constant(3), op("scale", {"scale": 1.0}, X=x), lambda state: op("square", X=state)),
        lambda: op("tanh", X=x),
    )
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
    ((_, gradient),) = fluid.backward.append_backward(op("mean", X=out))
    scope = fluid.Scope()
    scope.var("table").set(np.zeros((5, 2), "float32"))
    (found,) = fluid.Executor(fluid.CPUPlace()).run(
        main, {"ids": np.array([[1], [4]])}, [gradient], scope=scope, return_numpy=False
    )
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

    _, state = layers.while_loop(
        lambda count, state: layers.less_than(count, constant(3)), body, [constant(0), start]
    )
    assert state is start
    np.testing.assert_allclose(np.ravel(values([state["a"], state["b"][0]])), [7, 2])


@pytest.mark.parametrize(
    "condition, error",
    [
        ("x", "condition should be a variable"),
        (lambda: constant(1), "boolean variable"),
        (lambda: constant(1, "bool", (2,)), "shape as"),
    ],
)
def test_wrong_conditions(condition: Any, error: str) -> None:
    with pytest.raises(TypeError, match=error):
        layers.While(condition() if callable(condition) else condition)


@pytest.mark.parametrize(
    "arguments, kind, message",
    [
        ((1, lambda n: [n], [1]), TypeError, "cond in while_loop should be callable"),
        ((lambda n: n, 1, [1]), TypeError, "body in while_loop should be callable"),
        ((lambda n: n, lambda n: n, 1), TypeError, "should be a list or tuple"),
        ((lambda n: n, lambda n: n, []), ValueError, "should not be empty"),
        ((lambda n: 1, lambda n: n, [1]), TypeError, "should return a variable"),
    ],
)
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
    out = layers.cond(
        which, lambda: op("mul", X=x, Y=w), lambda: op("tanh", X=op("mul", X=op("square", X=x), Y=u))
    )
    check_gradients(
        out,
        {"x": RNG.rand(2, 3), "w": RNG.rand(3, 2), "u": RNG.rand(3, 2), "which": np.array([flag])},
        ["x", "w", "u"],
    )


@pytest.mark.parametrize("is_naive", [False, True])
@pytest.mark.parametrize("flag", [True, False])
def test_gradient_of_branches_of_two_dtypes(flag: bool, is_naive: bool) -> None:
    """The gradient of a result that is float64 in one branch alone; PaddlePaddle 1.8.5 has that of one."""
    x, which = data("x", [3], "float32"), data("which", [1], "bool")
    x.stop_gradient = False
    out = layers.cond(which, lambda: layers.tanh(x), lambda: layers.square(layers.cast(x, "float64")))
    factor = data("factor", [3], out.dtype)
    (grad,) = fluid.gradients(out, x, factor)
    value, factors = np.array([0.5, -1.0, 2.0], "float32"), np.array([1.0, 2.0, -3.0])
    feeds = {"x": value, "which": np.array([flag]), "factor": factors.astype("float64")}
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = is_naive
    (found,) = exe.run(feed=feeds, fetch_list=[grad])
    slope = 1 - np.tanh(value) ** 2 if flag else 2 * value
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, factors * slope, rtol=1e-5)


def test_optimizers_in_branches(main: Any) -> None:
    """Each branch trains the same layer in its own way; the numbers are those of PaddlePaddle 1.8.5."""
    x, which = fluid.data(name="x", shape=[3, 4]), fluid.data(name="which", shape=[1], dtype="int32")
    start = fluid.initializer.NumpyArrayInitializer(np.arange(8).reshape(4, 2).astype("float32") / 10)

    def trained(factor: float, optimizer: Any) -> Any:
        out = layers.fc(
            x, 2, param_attr=fluid.ParamAttr(name="w", initializer=start), bias_attr=fluid.ParamAttr(name="b")
        )
        loss = layers.scale(layers.mean(layers.square(out)), factor)
        optimizer.minimize(loss)
        return loss

    loss = layers.switch_case(
        which,
        [lambda: trained(1.0, fluid.optimizer.SGD(0.1)), lambda: trained(2.0, fluid.optimizer.Adam(0.05))],
    )
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=scope)
    feed = np.arange(12).reshape(3, 4).astype("float32") / 12
    found = [
        exe.run(main, {"x": feed, "which": np.array([step % 2], "int32")}, [loss, "w"], scope=scope)
        for step in range(5)
    ]
    np.testing.assert_allclose(
        [step[0][0] for step in found], [0.68217593, 0.887403, 0.2689056, 0.35776734, 0.08303767], rtol=1e-5
    )
    np.testing.assert_allclose(
        found[-1][1].ravel()[:4], [-0.15512362, -0.07809357, 0.0355148, 0.10888776], rtol=1e-4
    )


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


@pytest.mark.parametrize(
    "true, false, message",
    [
        (lambda: constant(1), lambda: None, "true_fn returns non-None while false_fn returns None"),
        (lambda: None, lambda: constant(1), "true_fn returns None while false_fn returns non-None"),
        (lambda: [constant(1)], lambda: [constant(1), constant(2)], "Incompatible return values"),
    ],
)
def test_branches_that_do_not_match(true: Any, false: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layers.cond(data("which", [1], "bool"), true, false)


def test_wrong_arguments_of_cond() -> None:
    with pytest.raises(TypeError, match="'pred'"):
        layers.cond(data("number", [1], "int64"), lambda: None, lambda: None)
    with pytest.raises(TypeError, match="true_fn in cond must be callable"):
        layers.cond(data("which", [1], "bool"), 3, None)  # type: ignore[arg-type]


def test_first_condition_that_holds() -> None:
    x = data("x", [1], "int64")
    pairs = [
        (layers.less_than(x, constant(limit)), lambda limit=limit: constant(limit)) for limit in (1, 3, 5)
    ]
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
    numbered = isinstance(branches, dict) or isinstance(branches[0], tuple)
    known = dict(branches if numbered else enumerate(branches))
    found = [
        layers.switch_case(index, functions(branches), default=lambda: constant(-1)),
        layers.switch_case(index, functions(branches)),
    ]
    for key in (0, 1, 2, 4, 7):
        got = [int(value[0]) for value in values(found, {"index": np.array([key], "int32")})]
        assert got == [known.get(key, -1), known.get(key, known[max(known)])]


@pytest.mark.parametrize(
    "branches, kind, message",
    [
        (3, TypeError, "'branch_fns'"),
        ([(1, len), 2], TypeError, "The elements' type"),
        ([(1, len, 2)], TypeError, "The tuple's size"),
        ([("a", len)], TypeError, "The key's type"),
        ([(1, len), (1, len)], ValueError, "must be unique"),
        ([(1, 2)], TypeError, "function for key 1"),
    ],
)
def test_wrong_branches_of_switch_case(branches: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        layers.switch_case(data("index", [1], "int64"), branches)


@pytest.mark.parametrize(
    "pairs, message",
    [
        (3, "'pred_fn_pairs'"),
        ([3], "The elements' type"),
        ([(1, 2, 3)], "The tuple's size"),
        ([(1, len)], "The pred's type"),
    ],
)
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
    (out,) = split()
    feeds = {"x": RNG.rand(3, 2), "w": RNG.rand(2, 2), "choice": np.array(mask)[:, None]}
    wanted = np.where(feeds["choice"], feeds["x"] @ feeds["w"], feeds["x"] ** 2)
    np.testing.assert_allclose(values([out], feeds)[0], wanted)
    check_gradients(out, feeds, ["x", "w"])


@pytest.mark.parametrize("mask", [[True, False, True], [True, True, True], [False, False, False]])
def test_if_else_of_an_input_that_one_branch_alone_takes(mask: list[bool]) -> None:
    x, y, choice = data("x", [-1, 2]), data("y", [-1, 2]), data("choice", [-1, 1], "bool")
    split = layers.IfElse(choice)
    with split.true_block():
        split.output(layers.elementwise_mul(split.input(x), split.input(y)))
    with split.false_block():
        split.output(op("square", X=split.input(x)))
    (out,) = split()
    feeds = {"x": RNG.rand(3, 2), "y": RNG.rand(3, 2), "choice": np.array(mask)[:, None]}
    wanted = np.where(feeds["choice"], feeds["x"] * feeds["y"], feeds["x"] ** 2)
    np.testing.assert_allclose(values([out], feeds)[0], wanted)
    check_gradients(out, feeds, ["x", "y"])


def test_values_of_a_branch_that_did_not_run_are_not_zeros() -> None:
    x, choice = data("x", [-1, 2]), data("choice", [-1, 1], "bool")
    never = fluid.default_main_program().current_block().create_var(name="never", shape=[-1, 2])
    out = op("merge_lod_tensor", X=choice, Mask=choice, InTrue=x, InFalse=never)
    feeds = {"x": RNG.rand(1, 2), "choice": np.array([[True], [False]])}
    with pytest.raises(
        fluid.core.EnforceNotMet, match="InFalse was not computed, but Mask takes 1 of its rows"
    ):
        values([out], feeds)


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


# ---------------------------------------------------------------------- dynamic recurrences
def test_steps_of_paragraphs_are_sentences() -> None:
    x = data("x", [-1, 2], lod_level=2)
    recurrence = layers.DynamicRNN()
    with recurrence.block():
        sentence = recurrence.step_input(x)
        total = recurrence.memory(shape=[2], value=0.0, dtype="float64")
        new = layers.elementwise_add(total, op("sequence_pool", {"pooltype": "SUM"}, X=sentence))
        recurrence.update_memory(total, new)
        recurrence.output(new, layers.scale(sentence, 2.0))
    totals, doubled = recurrence()
    assert (sentence.lod_level, totals.lod_level, doubled.lod_level) == (1, 1, 2)
    last = op("sequence_pool", {"pooltype": "LAST"}, X=totals)
    words = RNG.rand(6, 2)
    feeds = {"x": rows(words, [1, 2], [2, 1, 3])}
    found = run([last, doubled], feeds)
    np.testing.assert_allclose(np.asarray(found[0]), [words[:2].sum(axis=0), words[2:].sum(axis=0)])
    assert found[1].recursive_sequence_lengths() == [[1, 2], [2, 1, 3]]
    check_gradients(last, feeds, ["x"])
