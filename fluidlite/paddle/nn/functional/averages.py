"""Means of windows whose number is known when the program runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append
from fluidlite.paddle.tensor.creation import arange
from fluidlite.paddle.tensor.logic import greater_equal, less_than, logical_and
from fluidlite.paddle.tensor.manipulation import slice, squeeze, transpose, unsqueeze
from fluidlite.paddle.tensor.math import cast
from fluidlite.paddle.tensor.reduction import sum
from fluidlite.paddle.tensor.search import where
from fluidlite.paddle.tensor.shapes import constant, number_tensors, size_of

__all__ = ["averaged"]


def averaged(x: Variable, output_size: Any, last: bool) -> Variable:
    """Means of windows that divide each of the two dimensions of images x into as many parts as
    `output_size` says: Variables and numbers, or one for both; None leaves a dimension as it is.

    `last`: the channels are the last dimension. The windows are those of `adaptive_avg_pool2d`: from
    floor(i * length / count) up to ceil((i + 1) * length / count).
    """
    images = transpose(x, [0, 3, 1, 2]) if last else x
    rows, columns = _counts(images, output_size)
    means = _along_last(transpose(_along_last(images, columns), [0, 1, 3, 2]), rows)
    found = transpose(means, [0, 3, 2, 1] if last else [0, 1, 3, 2])
    # as pools do: the images of a sequence stay one
    return append("lod_reset", {"X": [found], "Y": [x]}, {}, dtype=x.dtype) if x.lod_level else found


def _counts(x: Variable, output_size: Any) -> Sequence[Variable]:
    if isinstance(output_size, Variable) and tuple(output_size.shape) == (2,):
        output_size = [slice(output_size, [0], [at], [at + 1]) for at in range(2)]
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * 2
    return number_tensors(
        [size_of(x, axis) if size is None else size for axis, size in zip((2, 3), given, strict=True)]
    )


def _along_last(x: Variable, count: Variable) -> Variable:
    """Means of `count` windows of the last of four dimensions.

    What is outside of a window is left out, not multiplied by 0: it may be infinite.
    """
    length, count = (cast(one, "int64") for one in number_tensors([size_of(x, 3), count]))
    places, windows = arange(0, length, 1, "int64"), unsqueeze(arange(0, count, 1, "int64"), [1])
    first = windows * length // count
    behind = ((windows + 1) * length + count - 1) // count
    inside = logical_and(greater_equal(places, first), less_than(places, behind))
    parts = where(inside, unsqueeze(x, [3]), constant([1], x.dtype, 0.0))
    return sum(parts, 4) / cast(squeeze(behind - first, [1]), x.dtype)
