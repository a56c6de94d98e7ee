"""`paddle.static`: names, programs, models and states as files, branches, and what the door refuses."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.errors import SlotError, UnknownOpError
from fluidlite.ir.framework_pb import ProgramDesc

NAMES = """
append_backward BuildStrategy CompiledProgram cpu_places create_global_var create_parameter
cuda_places data default_main_program default_startup_program deserialize_persistables
deserialize_program device_guard ExecutionStrategy Executor global_scope gradients InputSpec load
load_from_file load_inference_model load_program_state name_scope ParallelExecutor Program
program_guard py_func save save_inference_model save_to_file scope_guard serialize_persistables
serialize_program set_program_state Variable WeightNormParamAttr
"""
FEED = {"x": np.arange(6, dtype="float32").reshape(2, 3) / 10, "label": np.array([[0], [1]])}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with unique_name.guard(), paddle.static.program_guard(main, startup):
        with paddle.static.scope_guard(paddle.static.Scope()):
            yield


def classifier() -> tuple[Any, Any, list[Any]]:
    """Two layers: what is fed, and logits, loss and accuracy."""
    x = paddle.static.data("x", [None, 3])
    label = paddle.static.data("label", [None, 1], "int64")
    hidden = paddle.static.nn.fc(x, 4, activation="relu")
    logits = paddle.static.nn.fc(hidden, 2)
    loss = paddle.mean(paddle.square(logits - paddle.cast(label, "float32")))
    return x, label, [logits, loss, paddle.static.accuracy(logits, label)]


def started() -> Any:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    return exe


def test_modes() -> None:
    paddle.enable_static()
    assert not paddle.in_dynamic_mode()
    with pytest.raises(RuntimeError, match="static graph"):
        paddle.disable_static()
    assert paddle.get_default_dtype() == "float32"
    with pytest.raises(AttributeError, match=r"Did you mean|did you mean|static"):
        paddle.statics  # noqa: B018


def test_names_of_the_seeds() -> None:
    names = NAMES.split()
    assert len(names) == 36
    assert all(getattr(paddle.static, name) is not None for name in names)


def test_door_and_fluid_keep_apart() -> None:
    """Variables of fluid's programs have fluid's operators, also where both doors are open."""
    y = paddle.static.data("y", [2, 3])
    assert [op.type for op in (y[0] + 1).block.ops] == ["slice", "scale"]
    assert y.reshape([3, 2]).shape == (3, 2)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [2, 3])
        assert type(x) is fluid.framework.Variable
        assert fluid.layers.mean(x).shape == (1,)
        assert not hasattr(x, "reshape")


def test_model_for_inference(tmp_path: pathlib.Path) -> None:
    x, _, fetched = classifier()
    exe = started()
    logits, loss, accuracy = exe.run(feed=FEED, fetch_list=fetched)
    assert (logits.shape, loss.shape, accuracy.shape) == ((2, 2), (), ())
    prefix = str(tmp_path / "folder" / "model")
    paddle.static.save_inference_model(prefix, [x], fetched[:1], exe)
    with paddle.static.scope_guard(paddle.static.Scope()):
        program, feeds, targets = paddle.static.load_inference_model(prefix, exe)
        assert feeds == ["x"]
        (again,) = exe.run(program, feed={"x": FEED["x"]}, fetch_list=targets)
    np.testing.assert_array_equal(again, logits)


def test_bytes_of_a_model(tmp_path: pathlib.Path) -> None:
    x, _, fetched = classifier()
    exe = started()
    (logits,) = exe.run(feed=FEED, fetch_list=fetched[:1])
    path = str(tmp_path / "bytes")
    paddle.static.save_to_file(path, paddle.static.serialize_program([x], fetched[:1]))
    data = paddle.static.serialize_persistables([x], fetched[:1], exe)
    with paddle.static.scope_guard(paddle.static.Scope()):
        program = paddle.static.deserialize_program(paddle.static.load_from_file(path))
        paddle.static.deserialize_persistables(program, data, exe)
        names = program.desc.get_fetch_target_names()
        (again,) = exe.run(program, feed={"x": FEED["x"]}, fetch_list=names)
    np.testing.assert_array_equal(again, logits)


def test_state(tmp_path: pathlib.Path) -> None:
    _, _, fetched = classifier()
    paddle.optimizer.Adam(0.1).minimize(fetched[1])
    exe, main = started(), paddle.static.default_main_program()
    exe.run(feed=FEED, fetch_list=fetched)
    path = str(tmp_path / "state")
    paddle.static.save(main, path)
    first = exe.run(feed=FEED, fetch_list=fetched)
    paddle.static.load(main, path, exe)
    for left, right in zip(first, exe.run(feed=FEED, fetch_list=fetched), strict=True):
        np.testing.assert_array_equal(left, right)
    with pytest.raises(ValueError, match="protocol"):
        paddle.static.save(main, path, protocol=9)


def test_written_programs_say_their_version() -> None:
    classifier()
    program = paddle.static.default_main_program()
    data = program.desc.serialize_to_string()
    again = paddle.static.Program.parse_from_string(data)
    assert again.file_version == 2006002
    marked = [op.attrs.get("zero_dim") for op in again.global_block().ops]
    assert marked == [op.attrs.get("zero_dim") for op in program.global_block().ops]
    assert ["Out"] in marked and b"zero_dim" not in data and b"of_2x" not in data


def test_branch_and_loop_by_single_numbers() -> None:
    x = paddle.static.data("x", [None, 3])
    total = paddle.sum(x)
    branch = paddle.static.nn.cond(total > 1.0, lambda: x * 2.0, lambda: x - 1.0)
    step, last = paddle.static.nn.while_loop(
        lambda step, value: step < 3,
        lambda step, value: [step + 1, value + total],
        [paddle.full([], 0, "int64"), paddle.full([], 0.5)],
    )
    case = paddle.static.nn.switch_case(step - 2, {0: lambda: total, 1: lambda: total * 10.0})
    exe = paddle.static.Executor()
    found = exe.run(feed={"x": FEED["x"]}, fetch_list=[branch, step, last, case])
    np.testing.assert_allclose(found[0], FEED["x"] * 2)
    assert found[1].shape == found[2].shape == ()
    np.testing.assert_allclose(found[1:], [3, 5.0, 15.0], rtol=1e-6)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int64", "float16", "float64", "complex64"]
)
def test_branches_and_loops_of_every_dtype(dtype: str) -> None:
    """Results of branches and loops are copied, whatever `assign` takes of a user."""
    x, first = paddle.static.data("x", [2], dtype), paddle.static.data("first", [1], "bool")
    nn = paddle.static.nn

    def flipped() -> Any:
        return x[::-1]

    results = [
        nn.cond(first, lambda: x, flipped),
        nn.case([(first, lambda: x)], flipped),
        nn.switch_case(paddle.cast(first, "int32"), [flipped, lambda: x]),
        nn.while_loop(lambda on, y: on, lambda on, y: [paddle.logical_not(on), y[::-1]], [first, x])[1],
    ]
    feed = {"x": np.array([0, 1], dtype), "first": np.array([False])}
    values = started().run(feed=feed, fetch_list=results)
    assert [value.tolist() for value in values] == [[1, 0], [1, 0], [1, 0], [0, 1]]
    assert {str(value.dtype) for value in values} == {dtype}


def test_other_names() -> None:
    x, label, (logits, _, _) = classifier()
    area, *_ = paddle.static.auc(paddle.static.nn.fc(x, 2, activation="softmax"), label)
    rows = paddle.static.nn.embedding(label, [10, 4])
    shown = paddle.static.Print(logits, message="logits")
    weight = paddle.static.create_parameter([3, 2], "float32")
    counter = paddle.static.create_global_var([1], 2.0, "float32", persistable=True)
    exe = started()
    found = exe.run(feed=FEED, fetch_list=[area, rows, shown, weight, counter])
    assert [value.shape for value in found] == [(), (2, 1, 4), (2, 2), (3, 2), (1,)]
    spec = paddle.static.InputSpec([None, 3], "float32", "x")
    assert spec.batch(4).shape == (4, -1, 3) and spec == spec.from_tensor(x, "x").batch(4)


def test_refusals() -> None:
    x = paddle.static.data("x", [2, 3])
    with pytest.raises(ValueError, match="XPU"):
        paddle.static.xpu_places()
    with pytest.raises(ValueError, match="XPU"):
        paddle.XPUPlace(0)
    with pytest.raises(IndexError, match="out of range"):
        x[2]
    with pytest.raises(TypeError, match="The type of 'y' in add must"):
        paddle.add(x, 1.0)
    with pytest.raises(ValueError, match="length should be equal to 2"):
        paddle.transpose(x, [0])
    with pytest.raises(ValueError, match="feed_vars"):
        paddle.static.normalize_program(paddle.static.default_main_program(), [], [x])


def test_seed_repeats() -> None:
    drawn = []
    for _ in range(2):
        with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            paddle.seed(5)
            weight = paddle.static.create_parameter([3, 2], "float32", name="w")
            drawn.append(started().run(fetch_list=[weight])[0])
    np.testing.assert_array_equal(*drawn)


def test_a_seed_governs_runs() -> None:
    generator = paddle.seed(5)
    x = paddle.static.data("x", [4, 3])
    hidden = paddle.nn.functional.dropout(paddle.nn.Linear(3, 2)(x))
    drawn = [hidden, paddle.rand([2]), paddle.randn([2]), paddle.randint(0, 100, [3]), paddle.randperm(9)]
    startup = paddle.static.default_startup_program()
    assert startup.random_seed == 0 and startup.global_block().ops[-1].attr("seed") == 0

    def values(executor: Any) -> Any:
        """All numbers of an initialisation and two runs."""
        executor.run(startup)
        runs = [executor.run(feed={"x": np.ones((4, 3), "float32")}, fetch_list=drawn) for _ in range(2)]
        return np.concatenate([np.ravel(array) for arrays in runs for array in arrays])

    executor = paddle.static.Executor()
    first, second = values(executor), values(executor)
    assert not np.array_equal(first, second)
    assert paddle.seed(5) is generator and generator.initial_seed() == 5
    np.testing.assert_array_equal(values(executor), first)
    state = generator.get_state()
    np.testing.assert_array_equal(values(paddle.static.Executor()), second)
    generator.set_state(state)
    np.testing.assert_array_equal(values(executor), second)
    paddle.seed(-6)
    assert not np.array_equal(values(executor), first)


def test_objects_as_files(tmp_path: pathlib.Path) -> None:
    state = {"w": np.ones((2, 3), "float32"), "b": np.zeros(3, "float32")}
    paddle.save(state, str(tmp_path / "folder" / "w.pdparams"))
    again = paddle.load(str(tmp_path / "folder" / "w.pdparams"))
    assert sorted(again) == ["b", "w"]
    np.testing.assert_array_equal(np.array(again["w"]), state["w"])
    classifier()
    paddle.save(paddle.static.default_main_program(), str(tmp_path / "program"))
    program = paddle.load(str(tmp_path / "program"))
    types = [op.type for op in paddle.static.default_main_program().global_block().ops]
    assert [op.type for op in program.global_block().ops] == types
    with pytest.raises(TypeError, match="only numbers, texts and arrays can be saved, not set"):
        paddle.save([{1, 2}], str(tmp_path / "list"))
    with pytest.raises(RuntimeError, match="imperative"):
        paddle.grad([], [])


def test_what_a_file_has_and_the_house_has_not() -> None:
    """An op or a slot of a file of 2.x that is not known here is one error, with its name."""
    x = paddle.static.data("x", [2, 3])
    out = paddle.tanh(x)
    desc = ProgramDesc.FromString(paddle.static.default_main_program().desc.serialize_to_string())
    op = desc.blocks[0].ops[0]
    op.inputs.add(parameter=b"Wind", arguments=[b"x"])
    exe = paddle.static.Executor()
    program = paddle.static.Program.parse_from_string(desc.SerializeToString())
    with pytest.raises(SlotError, match="op 'tanh' reads .* by the slot 'Wind'"):
        exe.run(program, feed={"x": FEED["x"]}, fetch_list=[out.name])
    op.type = b"fold_space"
    program = paddle.static.Program.parse_from_string(desc.SerializeToString())
    with pytest.raises(UnknownOpError, match='"fold_space" has not been registered'):
        exe.run(program, feed={"x": FEED["x"]}, fetch_list=[out.name])


# ---------------------------------------------------------------------- values of variables
def test_the_value_of_a_variable_is_read_and_written() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    scope = paddle.static.Scope()
    with paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        x = paddle.static.data("x", [None, 3])
        y = paddle.static.nn.fc(x, 2, bias_attr=False)
        (weight,) = main.all_parameters()
        with pytest.raises(ValueError, match="Can not find Variable"):
            weight.get_value()
        exe = paddle.static.Executor()
        exe.run(startup)
        before = np.array(weight.get_value())
        weight.set_value(2.0 * before.astype("float64"))
        (out,) = exe.run(main, feed={"x": np.eye(3, dtype="float32")}, fetch_list=[y])
        assert out.dtype == np.float32 and (out == 2.0 * before).all()
        weight.set_value(weight.get_value())
        with pytest.raises(
            ValueError, match=r"expected a shape \[3, 2\], but the received shape is \[2, 3\]"
        ):
            weight.set_value(before.T.copy())
        with pytest.raises(TypeError, match="numpy.ndarray"):
            weight.set_value([1.0])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="Scope"):
            weight.get_value(scope="here")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="Can not find Variable"):
            y.get_value()
