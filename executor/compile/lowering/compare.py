"""Comparisons and logic: booleans from arrays of the same dtype."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.elementwise import aligned

_COMPARISONS = {
    "less_than": "x < y",
    "less_equal": "x <= y",
    "greater_than": "x > y",
    "greater_equal": "x >= y",
    "equal": "x == y",
    "not_equal": "x != y",
}


@lowering(*_COMPARISONS)
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    if x.dtype != y.dtype or len(y.shape or ()) > len(x.shape or ()):
        raise CannotLower("Y is another kind of array")
    right = aligned(e, y, len(x.shape or ()), e.attr("axis"))
    out = e.out("Out", e.inferred_shape("Out"), "bool")
    e.elementwise(_COMPARISONS[e.op.type], out, x=x, y=right)


_LOGIC = {"logical_and": "both(x, y)", "logical_or": "either(x, y)", "logical_xor": "differ(x, y)"}


@lowering(*_LOGIC)
def _(e: Emitter) -> None:
    x = e.need("X")
    y = e.need("Y")
    if x.dtype != np.bool_ or y.dtype != np.bool_ or x.shape != y.shape:
        raise CannotLower("not booleans of one shape")
    out = e.out("Out", x.shape, "bool")
    e.elementwise(_LOGIC[e.op.type], out, x=x, y=y)


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
