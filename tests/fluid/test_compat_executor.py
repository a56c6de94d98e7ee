"""Arguments and results of `Executor.run`, held to what PaddlePaddle 1.8.5 was seen to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import core, executor, layers

X = np.arange(8, dtype="float32").reshape(2, 4)
Y = np.ones((2, 1), "float32")
FEED = {"x": X, "y": Y}
W_AFTER = [-3.5, -4.7, -5.9, -7.1]


@pytest.fixture
def net() -> SimpleNamespace:
    """Linear regression with constant weights, a counter beside it, and a test program; its startup
    program has run.
    """
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = layers.data("x", [4]), layers.data("y", [1])
        weight = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.5))
        p = layers.fc(x, 1, param_attr=weight, bias_attr=fluid.ParamAttr(name="b"))
        counter = layers.autoincreased_step_counter()
        loss = layers.mean(layers.square_error_cost(p, y))
        opt = fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup, scope=scope)
    run = lambda fetch_list=None, feed=FEED, program=main, **options: exe.run(
        program, feed=feed, fetch_list=fetch_list, scope=scope, **options
    )
    return SimpleNamespace(
        main=main,
        startup=startup,
        test=main.clone(for_test=True),
        exe=exe,
        scope=scope,
        run=run,
        x=x,
        y=y,
        p=p,
        loss=loss,
        opt=opt,
        counter=counter,
        first=main.global_block().ops[0],
    )


def tensor(array: Any, lengths: list[list[int]] | None = None) -> fluid.LoDTensor:
    return fluid.create_lod_tensor(np.asarray(array), lengths or [], fluid.CPUPlace())


# ------------------------------------------------------------------------------------------------ fetch lists
FETCHES: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "variables": (lambda n: [n.loss, n.p], [[52.0], [[3], [11]]]),
    "a tuple of variables": (lambda n: (n.loss, n.p), [[52.0], [[3], [11]]]),
    "a name": (lambda n: "w", [np.c_[W_AFTER]]),
    "a variable": (lambda n: n.loss, [[52.0]]),
    "names and variables": (lambda n: ["mean_0.tmp_0", n.p], [[52.0], [[3], [11]]]),
    "the same twice": (lambda n: [n.loss, n.loss], [[52.0], [52.0]]),
    "a list in the list": (lambda n: [[n.loss, "b"]], [[52.0], [-1.2]]),
    "what minimize returned": (lambda n: [n.loss, n.opt], [[52.0]]),
    "only that": (lambda n: [n.opt], []),
    "its ops": (lambda n: n.opt[0], []),
    "one of its ops": (lambda n: [n.loss, n.opt[0][0]], [[52.0]]),
    "an empty list": (lambda n: [n.loss, []], [[52.0]]),
    "what is fed": (lambda n: [n.y], [[[1], [1]]]),
    "a gradient": (lambda n: ["b@GRAD"], [[12.0]]),
    "nothing": (lambda n: None, []),
}


@pytest.mark.parametrize("what", FETCHES)
def test_fetch_lists(net: SimpleNamespace, what: str) -> None:
    make, wanted = FETCHES[what]
    found = net.run(make(net))
    assert len(found) == len(wanted)
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, np.asarray(expected, "float32"), rtol=1e-5)
        assert value.shape == np.shape(expected)


@pytest.mark.parametrize(
    ("fetch_list", "error"),
    [
        (3, AssertionError),
        ({"a": "w"}, AssertionError),
        ({"w"}, AssertionError),
        ([3], TypeError),
        ([None], TypeError),
        ([b"w"], TypeError),
        ([["w", 3]], TypeError),
        ([[["w"], "b"]], TypeError),
        (["nope"], core.EnforceNotMet),
    ],
)
def test_wrong_fetch_lists(net: SimpleNamespace, fetch_list: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        net.run(fetch_list)


def test_only_optimizer_ops_are_fetched(net: SimpleNamespace) -> None:
    for wrong in ([net.first], [net.loss, [net.opt[0][0], net.first]], net.opt, [net.opt[1]]):
        with pytest.raises(TypeError):
            net.run(wrong)


def test_tensor_arrays_are_fetched_as_lists() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        array = layers.array_write(
            layers.fill_constant([2], "float32", 3.0), layers.fill_constant([1], "int64", 0)
        )
        layers.array_write(
            layers.fill_constant([1], "float32", 4.0), layers.fill_constant([1], "int64", 1), array
        )
    exe = fluid.Executor(fluid.CPUPlace())
    (arrays,), (tensors,) = (
        exe.run(program, fetch_list=[array], return_numpy=kind) for kind in (True, False)
    )
    assert type(arrays) is list and [item.tolist() for item in arrays] == [[3, 3], [4]]
    assert type(tensors) is list and all(isinstance(item, fluid.LoDTensor) for item in tensors)


# ------------------------------------------------------------------------------------------------ feeds
@pytest.mark.parametrize(
    ("feed", "error"),
    [
        (3, TypeError),
        ("x", TypeError),
        ([3], TypeError),
        ([], AssertionError),
        ([FEED, FEED], AssertionError),
        ({"x": X}, core.EnforceNotMet),
        ({}, core.EnforceNotMet),
        ({"x": X[:, :3], "y": Y}, core.EnforceNotMet),
        ({"x": X, "y": np.ones((3, 1), "float32")}, core.EnforceNotMet),
        ({"x": X, "y": None}, core.EnforceNotMet),
        ({"x": [[1.0, 2.0], [3.0]], "y": Y}, RuntimeError),
        ({"x": fluid.LoDTensor(), "y": Y}, core.EnforceNotMet),
        ({"x": tensor(X, [[1, 1]]), "y": Y}, RuntimeError),
    ],
)
@pytest.mark.filterwarnings("ignore::fluidlite.errors.FluidWarning")
def test_wrong_feeds(net: SimpleNamespace, feed: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        net.run([net.loss, net.p], feed)


@pytest.mark.parametrize(
    "feed", [FEED, [FEED], (FEED,), {"x": tensor(X), "y": tensor(Y)}, {"x": X, "y": 1.0}]
)
def test_feeds(net: SimpleNamespace, feed: Any) -> None:
    assert net.run([net.loss], feed)[0].tolist() == [52.0]


def test_what_the_program_does_not_have_is_not_fed(net: SimpleNamespace) -> None:
    with pytest.warns(
        UserWarning, match="The variable zz is not found in program. It is not declared or is pruned."
    ):
        assert net.run([net.loss], {**FEED, "zz": X})[0].tolist() == [52.0]
    with pytest.warns(UserWarning, match="is not found in program"):
        assert net.exe.run(fluid.Program(), feed={"a": X}) == []


def test_parameters_can_be_fed(net: SimpleNamespace) -> None:
    assert net.run([net.p], {**FEED, "w": np.full((4, 1), 2, "float32")}, net.test)[0].tolist() == [
        [12],
        [44],
    ]


FITS = {
    (-1, 1): [(2,), (2, 1), (1,)],
    (-1,): [(2,), (1,)],
    (-1, 1, 1): [(2,), (2, 1), (2, 1, 1), (1,)],
    (2, 1): [(2,), (2, 1)],
    (-1, 2): [(2,), (1, 2), (1,)],
    (1, -1): [(1, 2), (1,)],
    (-1, -1): [(2,), (2, 1), (1, 2), (1,)],
    (1,): [(1,)],
    (1, 2, 1): [(1, 2), (1,), (1, 2, 1)],
}


@pytest.mark.parametrize("declared", FITS)
def test_data_checks_the_shape_as_far_as_it_goes(declared: Sequence[int]) -> None:
    program = fluid.Program()
    with fluid.program_guard(program):
        var = fluid.data("d", list(declared), "float32")
    shapes = [(2,), (2, 1), (2, 1, 1), (1, 2), (1,), (), (1, 2, 1)]
    for shape in shapes:
        if shape in FITS[tuple(declared)]:
            assert executor.check_feed_shape_type(var, tensor(np.ones(shape, "float32"))) is True
        else:
            with pytest.raises(
                ValueError,
                match=r"The fed Variable 'd' should have dimensions = .* but received fed shape .* on each "
                r"device",
            ):
                executor.check_feed_shape_type(var, np.ones(shape, "float32"))


def test_data_checks_the_type() -> None:
    program = fluid.Program()
    with fluid.program_guard(program):
        fed, free = fluid.data("d", [4, 4], "float32"), layers.data("e", [4])
    with pytest.raises(
        ValueError, match="The data type of fed Variable 'd' must be 'float32', but received 'float64'"
    ):
        executor.check_feed_shape_type(fed, np.ones((4, 4)))
    with pytest.raises(ValueError, match=r"received fed shape \[2, 4\] on each device"):
        executor.check_feed_shape_type(fed, np.ones((4, 4), "float32"), 2)
    assert executor.check_feed_shape_type(free, np.ones(7)) is True
    out = fluid.Executor(fluid.CPUPlace()).run(
        program, feed={"d": np.ones((4, 4), "float32"), "e": X}, fetch_list=["d"]
    )
    assert out[0].shape == (4, 4)


@pytest.mark.parametrize(
    ("dtype", "value", "found"),
    [
        ("float32", 3.0, [3]),
        ("int64", 3, [3]),
        ("float32", 3, [3]),
        ("float32", np.float32(3), [3]),
        ("bool", True, [True]),
    ],
)
def test_numbers_are_fed_with_one_dimension(dtype: str, value: Any, found: list[Any]) -> None:
    program = fluid.Program()
    with fluid.program_guard(program):
        fluid.data("d", [1], dtype)
    (out,) = fluid.Executor(fluid.CPUPlace()).run(program, feed={"d": value}, fetch_list=["d"])
    assert out.tolist() == found and out.dtype == dtype


def test_as_lodtensor_takes_no_lists() -> None:
    place = fluid.CPUPlace()
    with pytest.raises(RuntimeError, match="Some of your feed data hold LoD information"):
        executor._as_lodtensor([1, 2], place, "float32")
    with pytest.raises(AssertionError, match="dtype should be given when casting python scalar to tensor"):
        executor._as_lodtensor(3, place)
    assert np.array(executor._as_lodtensor(3, place, "float32")).tolist() == [3.0]
    assert np.array(executor._as_lodtensor(np.ones(2), place, "float32")).dtype == "float64"


# ------------------------------------------------------------------------------------------------ pruning
def weight(net: SimpleNamespace) -> float:
    return float(np.array(net.scope.find_var("w").get_tensor())[0, 0])


PRUNED: dict[str, tuple[Callable[[Any], Any], bool, int]] = {
    # with use_prune: the fetch list, whether `w` is updated, and what the counter says then
    "the loss": (lambda n: [n.loss], True, 0),
    "a prediction": (lambda n: [n.p], True, 0),
    "the loss and the updates": (lambda n: [n.loss, n.opt], True, 0),
    "the loss and the update of b": (lambda n: [n.loss, n.opt[0][0]], False, 0),
    "the counter": (lambda n: [n.counter], True, 1),
    "nothing": (lambda n: [], True, 0),
}


@pytest.mark.parametrize("what", PRUNED)
def test_use_prune(net: SimpleNamespace, what: str) -> None:
    make, updated, count = PRUNED[what]
    assert net.opt[0][0].output("ParamOut") == ["b"]
    net.run(make(net), use_prune=True)
    assert weight(net) == pytest.approx(W_AFTER[0] if updated else 0.5)
    assert np.array(net.scope.find_var("@STEP_COUNTER@").get_tensor()).tolist() == [count]


def test_use_prune_needs_no_feeds_that_the_fetches_do_not(net: SimpleNamespace) -> None:
    assert net.run([net.p], {"x": X}, net.test, use_prune=True)[0].tolist() == [[3], [11]]
    with pytest.raises(core.EnforceNotMet):
        net.run([net.p], {"x": X}, net.test)
    assert net.run([net.loss], {"fc_0.tmp_1": Y, "y": Y}, net.test, use_prune=True)[0].tolist() == [0]


# ---------- the rest of the contract
def test_programs_places_and_closing(net: SimpleNamespace) -> None:
    for wrong in ("abc", 3):
        with pytest.raises(TypeError):
            net.exe.run(wrong)
    with pytest.raises(TypeError):
        fluid.Executor("cpu")
    with pytest.raises(core.EnforceNotMet):
        net.exe.run(net.main, feed=FEED, fetch_list=[net.loss], scope=fluid.Scope())
    net.exe.close()
    net.exe.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Executor"):
        net.exe.run(net.startup)


def test_as_numpy() -> None:
    assert executor.as_numpy(fluid.LoDTensor()) is None
    assert [item.tolist() for item in executor.as_numpy([tensor([1.0]), tensor([2.0])])] == [[1], [2]]
    for wrong in (X, 3, None, fluid.core.SelectedRows([1], 3)):
        with pytest.raises(AssertionError):
            executor.as_numpy(wrong)
    with pytest.raises(RuntimeError, match="Some of your fetched tensors hold LoD information"):
        executor.as_numpy(tensor(X, [[1, 1]]))


def test_fetch_var(net: SimpleNamespace) -> None:
    assert executor._fetch_var("w", net.scope).tolist() == [[0.5]] * 4
    assert isinstance(executor._fetch_var("w", net.scope, return_numpy=False), fluid.LoDTensor)
    for wrong in ("nope", 3):
        with pytest.raises(AssertionError):
            executor._fetch_var(wrong, net.scope)


def test_feed_and_fetch_ops_are_told(net: SimpleNamespace) -> None:
    program, block = net.test.clone(), net.test.global_block()
    assert not executor.has_feed_operators(block, FEED, "feed") and not executor.has_fetch_operators(
        block, [net.loss], "fetch"
    )
    fluid.io.prepend_feed_ops(program, ["x", "y"])
    fluid.io.append_fetch_ops(program, [net.loss.name])
    block = program.global_block()
    assert executor.has_feed_operators(block, FEED, "feed") and executor.has_fetch_operators(
        block, [net.loss], "fetch"
    )
    with pytest.raises(Exception, match="'feed_targets' does not have y variable"):
        executor.has_feed_operators(block, {"x": X}, "feed")
    with pytest.raises(Exception, match="Feed operators in program desc do not match 'feed_targets'"):
        executor.has_feed_operators(block, {**FEED, "z": X}, "feed")
    with pytest.raises(Exception, match="'fetch_targets' does not have mean_0.tmp_0 variable"):
        executor.has_fetch_operators(block, [net.p], "fetch")


def test_small_helpers() -> None:
    pairs = [((2, 3), (2, 3)), ((-1, 3), (2, 3)), ((2, 3), (-1, 3)), ((2,), (2, 3)), ((2, 3), (2, 4))]
    assert [executor.dimension_is_compatible_with(*pair) for pair in pairs] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert (
        executor._to_name_str("a") == "a"
        and executor._get_program_cache_key(FEED, ["w"]) == "['x', 'y', 'w']"
    )
    for wrong in (b"a", 3):
        with pytest.raises(TypeError):
            executor._to_name_str(wrong)
