"""Comparisons and logic: booleans from arrays of the same dtype."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.elementwise import aligned


@lowering("less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal")
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    if x.dtype != y.dtype or len(y.shape or ()) > len(x.shape or ()):
        raise CannotLower("Y is another kind of array")
    right = aligned(e, y, len(x.shape or ()), e.attr("axis"))
    out = e.out("Out", e.inferred_shape("Out"), "bool")
    e.elementwise(e.expression(), out, x=x, y=right)


@lowering("logical_and", "logical_or", "logical_xor")
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    if x.dtype != np.bool_ or y.dtype != np.bool_ or x.shape != y.shape:
        raise CannotLower("not booleans of one shape")
    out = e.out("Out", x.shape, "bool")
    e.elementwise(e.expression(), out, x=x, y=y)


@lowering("logical_not")
def _(e: Emitter) -> None:
    x = e.need("X")
    if x.dtype != np.bool_:
        raise CannotLower("not booleans")
    e.elementwise("invert(x)", e.out("Out", x.shape, "bool"), x=x)


@lowering("isfinite")
def _(e: Emitter) -> None:
    x = e.need("X")
    if x.dtype is None or x.dtype.kind != "f" or x.size != 1:
        raise CannotLower("more than a number")
    out = e.out("Out", (1,), "bool")
    e.elementwise("abs(x) < inf", out, x=e.reshape(x, (1,)), inf=math.inf)
