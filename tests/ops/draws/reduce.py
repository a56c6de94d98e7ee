"""Sums and their kin over axes, orders, searches."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws

FLOATS = ("float32", "float64")


def dims(draw: Draw, x: Any) -> Any:
    """One axis, several, none of them, or nothing."""
    return draw.choice(OMIT, None, draw.axis(x), draw.axis(x), draw.axes(x), draw.axes(x))


@draws(*(f"fluid.layers.reduce_{name}" for name in ["sum", "mean", "max", "min", "prod"]))
def _(draw: Draw, name: str) -> Any:
    kinds = FLOATS if name.endswith("mean") else (*FLOATS, *FLOATS, "int32", "int64")
    x = draw.tensor(rank=(1, 6), dtype=kinds, distinct=name.endswith(("max", "min")))
    return draw.call(name, x, dim=dims(draw, x), keep_dim=draw.maybe(draw.flag()))


@draws("fluid.layers.reduce_all", "fluid.layers.reduce_any")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype="bool")
    return draw.call(name, x, dim=dims(draw, x), keep_dim=draw.maybe(draw.flag()))


@draws("fluid.layers.logsumexp")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5))
    out = draw.out(x.dtype)
    return draw.call(name, x, dim=dims(draw, x), keepdim=draw.maybe(draw.flag()), out=out)


@draws("fluid.layers.mean")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 6)))


@draws(*(f"fluid.layers.{name}" for name in ["has_inf", "has_nan", "isfinite"]))
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 5), dtype=(*FLOATS, "int32", "int64")))


@draws("fluid.layers.cumsum")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=(*FLOATS, *FLOATS, "int32", "int64"))
    return draw.call(
        name,
        x,
        axis=draw.maybe(draw.axis(x)),
        exclusive=draw.maybe(draw.flag(), 0.5),
        reverse=draw.maybe(draw.flag(), 0.5),
    )


@draws("fluid.layers.argmax", "fluid.layers.argmin")
def _(draw: Draw, name: str) -> Any:
    kinds = (*FLOATS, "int64", "int32", "uint8", "int16")
    x = draw.tensor(rank=(1, 6), dtype=kinds, distinct=True)
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)))


@draws("fluid.layers.argsort")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=(*FLOATS, "int32", "int64"), distinct=True)
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)), descending=draw.maybe(draw.flag()))


@draws("fluid.layers.topk")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 4), low=2), FLOATS, -9, 9, distinct=draw.flag(0.6))
    k: Any = draw.int(1, 2)
    return draw.call(name, x, draw.variable(k, "int32") if draw.flag(0.2) else k)


@draws("fluid.layers.unique", "fluid.layers.unique_with_counts")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor((draw.int(1, 8),), (*FLOATS, "int32", "int64"), -2, 2)
    return draw.call(name, x, dtype=draw.choice(OMIT, "int32", "int64"))


@draws("fluid.layers.allclose")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*FLOATS)
    x = draw.tensor(shape, dtype)
    y = x if draw.flag() else draw.tensor(shape, dtype)
    return draw.call(
        name,
        x,
        y,
        rtol=draw.choice(OMIT, 1e-3, 1.0, 10.0),
        atol=draw.choice(OMIT, 1e-3, 1.0, 10.0),
        equal_nan=draw.maybe(draw.flag()),
    )


@draws("fluid.layers.l2_normalize")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5))
    return draw.call(name, x, draw.axis(x), epsilon=draw.choice(OMIT, 1e-6, 0.1))


@draws("fluid.layers.is_empty")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=(*FLOATS, "int32", "int64"))
    cond = draw.call("fluid.layers.create_tensor", "bool") if draw.flag(0.2) else OMIT
    return draw.call(name, x, cond=cond)


@draws(*(f"fluid.layers.{name}" for name in ["shape", "rank", "size"]))
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, draw.tensor(rank=(1, 6), dtype=(*FLOATS, "int32", "int64")))
