"""The largest elements of bins of images, as pools of regions take them: text for LLVM."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fluidlite.executor.fast.loops.routine import Routine, Scalar
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["write_maxima_of_bins"]

_Range: TypeAlias = "tuple[Scalar, Scalar]"


def write_maxima_of_bins(a: Routine) -> None:
    """The function over regions, whose bins are `high` times `wide`: the largest element of each channel and
    its place in the image, of equal ones the first, or the lowest number and the place -1 where none is above
    that; 0 and the place -1 for an empty bin.
    """
    arrays = ["Pixels", "Images", "Tops", "Bottoms", "Lefts", "Rights", "Maxima", "Places"]
    sizes = ["high", "wide", "height", "width", "channels"]
    a.arguments(arrays + sizes)
    high, wide, height, width, channels = map(a.integer, sizes)
    with a.loop(a.integer("first"), a.integer("last")) as region:
        image = a.at("%Pixels", a.entry("%Images", region.index) * height * width * channels)
        with a.loop(0, high) as down:
            line = region.index * high + down.index
            rows = a.entry("%Tops", line), a.entry("%Bottoms", line)
            with a.loop(0, wide) as across:
                place = region.index * wide + across.index
                columns = a.entry("%Lefts", place), a.entry("%Rights", place)
                with a.units(channels, is_masked=True) as unit:
                    values, places = _largest(a, image, rows, columns, unit.index)
                    out = (line * wide + across.index) * channels + unit.index
                    a.store(values, "%Maxima", out)
                    a.store(places.as_kind("float"), "%Places", out)


def _largest(a: Routine, image: Scalar, rows: _Range, columns: _Range, channel: Scalar) -> list[Vector]:
    """The largest elements of some channels in a bin, and their places."""
    width, channels = a.integer("width"), a.integer("channels")
    lowest, nowhere = a.number(float(np.finfo(np.float32).min)), a.code.number(-1, "i32")
    first = a.pick(_is_empty(a, rows, columns), a.number(0.0), lowest)
    with a.loop(rows[0], rows[1], carried=[a.spread(first), nowhere]) as row:
        with a.loop(columns[0], columns[1], carried=row.values) as column:
            pixel = row.index * width + column.index
            value, (largest, place) = a.load(image, pixel * channels + channel), column.values
            is_larger = value.compare("ogt", largest)
            here = a.spread(a.let(f"trunc i64 {pixel} to i32", "i32"))
            column.next = [a.code.select(is_larger, value, largest), a.code.select(is_larger, here, place)]
        row.next = column.values
    return row.values


def _is_empty(a: Routine, rows: _Range, columns: _Range) -> Scalar:
    some, others = (first.compare("sge", end) for first, end in (rows, columns))
    return a.let(f"or i1 {some}, {others}", "i1")
