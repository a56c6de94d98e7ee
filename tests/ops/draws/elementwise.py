"""Functions of pairs of elements, and the operators of Variables."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, Value, draws

FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, *FLOATS, "int32", "int64")


def shape_beside(draw: Draw, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """A shape that broadcasts to `shape` as elementwise ops have it, and the axis where it begins."""
    start = draw.int(0, len(shape) - 1)
    end = len(shape) if draw.flag() else draw.int(start + 1, len(shape))
    kept = tuple(1 if draw.flag(0.15) else size for size in shape[start:end])
    return kept, start


def pair(draw: Draw, dtypes: tuple[str, ...] = NUMBERS, **limits: Any) -> tuple[Value, Value, Any]:
    """Two tensors and the axis, which may be left out."""
    shape, dtype = draw.shape((1, 5)), draw.choice(*dtypes)
    if draw.flag(0.45):
        return (
            draw.tensor(shape, dtype, **limits),
            draw.tensor(shape, dtype, **limits),
            draw.choice(OMIT, -1, 0),
        )
    small, start = shape_beside(draw, shape)
    last = start + len(small) == len(shape)
    axis = draw.choice(OMIT, -1, start) if last else start
    return draw.tensor(shape, dtype, **limits), draw.tensor(small, dtype, **limits), axis


@draws(*(f"fluid.layers.elementwise_{name}" for name in ["add", "sub", "mul", "max", "min"]))
def _(draw: Draw, name: str) -> Any:
    x, y, axis = pair(draw)
    act = draw.act() if x.dtype in FLOATS else OMIT
    return draw.call(name, x, y, axis=axis, act=act)


@draws("fluid.layers.elementwise_div", "fluid.layers.elementwise_pow")
def _(draw: Draw, name: str) -> Any:
    x, y, axis = pair(draw, low=1, high=3)
    act = draw.act() if x.dtype in FLOATS else OMIT
    return draw.call(name, x, y, axis=axis, act=act)


@draws("fluid.layers.elementwise_mod", "fluid.layers.elementwise_floordiv")
def _(draw: Draw, name: str) -> Any:
    whole = name.endswith("floordiv")
    shape = draw.shape((1, 4))
    small, start = (shape, 0) if draw.flag() else shape_beside(draw, shape)
    dtype = draw.choice("int32", "int64", *(() if whole else FLOATS))
    x = draw.tensor(shape, dtype, -9, 9)
    y = draw.tensor(small, dtype, *draw.choice((1, 4), (1, 4), (-4, -1)))
    act = draw.act() if dtype in FLOATS else OMIT
    return draw.call(name, x, y, axis=start if small != shape else OMIT, act=act)


@draws("fluid.layers.elementwise_equal")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*NUMBERS)
    return draw.call(name, draw.tensor(shape, dtype), draw.tensor(shape, dtype))


COMPARE = "equal not_equal less_than less_equal greater_than greater_equal"


@draws(*(f"fluid.layers.{name}" for name in COMPARE.split()))
def _(draw: Draw, name: str) -> Any:
    x, y, _axis = pair(draw, low=-2, high=2)
    if draw.flag(0.6):
        y = draw.tensor(x.shape, x.dtype)
    cond = draw.call("fluid.layers.create_tensor", "bool") if draw.flag(0.15) else OMIT
    cpu = draw.maybe(draw.flag(), 0.3) if name.endswith("less_than") else OMIT
    found = draw.call(name, x, y, cond=cond, force_cpu=cpu)
    return cond if cond is not OMIT and draw.flag() else found


@draws(*(f"fluid.layers.logical_{name}" for name in ["and", "or", "xor", "not"]))
def _(draw: Draw, name: str) -> Any:
    shape = draw.shape((1, 4))
    given = [draw.tensor(shape, "bool") for _ in range(1 if name.endswith("not") else 2)]
    out = draw.call("fluid.layers.create_tensor", "bool") if draw.flag(0.2) else OMIT
    return draw.call(name, *given, out=out)


@draws("fluid.layers.sum", "fluid.layers.sums")
def _(draw: Draw, name: str) -> Any:
    shape = draw.shape((1, 4))
    dtype = (
        draw.choice("float32", "float64", "int32", "int64") if name.endswith("sum") else draw.choice(*FLOATS)
    )
    given = [draw.tensor(shape, dtype) for _ in range(draw.int(1, 4))]
    if draw.flag(0.2):
        given.append(given[0])
    out = OMIT
    if name.endswith("sums") and draw.flag(0.3):
        out = (
            draw.call("fluid.layers.create_tensor", dtype)
            if draw.flag() or given.count(given[0]) > 1
            else given[0]
        )
    return draw.call(name, given if len(given) > 1 or draw.flag() else given[0], out=out)


@draws("fluid.layers.addcmul")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*FLOATS)
    tensors = [draw.tensor(shape, dtype) for _ in range(3)]
    value = draw.maybe(draw.choice(1.0, -0.5, 2.0))
    return draw.call(name, *tensors, value=value, out=draw.out(dtype))


@draws("fluid.layers.multiplex")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((2, 4)), draw.choice(*NUMBERS)
    inputs = [draw.tensor(shape, dtype) for _ in range(draw.int(2, 4))]
    return draw.call(name, inputs, draw.tensor((shape[0], 1), "int32", 0, len(inputs) - 1))


# ---------------------------------------------------------------------- operators
ARITHMETIC = "add sub mul truediv pow floordiv mod"
ORDER = "lt le gt ge eq ne"


def number(draw: Draw, dtype: str, name: str) -> Any:
    """A Python number that stands beside a Variable."""
    if name in ("floordiv", "mod") or dtype.startswith("int"):
        return draw.choice(1, 2, 3, 2.0)
    return draw.choice(0, 1, 2, -1, 0.5, 2.0, -0.25, 1e-3, True)


@draws(*(f"fluid.op.{name}" for name in (ARITHMETIC + " " + ORDER).split()))
def _(draw: Draw, name: str) -> Any:
    last = name.rpartition(".")[2]
    whole = last in ("floordiv", "mod")
    limits = {"low": 1, "high": 3} if last in ("pow", "truediv", "floordiv", "mod") else {}
    dtypes = ("int32", "int64") if whole else NUMBERS
    x, y, _axis = pair(draw, dtypes, **limits)
    if x.shape != y.shape and _axis not in (OMIT, -1):
        y = draw.tensor(x.shape[-1:], x.dtype, **limits)
    kind = draw.rng.random()
    if kind < 0.45:
        y = number(draw, x.dtype, last)
    elif kind < 0.55 and not whole:
        y = draw.tensor(x.shape, draw.choice(*FLOATS, "int32", "int64"), **limits)
    args = [x, y]
    wide = isinstance(y, Value) and y.shape != x.shape
    if draw.flag(0.3) and not wide and (last != "floordiv" or isinstance(y, Value)):
        args.reverse()
    return draw.call(f"op.{last}", *args)


@draws("fluid.op.neg")
def _(draw: Draw, name: str) -> Any:
    return draw.call("op.neg", draw.tensor(rank=(1, 5)))


def index_of(draw: Draw, size: int) -> Any:
    """The index of one dimension: a whole number or a slice of at least one element."""
    if draw.flag(0.35) or not size:
        at = draw.int(-size, max(size - 1, 0))
        return draw.variable(at, draw.choice("int32", "int64")) if draw.flag(0.15) else at
    if draw.flag(0.2):
        return slice(None, None, draw.choice(None, None, -1))
    low = draw.int(0, size - 1)
    start: Any = draw.choice(None, low, low, low - size)
    high = draw.int(low + 1, size)
    stop: Any = draw.choice(None, high, high, size + 2, high - size if high < size else None)
    if draw.flag(0.1):
        start = draw.variable(low, "int32")
    elif draw.flag(0.1):
        stop = draw.variable(high, "int32")
    # 1.8.5 refuses steps where an end is missing
    return slice(start, stop, None if start is None or stop is None else draw.choice(None, None, 1, 2))


@draws("fluid.op.getitem")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=(*FLOATS, *FLOATS, "int64"))
    assert x.shape is not None
    index = [index_of(draw, size) for size in x.shape[: draw.int(1, x.rank)]]
    if draw.flag(0.04):
        index = [..., index[0]]
    return draw.call("op.getitem", x, tuple(index) if len(index) > 1 or draw.flag(0.2) else index[0])
