"""Means of windows whose number is known when the program runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.tensor.creation import arange
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.logic import greater_equal, less_than, logical_and
from fluidlite.paddle.tensor.manipulation import slice, transpose, unsqueeze
from fluidlite.paddle.tensor.math import cast
from fluidlite.paddle.tensor.shapes import number_tensors, size_of

__all__ = ["averaged"]


def averaged(x: Variable, output_size: Any, last: bool) -> Variable:
    """Means of windows that divide each of the two dimensions of pictures x into as many parts as
    `output_size` says: Variables and numbers, or one for both; None leaves a dimension as it is.

    `last`: the channels are the last dimension. The windows are those of `adaptive_avg_pool2d`: from
    floor(i * length / count) up to ceil((i + 1) * length / count). A mean over a window is a product with a
    matrix of weights, so the gradients are those of products.
    """
    if last:
        return transpose(averaged(transpose(x, [0, 3, 1, 2]), output_size, False), [0, 2, 3, 1])
    row_count, column_count = _counts(x, output_size)
    rows, columns = _weights(x, 2, row_count), _weights(x, 3, column_count)
    return matmul(matmul(rows, x), columns, transpose_y=True)


def _counts(x: Variable, output_size: Any) -> Sequence[Variable]:
    if isinstance(output_size, Variable) and tuple(output_size.shape) == (2,):
        output_size = [slice(output_size, [0], [at], [at + 1]) for at in range(2)]
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * 2
    return number_tensors(
        [size_of(x, axis) if size is None else size for axis, size in zip((2, 3), given, strict=True)]
    )


def _weights(x: Variable, axis: int, count: Variable) -> Variable:
    """The share [count, length] that each place of a dimension of x has in each window."""
    length, count = (cast(one, "int64") for one in number_tensors([size_of(x, axis), count]))
    places, windows = arange(0, length, 1, "int64"), unsqueeze(arange(0, count, 1, "int64"), [1])
    first = windows * length // count
    behind = ((windows + 1) * length + count - 1) // count
    inside = logical_and(greater_equal(places, first), less_than(places, behind))
    return cast(inside, x.dtype) / cast(behind - first, x.dtype)
