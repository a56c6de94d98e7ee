"""Ops whose meaning changed between fluid and PaddlePaddle 2.x; numbers of 2.6.2."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite.errors import FormatError
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


def test_a_newer_meaning_of_an_op_is_refused() -> None:
    with pytest.raises(FormatError, match=r"'leaky_relu' of this program has version 2, .* up to 1"):
        paddle.static.Program.parse_from_string(with_versions(leaky_relu=2))
    with pytest.raises(FormatError, match=r"'leaky_relu_grad' of this program has version 1, .* up to 0"):
        paddle.static.Program.parse_from_string(with_versions(leaky_relu_grad=1))
    # of an op that the program does not have, it says nothing
    assert paddle.static.Program.parse_from_string(with_versions(roll=9)).op_versions == {"roll": 9}


def test_utils_have_the_names_of_2x() -> None:
    with paddle.utils.unique_name.guard():
        assert paddle.utils.unique_name.generate("a") == "a_0"
    paddle.utils.require_version("1.8.0")
