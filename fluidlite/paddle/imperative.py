"""Names of `paddle`, and methods of its tensors, that only imperative mode has: refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

_REASONS = {
    "as_strided unfold view view_as": (
        "shows the memory of a tensor in imperative mode, and programs have none: use paddle.reshape, "
        "paddle.cast or paddle.nn.functional.unfold"
    ),
    "cauchy_ fill_ fill_diagonal_ fill_diagonal_tensor_ gaussian_ geometric_ normal_ uniform_ zero_": (
        "writes over the values of a tensor in imperative mode, and programs have none: make a variable with "
        "paddle.normal, paddle.uniform or paddle.full"
    ),
    "tolist": "reads the values of a tensor in imperative mode, and programs have none: fetch the variable",
    "pop": "shortens an array, which programs cannot: read its entries with paddle.tensor.array_read",
    "to_dense values indices": "reads a sparse tensor, which programs do not have",
    "top_p_sampling": "has a kernel for CUDA devices alone in 2.6.2, and none here",
}
REFUSED = [Refusals("paddle", reason, functions=names) for names, reason in _REASONS.items()]
REFUSED.append(
    Refusals(
        "paddle",
        "delays the initial values of parameters in imperative mode; programs have a startup program, which "
        "gives them when it is run",
        classes="LazyGuard",
    )
)
__all__ = [name for refused in REFUSED for name in refused.names]


def __getattr__(name: str) -> Any:
    for refused in REFUSED:
        if name in refused.names:
            return refused.get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
