"""`paddle.einsum`: orders of several operands, sizes that are not known, and equations that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import paddle
from fluidlite.errors import ArgumentError, ShapeError


def declared(*shapes: tuple[int, ...], name: str = "x") -> list[Any]:
    return [paddle.static.data(f"{name}{number}", shape) for number, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("equation", "shapes", "pairs"),
    [
        # the small product first: 2 * 3 * 4 + 2 * 4 * 50 instead of 3 * 4 * 50 + 2 * 3 * 50
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 50)], ["ij,jk->ik", "kl,ik->il"]),
        ("ij,jk,kl->il", [(50, 3), (3, 4), (4, 2)], ["jk,kl->jl", "ij,jl->il"]),
        ("i,j,k->kij", [(2,), (3,), (4,)], ["i,j->ij", "ij,k->kij"]),
        ("...i,...ij,...j->...", [(5, 2), (1, 2, 3), (5, 3)], None),
        ("bi,bij,bj->b", [(4, 2), (4, 2, 3), (4, 3)], None),
        ("ab,bc,cd,de->ae", [(2, 3), (3, 2), (2, 4), (4, 2)], None),
        ("ii,i,j->j", [(3, 3), (3,), (2,)], None),
        ("aA,Ab->ab", [(2, 3), (3, 4)], ["aA,Ab->ab"]),
    ],
)
def test_several_are_multiplied_in_pairs(
    exe: fluid.Executor, equation: str, shapes: list[tuple[int, ...]], pairs: list[str] | None
) -> None:
    operands = declared(*shapes)
    out = paddle.einsum(equation, *operands)
    ops = fluid.default_main_program().global_block().ops
    assert {op.type for op in ops} == {"einsum"} and len(ops) == len(shapes) - 1
    assert pairs is None or [op.attr("equation") for op in ops] == pairs
    random = np.random.RandomState(0)
    feed = {var.name: random.rand(*var.shape).astype("float32") for var in operands}
    (found,) = exe.run(feed=feed, fetch_list=[out])
    assert tuple(out.shape) == found.shape
    np.testing.assert_allclose(found, np.einsum(equation, *feed.values()), rtol=1e-5)


def test_unknown_sizes(exe: fluid.Executor) -> None:
    x, y, z = declared((-1, 2, 3), (-1, 3, 4), (4, -1))
    out = paddle.einsum("bij,bjk,kl->bil", x, y, z)
    assert tuple(out.shape) == (-1, 2, -1)
    feed = {"x0": np.ones((5, 2, 3)), "x1": np.ones((5, 3, 4)), "x2": np.ones((4, 6))}
    feed = {name: value.astype("float32") for name, value in feed.items()}
    assert (exe.run(feed=feed, fetch_list=[out])[0] == np.full((5, 2, 6), 12)).all()
    with pytest.raises(ShapeError, match="'b' has the size 5 in one operand and 4 in another"):
        exe.run(feed={**feed, "x1": np.ones((4, 3, 4), "float32")}, fetch_list=[out])
    assert tuple(paddle.einsum("...i,...i->...", *declared((-1, 3), (1, 3), name="y")).shape) == (-1,)


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk", "is for 2 operands, but 1 are given"),
        ("ijk->i", "'ijk' is not for an operand of 2 dimensions"),
        ("ij...k->i...", "'ij...k' is not for an operand of 2 dimensions"),
        ("i.j->i", "must consist of letters and at most one"),
        ("i1->i", "'i1' must consist of letters"),
        ("...i...->i", "must consist of letters and at most one"),
        ("...i->i", "must be in the result if it is in operands"),
        ("ij->k", "each letter of the result should be one of the operands'"),
        ("ij->ii", "each letter of the result should be"),
    ],
)
def test_equations_that_are_none(equation: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        paddle.einsum(equation, *declared((2, 3)))


def test_sizes_that_differ() -> None:
    with pytest.raises(ShapeError, match="'j' has the size 3 in one operand and 4 in another"):
        paddle.einsum("ij,jk->ik", *declared((2, 3), (4, 2)))
    with pytest.raises(ShapeError, match="'...' has the size 2 in one operand and 3 in another"):
        paddle.einsum("...i,...i->...", *declared((2, 3), (3, 3), name="y"))
