"""Functions of the 2.x door that move elements: shapes, axes, joining and splitting."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, Value, draws
from ops.draws.common_2x import (
    ANY,
    ARITHMETIC,
    FLOATS,
    INTS,
    MOVED,
    REAL,
    functions,
    indices,
    kinds,
    scalar,
    sizes,
    word,
)

JOINED = kinds("bool int8 int32 int64 float16 float32 float64")
SPLIT = kinds("bool int32 int64 float16 float32 float64")


def _count(x: Value) -> int:
    assert x.shape is not None
    total = 1
    for size in x.shape:
        total *= size
    return total


def _factors(draw: Draw, count: int) -> list[int]:
    """Sizes whose product is this count."""
    found = []
    while count > 1 and draw.flag(0.7):
        divisor = draw.choice(*[size for size in range(1, count + 1) if count % size == 0])
        found.append(divisor)
        count //= divisor
    return [*found, count] if count != 1 or not found or draw.flag(0.2) else found


@draws(*functions("reshape"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=ANY, rank=(0, 5), known=draw.flag(0.6))
    shape = _factors(draw, _count(x))
    if draw.flag(0.4) and _count(x):
        shape[draw.int(0, len(shape) - 1)] = -1
    assert x.shape is not None
    for at in range(min(len(shape), x.rank)):
        if shape[at] == x.shape[at] and draw.flag(0.3):
            shape[at] = 0
    if _count(x) == 1 and draw.flag(0.2):
        shape = []
    return draw.call(name, x, sizes(draw, shape))


@draws(*functions("flatten"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=kinds("uint8 int8 int16 int32 int64 float32 float64"), rank=(0, 5))
    if x.rank == 0:
        return draw.call(name, x)
    first, last = sorted(draw.int(0, x.rank - 1) for _ in range(2))
    first, last = (at - x.rank if draw.flag(0.3) else at for at in (first, last))
    return draw.call(
        name,
        x,
        start_axis=draw.maybe(first) if first == 0 else first,
        stop_axis=draw.maybe(last) if last == -1 else last,
    )


@draws(*functions("squeeze"))
def _(draw: Draw, name: str) -> Any:
    shape = [1 if draw.flag() else size for size in draw.shape((0, 5))]
    x = draw.tensor(shape, kinds("bool int8 int32 int64 float16 float32 float64 complex64 complex128"))
    ones = [at for at, size in enumerate(shape) if size == 1] or [0]
    ones = [at - len(shape) if draw.flag(0.3) and shape else at for at in ones]
    some = draw.some(ones if shape else [0, -1])
    given = draw.choice(OMIT, None, some, tuple(some), some[0])
    if shape and draw.flag(0.15):
        given = draw.choice(draw.variable(some, "int64"), [draw.variable(one, "int32") for one in some])
    return draw.call(name, x, axis=given)


@draws(*functions("unsqueeze"))
def _(draw: Draw, name: str) -> Any:
    dtypes = kinds("bool int8 int16 int32 int64 float32 float64 complex64 complex128")
    x = draw.tensor(dtype=dtypes, rank=(0, 4))
    some = [draw.int(-x.rank - 1, x.rank) for _ in range(draw.int(1, 2))]
    given = draw.choice(some, tuple(some), some[0], some[0])
    if draw.flag(0.15):
        several = [draw.variable(one, "int64") for one in some]
        given = draw.choice(draw.variable(some[0], draw.choice(*INTS)), draw.variable(some, "int64"), several)
    return draw.call(name, x, given)


@draws(*functions("transpose"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=MOVED, rank=(0, 6))
    perm = draw.rng.sample(range(x.rank), x.rank)
    return draw.call(name, x, [at - x.rank if draw.flag(0.2) else at for at in perm])


@draws(*functions("t"), *functions("atleast_1d atleast_2d atleast_3d"))
def _(draw: Draw, name: str) -> Any:
    if word(name) == "t":
        dtypes = kinds("int32 int64 float16 float32 float64")
        return draw.call(name, draw.tensor(dtype=dtypes, rank=(0, 2)))
    items = [draw.tensor(dtype=FLOATS, rank=(0, 4)) for _ in range(draw.int(1, 2))]
    return draw.call(name, *items[: 1 if ".Tensor." in name else 2])


@draws(*functions("moveaxis"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=MOVED, rank=(1, 5))
    if draw.flag():
        return draw.call(name, x, draw.axis(x), draw.axis(x))
    source = draw.axes(x)
    target = draw.rng.sample(range(x.rank), len(source))
    return draw.call(name, x, source, [at - x.rank if draw.flag(0.3) else at for at in target])


@draws(*functions("flip reverse"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=kinds("bool int32 int64 float32 float64"), rank=(1, 5))
    some = draw.axes(x)
    return draw.call(name, x, draw.choice(some, some[0]))


@draws(*functions("rot90"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=kinds("bool int32 int64 float32 float64"), rank=(2, 4))
    first, second = draw.rng.sample(range(x.rank), 2)
    return draw.call(name, x, k=draw.maybe(draw.int(-5, 5)), axes=draw.maybe([first, second]))


@draws(*functions("roll"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=ARITHMETIC, rank=(0, 4))
    if x.rank == 0 or draw.flag(0.3):
        return draw.call(name, x, draw.int(-5, 5), axis=draw.choice(OMIT, None))
    some = draw.axes(x)
    shifts = [draw.int(-5, 5) for _ in some]
    if draw.flag(0.3):
        return draw.call(name, x, shifts[0], axis=some[0])
    return draw.call(name, x, draw.choice(shifts, tuple(shifts)), axis=draw.choice(some, tuple(some)))


@draws("paddle.concat", "paddle.stack")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*JOINED)
    shape = list(draw.shape((1, 4) if word(name) == "concat" else (0, 4)))
    rank = len(shape) + (word(name) == "stack")
    axis = draw.axis(rank)
    items = []
    for _ in range(draw.int(1, 3)):
        if word(name) == "concat":
            shape[axis] = draw.size()
        items.append(draw.tensor(shape, kind))
    given = scalar(draw, axis, draw.choice(*INTS), 0.15) if word(name) == "concat" else axis
    return draw.call(name, draw.choice(items, tuple(items)), axis=draw.maybe(given) if axis == 0 else given)


@draws(*functions("split chunk vsplit"))
def _(draw: Draw, name: str) -> Any:
    least = 2 if word(name) == "vsplit" else 1
    shape = list(draw.shape((least, 4)))
    axis = 0 if word(name) == "vsplit" else draw.axis(len(shape))
    parts = [draw.int(1, 3) for _ in range(draw.int(1, 3))]
    shape[axis] = sum(parts)
    given: Any = list(parts)
    if word(name) == "chunk" or draw.flag(0.4):
        given = draw.choice(*[count for count in range(1, shape[axis] + 1) if shape[axis] % count == 0])
    elif draw.flag(0.3):
        given[draw.int(0, len(given) - 1)] = -1
    x = draw.tensor(shape, SPLIT, known=draw.flag(0.5))
    where = OMIT if word(name) == "vsplit" else scalar(draw, axis, "int32", 0.1)
    return draw.call(name, x, given, axis=where)


@draws(*functions("unstack unbind"))
def _(draw: Draw, name: str) -> Any:
    dtypes = ARITHMETIC if word(name) == "unstack" else MOVED
    x = draw.tensor(dtype=dtypes, rank=(1, 4), known=True)
    axis = draw.axis(x)
    assert x.shape is not None
    count = draw.maybe(x.shape[axis], 0.3) if word(name) == "unstack" else OMIT
    return draw.call(name, x, axis=axis, num=count)


@draws(*functions("tile expand broadcast_to"))
def _(draw: Draw, name: str) -> Any:
    if word(name) == "tile":
        x = draw.tensor(dtype=kinds("bool int32 int64 float32 float64"), rank=(0, 4))
        times = [draw.int(1, 3) for _ in range(draw.int(1, 5))]
        return draw.call(name, x, sizes(draw, times))
    x = draw.tensor([1 if draw.flag() else size for size in draw.shape((0, 4))], SPLIT, known=draw.flag())
    assert x.shape is not None
    target = [draw.int(1, 3) if size == 1 else draw.choice(size, -1) for size in x.shape]
    front = [draw.int(1, 3) for _ in range(draw.int(0, 2))]
    return draw.call(name, x, sizes(draw, [*front, *target]))


@draws(*functions("unflatten"), "paddle.nn.Unflatten")
def _(draw: Draw, name: str) -> Any:
    shape = list(draw.shape((1, 4)))
    axis = draw.axis(len(shape))
    parts = [draw.int(1, 3) for _ in range(draw.int(1, 3))]
    shape[axis] = 1
    for part in parts:
        shape[axis] *= part
    if draw.flag(0.4):
        parts[draw.int(0, len(parts) - 1)] = -1
    x = draw.tensor(shape, ANY)
    if word(name)[0].isupper():
        layer = draw.call(name, axis, parts)
        return draw.call(layer.name, x)
    return draw.call(name, x, axis, sizes(draw, parts, 0.15))


@draws(*functions("repeat_interleave"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(1, 4))
    axis = draw.choice(OMIT, None, draw.axis(x), draw.axis(x))
    assert x.shape is not None
    count = x.shape[axis] if isinstance(axis, int) else _count(x)
    repeats: Any = draw.int(1, 3)
    if draw.flag(0.3):
        repeats = draw.tensor((count,), INTS, 1, 3, fixed=True)
    return draw.call(name, x, repeats, axis=axis)


@draws("paddle.meshgrid")
def _(draw: Draw, name: str) -> Any:
    kind = draw.choice(*REAL)
    items = [draw.tensor((draw.size(),), kind) for _ in range(draw.int(2, 4))]
    return draw.call(name, items) if draw.flag() else draw.call(name, *items)


@draws(*functions("diag diagflat diag_embed diagonal trace"))
def _(draw: Draw, name: str) -> Any:
    offset = draw.maybe(draw.int(-2, 2))
    if word(name) == "diag":
        x = draw.tensor(dtype=kinds("int32 int64 float16 float32 float64"), rank=(1, 2))
        return draw.call(name, x, offset=offset, padding_value=draw.maybe(draw.int(-1, 3)))
    if word(name) == "diagflat":
        return draw.call(name, draw.tensor(dtype=REAL, rank=(0, 3)), offset=offset)
    dtypes = kinds("bool int32 int64 float32 float64") if word(name) == "diagonal" else REAL
    embed = word(name) == "diag_embed"
    x = draw.tensor(dtype=dtypes, rank=(1, 3) if embed else (2, 4), low=-2, high=2)
    first, second = draw.rng.sample(range(x.rank + embed), 2)
    # 2.6.2 looks for the dimensions of diag_embed within those of its input
    chance = 0.02 if embed else 0.3
    first, second = (at - x.rank - embed if draw.flag(chance) else at for at in (first, second))
    if draw.flag(0.3) and not embed:
        return draw.call(name, x, offset=0)
    keys = ("dim1", "dim2") if embed else ("axis1", "axis2")
    return draw.call(name, x, offset=draw.int(-1, 1), **dict(zip(keys, (first, second), strict=True)))


@draws(*functions("tril triu"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=MOVED, rank=(2, 5))
    return draw.call(name, x, diagonal=draw.maybe(draw.int(-3, 3)))


@draws(*functions("as_real as_complex"))
def _(draw: Draw, name: str) -> Any:
    if word(name) == "as_real":
        return draw.call(name, draw.tensor(dtype=("complex64", "complex128"), rank=(0, 4)))
    return draw.call(name, draw.tensor((*draw.shape((0, 3)), 2), FLOATS, known=True))


@draws(*functions("crop"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=REAL, rank=(1, 4), known=True)
    assert x.shape is not None
    offsets = [draw.int(0, max(size - 1, 0)) for size in x.shape]
    shape = [
        draw.choice(-1, draw.int(1, max(size - at, 1))) for size, at in zip(x.shape, offsets, strict=True)
    ]
    return draw.call(name, x, shape=sizes(draw, shape), offsets=sizes(draw, offsets))


@draws(*functions("slice strided_slice"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=SPLIT if word(name) == "strided_slice" else ANY, rank=(1, 5), known=draw.flag())
    axes = sorted(draw.some(range(x.rank)))
    assert x.shape is not None
    starts = [draw.int(0, max(x.shape[axis] - 1, 0)) for axis in axes]
    ends = [draw.int(start + 1, x.shape[axis] + 2) for axis, start in zip(axes, starts, strict=True)]
    steps = [draw.int(1, 3) for _ in axes]
    for at, axis in enumerate(axes):
        if word(name) == "strided_slice" and draw.flag(0.25):
            starts[at], ends[at], steps[at] = ends[at] - 1, starts[at] - 1, -steps[at]
            ends[at] = ends[at] if ends[at] >= 0 else -x.shape[axis] - 1
        elif draw.flag(0.3):
            starts[at] -= x.shape[axis]
    given = [sizes(draw, starts), sizes(draw, ends)]
    if word(name) == "strided_slice":
        given.append(sizes(draw, steps, 0.15))
    return draw.call(name, x, axes, *given)


@draws("paddle.nn.functional.pad", "paddle.nn.functional.zeropad2d")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "zeropad2d":
        x = draw.tensor(dtype=FLOATS, rank=4)
        return draw.call(
            name, x, [draw.int(0, 2) for _ in range(4)], data_format=draw.maybe(draw.choice("NCHW", "NHWC"))
        )
    mode = draw.maybe(draw.choice("constant", "reflect", "replicate", "circular"), 0.7)
    rank = draw.int(3, 5) if mode is not OMIT or draw.flag() else draw.int(1, 5)
    x = draw.tensor(draw.shape(rank, low=2), FLOATS if mode is not OMIT else ARITHMETIC, known=draw.flag())
    small = mode in ("reflect", "circular")
    if rank in (3, 4, 5) and draw.flag(0.75):
        layout = draw.choice(*{3: ("NCL", "NLC"), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}[rank])
        pads: Any = [draw.int(0, 1 if small else 2) for _ in range(2 * (rank - 2))]
        return draw.call(
            name, x, sizes(draw, pads, 0.1), mode=mode, value=draw.maybe(draw.real(), 0.4), data_format=layout
        )
    pads = [draw.int(0, 2) for _ in range(2 * rank)]
    return draw.call(name, x, pads, value=draw.maybe(draw.real(), 0.4))


@draws(*(f"paddle.nn.{name}" for name in ["Pad1D", "Pad2D", "Pad3D", "ZeroPad2D"]))
def _(draw: Draw, name: str) -> Any:
    count = int(name[-2])
    layout = draw.choice(*{1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[count])
    more: dict[str, Any] = {}
    if "Zero" not in name:
        more["mode"] = draw.maybe(draw.choice("constant", "reflect", "replicate", "circular"))
        more["value"] = draw.maybe(draw.real(), 0.4)
    pads = [draw.int(0, 1) for _ in range(2 * count)]
    layer = draw.call(name, draw.choice(pads, pads[0]), data_format=layout, **more)
    return draw.call(layer.name, draw.tensor(draw.shape(count + 2, low=2), FLOATS))


@draws("paddle.nn.Flatten")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(dtype=FLOATS, rank=(2, 5))
    first, last = sorted(draw.int(0, x.rank - 1) for _ in range(2))
    given = {} if draw.flag() else {"start_axis": first, "stop_axis": last}
    layer = draw.call(name, **given)
    return draw.call(layer.name, x)


@draws(*functions("shard_index"))
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor((draw.size(), 1), INTS, 0, 19)
    shards = draw.int(1, 4)
    ignored = draw.maybe(draw.int(-3, 3))
    return draw.call(name, x, 20, shards, draw.int(0, shards - 1), ignore_value=ignored)


@draws("paddle.nn.functional.one_hot", "paddle.nn.functional.sequence_mask")
def _(draw: Draw, name: str) -> Any:
    if word(name) == "one_hot":
        x = indices(draw, draw.shape((0, 3)), 4)
        return draw.call(name, x, scalar(draw, 4, "int32", 0.2))
    x = draw.tensor(draw.shape((0, 3)), INTS, 0, 5)
    wanted = draw.maybe(draw.choice("int32", "float32", "float64", "bool"))
    return draw.call(name, x, maxlen=draw.choice(OMIT, 6, 3, draw.variable(6, "int32")), dtype=wanted)


@draws("paddle.broadcast_shape")
def _(draw: Draw, name: str) -> Any:
    full = draw.shape((1, 4))
    one = draw.call(name, list(full), [1 if draw.flag(0.3) else size for size in full[draw.int(0, 1) :]])
    return draw.call("paddle.ones", one)
