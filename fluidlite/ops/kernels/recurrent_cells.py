"""One step of a long short-term memory whose gates are already products: order input, forget, output,
candidate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.kernels.gated_cells import lstm_form
from fluidlite.ops.kernels.recurrence import planes
from fluidlite.ops.kernels.recurrent_steps import cell_back, factor_calls, forward_calls

lstm_unit = Op("lstm_unit", "X. C_prev. -> C H", attrs={"forget_bias": 0.0}, lod=None, alike=("X", "C_prev"))


@lstm_unit.shape
def _(X: Spec, C_prev: Spec) -> tuple[Spec, Spec]:
    if len(X.shape) != 2 or len(C_prev.shape) != 2 or X.shape[1] != 4 * C_prev.shape[1]:
        raise ShapeError(
            f"op 'lstm_unit': X has shape {list(X.shape)}, wanted four times the columns of "
            f"C_prev{list(C_prev.shape)}"
        )
    if X.shape[0] != C_prev.shape[0] and -1 not in (X.shape[0], C_prev.shape[0]):
        raise ShapeError(f"op 'lstm_unit': X has {X.shape[0]} rows but C_prev {C_prev.shape[0]}")
    state = X.with_shape((X.shape[0], C_prev.shape[1]))
    return state, state


# of the gates in the order of `gated_cells`, where the op has them: input, forget, output, candidate
_ORDER = [3, 0, 1, 2]
_BACK = [1, 2, 3, 0]


class _UnitRun(NamedTuple):
    """The gates in planes, and what is made of them."""

    gates: Array
    cells: Array
    active: Array
    hidden: Array


def _run(xp: Any, X: Array, C_prev: Array, forget_bias: float) -> _UnitRun:
    # a copy, because the gates overwrite what they are given
    gates = planes(X, 4)[_ORDER]
    gates[2] += forget_bias
    made = _UnitRun(gates, *(xp.empty_like(C_prev) for _ in range(3)))
    forward_calls(lstm_form())(xp, None, *made, C_prev)
    return made


@lstm_unit.kernel
def _(xp: Any, X: Array, C_prev: Array, forget_bias: float) -> tuple[Array, Array]:
    made = _run(xp, X, C_prev, forget_bias)
    return made.cells, made.hidden


@lstm_unit.grad("X C_prev")
def _(
    xp: Any, X: Array, C_prev: Array, C: Array, dC: Array | None, dH: Array | None, forget_bias: float
) -> tuple[Array, Array]:
    made = _run(xp, X, C_prev, forget_bias)
    factors, share = xp.empty_like(made.gates), xp.empty_like(C)
    calls = factor_calls(lstm_form())
    (through,) = calls(xp, made.gates, factors, share, made.cells, made.active, C_prev)
    dhidden = xp.zeros_like(C) if dH is None else dH
    found = xp.empty_like(X)
    dgates = xp.empty_like(made.gates)
    cell_back(xp, dhidden, dC, factors, share, dgates)
    planes(found, 4)[...] = dgates[_BACK]
    return found, share * through
