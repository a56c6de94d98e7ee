"""One step of a long short-term memory whose gates are already products: order input, forget, output,
candidate.
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec
from fluidlite.ops.kernels.recurrence import ACTIVATIONS

_SIGMOID = ACTIVATIONS["sigmoid"]
_TANH = ACTIVATIONS["tanh"]

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


def _activated(xp: Any, X: Array, forget_bias: float) -> Array:
    """The gates [n, 4, size]."""
    # a copy, because the activations overwrite what they are given
    gates = X.reshape(len(X), 4, X.shape[1] // 4).copy()
    gates[:, 1] += forget_bias
    _SIGMOID.apply(xp, gates[:, :3])
    _TANH.apply(xp, gates[:, 3])
    return gates


@lstm_unit.kernel
def _(xp: Any, X: Array, C_prev: Array, forget_bias: float) -> tuple[Array, Array]:
    entry, forget, output, candidate = _activated(xp, X, forget_bias).swapaxes(0, 1)
    cells = forget * C_prev + entry * candidate
    return cells, output * xp.tanh(cells)


@lstm_unit.grad("X C_prev")
def _(
    xp: Any, X: Array, C_prev: Array, C: Array, dC: Array | None, dH: Array | None, forget_bias: float
) -> tuple[Array, Array]:
    gates = _activated(xp, X, forget_bias)
    entry, forget, output, candidate = gates.swapaxes(0, 1)
    active = xp.tanh(C)
    d = xp.zeros_like(C) if dC is None else dC
    dhidden = xp.zeros_like(C) if dH is None else dH
    slopes = xp.empty_like(gates)
    _TANH.slope(xp, active, slopes[:, 3])
    d = d + dhidden * output * slopes[:, 3]
    _SIGMOID.slope(xp, gates[:, :3], slopes[:, :3])
    _TANH.slope(xp, candidate, slopes[:, 3])
    for k, part in enumerate((d * candidate, d * C_prev, dhidden * active, d * entry)):
        slopes[:, k] *= part
    return slopes.reshape(X.shape), d * forget
