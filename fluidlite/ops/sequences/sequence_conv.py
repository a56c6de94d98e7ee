"""Convolutions along sequences: each row with its neighbours, those outside its sequence counting as zeros
or padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.attr_limits import above, limited
from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, GradContext, KernelContext, Lod, Op, Spec, required
from fluidlite.ops.kernels.gemm import gemm
from fluidlite.ops.kernels.sequence_rows import lengths_of, offsets_of_level, take_rows

sequence_conv = Op(
    "sequence_conv",
    "X. PaddingData? Filter. -> Out",
    attrs={
        "contextLength": limited(required(AttrType.INT), above(0)),
        "contextStart": 0,
        "contextStride": limited(1, above(0)),
        "paddingTrainable": False,
    },
)


@sequence_conv.shape
def _(X: Spec, Filter: Spec, contextLength: int, contextStride: int) -> Spec:
    if contextLength <= 0 or contextStride != 1:
        raise ShapeError(
            f"op 'sequence_conv': contextLength is {contextLength} and contextStride {contextStride}, wanted "
            "a positive length and stride 1"
        )
    if (
        len(X.shape) != 2
        or len(Filter.shape) != 2
        or (X.shape[1] >= 0 and Filter.shape[0] not in (-1, contextLength * X.shape[1]))
    ):
        raise ShapeError(
            f"op 'sequence_conv': X has shape {list(X.shape)}, so that a context of {contextLength} rows "
            f"does not fit Filter{list(Filter.shape)}, wanted [context length x columns, filters]"
        )
    return X.with_shape((X.shape[0], Filter.shape[1]))


class _PaddedRows:
    """Sequences with rows of padding around each, so that the window of a row is a run of rows.

    A convolution is then a product for each of the window's positions, over all rows moved by one further:
    the rows of the windows are never copied side by side (3,200 rows of 128 numbers in windows of 5: 5.0 ms
    forward and 11 back, by such copies 7.6 and 17).
    """

    def __init__(self, xp: Any, ctx: KernelContext, offsets: Array, start: int, length: int) -> None:
        self.xp, self.ctx, self.length = xp, ctx, length
        self.above, self.below = max(0, -start), max(0, start + length - 1)
        self.first = self.above + start
        lengths = lengths_of(offsets)
        gap = self.above + self.below
        self.begins = offsets[:-1] + np.arange(len(lengths)) * gap
        """The start of each sequence, its padding included."""
        self.ends = self.begins + self.above + lengths
        self.places = np.arange(offsets[-1]) + np.repeat(np.arange(len(lengths)) * gap, lengths)
        """For each row the number of its window; the row itself lies `above` further."""
        self.total = int(offsets[-1]) + len(lengths) * gap
        self.windows = max(self.total - self.first - length + 1, 0)

    def _around(self) -> tuple[Array, Array]:
        """The places of the padding above and below each sequence."""
        return (self.begins[:, None] + np.arange(self.above), self.ends[:, None] + np.arange(self.below))

    def padded(self, X: Array, padding: Array | None) -> Array:
        """The rows with padding between them, zeros where it is None."""
        out = self.xp.zeros((self.total, X.shape[1]), X.dtype)
        out[self.xp.asarray(self.places + self.above)] = X
        if padding is not None:
            above, below = self._around()
            out[self.xp.asarray(above)] = padding[: self.above]
            out[self.xp.asarray(below)] = padding[self.above :]
        return out

    def convolved(self, rows: Array, weights: Array) -> Array:
        """Each window times the weights [length, columns, filters]."""
        out = self.xp.empty((self.windows, weights.shape[2]), rows.dtype)
        self._add_up(out, rows[self.first :], weights)
        return take_rows(self.xp, out, self.places)

    def _add_up(self, out: Array, rows: Array, weights: Array) -> None:
        """out[i] = the sum of rows[i + k] times weights[k]."""

        def part(of: slice) -> None:
            for k, weight in enumerate(weights):
                moved = rows[of.start + k : of.stop + k]
                if self.xp is np:
                    gemm(moved, weight, out[of], add=k > 0)
                elif k:
                    out[of] += moved @ weight
                else:
                    out[of] = moved @ weight

        self.ctx.share(len(out), part)

    def spread(self, d: Array) -> Array:
        """Gradients of the windows, zeros where none is a row's, between zeros for windows that begin
        outside.
        """
        edge = self.length - 1
        out = self.xp.zeros((self.windows + 2 * edge, d.shape[1]), d.dtype)
        out[self.xp.asarray(self.places + edge)] = d
        return out

    def filter_gradient(self, rows: Array, spread: Array, filters: Array) -> Array:
        """The gradient of the filters."""
        out = self.xp.empty((self.length, rows.shape[1], spread.shape[1]), filters.dtype)
        d = spread[self.length - 1 : self.length - 1 + self.windows]

        def part(of: slice) -> None:
            for k in range(of.start, of.stop):
                begin = self.first + k
                out[k] = rows[begin : begin + self.windows].T @ d

        self.ctx.share(self.length, part)
        if not self.xp.isfinite(out).all():
            # windows that are none have gradients of 0: times an infinity they would be nan
            d = take_rows(self.xp, d, self.places)
            for k in range(self.length):
                out[k] = take_rows(self.xp, rows, self.places + self.first + k).T @ d
        return out.reshape(filters.shape)

    def rows_gradient(self, spread: Array, weights: Array) -> Array:
        """The gradient of the rows and of the padding between them."""
        out = self.xp.zeros((self.total, weights.shape[1]), spread.dtype)
        if not self.xp.isfinite(weights).all():
            d = take_rows(self.xp, spread, self.places + self.length - 1)
            for k, weight in enumerate(weights):
                out[self.xp.asarray(self.places + self.first + k)] += d @ weight.T
        elif self.windows:
            self._add_up(out[self.first :], spread, weights[::-1].swapaxes(1, 2))
        return out

    def padding_gradient(self, rows: Array) -> Array:
        """The gradient of the padding, from that of all rows."""
        parts = [rows[self.xp.asarray(places)].sum(axis=0) for places in self._around()]
        return self.xp.concatenate(parts)


@sequence_conv.kernel
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    X_lod: Lod,
    PaddingData: Array | None,
    Filter: Array,
    contextLength: int,
    contextStart: int,
    paddingTrainable: bool,
) -> Array:
    offsets = offsets_of_level("sequence_conv", "X", X_lod, 0, len(X))
    context = _PaddedRows(xp, ctx, offsets, contextStart, contextLength)
    rows = context.padded(X, PaddingData if paddingTrainable else None)
    return context.convolved(rows, Filter.reshape(contextLength, *X.shape[1:], Filter.shape[1]))


@sequence_conv.grad_rule("X PaddingData Filter")
def _(context: GradContext) -> None:
    inputs = {"X": context.input("X"), "Filter": context.input("Filter"), "Out@GRAD": context.out_grad("Out")}
    outputs = {"X@GRAD": context.in_grad("X"), "Filter@GRAD": context.in_grad("Filter")}
    if context.op.attr("paddingTrainable"):
        inputs["PaddingData"] = context.input("PaddingData")
        outputs["PaddingData@GRAD"] = context.in_grad("PaddingData")
    context.emit("sequence_conv_grad", inputs, outputs)


@sequence_conv.grad("X PaddingData Filter")
def _(
    xp: Any,
    ctx: KernelContext,
    X: Array,
    X_lod: Lod,
    PaddingData: Array | None,
    Filter: Array,
    dOut: Array,
    contextLength: int,
    contextStart: int,
    paddingTrainable: bool,
    wants: frozenset[str],
) -> tuple[Array | None, Array | None, Array | None]:
    offsets = offsets_of_level("sequence_conv_grad", "X", X_lod, 0, len(X))
    context = _PaddedRows(xp, ctx, offsets, contextStart, contextLength)
    padding = PaddingData if paddingTrainable else None
    spread = context.spread(dOut)
    dfilter = dpadding = None
    if "Filter@GRAD" in wants:
        dfilter = context.filter_gradient(context.padded(X, padding), spread, Filter)
    if not wants & {"X@GRAD", "PaddingData@GRAD"}:
        return None, None, dfilter
    drows = context.rows_gradient(spread, Filter.reshape(contextLength, *X.shape[1:], Filter.shape[1]))
    if padding is not None and "PaddingData@GRAD" in wants:
        dpadding = context.padding_gradient(drows)
    return take_rows(xp, drows, context.places + context.above), dpadding, dfilter


# ---------------------------------------------------------------------- row_conv
row_conv = Op("row_conv", "X. Filter. -> Out")


@row_conv.shape
def _(X: Spec, Filter: Spec) -> Spec:
    if (
        len(X.shape) not in (2, 3)
        or len(Filter.shape) != 2
        or (X.shape[-1] != Filter.shape[1] and -1 not in (X.shape[-1], Filter.shape[1]))
    ):
        raise ShapeError(
            f"op 'row_conv': Filter{list(Filter.shape)} does not fit X{list(X.shape)}, wanted [context, "
            f"columns of X]"
        )
    return X.with_shape(X.shape)


def _row_offsets(X: Array, lod: Lod) -> Array:
    """The sequences of X: by its level of detail, or the rows of [batch, time, columns]."""
    if X.ndim == 3:
        return np.arange(len(X) + 1) * X.shape[1]
    return offsets_of_level("row_conv", "X", lod, 0, len(X))


_BLOCK = 1 << 15  # numbers of a block of rows: what all steps of a window read stays in the cache


class _TapRows(NamedTuple):
    """A place of the window over a block of rows: `here` look at the rows `ahead`, but for those `beyond`,
    numbers in the block, whose sequences have ended by then.
    """

    place: int
    here: slice
    ahead: slice
    beyond: Array


def _steps(xp: Any, rows: Array, offsets: Array, reach: int) -> Iterator[_TapRows]:
    """Each place of the window over each block of rows."""
    count = len(rows)
    left = offsets[1:].repeat(lengths_of(offsets)) - np.arange(count)
    block = max(_BLOCK // max(rows.shape[1], 1), 1) if xp is np else count
    longest = min(reach, int(left.max(initial=0)))
    for first in range(0, count, block):
        for place in range(longest):
            stop = min(first + block, count - place)
            if first < stop:
                beyond = xp.asarray(np.flatnonzero(left[first:stop] <= place))
                yield _TapRows(place, slice(first, stop), slice(first + place, stop + place), beyond)


def _within(products: Array, beyond: Array) -> Array:
    """Products of rows, zeros where there is none ahead."""
    if len(beyond):
        products[beyond] = 0
    return products


@row_conv.kernel
def _(xp: Any, X: Array, X_lod: Lod, Filter: Array) -> Array:
    rows = X.reshape(math.prod(X.shape[:-1]), X.shape[-1])
    out = xp.zeros_like(rows)
    for place, here, ahead, beyond in _steps(xp, rows, _row_offsets(X, X_lod), len(Filter)):
        out[here] += _within(rows[ahead] * Filter[place], beyond)
    return out.reshape(X.shape)


@row_conv.grad("X Filter")
def _(
    xp: Any, X: Array, X_lod: Lod, Filter: Array, dOut: Array, wants: frozenset[str]
) -> tuple[Array | None, Array | None]:
    rows = X.reshape(math.prod(X.shape[:-1]), X.shape[-1])
    d = dOut.reshape(rows.shape)
    dx = xp.zeros_like(rows) if "X@GRAD" in wants else None
    dfilter = xp.zeros_like(Filter) if "Filter@GRAD" in wants else None
    for place, here, ahead, beyond in _steps(xp, rows, _row_offsets(X, X_lod), len(Filter)):
        if dfilter is not None:
            dfilter[place] += _within(rows[ahead] * d[here], beyond).sum(axis=0)
        if dx is not None:
            dx[ahead] += _within(d[here] * Filter[place], beyond)
    return None if dx is None else dx.reshape(X.shape), dfilter
