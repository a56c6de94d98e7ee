"""Tensors of another shape, or in another order."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, draws

FLOATS = ("float32", "float64")
KINDS = (*FLOATS, *FLOATS, "int32", "int64")


def sizes_of(draw: Draw, sizes: list[int], chance: float = 0.15) -> Any:
    """Sizes as a list, as a list with Variables, or as a Variable."""
    if draw.flag(chance):
        return draw.variable(sizes, "int32")
    return [draw.variable(size, "int32") if draw.flag(chance / 2) else size for size in sizes]


def parts(draw: Draw, count: int) -> list[int]:
    """Factors of a count, in random order."""
    found = []
    for factor in (2, 2, 2, 3, 3, 5):
        if count % factor == 0 and count:
            found.append(factor)
            count //= factor
    found.append(count)
    while len(found) > 1 and draw.flag():
        found[:2] = [found[0] * found[1]]
    if draw.flag(0.2):
        found.append(1)
    draw.rng.shuffle(found)
    return found


@draws("fluid.layers.reshape")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=KINDS)
    assert x.shape is not None
    count = 1
    for size in x.shape:
        count *= size
    shape = parts(draw, count)
    if draw.flag(0.4) and 0 not in shape:
        shape[draw.int(0, len(shape) - 1)] = -1
    elif draw.flag(0.3) and shape[0] == x.shape[0]:
        shape[0] = 0
    actual = draw.variable(shape, "int32") if draw.flag(0.1) and min(shape) > 0 else OMIT
    return draw.call(
        name,
        x,
        shape if actual is not OMIT else sizes_of(draw, shape),
        actual_shape=actual,
        act=draw.act() if x.dtype in FLOATS else OMIT,
        inplace=draw.maybe(draw.flag(), 0.3),
    )


@draws("fluid.layers.transpose")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 6), dtype=KINDS)
    return draw.call(name, x, draw.rng.sample(range(x.rank), x.rank))


@draws("fluid.layers.squeeze")
def _(draw: Draw, name: str) -> Any:
    shape = [1 if draw.flag(0.4) else size for size in draw.shape((1, 5))]
    x = draw.tensor(shape, KINDS)
    axes = [at for at, size in enumerate(shape) if size == 1 and draw.flag(0.7)]
    if draw.flag(0.1):
        axes.append(draw.int(0, len(shape) - 1))
    return draw.call(name, x, [at - len(shape) if draw.flag(0.3) else at for at in axes])


@draws("fluid.layers.unsqueeze")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS)
    axes: Any = []
    for rank in range(x.rank + 1, x.rank + 1 + draw.int(1, 2)):
        axes.append(draw.int(-rank, rank - 1))
    if draw.flag(0.3):
        axes = axes[0]
        return draw.call(name, x, draw.variable(axes, "int32") if draw.flag(0.4) else axes)
    return draw.call(name, x, sizes_of(draw, axes))


@draws("fluid.layers.flatten")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=KINDS)
    return draw.call(name, x, axis=draw.maybe(draw.int(0, x.rank)))


@draws("fluid.layers.stack")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*KINDS)
    given = [draw.tensor(shape, dtype) for _ in range(draw.int(1, 4))]
    axis = draw.int(-len(shape) - 1, len(shape))
    return draw.call(name, given if len(given) > 1 or draw.flag() else given[0], axis=draw.maybe(axis))


@draws("fluid.layers.unstack")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS, known=True)
    axis = draw.axis(x)
    assert x.shape is not None
    count = draw.maybe(x.shape[axis], 0.3)
    return draw.call(name, x, axis=OMIT if axis == 0 and draw.flag() else axis, num=count)


@draws("fluid.layers.concat")
def _(draw: Draw, name: str) -> Any:
    shape, dtype = draw.shape((1, 4)), draw.choice(*KINDS)
    axis = draw.axis(len(shape))
    given = []
    for _ in range(draw.int(1, 4)):
        sizes = list(shape)
        sizes[axis] = draw.size()
        given.append(draw.tensor(sizes, dtype))
    if draw.flag(0.15):
        given.append(given[0])
    chosen = draw.variable(axis, "int32") if draw.flag(0.12) else axis
    return draw.call(name, given, axis=OMIT if axis == 0 and draw.flag() else chosen)


@draws("fluid.layers.split")
def _(draw: Draw, name: str) -> Any:
    shape = list(draw.shape((1, 4)))
    axis = draw.axis(len(shape))
    sections = [draw.int(1, 3) for _ in range(draw.int(1, 4))]
    how: Any = len(sections)
    if draw.flag(0.4):
        shape[axis] = how * draw.int(1, 2)
    else:
        shape[axis] = sum(sections)
        how = list(sections)
        if draw.flag(0.3):
            how[draw.int(0, len(how) - 1)] = -1
        elif draw.flag(0.2):
            how = [draw.variable(one, "int32") if draw.flag() else one for one in how]
    x = draw.tensor(shape, KINDS, known=True)
    dim = OMIT if axis in (-1, len(shape) - 1) and draw.flag() else axis
    return draw.call(name, x, how, dim=draw.variable(axis, "int32") if draw.flag(0.1) else dim)


@draws("fluid.layers.expand")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=KINDS)
    return draw.call(name, x, sizes_of(draw, [draw.int(1, 3) for _ in range(x.rank)]))


@draws("fluid.layers.expand_as")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS)
    assert x.shape is not None
    target = [size * draw.int(1, 3) for size in x.shape]
    return draw.call(name, x, draw.tensor(target, x.dtype))


@draws("fluid.layers.reverse", "fluid.layers.flip")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=KINDS)
    axes = draw.axes(x)
    return draw.call(name, x, axes[0] if name.endswith("reverse") and draw.flag() else axes)


@draws("fluid.layers.roll")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 4), dtype=KINDS)
    if draw.flag(0.4):
        return draw.call(name, x, draw.int(-7, 7))
    axes = draw.axes(x)
    if draw.flag(0.3):
        return draw.call(name, x, draw.int(-5, 5), dims=axes[0])
    return draw.call(name, x, [draw.int(-5, 5) for _ in axes], dims=axes)


@draws("fluid.layers.meshgrid")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*KINDS)
    return draw.call(name, [draw.tensor((draw.size(),), dtype) for _ in range(draw.int(2, 4))])


# ---------------------------------------------------------------------- borders
@draws("fluid.layers.pad")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(rank=(1, 5), dtype=FLOATS)
    widths = [draw.int(0, 2) for _ in range(2 * x.rank)]
    return draw.call(name, x, widths, pad_value=draw.maybe(draw.real()))


@draws("fluid.layers.pad2d")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape(4, low=2, high=5), (*FLOATS, "int32", "int64"))
    widths: Any = [draw.int(0, 1) for _ in range(4)]
    if draw.flag(0.15):
        widths = draw.variable(widths, "int32")
    return draw.call(
        name,
        x,
        widths,
        mode=draw.choice(OMIT, "constant", "reflect", "edge"),
        pad_value=draw.maybe(draw.real(), 0.4) if x.dtype in FLOATS else OMIT,
        data_format=draw.choice(OMIT, OMIT, "NCHW", "NHWC"),
    )


@draws("fluid.layers.pad_constant_like")
def _(draw: Draw, name: str) -> Any:
    dtype = draw.choice(*FLOATS, "int32", "int64")
    y = draw.tensor(rank=(1, 4), dtype=dtype)
    assert y.shape is not None
    x = draw.tensor([size + draw.int(0, 2) for size in y.shape], dtype)
    return draw.call(name, x, y, pad_value=draw.maybe(draw.choice(0.0, 1.0, -2.0)))


@draws("fluid.layers.crop")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 4), low=2), "float32", known=True)
    assert x.shape is not None
    shape = [draw.int(1, size) for size in x.shape]
    offsets = [draw.int(0, whole - part) for whole, part in zip(x.shape, shape, strict=True)]
    size = draw.tensor(shape, x.dtype) if draw.flag(0.3) else shape
    given = draw.variable(offsets, "int32") if draw.flag(0.2) else offsets
    return draw.call(name, x, shape=size, offsets=given if any(offsets) else OMIT)


@draws("fluid.layers.crop_tensor")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 5), low=2), (*FLOATS, "int32", "int64"), known=True)
    assert x.shape is not None
    shape = [draw.int(1, size) for size in x.shape]
    offsets = [draw.int(0, whole - part) for whole, part in zip(x.shape, shape, strict=True)]
    size = sizes_of(draw, shape)
    if isinstance(size, list) and draw.flag(0.2):
        size[-1] = -1
    return draw.call(name, x, shape=size, offsets=sizes_of(draw, offsets) if any(offsets) else OMIT)


# ---------------------------------------------------------------------- slices
def ends(draw: Draw, size: int) -> tuple[int, int]:
    """Start and end of a slice of at least one element, counted from either end, at times beyond."""
    first = draw.int(0, size - 1)
    last = draw.int(first + 1, size)
    if draw.flag(0.3):
        last += 3 if last == size else 0
    elif draw.flag(0.4) and last < size:
        last -= size
    return first - size if draw.flag(0.3) else first, last


@draws("fluid.layers.slice")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 5), low=2), KINDS)
    assert x.shape is not None
    axes = sorted(draw.some(range(x.rank)))
    pairs = [ends(draw, x.shape[at]) for at in axes]
    starts, stops = (sizes_of(draw, [one[side] for one in pairs]) for side in (0, 1))
    return draw.call(name, x, axes, starts, stops)


@draws("fluid.layers.strided_slice")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape((1, 5), low=2), KINDS)
    assert x.shape is not None
    axes = sorted(draw.some(range(x.rank)))
    starts, stops, steps = [], [], []
    for at in axes:
        first, last = ends(draw, x.shape[at])
        step = draw.choice(1, 1, 2, 3)
        if draw.flag(0.25):
            first, last, step = x.shape[at] - 1, draw.choice(0, -x.shape[at] - 1), draw.choice(-1, -2)
        starts.append(first)
        stops.append(last)
        steps.append(step)
    return draw.call(name, x, axes, *(sizes_of(draw, one, 0.1) for one in (starts, stops, steps)))


# ---------------------------------------------------------------------- images
@draws("fluid.layers.space_to_depth")
def _(draw: Draw, name: str) -> Any:
    block = draw.int(2, 3)
    shape = (draw.size(), block * block * draw.int(1, 2), block * draw.int(1, 2), block * draw.int(1, 2))
    return draw.call(name, draw.tensor(shape, FLOATS), block)


@draws("fluid.layers.pixel_shuffle")
def _(draw: Draw, name: str) -> Any:
    factor = draw.int(1, 3)
    shape = (draw.size(), factor * factor * draw.int(1, 2), draw.size(), draw.size())
    return draw.call(name, draw.tensor(shape, FLOATS), factor)


@draws("fluid.layers.shuffle_channel")
def _(draw: Draw, name: str) -> Any:
    group = draw.int(1, 3)
    return draw.call(
        name, draw.tensor((draw.size(), group * draw.int(1, 3), draw.size(), draw.size()), FLOATS), group
    )


@draws("fluid.layers.temporal_shift")
def _(draw: Draw, name: str) -> Any:
    seconds = draw.int(1, 3)
    shape = (seconds * draw.int(1, 2), draw.int(2, 6), draw.size(), draw.size())
    ratio = draw.choice(OMIT, 0.125, 0.25, 0.4)
    return draw.call(name, draw.tensor(shape, FLOATS), seconds, shift_ratio=ratio)


@draws("fluid.layers.unfold")
def _(draw: Draw, name: str) -> Any:
    def two(low: int, high: int) -> Any:
        return draw.int(low, high) if draw.flag() else [draw.int(low, high), draw.int(low, high)]

    x = draw.tensor((*draw.shape(2), draw.int(5, 7), draw.int(5, 7)), FLOATS)
    pads = draw.choice(OMIT, 1, [1, 0], [1, 0, 2, 1])
    return draw.call(
        name, x, two(1, 3), strides=draw.maybe(two(1, 2)), paddings=pads, dilations=draw.maybe(two(1, 2))
    )


@draws("fluid.layers.similarity_focus")
def _(draw: Draw, name: str) -> Any:
    x = draw.tensor(draw.shape(4, low=2), FLOATS, distinct=True, fixed=True)
    assert x.shape is not None
    axis = draw.int(1, 3)
    return draw.call(name, x, axis, draw.some(range(x.shape[axis])))
