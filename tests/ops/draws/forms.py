"""Forms of arguments that several families share."""

from __future__ import annotations

from typing import Any

from beside.draw import OMIT, Draw, Value

FLOATS = ("float32", "float64")


def each(draw: Draw, count: int, low: int, high: int) -> Any:
    """A whole number for all of the spatial axes, or one for each."""
    if draw.flag():
        return draw.int(low, high)
    return [draw.int(low, high) for _ in range(count)]


def listed_for(item: Any, count: int) -> list[int]:
    """The numbers that `each` gives, one an axis."""
    return list(item) if isinstance(item, list) else [item] * count


def padding(draw: Draw, count: int, last: bool, most: int = 2, cuts: bool = False) -> Any:
    """All forms of padding: a number, one or two an axis, nested lists, a word; `last`: channels are.

    `cuts`: numbers may be below 0.
    """
    kind = draw.int(0, 5)
    least = -1 if cuts and draw.flag(0.15) else 0
    if kind == 0:
        return OMIT
    if kind == 1:
        return draw.int(least, most)
    if kind == 2:
        return [draw.int(least, most) for _ in range(count)]
    if kind == 3:
        return [draw.int(least, most) for _ in range(2 * count)]
    if kind == 4:
        return draw.choice("SAME", "VALID", "same", "valid")
    pairs = [[draw.int(least, most), draw.int(least, most)] for _ in range(count)]
    return [[0, 0], *pairs, [0, 0]] if last else [[0, 0], [0, 0], *pairs]


def image(
    draw: Draw, channels: int, sizes: list[int], last: bool, dtype: Any = FLOATS, **options: Any
) -> Value:
    """A batch of images, or of volumes."""
    batch = draw.size(1, 3)
    shape = [batch, *sizes, channels] if last else [batch, channels, *sizes]
    return draw.tensor(shape, dtype, **options)


def layout(draw: Draw, count: int = 2) -> tuple[bool, Any]:
    """True where channels are last, and `data_format`."""
    last = draw.flag(0.3)
    if count == 3:
        return last, "NDHWC" if last else draw.choice(OMIT, "NCDHW")
    return last, "NHWC" if last else draw.choice(OMIT, "NCHW")
