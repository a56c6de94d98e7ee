"""Optimizers of `paddle.incubate`: slow copies of parameters, and their averages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fluidlite import unique_name
from fluidlite.base.dtypes import DTypeLike
from fluidlite.base.tracebacks import short_tracebacks
from fluidlite.ir.program import Program, name_scope
from fluidlite.ir.variable import Variable
from fluidlite.optimizer import averaging
from fluidlite.paddle.static.variables import create_global_var
from fluidlite.paddle.tensor.creation import assign
from fluidlite.paddle.tensor.logic import equal
from fluidlite.paddle.tensor.math import cast, increment, mod
from fluidlite.paddle.tensor.shapes import constant

__all__ = ["LookAhead", "ModelAverage"]


class LookAhead:
    """Every `k` steps: slow = alpha * fast + (1 - alpha) * slow, then fast = slow (Zhang et al., 2019).

    `inner_optimizer` moves the fast parameters, which are the model's. The slow ones begin, as in 2.6.2, as
    the fast ones are behind the first step.
    """

    def __init__(self, inner_optimizer: Any, alpha: float = 0.5, k: int = 5, name: str | None = None) -> None:
        if inner_optimizer is None:
            raise AssertionError("inner optimizer can not be None")
        if not 0.0 <= alpha <= 1.0:
            raise AssertionError(
                f"alpha should be larger or equal to 0.0, and less or equal than 1.0, but it is {alpha}"
            )
        if not isinstance(k, int) or k <= 0:
            raise AssertionError(f"k should be a positive integer, but it is {k!r}")
        self.inner_optimizer = inner_optimizer
        self.alpha = alpha
        self.k = k
        self.type = "lookahead"

    @short_tracebacks
    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameters: Any = None,
        no_grad_set: Any = None,
    ) -> Any:
        """The inner optimizer's `minimize`, and the ops of the slow parameters."""
        result = self.inner_optimizer.minimize(loss, startup_program, parameters, no_grad_set)
        program = loss.block.program
        moved = sorted((pair for pair in result[1] if pair[1] is not None), key=lambda pair: pair[0].name)
        with program._optimized_guard([]):
            step = _kept("lookahead_step", [1], 0, "int32")
            increment(step)
        for param, grad in moved:
            with program._optimized_guard([param, grad]), name_scope("optimizer"):
                self._follow(param, step)
        return result

    def _follow(self, fast: Any, step: Variable) -> None:
        """Append the ops of one parameter."""
        slow = _kept(f"{fast.name}_slow", fast.shape, 0.0, fast.dtype)
        k = _kept("lookahead_k", [1], self.k, "int32")
        first = equal(step, constant([1], "int32", 1))
        due = equal(mod(step, k), constant([1], "int32", 0))
        assign(_chosen(cast(first, fast.dtype), fast, slow), slow)
        blend = fast * self.alpha + slow * (1.0 - self.alpha)
        for var in (fast, slow):
            assign(_chosen(cast(due, fast.dtype), blend, var), var)


def _kept(name: str, shape: Iterable[int], value: float, dtype: DTypeLike) -> Variable:
    """A variable `name_N` of the whole program, which runs change."""
    return create_global_var(list(shape), value, dtype, persistable=True, name=unique_name.generate(name))


def _chosen(flag: Variable, one: Variable, other: Variable) -> Variable:
    """`one` where the flag is 1, `other` where it is 0."""
    return flag * one + (1.0 - flag) * other


class ModelAverage(averaging.ModelAverage):
    """The mean of each parameter over a window of steps; made after `minimize`, it adds one op a parameter.

    The window grows with the training: `average_window_rate` times the number of updates, but at least
    `min_average_window` and at most `max_average_window`. parameters: those to average; by default all.
    """

    def __init__(
        self,
        average_window_rate: float,
        parameters: Iterable[Any] | None = None,
        min_average_window: int = 10000,
        max_average_window: int = 10000,
        name: str | None = None,
    ) -> None:
        self._given = None if parameters is None else list(parameters)
        super().__init__(average_window_rate, min_average_window, max_average_window, name=name)

    def _averaged(self) -> list[Any]:
        return super()._averaged() if self._given is None else self._given

    def minimize(  # type: ignore[override]  # no update: nothing is given back
        self, loss: Variable, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> None:
        """Do nothing: the ops that add up stand in the program since this was made."""

    def apply(self, executor: Any = None, need_restore: bool = True) -> Any:
        """Inside the `with` the parameters are their averages; `need_restore=False` leaves them so."""
        if executor is None:
            raise RuntimeError("Executor should not be None in static graph mode.")
        return super().apply(executor, need_restore)

    def restore(self, executor: Any = None) -> None:
        """Put the parameters back after `apply(need_restore=False)`."""
        if executor is None:
            raise RuntimeError("Executor should not be None in static graph mode.")
        super().restore(executor)
