"""Learning-rate schedules: their values step by step, their ops, their shared counter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fluidlite as fluid
from fluidlite import layers
from fluidlite.ir.operator import OpRole
from fluidlite.layers.learning_rate_scheduler import _decay_step_counter

STEPS = 12


def values(rate: Any) -> list[float]:
    """The rate in the first steps."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return [exe.run(fetch_list=[rate])[0].item() for _ in range(STEPS)]


def pieces(step: int) -> float:
    """0.1 up to step 2, 0.2 up to step 5, then 0.05."""
    if step < 2:
        return 0.1
    return 0.2 if step < 5 else 0.05


def cycled(step: int) -> float:
    """A polynomial fall from 0.1 to 0.01, stretched to the next multiple of 4 steps."""
    length = 4 * max(1, math.ceil(step / 4))
    return 0.09 * (1 - step / length) ** 1.5 + 0.01


# schedule, and its value as a function of the step, which begins at 0
SCHEDULES: dict[str, tuple[Callable[[], Any], Callable[[int], float]]] = {
    "exponential": (lambda: layers.exponential_decay(0.1, 3, 0.5), lambda t: 0.1 * 0.5 ** (t / 3)),
    "exponential in stairs": (
        lambda: layers.exponential_decay(0.1, 3, 0.5, staircase=True),
        lambda t: 0.1 * 0.5 ** (t // 3),
    ),
    "natural": (lambda: layers.natural_exp_decay(0.1, 3, 0.5), lambda t: 0.1 * math.exp(-0.5 * t / 3)),
    "natural in stairs": (
        lambda: layers.natural_exp_decay(0.1, 3, 0.5, staircase=True),
        lambda t: 0.1 * math.exp(-0.5 * (t // 3)),
    ),
    "inverse": (lambda: layers.inverse_time_decay(0.1, 3, 0.5), lambda t: 0.1 / (1 + 0.5 * t / 3)),
    "inverse in stairs": (
        lambda: layers.inverse_time_decay(0.1, 3, 0.5, staircase=True),
        lambda t: 0.1 / (1 + 0.5 * (t // 3)),
    ),
    "polynomial": (
        lambda: layers.polynomial_decay(0.1, 6, 0.01, power=2.0),
        lambda t: 0.09 * (1 - min(t, 6) / 6) ** 2 + 0.01,
    ),
    "polynomial in cycles": (lambda: layers.polynomial_decay(0.1, 4, 0.01, power=1.5, cycle=True), cycled),
    "noam": (
        lambda: layers.noam_decay(16, 4, 0.5),
        lambda t: 0.5 * 16**-0.5 * min((t + 1) ** -0.5, (t + 1) * 4**-1.5),
    ),
    "pieces": (lambda: layers.piecewise_decay([2, 5], [0.1, 0.2, 0.05]), pieces),
    "cosine": (
        lambda: layers.cosine_decay(0.1, 2, 5),
        lambda t: 0.05 * (math.cos((t // 2) * math.pi / 5) + 1),
    ),
    "warm-up": (
        lambda: layers.linear_lr_warmup(0.3, 5, 0.1, 0.2),
        lambda t: 0.1 + 0.1 * t / 5 if t < 5 else 0.3,
    ),
    "warm-up to a schedule": (
        lambda: layers.linear_lr_warmup(layers.piecewise_decay([2, 5], [0.1, 0.2, 0.05]), 3, 0.0, 0.1),
        lambda t: 0.1 * t / 3 if t < 3 else pieces(t),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_values(name: str) -> None:
    make, expected = SCHEDULES[name]
    np.testing.assert_allclose(
        values(make()), [expected(step) for step in range(STEPS)], rtol=2e-6, atol=1e-9
    )


@pytest.mark.parametrize("name", SCHEDULES)
def test_ops_carry_their_role(name: str) -> None:
    SCHEDULES[name][0]()
    main = fluid.default_main_program()
    assert {op.role for block in main.blocks for op in block.ops} == {OpRole.LRSched}
    assert main.global_block().ops[0].type == "increment"


def test_exponential_ops() -> None:
    rate = layers.exponential_decay(0.1, 3, 0.5, staircase=True)
    ops = fluid.default_main_program().global_block().ops
    assert [op.type for op in ops] == [
        "increment",
        "cast",
        "scale",
        "floor",
        "fill_constant",
        "elementwise_pow",
        "scale",
    ]
    assert rate.name == "tmp_3" and rate.shape == (1,)
    counter = fluid.default_main_program().global_block().var("@LR_DECAY_COUNTER@")
    assert counter.persistable and counter.dtype == fluid.core.VarDesc.VarType.INT64 and counter.stop_gradient
    assert [op.output_arg_names for op in fluid.default_startup_program().global_block().ops] == [
        ["@LR_DECAY_COUNTER@"]
    ]


def test_schedules_share_the_counter() -> None:
    """The first schedule decides where the counter begins, and it moves once a step."""
    first, second = layers.noam_decay(16, 4), layers.exponential_decay(0.1, 3, 0.5)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = [exe.run(fetch_list=[first, second])[1].item() for _ in range(3)]
    np.testing.assert_allclose(found, [0.1 * 0.5 ** (step / 3) for step in (1, 2, 3)], rtol=1e-6)
    assert [op.type for op in fluid.default_main_program().global_block().ops].count("increment") == 1


def test_step_counter() -> None:
    assert values(_decay_step_counter()) == list(range(STEPS))


def test_rates_may_be_variables() -> None:
    rate = layers.fill_constant([1], "float32", 0.2)
    np.testing.assert_allclose(
        values(layers.cosine_decay(rate, 2, 5))[:3], [0.2, 0.2, 0.1 * (math.cos(math.pi / 5) + 1)], rtol=1e-6
    )


def test_schedule_drives_an_optimizer() -> None:
    x = fluid.data("x", [None, 2], "float32")
    attr = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(1.0))
    loss = layers.reduce_sum(layers.fc(x, 1, param_attr=attr, bias_attr=False))
    fluid.optimizer.SGD(layers.piecewise_decay([1, 3], [0.5, 0.25, 0.125])).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    weights = [exe.run(feed={"x": np.ones((1, 2), "float32")}, fetch_list=["w"])[0][0, 0] for _ in range(4)]
    assert weights == [0.5, 0.25, 0.0, -0.125]


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: layers.piecewise_decay([1, 2], [0.1]), ValueError),
        (lambda: layers.cosine_decay(3, 2, 2), TypeError),
        (lambda: layers.linear_lr_warmup("fast", 5, 0.0, 0.1), ValueError),
    ],
)
def test_refusals(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
