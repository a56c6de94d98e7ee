"""Weight gradients of loops that are one product behind the loop: the same as in the naive interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid

layers = fluid.layers
CPU = fluid.CPUPlace()
SIZE = 130


def ragged(*lengths: int) -> Any:
    rows = np.random.RandomState(sum(lengths)).randn(sum(lengths), SIZE).astype("float32")
    return fluid.create_lod_tensor(rows, [list(lengths)], CPU)


def dynamic_steps() -> tuple[Any, list[dict[str, Any]]]:
    x = layers.data("x", [SIZE], lod_level=1)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        state = rnn.memory(shape=[SIZE], value=0.0)
        new = layers.fc([word, state], SIZE, act="tanh")
        rnn.update_memory(state, new)
        rnn.output(layers.fc(new, SIZE))
    feeds = [{"x": ragged(3, 1, 5)}, {"x": ragged(1)}, {"x": ragged(2, 7, 4, 4)}]
    return layers.mean(layers.square(rnn())), feeds


def static_steps() -> tuple[Any, list[dict[str, Any]]]:
    x = layers.data("x", [4, 3, SIZE], append_batch_size=False)
    x.stop_gradient = False
    start = layers.fill_constant([3, SIZE], "float32", 0.1)
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        state = rnn.memory(init=start)
        new = layers.fc([word, state], SIZE, act="tanh")
        rnn.update_memory(state, new)
        rnn.step_output(new)
    draws = np.random.RandomState(1)
    feeds = [{"x": draws.randn(4, 3, SIZE).astype("float32")} for _ in range(2)]
    return layers.mean(layers.square(rnn())), feeds


def shared_weight() -> tuple[Any, list[dict[str, Any]]]:
    """A weight that two products of a step read has two gradients in it, whose sum stays in the loop."""
    x = layers.data("x", [SIZE], lod_level=1)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        state = rnn.memory(shape=[SIZE], value=0.0)
        weight = fluid.ParamAttr(name="shared")
        new = layers.tanh(
            layers.fc(word, SIZE, param_attr=weight) + layers.fc(state, SIZE, param_attr=weight)
        )
        rnn.update_memory(state, new)
        rnn.output(new)
    return layers.mean(rnn()), [{"x": ragged(2, 3)}]


@pytest.mark.parametrize(("build", "products"), [(dynamic_steps, 3), (static_steps, 2), (shared_weight, 0)])
def test_training(build: Callable[[], tuple[Any, list[dict[str, Any]]]], products: int) -> None:
    fluid.default_startup_program().random_seed = 5
    loss, feeds = build()
    fluid.optimizer.SGD(0.5).minimize(loss)
    names = [one.name for one in fluid.default_main_program().all_parameters()]
    results = []
    for naive in (True, False):
        with fluid.scope_guard(fluid.Scope()):
            exe = fluid.Executor(CPU)
            exe.run(fluid.default_startup_program())
            exe.naive = naive
            losses = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for feed in feeds * 2]
            scope = fluid.global_scope()
            results.append([losses, *(np.array(scope.find_var(name).get_tensor()) for name in names)])
            if not naive:
                # each product stands in the step, and what it is stands below the step
                text = exe.explain(feed=feeds[0], fetch_list=[loss], full=True)
                assert text.count(" = product_of_steps_") == products
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
