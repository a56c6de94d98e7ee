"""Tensors with one slice or one diagonal replaced, powers and combinations of elements, as 2.x added them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from fluidlite.base.dtypes import REAL_PARTS, to_vartype
from fluidlite.base.open_sizes import fits
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, check_axis
from fluidlite.paddle.tensor.creation import arange, full, meshgrid, ones
from fluidlite.paddle.tensor.manipulation import concat, expand, flip, reshape, stack, unsqueeze
from fluidlite.paddle.tensor.reduction import numel
from fluidlite.paddle.tensor.search import masked_select
from fluidlite.paddle.tensor.statistics import cumprod

__all__ = ["angle", "combinations", "diagonal_scatter", "select_scatter", "vander"]


def angle(x: Variable, name: str | None = None) -> Variable:
    """The angles of numbers: of real ones, pi where they are negative."""
    return append("angle", {"X": [x]}, dtype=REAL_PARTS.get(x.dtype, x.dtype), name=name)


def select_scatter(x: Variable, values: Variable, axis: int, index: int, name: str | None = None) -> Variable:
    """x with `values` in the slice `index` along `axis`."""
    check_axis("select_scatter", axis, x)
    axis %= len(x.shape)
    wanted = [dim for i, dim in enumerate(x.shape) if i != axis]
    if list(values.shape) != wanted:
        raise RuntimeError(
            f"select_scatter: values have the shape {list(values.shape)}, and the slice has {wanted}"
        )
    size = x.shape[axis]
    if size >= 0 and not -size <= index < size:
        raise IndexError(f"select_scatter: x{list(x.shape)} has no slice {index} along axis {axis}")
    start = index % size if size >= 0 else index
    given: Any = values
    attrs = {
        "axes": [axis],
        "starts": [start],
        "ends": [start + 1 if start != -1 else 2**31 - 1],
        "steps": [1],
        "decrease_axes": [axis],
        "none_axes": [],
        "dtype": int(x.dtype),
    }
    inputs = {"Input": [x], "ValueTensor": [given.astype(x.dtype)]}
    return append("set_value", inputs, attrs, dtype=x.dtype, layer="select_scatter", name=name)


def diagonal_scatter(
    x: Variable, y: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Variable:
    """x with y on a diagonal of each matrix in the dimensions `axis1` and `axis2`."""
    check_axis("diagonal_scatter", axis1, x)
    check_axis("diagonal_scatter", axis2, x)
    wanted = _diagonal_shape(x.shape, offset, axis1, axis2)
    if not fits(y.shape, wanted):
        raise ValueError(
            f"'y' in diagonal_scatter must have the shape {list(wanted)} of the diagonals of {x.name}, but "
            f"{y.name} has the shape {list(y.shape)}"
        )
    rows = reshape(y, [1, -1]) if len(y.shape) == 1 else y
    attrs = {"offset": offset, "dim1": axis1, "dim2": axis2}
    return append("fill_diagonal_tensor", {"X": [x], "Y": [rows]}, attrs, dtype=x.dtype, name=name)


def _diagonal_shape(shape: Sequence[int], offset: int, axis1: int, axis2: int) -> tuple[int, ...]:
    """The shape of the diagonals of the matrices in two dimensions; -1 where that is not known."""
    rank = len(shape)
    rows, columns = shape[axis1], shape[axis2]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0) if min(rows, columns) >= 0 else -1
    others = [size for at, size in enumerate(shape) if at not in (axis1 % rank, axis2 % rank)]
    return (*others, length)


def vander(x: Variable, n: int | None = None, increasing: bool = False, name: str | None = None) -> Variable:
    """The powers of the elements as columns, the highest first unless `increasing`."""
    if len(x.shape) != 1:
        raise ValueError(
            f"The input of x is expected to be a 1-D Tensor.But now the dims of Input(X) is {len(x.shape)}."
        )
    size = x.shape[0]
    count = size if n is None else n
    if count < 0:
        raise ValueError(f"N must be non-negative, but is {count}")
    columns = [ones([size, min(count, 1)], x.dtype)]
    if count > 1:
        columns.append(cumprod(expand(unsqueeze(x, 1), [size, count - 1]), 1))
    found = concat(columns, 1)
    return found if increasing else flip(found, [1])


def combinations(
    x: Variable, r: int = 2, with_replacement: bool = False, name: str | None = None
) -> Variable:
    """The ways [number, r] to choose r of the elements, in their order, each once unless
    `with_replacement`.
    """
    if len(x.shape) != 1:
        raise TypeError(f"Expect a 1-D vector, but got x shape {x.shape}")
    if not isinstance(r, int) or r < 0:
        raise ValueError(f"Expect a non-negative int, but got r={r}")
    if r == 0:
        return full([0], 0, x.dtype)
    if r > 1 and x.shape[0] < 0:
        raise ValueError(
            f"combinations: the size of {x.name!r} must be known, because it determines the number "
            f"of results, but its shape is {list(x.shape)}"
        )
    grids = [x] if r == 1 else _grids([x] * r)
    numbers = arange(numel(x))
    places = [numbers] if r == 1 else _grids([numbers] * r)
    chosen: Any = full([x.shape[0]] * r, 1.0, to_vartype("bool"))
    for place, after in itertools.pairwise(places):
        chosen = chosen * (place <= after if with_replacement else place < after)
    return stack([masked_select(grid, chosen) for grid in grids], 1)


def _grids(x: Sequence[Variable]) -> list[Any]:
    return list(meshgrid(x))
