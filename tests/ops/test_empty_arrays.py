"""The length of a tensor array that nothing has been written to is 0, and counts on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
import fluidlite.paddle as paddle

layers = fluid.layers


def fetched(program: Any, variables: list[Any], naive: bool) -> list[Any]:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    return [np.asarray(value).item() for value in exe.run(program, fetch_list=variables)]


@pytest.mark.parametrize("naive", [False, True])
def test_before_and_behind_a_write(naive: bool) -> None:
    array = layers.create_array("float32")
    before = layers.array_length(array)
    layers.array_write(layers.fill_constant([1], "float32", 5.0), before, array)
    program = fluid.default_main_program()
    for _ in range(2):
        assert fetched(program, [before, layers.array_length(array)], naive) == [0, 1]


@pytest.mark.parametrize("naive", [False, True])
def test_in_programs_of_2x(naive: bool) -> None:
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        array = paddle.tensor.create_array("float32")
        before = paddle.tensor.array_length(array)
        paddle.tensor.array_write(paddle.full([1], 5.0), before, array)
        behind = paddle.tensor.array_length(array)
    assert fetched(main, [before, behind], naive) == [0, 1]
