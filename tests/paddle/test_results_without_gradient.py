"""2.x's results have no gradient where no input has one; the truths are what PaddlePaddle 2.6.2 says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite.paddle as paddle

functional = paddle.nn.functional
BUILDS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, w: x + x,
    "relu": lambda x, w: functional.relu(x),
    "cast": lambda x, w: x.astype("int64"),
    "dropout": lambda x, w: functional.dropout(x),
    "split": lambda x, w: paddle.split(x, 3, 1)[0],
    "assign": lambda x, w: paddle.assign(x),
    "assign an array": lambda x, w: paddle.assign(np.ones(3, "float32")),
    "full": lambda x, w: paddle.full([2], 1.0) * 2,
    "argmax": lambda x, w: paddle.argmax(w, 1),
    "indices": lambda x, w: paddle.topk(w, 1)[1],
    "detach": lambda x, w: w.detach() * 2,
    "shape": lambda x, w: paddle.shape(w),
    "cond": lambda x, w: paddle.static.nn.cond(paddle.full([1], True, "bool"), lambda: x * 2, lambda: x * 3),
    "while": lambda x, w: paddle.static.nn.while_loop(
        lambda i, h: i < 3, lambda i, h: (i + 1, h * 2), [paddle.full([1], 0, "int64"), x]
    )[1],
}
WITH: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda x, w: w,
    "equal": lambda x, w: w > 0,
    "cast": lambda x, w: w.astype("int64"),
    "product": lambda x, w: w * paddle.full([2], 1.0),
    "topk": lambda x, w: paddle.topk(w, 1)[0],
    "batch_norm": lambda x, w: paddle.nn.BatchNorm1D(3)(x),
    "embedding": lambda x, w: paddle.nn.Embedding(10, 4)(x.astype("int64")),
    "cond": lambda x, w: paddle.static.nn.cond(paddle.full([1], True, "bool"), lambda: w * 2, lambda: w * 3),
}


@pytest.mark.parametrize(
    "build, stops",
    [*((each, True) for each in BUILDS.values()), *((each, False) for each in WITH.values())],
    ids=[*BUILDS, *(f"{name} with" for name in WITH)],
)
def test_results(build: Callable[[Any, Any], Any], stops: bool) -> None:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x = paddle.static.data("x", [4, 3])
        assert build(x, paddle.nn.Linear(3, 2)(x)).stop_gradient is stops


@pytest.mark.parametrize("late", [False, True])
def test_gradients(late: bool) -> None:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x = paddle.static.data("x", [4, 3])
        x.stop_gradient = late
        made = x * 2
        x.stop_gradient = False
        # the result was made when x had no gradient
        assert [len(paddle.static.gradients([made * made], [x]))] == [0 if late else 1]


def test_a_branch_with_results_that_have_none() -> None:
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x, truth = paddle.static.data("x", [2], "float64"), paddle.static.data("truth", [1], "bool")
        x.stop_gradient = False
        made = paddle.static.nn.cond(
            truth, lambda: [x * x, x > 0, paddle.ones([2])], lambda: [x * 3, x < 0, paddle.zeros([2])]
        )
        grads = paddle.static.gradients([made[0], made[2]], [x])
        for is_true, wanted in ((True, [4.0, 6.0]), (False, [3.0, 3.0])):
            feed = {"x": np.array([2.0, 3.0]), "truth": np.array([is_true])}
            found = paddle.static.Executor().run(feed=feed, fetch_list=grads)
            assert found[0].tolist() == wanted
