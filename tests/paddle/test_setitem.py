"""`paddle.static.setitem`, held to what PaddlePaddle 2.6.2 made of the same lines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import fluidlite.paddle as paddle
from fluidlite import unique_name
from fluidlite.ir.framework_pb import ProgramDesc, attr_type_name

setitem = paddle.static.setitem


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with unique_name.guard(), paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield


def test_parts_are_replaced_and_gradients_follow() -> None:
    x = paddle.static.data("x", [3, 4])
    v = paddle.static.data("v", [2, 1])
    x.stop_gradient = v.stop_gradient = False
    y = setitem(x, (slice(0, 3, 2), slice(1, None)), v)
    y = setitem(y, (slice(None), None, 3), 9)
    y = setitem(y, (0, 0), 2.0)
    y = setitem(y, (slice(None, None, -1), 1), np.array([1, 2, 3], "float32"))
    k = paddle.full([], 2, "int32")
    y = setitem(y, (k, slice(0, k)), -1.0)
    y = setitem(y, slice(None), y * 1)
    grads = paddle.static.gradients(paddle.sum(y * y), [x, v])
    feed = {"x": np.arange(12, dtype="float32").reshape(3, 4), "v": np.array([[100], [200]], "float32")}
    got = paddle.static.Executor().run(feed=feed, fetch_list=[y, *grads])
    # of 2.6.2
    assert got[0].tolist() == [[2, 3, 100, 9], [4, 2, 6, 9], [-1, -1, 200, 9]]
    assert got[1].tolist() == [[0, 0, 0, 0], [8, 0, 12, 0], [0, 0, 0, 0]]
    assert got[2].tolist() == [[200], [400]]


def test_large_integers_stay_exact() -> None:
    x = paddle.static.data("x", [3], "int64")
    y = setitem(setitem(x, 1, 2**40 + 1), 2, -7)
    (got,) = paddle.static.Executor().run(feed={"x": np.zeros(3, "int64")}, fetch_list=[y])
    assert got.tolist() == [0, 2**40 + 1, -7]


def test_what_is_refused() -> None:
    x = paddle.static.data("x", [3, 4])
    with pytest.raises(RuntimeError, match=r"'x' cannot be changed in place.*paddle.static.setitem"):
        x[0] = 1.0
    with pytest.raises(TypeError, match="Only support to assign"):
        setitem(x, 0, "one")
    with pytest.raises(IndexError, match="index 3 of dimension 0 is out of range"):
        setitem(x, [0, 3], 1.0)


def test_values_are_written_as_the_type_that_2x_reads() -> None:
    setitem(paddle.static.data("x", [3]), 0, 2.5)
    program = ProgramDesc.FromString(paddle.static.default_main_program().desc.serialize_to_string())
    attrs = {attr.name: attr for attr in program.blocks[0].ops[0].attrs}
    values = attrs[b"values"]
    assert attr_type_name(values.type) == "SCALARS"
    assert [scalar.r for scalar in values.scalars] == [2.5]
    again = paddle.static.Program.parse_from_string(program.SerializeToString())
    assert again.global_block().ops[0].attr("values") == [2.5]
