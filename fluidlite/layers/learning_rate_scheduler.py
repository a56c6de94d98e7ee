"""Learning rates that change with the step: each schedule gives a Variable of shape [1] for an optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fluidlite.base.imported_names import imported_names
from fluidlite.data_feeder import check_type
from fluidlite.ir.guarded import guarded
from fluidlite.ir.program import default_main_program
from fluidlite.ir.variable import Variable
from fluidlite.ir.warned import warn_user
from fluidlite.layers.arithmetic.elementwise import elementwise_min
from fluidlite.layers.control_flow import Switch
from fluidlite.layers.ops import ceil, cos, exp, floor
from fluidlite.layers.tensor import assign, cast, create_global_var, fill_constant
from fluidlite.layers.tensors.search import autoincreased_step_counter

__all__ = [
    "cosine_decay",
    "exponential_decay",
    "inverse_time_decay",
    "linear_lr_warmup",
    "natural_exp_decay",
    "noam_decay",
    "piecewise_decay",
    "polynomial_decay",
]


def _decay_step_counter(begin: int = 0) -> Any:
    """The number of the step as a float32 Variable; `begin` at the first one."""
    return cast(autoincreased_step_counter(counter_name="@LR_DECAY_COUNTER@", begin=begin, step=1), "float32")


def _check_divisors(schedule: str, **numbers: Any) -> None:
    """ZeroDivisionError for a number of steps of 0, by which the schedule would divide."""
    for name, number in numbers.items():
        if isinstance(number, (int, float)) and number == 0:
            raise ZeroDivisionError(f"{schedule}: {name} is 0, and the schedule divides by it")


def _fraction(decay_steps: int, staircase: bool) -> Any:
    """step / decay_steps, rounded down for a staircase."""
    quotient = _decay_step_counter() / decay_steps
    return floor(quotient) if staircase else quotient


def noam_decay(
    d_model: float | Variable, warmup_steps: float | Variable, learning_rate: float | Variable = 1.0
) -> Any:
    """learning_rate * d_model ** -0.5 * min(step ** -0.5, step * warmup_steps ** -1.5); the first step is
    1 (Vaswani et al., 2017).
    """
    _check_divisors("noam_decay", d_model=d_model, warmup_steps=warmup_steps)
    with default_main_program()._lr_schedule_guard():
        step = _decay_step_counter(1)
        decaying = step**-0.5
        rising = (warmup_steps**-1.5) * step
        return learning_rate * (d_model**-0.5) * elementwise_min(decaying, rising)


def exponential_decay(
    learning_rate: float | Variable, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Any:
    """A schedule: learning_rate * decay_rate ** (step / decay_steps).

    Parameters
    ----------
    learning_rate: the first rate.
    decay_steps: the number of steps in which the rate is multiplied by `decay_rate`.
    decay_rate: the factor.
    staircase: the exponent is rounded down, so that the rate falls in steps.

    Returns
    -------
    A Variable [1], for the learning rate of an optimizer.

    >>> rate = fluid.layers.exponential_decay(0.1, decay_steps=2, decay_rate=0.5, staircase=True)
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[rate])[0]), 3) for _ in range(4)]
    [0.1, 0.1, 0.05, 0.05]
    """
    _check_divisors("exponential_decay", decay_steps=decay_steps)
    with default_main_program()._lr_schedule_guard():
        return learning_rate * (decay_rate ** _fraction(decay_steps, staircase))


def natural_exp_decay(
    learning_rate: float | Variable, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Any:
    """learning_rate * exp(-decay_rate * step / decay_steps)"""
    _check_divisors("natural_exp_decay", decay_steps=decay_steps)
    with default_main_program()._lr_schedule_guard():
        return learning_rate * exp(-1 * decay_rate * _fraction(decay_steps, staircase))


def inverse_time_decay(
    learning_rate: float | Variable, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Any:
    """learning_rate / (1 + decay_rate * step / decay_steps)"""
    _check_divisors("inverse_time_decay", decay_steps=decay_steps)
    with default_main_program()._lr_schedule_guard():
        return learning_rate / (1 + decay_rate * _fraction(decay_steps, staircase))


def polynomial_decay(
    learning_rate: float | Variable,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Any:
    """(learning_rate - end_learning_rate) * (1 - step / decay_steps) ** power + end_learning_rate, for step
    <= decay_steps.

    After `decay_steps` the rate stays where it is; with `cycle` the fall is stretched to the next multiple of
    `decay_steps`.
    """
    _check_divisors("polynomial_decay", decay_steps=decay_steps)
    with default_main_program()._lr_schedule_guard():
        step = _decay_step_counter()
        length: Any = decay_steps
        if cycle:
            rounds = ceil(step / decay_steps)
            zero = fill_constant(shape=[1], dtype="float32", value=0.0)
            one = fill_constant(shape=[1], dtype="float32", value=1.0)
            with Switch() as switch, switch.case(step == zero):
                assign(input=one, output=rounds)
            length = decay_steps * rounds
        else:
            step = elementwise_min(
                x=step, y=fill_constant(shape=[1], dtype="float32", value=float(decay_steps))
            )
        return (learning_rate - end_learning_rate) * ((1 - step / length) ** power) + end_learning_rate


def piecewise_decay(boundaries: Sequence[float], values: Sequence[float]) -> Any:
    """A schedule of fixed rates.

    Parameters
    ----------
    boundaries: the steps at which the next rate begins.
    values: the rates, one more than boundaries.

    Returns
    -------
    A Variable [1], for the learning rate of an optimizer.

    >>> rate = fluid.layers.piecewise_decay(boundaries=[2], values=[0.1, 0.01])
    >>> _ = exe.run(fluid.default_startup_program())
    >>> [round(float(exe.run(fetch_list=[rate])[0]), 3) for _ in range(3)]
    [0.1, 0.1, 0.01]
    """
    if len(values) - len(boundaries) != 1:
        raise ValueError("len(values) - len(boundaries) should be 1")
    if list(boundaries) != sorted(boundaries):
        warn_user(
            f"piecewise_decay: boundaries {list(boundaries)} are not in ascending order: some of them "
            "are never reached"
        )
    with default_main_program()._lr_schedule_guard():
        step = _decay_step_counter()
        rate = create_global_var(
            shape=[1], value=0.0, dtype="float32", persistable=True, name="learning_rate"
        )
        with Switch() as switch:
            for boundary, value in zip(boundaries, values, strict=False):
                limit = fill_constant(shape=[1], dtype="float32", value=float(boundary), force_cpu=True)
                constant = fill_constant(shape=[1], dtype="float32", value=float(value))
                with switch.case(step < limit):
                    assign(constant, rate)
            constant = fill_constant(shape=[1], dtype="float32", value=float(values[-1]))
            with switch.default():
                assign(constant, rate)
        return rate


def cosine_decay(learning_rate: float | Variable, step_each_epoch: int, epochs: int) -> Any:
    """learning_rate / 2 * (cos(epoch * pi / epochs) + 1), where epoch = floor(step / step_each_epoch)."""
    check_type(learning_rate, "learning_rate", (float, Variable), "cosine_decay")
    _check_divisors("cosine_decay", step_each_epoch=step_each_epoch, epochs=epochs)
    with default_main_program()._lr_schedule_guard():
        epoch = floor(_decay_step_counter() / step_each_epoch)
        return learning_rate * 0.5 * (cos(epoch * math.pi / epochs) + 1)


def linear_lr_warmup(
    learning_rate: float | Variable, warmup_steps: int, start_lr: float, end_lr: float
) -> Any:
    """start_lr + (end_lr - start_lr) * step / warmup_steps for the first `warmup_steps`, then
    `learning_rate` (a float or a Variable).
    """
    _check_divisors("linear_lr_warmup", warmup_steps=warmup_steps)
    with default_main_program()._lr_schedule_guard():
        slope = float(end_lr) - float(start_lr)
        rate = create_global_var(
            shape=[1], value=0.0, dtype="float32", persistable=True, name="learning_rate_warmup"
        )
        step = _decay_step_counter()
        with Switch() as switch:
            with switch.case(step < warmup_steps):
                assign(start_lr + slope * (step / float(warmup_steps)), rate)
            with switch.default():
                if not isinstance(learning_rate, Variable):
                    learning_rate = fill_constant(shape=[1], dtype="float32", value=float(learning_rate))
                assign(learning_rate, rate)
        return rate


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
    __getattr__, __dir__ = imported_names(__name__)
