"""Masks of sparse weights: of every `m` neighbours at least `n` are zeros (Mishra et al., 2021).

The largest elements stay. Neighbours are those that a product sums over: the input channels of a convolution,
the rows of a matrix.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["ALGORITHMS", "mask_of"]


def mask_of(weight: Array, n: int, m: int, algorithm: str) -> Array:
    """Ones where an element of a weight [inputs, outputs] or [outputs, inputs, height, width] stays, else
    zeros, in the dtype of the weight.
    """
    # rows of what is summed over, as 2.6.2 orders them: its blocks of two dimensions depend on it
    order = (1, 0) if weight.ndim == 2 else (3, 2, 0, 1)
    across = weight.transpose(order)
    rows = across.reshape(-1, across.shape[-1])
    kept = ALGORITHMS[algorithm](_padded(np.absolute(rows), m, algorithm != "mask_1d"), n, m)
    mask = kept[: rows.shape[0], : rows.shape[1]].reshape(across.shape)
    return mask.transpose(np.argsort(order)).astype(weight.dtype)


def _padded(rows: Array, m: int, both: bool) -> Array:
    """The rows with zeros behind them up to a multiple of m, and as many rows of zeros."""
    height, width = rows.shape
    return np.pad(rows, ((0, -height % m if both else 0), (0, -width % m)))


def _along_rows(sizes: Array, n: int, m: int) -> Array:
    """Without the n smallest of each m in a row."""
    groups = sizes.reshape(-1, m)
    mask = np.ones(groups.shape, bool)
    np.put_along_axis(mask, np.argsort(groups, axis=1, kind="stable")[:, :n], False, axis=1)
    return mask.reshape(sizes.shape)


def _greedy(sizes: Array, n: int, m: int) -> Array:
    """n of each row and column of every block [m, m], the largest first: fewer where none is free."""
    mask = np.zeros(sizes.shape, bool)
    for top, left in itertools.product(range(0, sizes.shape[0], m), range(0, sizes.shape[1], m)):
        block = sizes[top : top + m, left : left + m]
        kept = mask[top : top + m, left : left + m]
        for place in np.argsort(block, axis=None, kind="stable")[::-1]:
            row, column = divmod(int(place), m)
            kept[row, column] = kept[row].sum() < n and kept[:, column].sum() < n
    return mask


def _best(sizes: Array, n: int, m: int) -> Array:
    """n of each row and column of every block [m, m], of all such choices that with the largest sum."""
    lines = sorted(set(itertools.permutations([1] * n + [0] * (m - n))))
    choices = np.array([each for each in itertools.product(lines, repeat=m) if _is_even(each, n)], bool)
    height, width = sizes.shape
    blocks = sizes.reshape(height // m, m, width // m, m).swapaxes(1, 2).reshape(-1, m * m)
    sums = blocks @ choices.reshape(len(choices), -1).T.astype(sizes.dtype)
    found = choices[sums.argmax(axis=1)].reshape(height // m, width // m, m, m)
    return found.swapaxes(1, 2).reshape(height, width)


def _is_even(lines: tuple[tuple[int, ...], ...], n: int) -> bool:
    return all(sum(column) == n for column in zip(*lines, strict=True))


ALGORITHMS: dict[str, Callable[[Array, int, int], Array]] = {
    "mask_1d": _along_rows,
    "mask_2d_greedy": _greedy,
    "mask_2d_best": _best,
}
