"""Activations of recurrent layers on vectors, by the names that `fluidlite.ops.kernels.recurrence` has."""

from __future__ import annotations

from fluidlite.executor.fast.loops.functions import tanh
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["activated", "slope"]

_CLAMP = 13.0


def activated(name: str, x: Vector) -> Vector:
    """The activation of x; NaN stays."""
    select = x.code.select
    if name == "tanh":
        return tanh(x)
    if name == "relu":
        return select(x.compare("olt", 0.0), x.like(0.0), x)
    if name == "identity":
        return x
    if name == "clamped_sigmoid":
        x = select(x.compare("ogt", _CLAMP), x.like(_CLAMP), x)
    return tanh(x * 0.5) * 0.5 + 0.5


def slope(name: str, y: Vector) -> Vector:
    """The derivative where the activation is y."""
    if name == "tanh":
        return 1.0 - y * y
    if name == "relu":
        return y.code.select(y.compare("ogt", 0.0), y.like(1.0), y.like(0.0))
    if name == "identity":
        return y.like(1.0)
    return y - y * y
