"""Second derivatives of smooth functions of elements, and third ones, under the names of 2.x's ops.

The gradient is d * f', where d is that of the function's output. With dd coming in for it, d * dd * f'' goes
back to what f' is written with, and dd * f' to d.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fluidlite.base.dtypes import Array
from fluidlite.base.registry import Op, Spec, get
from fluidlite.ops.gradients import emits_once_more
from fluidlite.ops.signatures import takes

__all__ = ["Slopes", "declare_second"]

Function = Callable[[Any, Array], Any]


class Slopes(NamedTuple):
    """f' and its first two derivatives, each written with the function's X or its Out."""

    first: Function
    second: Function
    third: Function


def declare_second(type: str, op_type: str, of: str, d: str, slopes: Slopes) -> None:
    """Declare `op_type`, the gradient of the gradient of `type`, whose f' is written with the slot `of`."""
    emits_once_more(
        get(f"{type}_grad"),
        reads={of: of, d: "Out@GRAD"},
        incoming={"grad_x@GRAD": "X@GRAD"},
        writes={f"{of}@GRAD": of, f"{d}@GRAD": "Out@GRAD"},
        type=op_type,
    )
    op = Op(op_type, f"{of} {d} grad_x@GRAD -> {of}@GRAD? {d}@GRAD?")

    @op.shape
    @takes([of])
    def _(**specs: Spec) -> tuple[Spec, Spec]:
        return specs[of], specs[of]

    @op.kernel
    @takes(["xp", of, d, "dgrad_x"])
    def _(xp: Any, **given: Array) -> tuple[Array, Array]:
        at, gradient, incoming = given[of], given[d], given["dgrad_x"]
        return slopes.second(xp, at) * gradient * incoming, slopes.first(xp, at) * incoming

    @op.grad(f"{of} {d} grad_x@GRAD")
    @takes(["xp", of, d, "dgrad_x", f"dd{of}", f"dd{d}"])
    def _(xp: Any, **given: Any) -> tuple[Array, Array, Array]:
        at, gradient, incoming = given[of], given[d], given["dgrad_x"]
        bend, slope = (0 if given[name] is None else given[name] for name in (f"dd{of}", f"dd{d}"))
        second = slopes.second(xp, at)
        return (
            slopes.third(xp, at) * gradient * incoming * bend + second * incoming * slope,
            second * incoming * bend,
            second * gradient * bend + slopes.first(xp, at) * slope,
        )
