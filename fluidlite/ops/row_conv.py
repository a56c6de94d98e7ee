"""row_conv: each row of a sequence is a weighted sum of itself and the rows that follow."""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from fluidlite.dtypes import Array
from fluidlite.errors import ShapeError
from fluidlite.registry import Lod, Op, Spec

row_conv = Op("row_conv", "X Filter -> Out")


@row_conv.shape
def _(X: Spec, Filter: Spec) -> Spec:
    if len(Filter.shape) != 2 or X.shape[-1] not in (-1, Filter.shape[1]):
        raise ShapeError(f"op 'row_conv': Filter must have shape [rows, {X.shape[-1]}], but has {list(Filter.shape)}")
    return X.with_shape(X.shape)


def _sequences(x: Array, lod: Lod) -> Iterator[Any]:
    """An index for each sequence: rows of a matrix by the last level of detail, or the matrices of a batch."""
    if x.ndim == 3:
        yield from range(len(x))
        return
    offsets = lod[-1] if lod else (0, len(x))
    for start, stop in itertools.pairwise(offsets):
        yield slice(start, stop)


@row_conv.kernel
def _(xp: Any, X: Array, X_lod: Lod, Filter: Array) -> Array:
    out = xp.zeros_like(X)
    for sequence in _sequences(X, X_lod):
        rows, target = X[sequence], out[sequence]
        for shift in range(min(len(Filter), len(rows))):
            target[:len(rows) - shift] += rows[shift:] * Filter[shift]
    return out


@row_conv.grad("X Filter")
def _(xp: Any, X: Array, X_lod: Lod, Filter: Array, dOut: Array) -> tuple[Array, Array]:
    dx, weights = xp.zeros_like(X), xp.zeros_like(Filter)
    for sequence in _sequences(X, X_lod):
        rows, d, target = X[sequence], dOut[sequence], dx[sequence]
        for shift in range(min(len(Filter), len(rows))):
            part = d[:len(rows) - shift]
            target[shift:] += part * Filter[shift]
            weights[shift] += (part * rows[shift:]).sum(axis=0)
    return dx, weights
