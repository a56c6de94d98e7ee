"""Changing the level of detail of a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import INTS, Lod, Op, Spec, WithLod
from fluidlite.values.tensor import host

lod_reset = Op(
    "lod_reset",
    "X Y? -> Out",
    attrs={"target_lod": INTS(), "append": False},
    makes_lod=True,
    moves=True,
    captured=True,
)


@lod_reset.shape
def _(X: Spec, Y: Spec | None, target_lod: list[int], append: bool) -> Spec:
    if Y is None and not target_lod:
        raise ShapeError("op 'lod_reset': neither Y nor target_lod is given")
    if Y is not None:
        return Spec(X.shape, X.dtype, max(1, Y.lod_level or 0))
    return Spec(X.shape, X.dtype, 1 + ((X.lod_level or 0) if append else 0))


def _offsets(level: Any, rows: int) -> tuple[int, ...]:
    """A level given as plain numbers; ShapeError where they are no offsets that end at `rows`."""
    offsets = tuple(int(offset) for offset in level)
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
        raise ShapeError(
            f"op 'lod_reset': {list(offsets)} are not offsets of sequences: wanted ascending "
            f"numbers from 0 to {rows}, the number of rows of X"
        )
    return offsets


@lod_reset.kernel
def _(X: Array, X_lod: Lod, Y: Array | None, Y_lod: Lod, target_lod: list[int], append: bool) -> WithLod:
    if Y is not None and Y_lod:
        _offsets(Y_lod[-1], len(X))
        return WithLod(X, Y_lod)
    new = _offsets(target_lod if Y is None else host(Y).reshape(-1), len(X))
    return WithLod(X, (*X_lod, new) if append else (new,))


@lod_reset.grad("X")
def _(X: Array, dOut: Array) -> Array:
    return dOut
