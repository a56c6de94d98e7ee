"""Functions of two tensors of the 2.x door, and Python's operators on Variables."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws
from ops.draws.common_2x import ANY, ARITHMETIC, FLOATS, INTS, REAL, functions, kinds, operands, word

WHOLE = kinds("bool uint8 int8 int16 int32 int64")
COMPARED = kinds("bool uint8 int8 int16 int32 int64 float16 float32 float64")
LOGICAL = kinds("bool int8 int16 int32 int64 float32 float64 complex64 complex128")
BINARY: dict[str, tuple[tuple[str, ...], float, float]] = {
    "add subtract multiply": (ARITHMETIC, -3, 3),
    "maximum minimum fmax fmin heaviside": (REAL, -3, 3),
    "equal not_equal less_than less_equal greater_than greater_equal": (COMPARED, -1, 1),
    "gcd lcm": (INTS, -12, 12),
    "hypot logaddexp": (FLOATS, -3, 3),
    "kron": (kinds("int32 int64 float32 float64"), -2, 2),
    "ldexp": (kinds("int32 int64 float32 float64"), -3, 3),
}
TABLE = {name: row for names, row in BINARY.items() for name in names.split()}


IMPOSSIBLE = ("gcd_", "lcm_")  # in place, these compare a list of sizes with a tuple, and refuse all


@draws(*(name for name in functions(" ".join(TABLE)) if not name.endswith(IMPOSSIBLE)))
def _(draw: Draw, name: str) -> Any:
    dtypes, low, high = TABLE[word(name)]
    second = (-1.0, 1.0) if word(name) == "heaviside" and draw.flag() else None
    return draw.call(name, *operands(draw, dtypes, low, high, second=second))


@draws(*functions("atan2 nextafter"))
def _(draw: Draw, name: str) -> Any:
    dtypes = FLOATS if word(name) == "nextafter" else kinds("int32 int64 float16 float32 float64")
    x = draw.tensor(dtype=dtypes, rank=(0, 5))
    return draw.call(name, x, draw.tensor(x.shape, x.dtype or ""))


@draws(*functions("divide floor_divide remainder mod floor_mod"))
def _(draw: Draw, name: str) -> Any:
    divisor = draw.choice((1.0, 4.0), (1.0, 4.0), (-4.0, -1.0), (1.0, 1.5))
    dtypes = ARITHMETIC if word(name) == "divide" else REAL
    return draw.call(name, *operands(draw, dtypes, -7, 7, second=divisor))


@draws(*functions("pow"))
def _(draw: Draw, name: str) -> Any:
    if draw.flag(0.4):
        x = draw.tensor(dtype=REAL, rank=(0, 4), low=0.2, high=2.5)
        return draw.call(name, x, draw.choice(0, 1, 2, 3, -1, 0.5, 2.0, draw.real()))
    low = draw.choice(0.2, 0.2, -2)
    return draw.call(name, *operands(draw, REAL, low, 3, second=(0, 3)))


@draws(*functions("logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor"))
def _(draw: Draw, name: str) -> Any:
    dtypes = LOGICAL if word(name).startswith("logical") else WHOLE
    x, y = operands(draw, dtypes, -3, 3, mixed=0.05)
    in_place = name.endswith("_") or ".Tensor." in name
    given = OMIT
    if dtypes is LOGICAL and not in_place and draw.flag(0.15):
        given = draw.call("paddle.logical_or", x, y)
    result = draw.call(name, x, y, out=given)
    return result if given is OMIT else [result, given]


@draws(*functions("equal_all allclose isclose"))
def _(draw: Draw, name: str) -> Any:
    dtypes = REAL if word(name) == "equal_all" else FLOATS
    x = draw.tensor(dtype=dtypes, rank=(0, 4), low=-1, high=1)
    y = x if draw.flag(0.3) else draw.tensor(x.shape, x.dtype or "", -1, 1)
    if word(name) == "equal_all":
        return draw.call(name, x, y)
    return draw.call(
        name,
        x,
        y,
        rtol=draw.maybe(draw.choice(0.0, 0.5, 1e-3)),
        atol=draw.maybe(draw.choice(0.0, 0.5)),
        equal_nan=draw.maybe(draw.flag()),
    )


@draws(*functions("lerp"))
def _(draw: Draw, name: str) -> Any:
    x, y = operands(draw, FLOATS, mixed=0.05)
    weight = draw.real(-1, 2)
    if draw.flag():
        weight = draw.tensor(draw.choice((), (1,), y.shape), x.dtype or "", 0, 1)
    return draw.call(name, x, y, weight)


@draws("paddle.complex", "paddle.polar")
def _(draw: Draw, name: str) -> Any:
    return draw.call(name, *operands(draw, FLOATS, mixed=0.05))


@draws(*functions("add_n"))
def _(draw: Draw, name: str) -> Any:
    shape = draw.shape((0, 4))
    kind = draw.choice(*kinds("int32 int64 float16 float32 float64"))
    items = [draw.tensor(shape, kind) for _ in range(draw.int(1, 4))]
    return draw.call(name, items[0] if ".Tensor." in name or draw.flag(0.1) else items)


@draws("paddle.multiplex")
def _(draw: Draw, name: str) -> Any:
    shape, kind = draw.shape((2, 4)), draw.choice(*ARITHMETIC)
    items = [draw.tensor(shape, kind) for _ in range(draw.int(2, 4))]
    index = draw.tensor((shape[0], 1), "int32", 0, len(items) - 1, fixed=True)
    return draw.call(name, items, index)


@draws(*functions("dist"), *functions("cdist"))
def _(draw: Draw, name: str) -> Any:
    p = draw.maybe(
        draw.choice(0, 1, 2, 2.0, 1.5, 3, float("inf"), float("-inf") if word(name) == "dist" else 4)
    )
    if word(name) == "dist":
        return draw.call(name, *operands(draw, FLOATS, mixed=0), p=p)
    batch, kind, width = draw.shape((0, 2)), draw.choice(*FLOATS), draw.size()
    x = draw.tensor((*batch, draw.size(), width), kind)
    y = draw.tensor((*batch, draw.size(), width), kind)
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    return draw.call(name, x, y, p=p, compute_mode=draw.maybe(draw.choice(*modes)))


@draws(*functions("inner outer dot cross"))
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*(REAL if word(name) in ("outer", "dot") else FLOATS))
    if word(name) == "outer":
        return draw.call(name, draw.tensor(dtype=kind, rank=(1, 3)), draw.tensor(dtype=kind, rank=(1, 3)))
    if word(name) == "inner":
        width = draw.size()
        shapes = [(*draw.shape((0, 2)), width) for _ in range(2)]
        return draw.call(name, *[draw.tensor(shape, kind) for shape in shapes])
    shape = list(draw.shape((1, 2) if word(name) == "dot" else (1, 4)))
    axis = OMIT
    if word(name) == "cross":
        axis = draw.axis(len(shape))
        shape[axis] = 3
        axis = draw.maybe(axis, 0.8)
    return draw.call(name, draw.tensor(shape, kind), draw.tensor(shape, kind), axis=axis)


@draws(*functions("expand_as"), "paddle.broadcast_tensors")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*kinds("bool int32 int64 float32 float64"))
    full = draw.shape((1, 4), low=1)
    shapes = [full, tuple(1 if draw.flag(0.3) else size for size in full[draw.int(0, len(full) - 1) :])]
    if word(name) == "expand_as":
        return draw.call(name, draw.tensor(shapes[1], kind), draw.tensor(shapes[0], kind))
    found = draw.call(name, [draw.tensor(shape, kind) for shape in shapes])
    return found


# ---------------------------------------------------------------------- operators
OPERATORS: dict[str, tuple[str, tuple[str, ...], float, float]] = {
    "__add__": ("op.add", ANY, -3, 3),
    "__sub__": ("op.sub", ANY, -3, 3),
    "__mul__": ("op.mul", ANY, -3, 3),
    "__truediv__": ("op.truediv", ANY, 1, 4),
    "__floordiv__": ("op.floordiv", REAL, 1, 4),
    "__mod__": ("op.mod", REAL, 1, 4),
    "__pow__": ("op.pow", REAL, 0, 3),
    "__and__": ("op.and_", WHOLE, -3, 3),
    "__or__": ("op.or_", WHOLE, -3, 3),
    "__xor__": ("op.xor", WHOLE, -3, 3),
    "__eq__": ("op.eq", COMPARED, -1, 1),
    "__ne__": ("op.ne", COMPARED, -1, 1),
    "__lt__": ("op.lt", COMPARED, -1, 1),
    "__le__": ("op.le", COMPARED, -1, 1),
    "__gt__": ("op.gt", COMPARED, -1, 1),
    "__ge__": ("op.ge", COMPARED, -1, 1),
}
REFLECTED = {
    "__radd__": "op.add",
    "__rsub__": "op.sub",
    "__rmul__": "op.mul",
    "__rtruediv__": "op.truediv",
    "__rpow__": "op.pow",
}


def _constant(draw: Draw, dtype: str, low: float, high: float) -> Any:
    """A Python number beside a Variable."""
    whole = draw.choice(draw.int(int(low), int(high)), draw.flag())
    real = draw.choice(draw.real(low, high), float(draw.int(int(low), int(high))))
    return whole if dtype.startswith(("int", "uint", "bool")) and draw.flag(0.7) else draw.choice(whole, real)


@draws(*(f"paddle.Tensor.{name}" for name in OPERATORS))
def _(draw: Draw, name: str) -> Any:
    path, dtypes, low, high = OPERATORS[name.rpartition(".")[2]]
    first = (0.3, 3) if path == "op.pow" else (-5, 5)
    if low < 0:
        first = (low, high)
    if dtypes is not WHOLE and draw.flag(0.4):
        x = draw.tensor(dtype=dtypes, rank=(0, 4), low=first[0], high=first[1])
        return draw.call(path, x, _constant(draw, x.dtype or "", low, high))
    mixed = 0.05 if dtypes is WHOLE else draw.choice(0.1, 0.9)
    x, y = operands(draw, dtypes, *first, second=(low, high), mixed=mixed)
    return draw.call(path, x, y)


@draws(*(f"paddle.Tensor.{name}" for name in REFLECTED))
def _(draw: Draw, name: str) -> Any:
    dtypes = REAL if "pow" in name else ANY
    x = draw.tensor(dtype=dtypes, rank=(0, 4), low=1, high=3)
    return draw.call(REFLECTED[name.rpartition(".")[2]], _constant(draw, x.dtype or "", 1, 3), x)
