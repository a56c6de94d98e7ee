"""Masks of relu from what relu was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers


def run(build: Callable[[Any], Any], naive: bool) -> tuple[Any, str]:
    """The gradient of x, and the plan."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [2, 3])
        x.stop_gradient = False
        y = build(x)
        (gradient,) = fluid.gradients(layers.reduce_sum(layers.elementwise_mul(y, y)), x)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.naive = naive
    feed = {"x": np.array([[-1, 0, 2], [np.nan, np.inf, -np.inf]], "float32")}
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        (found,) = exe.run(main, feed=feed, fetch_list=[gradient])
        return found, exe.explain(main, feed, [gradient], after="share_masks")


@pytest.mark.parametrize(
    ("build", "seen"),
    [
        # tanh's gradient needs tanh's output anyway
        (lambda x: layers.relu(layers.tanh(x)), "greater(tanh_0_tmp_0"),
        (lambda x: layers.relu(layers.relu(layers.tanh(x))), "greater(tanh_0_tmp_0"),
        # nobody needs what scale has left: it would be kept for the mask alone
        (lambda x: layers.relu(layers.scale(x, 2.0)), "greater(relu_0_tmp_0"),
    ],
)
def test_masks(build: Callable[[Any], Any], seen: str) -> None:
    found, plan = run(build, naive=False)
    np.testing.assert_array_equal(found, run(build, naive=True)[0])
    assert seen in plan
