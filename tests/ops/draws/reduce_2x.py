"""Reductions, statistics, running sums and searches of the 2.x door."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import ARITHMETIC, FLOATS, INTS, REAL, axis_form, functions, kinds, word

REDUCED: dict[str, tuple[str, ...]] = {
    "sum": kinds("bool int16 int32 int64 float32 float64 complex64 complex128"),
    "mean logsumexp std var nanmean": FLOATS,
    "max min amax amin prod": REAL,
    "any all": kinds("bool int32 int64 float32 float64"),
    "nansum median nanmedian": REAL,
    "count_nonzero": kinds("bool uint8 int16 int32 int64 float16 float32 float64"),
}
TABLE = {name: dtypes for names, dtypes in REDUCED.items() for name in names.split()}
GIVEN_DTYPE = ("sum", "nansum", "prod")
CHOSEN = ("sum", "mean", "max", "min", "prod", "std", "var", "count_nonzero")
"""Functions whose axis may be a Variable, or a list with Variables."""


def chosen(draw: Draw, axis: Any) -> Any:
    """The axis as a Variable, sometimes; a list of them as one Variable, or with some in it."""
    if isinstance(axis, int) and draw.flag(0.1):
        return draw.variable(axis, draw.choice("int32", "int64"))
    if isinstance(axis, list) and 0 < len(axis) < 3 and draw.flag(0.1):
        given = [draw.variable(one, "int64") if draw.flag() else one for one in axis]
        return draw.choice(draw.variable(axis, "int64"), given)
    return axis


@draws(*functions(" ".join(TABLE)))
def _(draw: Draw, name: str) -> Any:
    low, high = draw.choice((-2, 2), (-2, 2), (0, 1))
    most = 4 if word(name) == "logsumexp" else 6
    x = draw.tensor(dtype=TABLE[word(name)], rank=(0, most), low=low, high=high)
    axis = axis_form(draw, x, empty=word(name) != "count_nonzero")
    if word(name) == "median" and isinstance(axis, (list, tuple)):
        axis = draw.axis(x)
    if word(name) in CHOSEN and x.rank:
        axis = chosen(draw, axis)
    wanted = OMIT
    if word(name) in GIVEN_DTYPE:
        wanted = draw.maybe(draw.choice("int32", "int64", "float32", "float64"), 0.25)
    unbiased = draw.maybe(draw.flag()) if word(name) in ("std", "var") else OMIT
    return draw.call(name, x, axis=axis, keepdim=draw.maybe(draw.flag()), dtype=wanted, unbiased=unbiased)


@draws(*functions("quantile nanquantile"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 4))
    q = draw.choice(0, 1, 0.5, draw.real(0, 1), [0.25, 0.75], [draw.real(0, 1)], (0.0, 1.0, 0.3))
    axis = axis_form(draw, x)
    if isinstance(axis, tuple):
        axis = list(axis)
    return draw.call(name, x, q, axis=axis, keepdim=draw.maybe(draw.flag()))


@draws(*functions("argmax argmin"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=kinds("uint8 int16 int32 int64 float32 float64"), rank=(0, 5), distinct=draw.flag())
    axis = draw.choice(OMIT, None, draw.axis(x), draw.axis(x))
    if isinstance(axis, int) and x.rank and draw.flag(0.1):
        axis = draw.variable(axis, "int64")
    wanted = draw.maybe(draw.choice("int32", "int64"), 0.4)
    return draw.call(name, x, axis=axis, keepdim=draw.maybe(draw.flag()), dtype=wanted)


@draws(*functions("argsort sort"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 5), distinct=draw.flag(0.8))
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)), descending=draw.maybe(draw.flag()))


@draws(*functions("topk"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 4), distinct=draw.flag(0.8))
    axis = draw.axis(x)
    assert x.shape is not None
    count = x.shape[axis] if x.rank else 1
    k: Any = draw.int(1, max(count, 1))
    if draw.flag(0.15):
        k = draw.variable(k, "int32")
    given = axis if axis in (-1, x.rank - 1) and draw.flag() else OMIT
    where = given if axis in (-1, x.rank - 1) else axis
    return draw.call(name, x, k, axis=where, largest=draw.maybe(draw.flag()), sorted=draw.maybe(True, 0.2))


@draws(*functions("kthvalue"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 4), distinct=draw.flag(0.8))
    axis = draw.axis(x)
    assert x.shape is not None
    count = x.shape[axis] if x.rank else 1
    k = draw.int(1, max(count, 1))
    return draw.call(name, x, k, axis=axis, keepdim=draw.maybe(draw.flag()))


@draws(*functions("mode"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 4), low=0, high=2)
    return draw.call(name, x, axis=draw.maybe(draw.axis(x)), keepdim=draw.maybe(draw.flag()))


@draws(*functions("cumsum cumprod logcumsumexp cummax cummin"))
def _(draw: Draw, name: str) -> Any:
    dtypes = {"logcumsumexp": FLOATS, "cumprod": ARITHMETIC}.get(word(name), REAL)
    x = draw.tensor(dtype=dtypes, rank=(0, 5))
    axis = draw.choice(OMIT, None, draw.axis(x), draw.axis(x), draw.axis(x))
    if word(name) == "cumprod":
        wanted = draw.maybe(draw.choice("float32", "float64"), 0.2)
        return draw.call(name, x, dim=draw.axis(x), dtype=wanted)
    if word(name) == "cumsum" and isinstance(axis, int) and x.rank and draw.flag(0.1):
        axis = draw.variable(axis, "int64")
    types = INTS if word(name) in ("cummax", "cummin") else FLOATS
    return draw.call(name, x, axis=axis, dtype=draw.maybe(draw.choice(*types), 0.2))


@draws(*functions("diff"))
def _(draw: Draw, name: str) -> Any:
    shape = list(draw.shape((1, 4), low=2))
    kind = draw.choice(*kinds("bool int32 int64 float32 float64"))
    axis = draw.axis(len(shape))
    beside = [*shape]
    beside[axis] = draw.int(1, 2)
    ends = {key: draw.tensor(beside, kind) if draw.flag(0.3) else OMIT for key in ("prepend", "append")}
    return draw.call(name, draw.tensor(shape, kind), n=draw.maybe(1, 0.3), axis=axis, **ends)


@draws(*functions("trapezoid cumulative_trapezoid"))
def _(draw: Draw, name: str) -> Any:
    shape, kind = list(draw.shape((1, 4), low=2)), draw.choice(*FLOATS)
    axis = draw.axis(len(shape))
    y = draw.tensor(shape, kind)
    x = draw.tensor(draw.choice(shape, shape[-1:] if axis in (-1, len(shape) - 1) else shape), kind)
    spacing = draw.choice({"x": x}, {"dx": draw.choice(0.5, 2.0, draw.real(0.1))}, {})
    return draw.call(name, y, **spacing, axis=axis)


@draws(*functions("unique unique_consecutive"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 3), low=0, high=2)
    if draw.flag():
        x = draw.tensor(dtype="int64", rank=(1, 3), low=0, high=2)
    flags = {key: draw.maybe(draw.flag()) for key in ("return_inverse", "return_counts")}
    if word(name) == "unique":
        flags["return_index"] = draw.maybe(draw.flag())
    axis = draw.choice(OMIT, None, draw.axis(x))
    return draw.call(name, x, **flags, axis=axis, dtype=draw.maybe(draw.choice(*INTS), 0.3))


@draws(*functions("bincount histogram"))
def _(draw: Draw, name: str) -> Any:
    if word(name) == "histogram":
        x = draw.tensor(dtype=REAL, rank=(0, 3))
        low, high = draw.choice((OMIT, OMIT), (-1, 1), (0, 2), (0, 0))
        return draw.call(name, x, bins=draw.maybe(draw.int(1, 6)), min=low, max=high)
    x = draw.tensor((draw.size(),), INTS, 0, 5)
    weights = draw.tensor(x.shape, (*FLOATS, *INTS)) if draw.flag() else OMIT
    return draw.call(name, x, weights=weights, minlength=draw.maybe(draw.int(0, 8)))


@draws(*functions("searchsorted bucketize"))
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*REAL)
    count = draw.size(low=1, high=5)
    batch = draw.shape((0, 2)) if word(name) == "searchsorted" else ()
    steps = draw.numbers((*batch, count), kind, -3, 3)
    steps.sort(axis=-1)
    # two of the edges behind each other would be in no order
    edges = draw.feed(steps, fixed=True, known=not batch)
    values = draw.tensor((*batch, draw.size()) if batch else draw.shape((0, 3)), kind, -3, 3)
    flags = {"out_int32": draw.maybe(draw.flag()), "right": draw.maybe(draw.flag())}
    order = [values, edges] if word(name) == "bucketize" else [edges, values]
    return draw.call(name, *order, **flags)


@draws(*functions("nonzero"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=kinds("bool int16 int32 int64 float32 float64"), rank=(0, 4), low=-1, high=1)
    return draw.call(name, x, as_tuple=draw.maybe(draw.flag()))


@draws(*functions("norm", "paddle.linalg"), *functions("renorm"))
def _(draw: Draw, name: str) -> Any:
    if word(name) == "renorm":
        x = draw.tensor(dtype=FLOATS, rank=(2, 4))
        return draw.call(name, x, draw.choice(1.0, 2.0, 3.5), draw.axis(x), draw.choice(0.5, 1.0, 4.0))
    x = draw.tensor(dtype=FLOATS, rank=(0, 5))
    axis = axis_form(draw, x)
    if isinstance(axis, (list, tuple)) and len(axis) != 2:
        axis = draw.axis(x) if len(axis) != 1 else axis
    vector = isinstance(axis, int) or axis is None or axis is OMIT or len(axis) == 1
    numbers = (0, 1, 2, 2.5, 3, float("inf"), float("-inf"))
    p = draw.choice(*numbers, "fro") if vector else draw.choice("fro", 2, 1, float("inf"))
    return draw.call(name, x, p=draw.maybe(p, 0.85), axis=axis, keepdim=draw.maybe(draw.flag()))


@draws("paddle.is_complex", "paddle.is_integer", "paddle.is_floating_point", "paddle.is_tensor")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=ARITHMETIC)
    said = draw.call(name, x)
    return draw.call("paddle.full", [1], said, "bool")


@draws(*functions("is_empty numel rank"), "paddle.shape", "paddle.Tensor.size", "paddle.Tensor.dim")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(0, 5))
    found = draw.call(name, x)
    return draw.call("paddle.full", [1], found, "int64") if word(name) == "dim" else found
