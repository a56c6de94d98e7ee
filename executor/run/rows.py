"""Kernels that go through the rows of a matrix block by block, and share the blocks among a team: softmax,
layer_norm, their gradients.

Each is an object with scratch arrays of its own (`Fresh` makes one for each binding of a plan), called with
arrays and the buffers that it fills.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.team import Team, pieces, team_of
from fluidlite.ops.kernels.numbers import first_wrong

__all__ = [
    "Labels",
    "LayerNorm",
    "LayerNormGrad",
    "RowBlocks",
    "Softmax",
    "SoftmaxGrad",
    "SoftmaxLoss",
    "SoftmaxLossGrad",
    "members_of",
]

_BLOCK = 1 << 14  # elements of a block: 64 KB of floats, so that the arrays of a kernel share a 1 MB cache
_SHARED = 1 << 16  # elements from which waking a second thread pays, at the ten passes that kernels here make

Maybe: TypeAlias = "Array | None"


def members_of(rows: int, columns: int, threads: int) -> int:
    """Threads that share the rows of a matrix."""
    is_shared = threads > 1 and rows * columns >= _SHARED and rows >= 2 * threads
    return threads if is_shared else 1


class RowBlocks:
    """`blocks(task)` calls task(member, rows) for each block of rows; a member of the team has neighbouring
    ones.
    """

    def __init__(self, rows: int, columns: int, threads: int) -> None:
        self.height = max(1, min(rows, _BLOCK // max(columns, 1)))
        self.members = members_of(rows, columns, threads)
        self.team: Team | None = team_of(self.members) if self.members > 1 else None
        self.parts = [
            [slice(at, min(at + self.height, part.stop)) for at in range(part.start, part.stop, self.height)]
            for part in pieces(rows, self.members)
        ]

    def __call__(self, task: Callable[[int, slice], None]) -> None:
        def run(member: int) -> None:
            for rows in self.parts[member]:
                task(member, rows)

        if self.team is None:
            run(0)
        else:
            self.team(run)

    def scratch(self, columns: int, dtype: Any) -> Array:
        """One block for each member."""
        return np.empty((self.members, self.height, columns), dtype)


def _height(rows: slice) -> int:
    """The number of rows of a block."""
    return int(rows.stop - rows.start)


class Softmax:
    """softmax(x, out) of the rows of a matrix; no score is less than `lowest` below the row's largest."""

    def __init__(self, xp: Any, rows: int, columns: int, dtype: Any, threads: int, lowest: float) -> None:
        self.blocks = RowBlocks(rows, columns, threads)
        self.ones = np.ones((columns, 1), dtype)
        self.column = self.blocks.scratch(1, dtype)
        self.lowest = np.array(lowest, dtype)

    def __call__(self, x: Array, out: Array) -> None:
        def block(member: int, rows: slice) -> None:
            scores = out[rows]
            column = self.column[member, : _height(rows)]
            np.maximum.reduce(x[rows], axis=1, keepdims=True, out=column)
            np.subtract(x[rows], column, out=scores)
            np.maximum(scores, self.lowest, out=scores)
            np.exp(scores, out=scores)
            # over a few columns a product with ones is three times as fast as `add.reduce`
            np.dot(scores, self.ones, out=column)
            np.reciprocal(column, out=column)
            np.multiply(scores, column, out=scores)

        self.blocks(block)


class SoftmaxGrad:
    """gradient(softmax, incoming, out) of the rows of a matrix."""

    def __init__(self, xp: Any, rows: int, columns: int, dtype: Any, threads: int) -> None:
        self.blocks = RowBlocks(rows, columns, threads)
        self.ones = np.ones((columns, 1), dtype)
        self.column = self.blocks.scratch(1, dtype)
        self.work = self.blocks.scratch(columns, dtype)

    def __call__(self, softmax: Array, incoming: Array, out: Array) -> None:
        def block(member: int, rows: slice) -> None:
            column = self.column[member, : _height(rows)]
            work = self.work[member, : _height(rows)]
            np.multiply(softmax[rows], incoming[rows], out=work)
            np.dot(work, self.ones, out=column)
            np.subtract(incoming[rows], column, out=work)
            np.multiply(work, softmax[rows], out=out[rows])

        self.blocks(block)


class Labels:
    """Writes the positions of labels; gives the rows whose label is to be ignored, or None; raises for what
    is no class.

    Seen as unsigned numbers, negative labels are large ones, so that one maximum tells whether all is well.
    """

    def __init__(self, xp: Any, classes: int, rows: int, ignored: int) -> None:
        self.classes = classes
        self.base = xp.arange(rows, dtype=np.int64) * classes
        self.ignored = ignored
        self.is_class = 0 <= ignored < classes

    def __call__(self, labels: Array, index: Array) -> Array | None:
        rows = None
        if self.is_class or (len(labels) and np.maximum.reduce(labels.view(np.uint64)) >= self.classes):
            bad = ((labels < 0) | (labels >= self.classes)) & (labels != self.ignored)
            if bad.any():
                label, where = first_wrong(labels, bad)
                raise ValueError(f"label {label} is not one of the {self.classes} classes ({where} of Label)")
            rows = np.flatnonzero(labels == self.ignored)
            labels = np.where(labels == self.ignored, 0, labels)
        np.add(labels, self.base, out=index)
        return rows


class SoftmaxLoss:
    """loss(x, labels, softmax, loss[, bias]) of the rows of a matrix of scores, to which a bias is added: the
    softmax, and the negative logarithm of its element at the row's label.
    """

    def __init__(
        self, xp: Any, rows: int, columns: int, dtype: Any, threads: int, lowest: float, ignored: int
    ) -> None:
        self.softmax = Softmax(xp, rows, columns, dtype, threads, lowest)
        self.blocks = self.softmax.blocks
        self.labels = Labels(xp, columns, rows, ignored)
        self.index = np.empty(rows, np.int64)

    def check(self, labels: Array) -> None:
        """Raise for a label that is not a class."""
        self.labels(labels, self.index)

    def __call__(self, x: Array, labels: Array, softmax: Array, loss: Array, bias: Maybe = None) -> None:
        left_out = self.labels(labels, self.index)
        self.softmax(x if bias is None else np.add(x, bias, out=softmax), softmax)
        np.take(softmax.reshape(-1), self.index, mode="clip", out=loss)
        np.negative(np.log(loss, out=loss), out=loss)
        if left_out is not None:
            loss[left_out] = 0


class SoftmaxLossGrad:
    """gradient(softmax, labels, incoming, out) of the rows of a matrix; `incoming` may be one number."""

    def __init__(self, xp: Any, rows: int, columns: int, dtype: Any, threads: int, ignored: int) -> None:
        self.blocks = RowBlocks(rows, columns, threads)
        self.labels = Labels(xp, columns, rows, ignored)
        self.index = np.empty(rows, np.int64)

    def check(self, labels: Array) -> None:
        """Raise for a label that is not a class."""
        self.labels(labels, self.index)

    def __call__(self, softmax: Array, labels: Array, incoming: Array, out: Array) -> None:
        left_out = self.labels(labels, self.index)
        np.multiply(softmax, incoming.reshape(-1, 1), out=out)
        # no two rows share an element of the flat array, so nothing is subtracted only once by mistake
        out.reshape(-1)[self.index] -= incoming
        if left_out is not None:
            out[left_out] = 0


class LayerNorm:
    """norm(x, scale, bias, y, mean, variance) of the rows of a matrix; scale and bias may be None."""

    def __init__(self, xp: Any, rows: int, columns: int, dtype: Any, threads: int, epsilon: float) -> None:
        self.blocks = RowBlocks(rows, columns, threads)
        self.shares = np.full((columns, 1), 1 / max(columns, 1), dtype)
        self.column = self.blocks.scratch(1, dtype)
        self.work = self.blocks.scratch(columns, dtype)
        self.epsilon = np.array(epsilon, dtype)

    def __call__(self, x: Array, scale: Maybe, bias: Maybe, y: Array, mean: Array, variance: Array) -> None:
        def block(member: int, rows: slice) -> None:
            column = self.column[member, : _height(rows)]
            work = self.work[member, : _height(rows)]
            centred = y[rows]
            middle = mean[rows].reshape(-1, 1)
            spread = variance[rows].reshape(-1, 1)
            np.dot(x[rows], self.shares, out=middle)
            np.subtract(x[rows], middle, out=centred)
            np.multiply(centred, centred, out=work)
            np.dot(work, self.shares, out=spread)
            inverse_root(spread, self.epsilon, column)
            np.multiply(centred, column, out=centred)
            if scale is not None:
                np.multiply(centred, scale, out=centred)
            if bias is not None:
                np.add(centred, bias, out=centred)

        self.blocks(block)


def inverse_root(variance: Array, epsilon: Array, out: Array) -> None:
    """out = 1 / sqrt(variance + epsilon)"""
    np.add(variance, epsilon, out=out)
    np.sqrt(out, out=out)
    np.reciprocal(out, out=out)


class LayerNormGrad:
    """gradient(x, scale, mean, variance, d, dx, dscale, dbias); what is not wanted is None.

    The members' sums for scale and bias are added in the members' order, so that they are the same in every
    run with as many threads.
    """

    def __init__(self, xp: Any, rows: int, columns: int, dtype: Any, threads: int, epsilon: float) -> None:
        self.blocks = RowBlocks(rows, columns, threads)
        self.shares = np.full((columns, 1), 1 / max(columns, 1), dtype)
        self.ones = np.ones(self.blocks.height, dtype)
        self.column = self.blocks.scratch(1, dtype)
        self.inverse = self.blocks.scratch(1, dtype)
        self.unit = self.blocks.scratch(columns, dtype)
        self.work = self.blocks.scratch(columns, dtype)
        self.sums = np.empty((2, self.blocks.members, columns), dtype)
        self.row = np.empty((self.blocks.members, columns), dtype)
        self.epsilon = np.array(epsilon, dtype)

    def __call__(
        self,
        x: Array,
        scale: Maybe,
        mean: Array,
        variance: Array,
        d: Array,
        dx: Maybe,
        dscale: Maybe,
        dbias: Maybe,
    ) -> None:
        self.sums.fill(0)

        def block(member: int, rows: slice) -> None:
            unit = self.unit[member, : _height(rows)]
            inverse = self.inverse[member, : _height(rows)]
            inverse_root(variance[rows].reshape(-1, 1), self.epsilon, inverse)
            np.subtract(x[rows], mean[rows].reshape(-1, 1), out=unit)
            np.multiply(unit, inverse, out=unit)
            if dbias is not None:
                self._add(1, member, d[rows])
            self._through(member, d[rows], unit, scale, None if dx is None else dx[rows], dscale is not None)

        self.blocks(block)
        for total, wanted in zip(self.sums, (dscale, dbias), strict=True):
            if wanted is not None:
                np.add.reduce(total, axis=0, out=wanted)

    def _add(self, number: int, member: int, rows: Array) -> None:
        """Add the sum of a block's rows to a member's own."""
        row = self.row[member]
        np.dot(self.ones[: len(rows)], rows, out=row)
        np.add(self.sums[number, member], row, out=self.sums[number, member])

    def _through(
        self, member: int, d: Array, unit: Array, scale: Maybe, out: Maybe, sums_scale: bool
    ) -> None:
        """A block's share of the gradient of scale, and its gradient of x."""
        work = self.work[member, : len(d)]
        column = self.column[member, : len(d)]
        np.multiply(d, unit, out=work)
        if sums_scale:
            self._add(0, member, work)
        if out is None:
            return
        if scale is not None:
            np.multiply(work, scale, out=work)
            d = np.multiply(d, scale, out=out)
        np.dot(work, self.shares, out=column)
        np.multiply(unit, column, out=work)
        np.dot(d, self.shares, out=column)
        np.subtract(d, work, out=out)
        np.subtract(out, column, out=out)
        np.multiply(out, self.inverse[member, : len(d)], out=out)
