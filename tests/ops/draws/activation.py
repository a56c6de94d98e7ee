"""Functions of single elements."""

from __future__ import annotations

from typing import Any

from beside.draw import Draw, draws

ANY = (
    "abs atan ceil cos erf exp floor gelu log log1p logsigmoid reciprocal relu round rsqrt sigmoid sign sin "
    "softplus softsign sqrt square tanh tanh_shrink"
)
BOUNDED = "acos asin"


@draws(*(f"fluid.layers.{name}" for name in ANY.split()))
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 6)))


@draws(*(f"fluid.layers.{name}" for name in BOUNDED.split()))
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 6), low=-0.95, high=0.95))
