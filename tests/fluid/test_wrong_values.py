"""Values that cannot be meant, from the user's functions, feeds and arguments: each is one clear error."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite.errors import ArgumentError, FeedError, FluidError, KernelError, NotFoundError, ShapeError

L = fluid.layers
ONES = np.ones((2, 3), "float32")


@pytest.fixture(params=["plan", "naive"])
def exe(request: pytest.FixtureRequest) -> fluid.Executor:
    made = fluid.Executor(fluid.CPUPlace())
    made.naive = request.param == "naive"
    return made


class Mine(Exception):
    """An error of the user's own."""


def fails(value: Any) -> Any:
    raise Mine("of my own", 7)


def through_function(exe: fluid.Executor, function: Callable[..., Any], outputs: int) -> Any:
    """The results of a function of x in a program."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [2, 3], "float32")
        block = main.current_block()
        out = [block.create_var(name=f"out{i}", dtype="float32", shape=[2, 3]) for i in range(outputs)]
        L.py_func(function, x, out)
    return exe.run(main, feed={"x": ONES}, fetch_list=out)


def test_the_error_of_a_function_is_the_users_own(exe: fluid.Executor) -> None:
    with pytest.raises(Mine, match="of my own") as found:
        through_function(exe, fails, 1)
    assert type(found.value) is Mine and found.value.args == ("of my own", 7)


@pytest.mark.parametrize(
    "function, outputs, message",
    [
        (lambda x: None, 1, "the function returned None for the output 'out0'"),
        (lambda x: [np.asarray(x), None], 2, "the function returned None for the output 'out1'"),
        (np.asarray, 2, "the function returned 1 values for 2 outputs"),
        (lambda x: [np.asarray(x)] * 3, 2, "the function returned 3 values for 2 outputs"),
    ],
)
def test_a_function_returns_what_was_declared(
    function: Callable[..., Any], outputs: int, message: str, exe: fluid.Executor
) -> None:
    with pytest.raises(KernelError, match=message):
        through_function(exe, function, outputs)


@pytest.mark.parametrize("k", [0, -1, 4])
@pytest.mark.parametrize("size, variable", [(3, False), (None, False), (3, True)])
def test_more_largest_elements_than_there_are(
    k: int, size: int | None, variable: bool, exe: fluid.Executor
) -> None:
    paddle.enable_static()
    main = paddle.static.Program()
    with (
        paddle.static.program_guard(main, paddle.static.Program()),
        pytest.raises(ShapeError, match=rf"'top_k_v2': k is {k}, wanted 1 to 3, as X\[2, 3\] has along 1"),
    ):
        x = paddle.static.data("x", [2, size], "float32")
        found = paddle.topk(x, paddle.full([1], k, "int32") if variable else k)
        exe.run(main, feed={"x": ONES}, fetch_list=list(found))


@pytest.mark.parametrize(
    "value, message",
    [
        (
            np.array([[1, 2, 3]], dtype=object),
            "dtype object, which begins with 1; convert it to a numeric dtype",
        ),
        (np.array([["a", "b", "c"]], dtype=object), "dtype object, which begins with 'a'"),
        (np.array([[1.0, 2.0, 3.0], [1.0]], dtype=object), "the rows differ in length"),
        ([[1.0, 2.0, 3.0], [1.0]], "with list: .* inhomogeneous shape"),
    ],
)
def test_objects_are_no_numbers(value: Any, message: str, exe: fluid.Executor) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        out = L.scale(fluid.data("x", [None, 3], "float32"), 2.0)
    with pytest.raises(FeedError, match=message):
        exe.run(main, feed={"x": value}, fetch_list=[out])


@pytest.mark.parametrize("kind", ["first", "last", "sum", "average", "sqrt", "max"])
def test_pools_of_empty_sequences(kind: str, exe: fluid.Executor) -> None:
    main, place = fluid.Program(), fluid.CPUPlace()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [None, 3], "float32", lod_level=1)
        out = L.sequence_pool(x, kind, pad_value=0.5)
    empty = fluid.create_lod_tensor(ONES[:0], [[0, 0]], place)
    np.testing.assert_array_equal(exe.run(main, feed={"x": empty}, fetch_list=[out])[0], np.full((2, 3), 0.5))


def test_checkpoints_are_variables_of_the_program() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        hidden = L.fc(fluid.data("x", [None, 3], "float32"), 3)
        optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        optimizer._set_checkpoints([hidden, "fc_0.tmp_2"])
        with pytest.raises(
            NotFoundError, match=r"'fc_0.tmp_2' is not a variable .* did you mean 'fc_0.tmp_1'"
        ):
            optimizer.minimize(L.mean(hidden))


def test_a_model_with_an_lstm_is_saved(tmp_path: Path, exe: fluid.Executor) -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    data = np.random.default_rng(0).random((2, 5, 8)).astype("float32")
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        x = fluid.data("x", [2, 5, 8], "float32")
        zeros = L.fill_constant([1, 2, 16], "float32", 0.0)
        out, _, _ = L.lstm(L.transpose(x, [1, 0, 2]), zeros, zeros, 5, 16, 1, is_test=True)
        exe.run(startup)
        wanted = exe.run(main, feed={"x": data}, fetch_list=[out])
        fluid.io.save_inference_model(str(tmp_path / "model"), ["x"], [out], exe, main)
        fluid.io.save_persistables(exe, str(tmp_path / "all"), main)
    with fluid.scope_guard(fluid.Scope()):
        program, _, fetches = fluid.io.load_inference_model(str(tmp_path / "model"), exe)
        np.testing.assert_array_equal(exe.run(program, feed={"x": data}, fetch_list=fetches), wanted)


# ---------------------------------------------------------------------- NumPy on Variables
def test_an_array_of_a_variable_holds_the_variable() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        length = fluid.data("length", [1], "float32")
        found = np.array(length)
        assert found.dtype == object and found.shape == () and found.item() is length
        assert np.array([length, length]).shape == (2,)
        # of published speech models
        wanted = (np.array(length) - 3 + 2) / 2 + 1
    exe = fluid.Executor(fluid.CPUPlace())
    given = {"length": np.array([9], "float32")}
    assert exe.run(wanted.block.program, feed=given, fetch_list=[wanted])[0].tolist() == [5.0]


@pytest.mark.parametrize(
    "function", [np.sum, np.max, np.mean, np.prod, np.argmax, np.exp, np.sqrt, np.abs, np.dot, np.concatenate]
)
def test_functions_of_numbers_take_no_variables(function: Callable[..., Any]) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [1], "float32")
        given = {np.dot: (x, x), np.concatenate: ([x, x],)}.get(function, (x,))
        with pytest.raises(
            ArgumentError, match=f"np.{function.__name__} takes arrays, .* use functions of fluid"
        ):
            function(*given)
        with pytest.raises(ArgumentError, match="'x' .* is not an array"):
            np.array(x, "float32")


def test_names_that_old_programs_import() -> None:
    from fluidlite.contrib.quantize.quantize_transpiler import _original_var_name
    from fluidlite.dygraph.learning_rate_scheduler import LearningRateDecay

    names = ("a", "a.quantized", "a.dequantized", "a.quantized.dequantized", "a.scale", "a.quantized.scale")
    assert [_original_var_name(name) for name in names] == ["a", "a", "a", "a", "a", "a.quantized"]
    with pytest.raises(FluidError, match="LearningRateDecay"):
        LearningRateDecay()


@pytest.mark.parametrize(
    "kind", [ZeroDivisionError, IndexError, KeyError, TypeError, ValueError, UnicodeError]
)
def test_errors_of_kernels_keep_their_class(kind: type[Exception]) -> None:
    error = KernelError.of(kind("why"), "op 'x': why")
    assert isinstance(error, KernelError) and isinstance(error, ValueError if kind is UnicodeError else kind)
    assert str(error) == "op 'x': why" == str(pickle.loads(pickle.dumps(error)))
    assert type(KernelError.of(OSError("why"), "text")) is KernelError
