"""Matrices of derivatives that are computed row by row, and products with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.backward import gradients
from fluidlite.ir.variable import Variable
from fluidlite.paddle.programs import begin
from fluidlite.paddle.tensor.creation import assign, zeros_like
from fluidlite.paddle.tensor.manipulation import concat, reshape, stack

__all__ = ["Matrix", "as_sequence", "call", "derivative", "forward_product"]


def as_sequence(value: Any) -> list[Any]:
    """One Variable, or several, as a list."""
    return list(value) if isinstance(value, Sequence) else [value]


def derivative(ys: Sequence[Variable], xs: Sequence[Variable], weights: Any = None) -> list[Variable]:
    """The gradients of ys by xs; zeros where a variable is not reached."""
    begin()
    found = []
    given = None if weights is None else as_sequence(weights)
    slopes = gradients(list(ys), list(xs), given)
    if len(slopes) != len(xs):
        # of those that are not reached, none comes back: which they are, each says by itself
        each = [gradients(list(ys), [x], given) for x in xs]
        slopes = [one[0] if one else None for one in each]
    for x, slope in zip(xs, slopes, strict=True):
        found.append(zeros_like(x) if slope is None else slope)
    return found


def forward_product(ys: Sequence[Variable], xs: Sequence[Variable], directions: Any) -> list[Variable]:
    """Changes of ys when xs go into `directions`: the gradient of a gradient by its weights (Griewank's
    double backward pass).
    """
    weights = [assign(zeros_like(y)) for y in ys]
    for weight in weights:
        weight.stop_gradient = False
    slopes = derivative(ys, xs, weights)
    return derivative(slopes, weights, directions)


def _count(var: Variable, batched: bool) -> int:
    sizes = var.shape[int(batched) :]
    if any(size < 0 for size in sizes):
        raise ValueError(
            f"derivatives by all elements need known sizes, but variable {var.name!r} has the shape "
            f"{[*var.shape]}"
        )
    return math.prod(sizes)


class Matrix:
    """The derivatives of all elements of ys by all elements of xs: [M, N], or [batch, M, N].

    shaped: as `paddle.autograd` has it, where both have one dimension beside that of the batch.
    """

    def __init__(
        self, ys: Sequence[Variable], xs: Sequence[Variable], batched: bool, shaped: bool = False
    ) -> None:
        for what, group in (("ys", ys), ("xs", xs)):
            for var in group if shaped else ():
                rank = len(var.shape) - batched
                if rank not in (0, 1):
                    raise ValueError(
                        f"{what}.ndim should be {'1 or 2' if batched else '0 or 1'} when "
                        f"is_batched={batched} but got {len(var.shape)}"
                    )
        self._ys, self._xs, self._batched = list(ys), list(xs), batched
        self._sizes = [_count(y, batched) for y in ys]
        self._columns = sum(_count(x, batched) for x in xs)
        self._rows: dict[int, Variable] = {}

    @property
    def shape(self) -> list[int]:
        """[rows, columns], behind the size of the batch where there is one."""
        return [*([self._xs[0].shape[0]] if self._batched else []), sum(self._sizes), self._columns]

    def _row(self, number: int) -> Variable:
        """The derivatives of one element: [N], or [batch, N]."""
        if number not in self._rows:
            place, at = 0, number
            while at >= self._sizes[place]:
                at -= self._sizes[place]
                place += 1
            y = self._ys[place]
            if self._batched:
                flat = reshape(y, [y.shape[0], -1])[:, at]
            else:
                flat = reshape(y, [-1])[at]
            slopes = derivative([flat], self._xs)
            ends = [[x.shape[0], -1] if self._batched else [-1] for x in self._xs]
            parts = [reshape(slope, end) for slope, end in zip(slopes, ends, strict=True)]
            self._rows[number] = parts[0] if len(parts) == 1 else concat(parts, axis=-1)
        return self._rows[number]

    def _numbers(self, wanted: Any) -> Sequence[int]:
        """The rows that an index or a slice means."""
        rows = range(sum(self._sizes))
        if isinstance(wanted, slice):
            return rows[wanted]
        if not -len(rows) <= wanted < len(rows):
            raise IndexError(f"row {wanted} of a matrix of derivatives with {len(rows)} rows does not exist")
        return [rows[wanted]]

    def __getitem__(self, indexes: Any) -> Variable:
        """Parts of the matrix; only the rows that they need are computed."""
        given = indexes if isinstance(indexes, tuple) else (indexes,)
        axis = int(self._batched)
        wanted: Any = given[axis] if len(given) > axis else slice(None)
        numbers = self._numbers(wanted)
        made = stack([self._row(number) for number in numbers], axis=axis)
        inside = slice(None) if isinstance(wanted, slice) else 0
        rest = (
            *given[:axis],
            *([slice(None)] if not given[:axis] and axis else []),
            inside,
            *given[axis + 1 :],
        )
        return made[rest]


def call(func: Callable[..., Any], xs: Any) -> list[Variable]:
    """The outputs of a function of Variables, as a list."""
    return as_sequence(func(*as_sequence(xs)))
