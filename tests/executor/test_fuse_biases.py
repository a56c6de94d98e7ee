"""Biases that the kernel of a loss adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers


@pytest.fixture(autouse=True)
def _compiled() -> Iterator[None]:
    before = fluid.get_flags("FLAGS_fast_loops")
    fluid.set_flags({"FLAGS_fast_loops": "wait"})
    yield
    fluid.set_flags(before)


def trained(naive: bool, classes: int, fetches_scores: bool) -> tuple[list[Any], str]:
    """The values fetched in three steps, one of them of a smaller batch, and the plan."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, label = fluid.data("x", [None, 5]), fluid.data("t", [None, 1], "int64")
        scores = layers.fc(x, classes)
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
        fluid.optimizer.SGD(0.5).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    fetches = [loss, scores] if fetches_scores else [loss]
    random = np.random.RandomState(0)
    found: list[Any] = []
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for var in main.all_parameters():
            start = random.randn(*var.shape).astype("float32")
            fluid.global_scope().find_var(var.name).get_tensor().set(start, exe.place)
        for size in (8, 8, 3):
            labels = random.randint(0, classes, (size, 1))
            labels[1] = -100
            feed = {"x": random.randn(size, 5).astype("float32"), "t": labels}
            found += exe.run(main, feed=feed, fetch_list=fetches)
        return found, exe.explain(main, feed, fetches, full=True)


@pytest.mark.parametrize("classes", [2, 37, 130])
@pytest.mark.parametrize("fetches_scores", [False, True])
def test_scores_with_a_bias(classes: int, fetches_scores: bool) -> None:
    found, plan = trained(False, classes, fetches_scores)
    for value, wanted in zip(found, trained(True, classes, fetches_scores)[0], strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-5)
    # scores that are fetched are made by themselves
    assert ("# elementwise_add, softmax_with_cross_entropy (fused)" in plan) != fetches_scores
