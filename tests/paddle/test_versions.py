"""Ops whose meaning changed between fluid and PaddlePaddle 2.x; numbers of 2.6.2."""

from __future__ import annotations

import json as json_of_python
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.errors import FluidWarning, FormatError
from fluidlite.ir import text
from fluidlite.ir.framework_pb import ProgramDesc
from fluidlite.show import json

X = np.array([[-2, -1, 0, 1, 2]], "float32")


def slopes(alpha: float) -> tuple[Any, list[str]]:
    """A program of leaky_relu, and its names of: the output, the gradient, the gradient of that by w."""
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        x, w = (paddle.static.data(name, [1, 5]) for name in "xw")
        x.stop_gradient = w.stop_gradient = False
        out = paddle.nn.functional.leaky_relu(x, alpha)
        (gradient,) = paddle.static.gradients([out], [x], [w])
        (second,) = paddle.static.gradients([gradient], [w])
    return program, [var.name for var in (out, gradient, second)]


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("alpha", [0.25, -0.5, 2.0])
def test_leaky_relu_takes_the_side_of_x(alpha: float, loaded: bool, naive: bool) -> None:
    program, names = slopes(alpha)
    data = program.desc.serialize_to_string()
    if loaded:
        program = paddle.static.Program.parse_from_string(data)
    exe: Any = paddle.static.Executor(paddle.CPUPlace())
    exe.naive = naive
    found = exe.run(program, feed={"x": X, "w": np.ones_like(X)}, fetch_list=names)
    wanted = [[-2 * alpha, -alpha, 0, 1, 2], [alpha, alpha, 1, 1, 1], [alpha, alpha, alpha, 1, 1]]
    np.testing.assert_array_equal(np.concatenate(found), np.array(wanted, "float32"))
    backward = next(op for op in ProgramDesc.FromString(data).blocks[0].ops if op.type == b"leaky_relu_grad")
    assert {slot.parameter: list(slot.arguments) for slot in backward.inputs}[b"X"] == [b"x"]


def with_versions(**versions: int) -> bytes:
    desc = ProgramDesc.FromString(slopes(0.25)[0].desc.serialize_to_string())
    for op_type, version in versions.items():
        desc.op_version_map.pair.add(op_name=op_type.encode()).op_version.version = version
    data: bytes = desc.SerializeToString(deterministic=True)
    return data


def test_versions_of_ops_are_kept() -> None:
    program = paddle.static.Program.parse_from_string(with_versions(leaky_relu=1, roll=2))
    written = (text.parse(str(program)), json.parse(json.program_json(program)))
    for again in (program, program.clone(), program.clone(for_test=True), *written):
        found = ProgramDesc.FromString(again.desc.serialize_to_string()).op_version_map.pair
        assert {pair.op_name: pair.op_version.version for pair in found} == {b"leaky_relu": 1, b"roll": 2}


def test_a_newer_meaning_of_an_op_is_doubted() -> None:
    with pytest.warns(FluidWarning, match=r"'leaky_relu' of this program has version 2, .* up to 1") as found:
        program = paddle.static.Program.parse_from_string(with_versions(leaky_relu=2))
    where = next(op for op in program.global_block().ops if op.type == "leaky_relu").where
    assert (found[0].filename, found[0].lineno) == (where.file, where.line)
    with pytest.warns(FluidWarning, match=r"'leaky_relu_grad' of this program has version 1, .* up to 0"):
        paddle.static.Program.parse_from_string(with_versions(leaky_relu_grad=1))
    # of an op that the program does not have, it says nothing
    assert paddle.static.Program.parse_from_string(with_versions(roll=9)).op_versions == {"roll": 9}


def changed(data: bytes, change: Callable[[Any], object]) -> bytes:
    desc = ProgramDesc.FromString(data)
    change(next(op for op in desc.blocks[0].ops if op.type == b"leaky_relu"))
    return bytes(desc.SerializeToString(deterministic=True))


def test_what_a_newer_op_says_and_nobody_reads_is_refused() -> None:
    data = with_versions(leaky_relu=2)
    more = changed(data, lambda op: op.attrs.add(name=b"curve", type=1, f=0.5))
    with pytest.raises(
        FormatError, match=r"version 2.* with the attribute 'curve', which FluidLite does not"
    ):
        paddle.static.Program.parse_from_string(more)
    more = changed(data, lambda op: op.inputs.add(parameter=b"Slope", arguments=[b"x"]))
    with pytest.raises(FormatError, match=r"version 2.* with the slot 'Slope', which FluidLite does not"):
        paddle.static.Program.parse_from_string(more)


def rounded(**attrs: Any) -> bytes:
    paddle.enable_static()
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        paddle.round(paddle.static.data("x", [2], "float32"))
    program.global_block().ops[-1].attrs.update(attrs)
    return bytes(program.desc.serialize_to_string())


def test_a_known_version_with_an_attribute_that_cannot_be_followed_is_refused() -> None:
    paddle.static.Program.parse_from_string(rounded(decimals=0))
    with pytest.raises(
        FormatError, match=r"'round' .* attribute 'decimals' of a later version, with the value 2"
    ):
        paddle.static.Program.parse_from_string(rounded(decimals=2))


# release (2.4.2 is 2004002) -> the versions that it writes, of all ops; recorded from files of these releases
MAPS = json_of_python.loads((Path(__file__).parent / "op_versions.json").read_text())


def trained() -> tuple[bytes, bytes, list[str]]:
    """Programs with ops that moved after 2.4: main, startup, and what to fetch."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    startup.random_seed = 1
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [4, 3], "float32")
        label = paddle.static.data("label", [4, 1], "int64")
        weight = paddle.ParamAttr(initializer=paddle.nn.initializer.Normal())
        hidden = paddle.static.nn.fc(x, 5, weight_attr=weight, activation="leaky_relu")
        hidden = paddle.maximum(hidden, paddle.expand_as(hidden[:, :1] * 0.1, hidden))
        logits = paddle.static.nn.fc(hidden, 3)
        loss = paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(logits, label))
        best = paddle.argmax(logits, axis=1)
        paddle.optimizer.Adam(0.1).minimize(loss)
    return main.desc.serialize_to_string(), startup.desc.serialize_to_string(), [loss.name, best.name]


def mapped(data: bytes, release: str) -> Any:
    desc = ProgramDesc.FromString(data)
    desc.version.version = int(release)
    del desc.op_version_map.pair[:]
    for op_type, version in MAPS[release].items():
        desc.op_version_map.pair.add(op_name=op_type.encode()).op_version.version = version
    return paddle.static.Program.parse_from_string(desc.SerializeToString(deterministic=True))


@pytest.mark.parametrize("release", MAPS)
@pytest.mark.filterwarnings("error")
def test_programs_of_each_release_load_train_and_infer(release: str) -> None:
    main, startup, fetches = trained()
    exe, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
    feed = {"x": np.eye(4, 3, dtype="float32"), "label": np.array([[0], [1], [2], [0]])}
    program = mapped(main, release)
    with paddle.static.scope_guard(scope):
        exe.run(mapped(startup, release))
        losses = [exe.run(program, feed=feed, fetch_list=fetches)[0].item() for _ in range(60)]
        classes = exe.run(program.clone(for_test=True), feed=feed, fetch_list=fetches[1:])[0]
    assert losses[-1] < 0.1 * losses[0]
    np.testing.assert_array_equal(classes, feed["label"][:, 0])


def test_utils_have_the_names_of_2x() -> None:
    with paddle.utils.unique_name.guard():
        assert paddle.utils.unique_name.generate("a") == "a_0"
    paddle.utils.require_version("1.8.0")
