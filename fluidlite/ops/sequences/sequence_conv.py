"""Convolutions along sequences: each row with its neighbours, those outside its sequence counting as zeros
or padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, GradContext, Lod, Op, Spec, required
from fluidlite.ops.kernels.sequence_rows import offsets_of_level, sum_onto, take_rows

sequence_conv = Op(
    "sequence_conv",
    "X PaddingData? Filter -> Out",
    attrs={
        "contextLength": required(AttrType.INT),
        "contextStart": 0,
        "contextStride": 1,
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


class _ContextRows:
    """The rows around each row: position k of a row is the row `start + k` further, if that is in the same
    sequence.
    """

    def __init__(self, xp: Any, offsets: Array, start: int, length: int) -> None:
        self.xp, self.start, self.length, self.count = xp, start, length, int(offsets[-1])
        lengths = np.diff(offsets)
        self.first, self.end = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)

    def shifts(self) -> Iterator[tuple[int, slice, slice, Array, Array]]:
        """For each position: rows, where they look, which rows look outside their sequence, and at which
        row of padding.
        """
        above = max(0, -self.start)
        for k in range(self.length):
            shift = self.start + k
            low, high = max(0, -shift), max(self.count - max(0, shift), 0)
            source = np.arange(self.count) + shift
            before, after = source - self.first, source - self.end
            outside = np.flatnonzero((before < 0) | (after >= 0))
            padding = above + np.where(before < 0, before, after)[outside]
            yield k, slice(low, high), slice(low + shift, max(high + shift, low + shift)), outside, padding

    def gather(self, X: Array, padding: Array | None) -> Array:
        """[rows, length x columns]."""
        out = self.xp.zeros((len(X), self.length, X.shape[1]), X.dtype)
        for k, rows, look, outside, missing in self.shifts():
            if rows.stop > rows.start:
                out[rows, k] = X[look]
            if len(outside):
                out[self.xp.asarray(outside), k] = (
                    0 if padding is None else take_rows(self.xp, padding, missing)
                )
        return out.reshape(len(X), -1)

    def scatter(self, d: Array) -> Array:
        """The gradient of the rows, from that of `gather`, which it overwrites."""
        d = d.reshape(len(d), self.length, -1)
        out = self.xp.zeros((len(d), d.shape[2]), d.dtype)
        for k, rows, look, outside, _ in self.shifts():
            if len(outside):
                d[self.xp.asarray(outside), k] = 0
            if rows.stop > rows.start:
                out[look] += d[rows, k]
        return out

    def padding_gradient(self, d: Array, padding: Array) -> Array:
        """The gradient of the rows of padding, from that of `gather`."""
        d = d.reshape(len(d), self.length, -1)
        out = self.xp.zeros_like(padding)
        for k, _, _, outside, missing in self.shifts():
            out += sum_onto(self.xp, take_rows(self.xp, d[:, k], outside), missing, len(padding))
        return out


@sequence_conv.kernel
def _(
    xp: Any,
    X: Array,
    X_lod: Lod,
    PaddingData: Array | None,
    Filter: Array,
    contextLength: int,
    contextStart: int,
    paddingTrainable: bool,
) -> Array:
    offsets = offsets_of_level("sequence_conv", "X", X_lod, 0, len(X))
    context = _ContextRows(xp, offsets, contextStart, contextLength)
    return context.gather(X, PaddingData if paddingTrainable else None) @ Filter


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
    context = _ContextRows(xp, offsets, contextStart, contextLength)
    padding = PaddingData if paddingTrainable else None
    dfilter = context.gather(X, padding).T @ dOut if "Filter@GRAD" in wants else None
    if not wants & {"X@GRAD", "PaddingData@GRAD"}:
        return None, None, dfilter
    dcontext = dOut @ Filter.T
    dpadding = (
        context.padding_gradient(dcontext, padding)
        if padding is not None and "PaddingData@GRAD" in wants
        else None
    )
    return context.scatter(dcontext), dpadding, dfilter


# ---------------------------------------------------------------------- row_conv
row_conv = Op("row_conv", "X Filter -> Out")


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


def _ahead(xp: Any, rows: Array, offsets: Array, reach: int) -> Iterator[tuple[int, Array]]:
    """For w = 0, 1, ... the rows w further, zeros where the sequence has ended."""
    left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(rows))  # rows to the end of the sequence
    for w in range(min(reach, int(left.max(initial=0)))):
        mask = xp.asarray((left > w)[: len(rows) - w, None])
        yield w, xp.where(mask, rows[w:], rows.dtype.type(0))


@row_conv.kernel
def _(xp: Any, X: Array, X_lod: Lod, Filter: Array) -> Array:
    rows = X.reshape(-1, X.shape[-1])
    out = xp.zeros_like(rows)
    for w, ahead in _ahead(xp, rows, _row_offsets(X, X_lod), len(Filter)):
        out[: len(rows) - w] += ahead * Filter[w]
    return out.reshape(X.shape)


@row_conv.grad("X Filter")
def _(
    xp: Any, X: Array, X_lod: Lod, Filter: Array, dOut: Array, wants: frozenset[str]
) -> tuple[Array | None, Array | None]:
    rows, d = X.reshape(-1, X.shape[-1]), dOut.reshape(-1, X.shape[-1])
    offsets = _row_offsets(X, X_lod)
    dfilter = xp.zeros_like(Filter)
    if "Filter@GRAD" in wants:
        for w, ahead in _ahead(xp, rows, offsets, len(Filter)):
            dfilter[w] = (ahead * d[: len(rows) - w]).sum(axis=0)
    if "X@GRAD" not in wants:
        return None, dfilter
    out, passed = xp.zeros_like(rows), np.arange(len(rows)) - np.repeat(offsets[:-1], np.diff(offsets))
    for w in range(min(len(Filter), len(rows))):
        mask = xp.asarray((passed >= w)[w:, None])  # the sequence has a row that looks w ahead to here
        out[w:] += xp.where(mask, d[: len(rows) - w], d.dtype.type(0)) * Filter[w]
    return out.reshape(X.shape), dfilter
