"""Errors of runs name the op, the values and the user's line, by plans and by the interpreter."""

from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers
from fluidlite.base.registry import get
from fluidlite.errors import EnforceNotMet, FluidError
from fluidlite.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
from fluidlite.values.serialize import replace_file, write_folder

HERE = r"[\s\S]*built at .*test_errors_located.py"


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def small_image() -> tuple[Any, dict[str, Any]]:
    return layers.conv2d(fluid.data("x", [None, 1, None, None]), 2, 5), {"x": f(2, 1, 2, 2)}


def small_volume() -> tuple[Any, dict[str, Any]]:
    return layers.conv3d(fluid.data("x", [None, 1, None, None, None]), 2, 5), {"x": f(2, 1, 2, 2, 2)}


def raw(op: str, feeds: dict[str, np.ndarray], out: str, **attrs: Any) -> tuple[Any, dict[str, Any]]:
    """An op over feeds of which nothing but the number of dimensions is declared."""
    block = fluid.default_main_program().global_block()
    for name, array in feeds.items():
        block.create_var(name=name, shape=(-1,) * array.ndim, dtype=str(array.dtype), is_data=True)
    needed = [slot for slot, info in get(op).outputs.items() if slot == out or not info.optional]
    made = {slot: [block.create_var(name=f"made_{slot}", dtype="float32")] for slot in needed}
    block.append_op(op, {name: [name] for name in feeds}, made, attrs)
    return layers.scale(made[out][0], 2.0), feeds


def other_channels() -> tuple[Any, dict[str, Any]]:
    return raw("conv2d", {"Input": f(2, 4, 5, 5), "Filter": f(4, 3, 3, 3)}, "Output")


def other_channels_back() -> tuple[Any, dict[str, Any]]:
    return raw("conv2d_transpose", {"Input": f(2, 3, 5, 5), "Filter": f(4, 3, 3, 3)}, "Output")


def short_statistics() -> tuple[Any, dict[str, Any]]:
    sizes = {"Scale": 3, "Bias": 2, "Mean": 3, "Variance": 3}
    feeds = {"X": f(2, 3, 4, 4), **{name: f(size) for name, size in sizes.items()}}
    return raw("batch_norm", feeds, "Y", is_test=True)


def another_scale() -> tuple[Any, dict[str, Any]]:
    return raw("layer_norm", {"X": f(2, 12), "Scale": f(5)}, "Y")


def divided_by_zero(layer: Callable[..., Any]) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def build() -> tuple[Any, dict[str, Any]]:
        x, y = (fluid.data(name, [None], "int64") for name in "xy")
        return layer(x, y), {"x": np.array([7, -7]), "y": np.array([2, 0])}

    return build


def class_outside() -> tuple[Any, dict[str, Any]]:
    x, label = fluid.data("x", [None, 4]), fluid.data("t", [None, 1], "int64")
    return layers.cross_entropy(layers.softmax(x), label), {"x": f(2, 4), "t": np.array([[1], [7]])}


def row_outside() -> tuple[Any, dict[str, Any]]:
    return layers.one_hot(fluid.data("t", [None, 1], "int64"), 3), {"t": np.array([[5]])}


def gathered_outside() -> tuple[Any, dict[str, Any]]:
    x, index = fluid.data("x", [3, 2]), fluid.data("i", [None], "int64")
    return layers.gather(x, index), {"x": f(3, 2), "i": np.array([-1])}


def scattered_outside() -> tuple[Any, dict[str, Any]]:
    x, index, new = fluid.data("x", [3, 2]), fluid.data("i", [1], "int64"), fluid.data("u", [1, 2])
    return layers.scatter(x, index, new), {"x": f(3, 2), "i": np.array([9]), "u": f(1, 2)}


def entry_outside() -> tuple[Any, dict[str, Any]]:
    at = layers.fill_constant([1], "int64", 0)
    array = layers.array_write(fluid.data("x", [2]), at)
    return layers.array_read(array, layers.fill_constant([1], "int64", 7)), {"x": f(2)}


def no_sequences() -> tuple[Any, dict[str, Any]]:
    return layers.sequence_softmax(fluid.data("x", [None, 1], lod_level=1)), {"x": f(4, 1)}


def fewer_parts() -> tuple[Any, dict[str, Any]]:
    return layers.unstack(fluid.data("x", [None, 3]), axis=0, num=5)[0], {"x": f(3, 3)}


def in_a_loop() -> tuple[Any, dict[str, Any]]:
    x = fluid.data("x", [None, 3])
    step, last = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", 3)
    total, going = layers.fill_constant([1], "float32", 0), layers.less_than(step, last)
    with layers.While(going).block():
        layers.assign(layers.reduce_sum(layers.gather(x, step * 5)), total)
        layers.increment(step)
        layers.less_than(step, last, cond=going)
    return total, {"x": f(4, 3)}


def other_moment() -> tuple[Any, dict[str, Any]]:
    block = fluid.default_main_program().global_block()
    names = {"Param": [4, 3], "Grad": [4, 3], "Moment": [None, None], "LearningRate": [1]}
    given = {slot: fluid.data(slot, shape) for slot, shape in names.items()}
    outs = {slot: block.create_var(name=slot, dtype="float32") for slot in ("ParamOut", "MomentOut")}
    block.append_op(type="adagrad", inputs=given, outputs=outs, attrs={"epsilon": 1e-6})
    feed = {slot: f(4, 3) for slot in ("Param", "Grad")}
    return outs["ParamOut"], {**feed, "Moment": f(4, 6), "LearningRate": f(1)}


CASES: list[tuple[Callable[[], tuple[Any, dict[str, Any]]], str]] = [
    (small_image, r"op 'conv2d': nothing is left of"),
    (small_volume, r"op 'conv3d': nothing is left of"),
    (class_outside, "op 'cross_entropy2': label 7 is not one of 4 classes"),
    (row_outside, "op 'one_hot': index 5 is outside the 3 rows"),
    (gathered_outside, "op 'gather': index -1 is outside the 3 rows"),
    (scattered_outside, "op 'scatter': index 9 is outside the 3 rows"),
    (entry_outside, "op 'read_from_array': entry 7"),
    (no_sequences, "op 'sequence_softmax': X has no level of detail"),
    (fewer_parts, r"op 'unstack': X\[3, 3\] has 3 parts at axis 0, but num is 5"),
    (in_a_loop, "op 'gather': index 5 is outside the 4 rows"),
    (other_moment, "op 'adagrad': "),
    (divided_by_zero(layers.elementwise_div), "op 'elementwise_div': integer division by zero"),
    (divided_by_zero(layers.elementwise_mod), "op 'elementwise_mod': integer division by zero"),
    (divided_by_zero(layers.elementwise_floordiv), "op 'elementwise_floordiv': integer division by zero"),
    (other_channels, "op 'conv2d': "),
    (other_channels_back, "op 'conv2d_transpose': "),
    (short_statistics, "op 'batch_norm': "),
    (another_scale, "op 'layer_norm': "),
]


@pytest.mark.parametrize("naive", [False, True], ids=["plan", "naive"])
@pytest.mark.parametrize("build, text", CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_op_and_line(build: Callable[[], tuple[Any, dict[str, Any]]], text: str, naive: bool) -> None:
    out, feed = build()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    exe.naive = naive
    with pytest.raises(FluidError, match=text + HERE) as raised:
        exe.run(feed=feed, fetch_list=[out])
    assert isinstance(raised.value, fluid.core.EnforceNotMet)


def test_a_slot_that_is_nearly_one() -> None:
    block = fluid.default_main_program().global_block()
    out = block.create_var(name="out", dtype="float32")
    mask = block.create_var(name="mask", dtype="float32")
    with pytest.warns(fluid.FluidWarning, match="op 'relu' has no output slot 'Outs' for mask; did you mean"):
        block.append_op(type="relu", inputs={"X": fluid.data("x", [2])}, outputs={"Out": out, "Outs": mask})


def test_an_input_that_a_rule_misses() -> None:
    block = fluid.default_main_program().global_block()
    with pytest.raises(fluid.core.EnforceNotMet, match="op 'assign'" + HERE):
        block.append_op(type="assign", inputs={}, outputs={"Out": block.create_var(name="y")})


# ---------------------------------------------------------------------- files
def _full(beginning: bytes) -> Iterator[bytes]:
    yield beginning
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_file(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "model"
    with pytest.raises(OSError, match="No space left on device") as raised:
        replace_file(target, _full(b"begin"))
    assert raised.value.filename == str(target)
    with pytest.raises(OSError, match="No space left on device") as raised, write_folder(target) as files:
        files.put("w", _full(b"begin"))
    assert raised.value.filename == str(target / "w")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_names_the_target(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError) as raised, write_folder(tmp_path / "file" / "model"):
        pass
    assert raised.value.filename == str(tmp_path / "file" / "model")


@pytest.mark.parametrize("data", [b"", b"no model", b"\x0a\xff\xff"], ids=["empty", "text", "cut"])
def test_a_corrupt_model_names_its_path(tmp_path: pathlib.Path, data: bytes) -> None:
    (tmp_path / "__model__").write_bytes(data)
    with pytest.raises(ValueError, match=f"{tmp_path}/__model__ is not a model"):
        fluid.io.load_inference_model(str(tmp_path), fluid.Executor(fluid.CPUPlace()))


# ---------------------------------------------------------------------- environment
def test_numbers_of_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:1")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "two")
    monkeypatch.setenv("TRAINING_ROLE", "PSERVER")
    with pytest.raises(ValueError, match="PADDLE_TRAINERS_NUM is 'two', which is not an integer"):
        PaddleCloudRoleMaker(is_collective=False).generate_role()
    for name, value in {"PADDLE_TRAINERS_NUM": "2", "POD_IP": "127.0.0.1", "PADDLE_PORT": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="127.0.0.1:2, which is not one of the servers"):
        PaddleCloudRoleMaker(is_collective=False).generate_role()


@pytest.mark.parametrize("shape", [(1, 4, 3), (4, 3, 1), (1, 1)])
@pytest.mark.parametrize("loops", ["wait", "off"])
def test_an_accumulator_of_another_rank(shape: tuple[int, ...], loops: str) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        loss = layers.mean(layers.fc(fluid.data("x", [None, 4]), 3, bias_attr=False))
        fluid.optimizer.Ftrl(0.1).minimize(loss)
        main, startup = fluid.default_main_program(), fluid.default_startup_program()
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    for var in main.list_vars():
        if "linear" in var.name:
            scope.find_var(var.name).get_tensor().set(np.zeros(shape, "float32"), exe.place)
    before = fluid.get_flags("FLAGS_fast_loops")
    fluid.set_flags({"FLAGS_fast_loops": loops})
    try:
        with pytest.raises(FluidError, match=r"op 'ftrl'" + HERE):
            exe.run(main, feed={"x": f(2, 4)}, fetch_list=[loss], scope=scope)
    finally:
        fluid.set_flags(before)


@pytest.mark.parametrize(
    ("state", "shape"), [("n.w_0", (1, 4)), ("f.b_0", (1, 3)), ("f.w_0_velocity_0", (4, 3, 1))]
)
def test_a_state_of_another_rank(state: str, shape: tuple[int, ...]) -> None:
    """Lowering rules would broadcast what the shape rules refuse, as 1.8.5 does when it runs."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        hidden = layers.layer_norm(fluid.data("x", [None, 4]), name="n")
        loss = layers.mean(layers.fc(hidden, 3, name="f"))
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
        main, startup = fluid.default_main_program(), fluid.default_startup_program()
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    scope.find_var(state).get_tensor().set(np.zeros(shape, "float32"), exe.place)
    with pytest.raises(EnforceNotMet, match="op '(layer_norm|elementwise_add|momentum)'"):
        exe.run(main, feed={"x": f(2, 4)}, fetch_list=[loss], scope=scope)
