"""Ops that move the rows of sequences: expand, concat, slice, reverse, reshape."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import AttrType, GradContext, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.sequence_rows import (
    lengths_lod,
    lengths_of,
    level_of,
    offsets_of_level,
    spans,
    sum_onto,
    sum_runs,
    take_rows,
)
from fluidlite.values.tensor import host


def _same_count(op: str, sequences: int, wanted: int, slot: str) -> None:
    if sequences != wanted:
        raise ShapeError(f"op {op!r}: X has {sequences} sequences but {slot} has {wanted}")


def _any_rows(X: Spec) -> Spec:
    """The shape of an op that keeps all but the number of rows."""
    return Spec((-1, *X.shape[1:]), X.dtype)


# ---------------------------------------------------------------------- expand
sequence_expand = Op("sequence_expand", "X Y -> Out", attrs={"ref_level": -1}, dynamic=True, makes_lod=True)


@sequence_expand.shape
def _(X: Spec, Y: Spec, ref_level: int) -> Spec:
    if (X.lod_level or 0) > 1:
        raise ShapeError(f"op 'sequence_expand': X has {X.lod_level} levels of detail, wanted at most 1")
    return _any_rows(X)


def _expanded(X: Array, X_lod: Lod, Y_lod: Lod, ref_level: int) -> tuple[Array, Array | None] | None:
    """Which rows of X make up the result, and the lengths of its sequences, None where X has none; None
    where X stays as it is.
    """
    of_y = level_of("sequence_expand", "Y", Y_lod, ref_level)
    repeats = of_y.lengths
    if len(repeats) == 0:
        return None
    if not X_lod:
        _same_count("sequence_expand", len(X), len(repeats), f"level {ref_level} of Y")
        return of_y.owners, None
    level = level_of("sequence_expand", "X", X_lod, 0, len(X))
    _same_count("sequence_expand", len(level.lengths), len(repeats), f"level {ref_level} of Y")
    lengths = level.lengths.repeat(repeats)
    return spans(level.offsets[:-1].repeat(repeats), lengths), lengths


@sequence_expand.kernel
def _(xp: Any, X: Array, X_lod: Lod, Y_lod: Lod, ref_level: int) -> WithLod:
    found = _expanded(X, X_lod, Y_lod, ref_level)
    if found is None:
        return WithLod(X, X_lod)
    rows, lengths = found
    return WithLod(take_rows(xp, X, rows), () if lengths is None else lengths_lod(lengths))


@sequence_expand.grad("X")
def _(xp: Any, X: Array, X_lod: Lod, Y_lod: Lod, dOut: Array, ref_level: int) -> Array:
    found = _expanded(X, X_lod, Y_lod, ref_level)
    return dOut if found is None else sum_onto(xp, dOut, found[0], len(X))


sequence_expand_as = Op("sequence_expand_as", "X Y -> Out", lod="Y", dynamic=True, makes_lod=True)


@sequence_expand_as.shape
def _(X: Spec) -> Spec:
    return _any_rows(X)


@sequence_expand_as.kernel
def _(xp: Any, X: Array, Y_lod: Lod) -> WithLod:
    level = level_of("sequence_expand_as", "Y", Y_lod, 0)
    _same_count("sequence_expand_as", len(X), len(level.lengths), "Y")
    return WithLod(take_rows(xp, X, level.owners), Y_lod)


@sequence_expand_as.grad("X")
def _(xp: Any, X: Array, Y_lod: Lod, dOut: Array) -> Array:
    return sum_runs(xp, dOut, offsets_of_level("sequence_expand_as_grad", "Y", Y_lod, 0))


# ---------------------------------------------------------------------- concat
sequence_concat = Op("sequence_concat", "X* -> Out", dynamic=True, makes_lod=True, alike=("X",))


@sequence_concat.shape
def _(X: list[Spec]) -> Spec:
    if len(X) < 2:
        raise ShapeError(f"op 'sequence_concat': X has {len(X)} value, wanted at least 2")
    first = X[0]
    for spec in X[1:]:
        if spec.shape[1:] != first.shape[1:]:
            raise ShapeError(
                f"op 'sequence_concat': rows of shape {list(spec.shape[1:])} cannot be concatenated with "
                f"rows of shape {list(first.shape[1:])}"
            )
    rows = [spec.shape[0] for spec in X]
    return Spec((-1 if min(rows) < 0 else sum(rows), *first.shape[1:]), first.dtype)


def _interleaved(lods: list[Lod], sizes: list[int]) -> tuple[Array, Array]:
    """Positions of the result's rows in the concatenated inputs, and the lengths of its sequences."""
    offsets = [
        offsets_of_level("sequence_concat", "X", lod, 0, size) for lod, size in zip(lods, sizes, strict=True)
    ]
    for other in offsets[1:]:
        _same_count("sequence_concat", len(other) - 1, len(offsets[0]) - 1, "the first X")
    levels = np.array(offsets)
    levels += np.array([0, *itertools.accumulate(sizes[:-1])])[:, None]
    starts = levels[:, :-1].T
    lengths = (levels[:, 1:] - levels[:, :-1]).T
    return spans(starts.reshape(-1), lengths.reshape(-1)), lengths.sum(axis=1)


@sequence_concat.kernel
def _(xp: Any, X: list[Array], X_lod: list[Lod]) -> WithLod:
    rows, lengths = _interleaved(X_lod, [len(part) for part in X])
    return WithLod(take_rows(xp, xp.concatenate(X), rows), lengths_lod(lengths))


@sequence_concat.grad("X")
def _(xp: Any, X: list[Array], X_lod: list[Lod], dOut: Array) -> dict[str, list[Array]]:
    sizes = [len(part) for part in X]
    rows, _ = _interleaved(X_lod, sizes)
    whole = xp.empty_like(dOut)
    whole[xp.asarray(rows)] = dOut
    return {"X@GRAD": xp.split(whole, np.cumsum(sizes)[:-1].tolist())}


# ---------------------------------------------------------------------- slice and reverse
sequence_slice = Op("sequence_slice", "X Offset Length -> Out", lod=None, dynamic=True, makes_lod=True)


@sequence_slice.shape
def _(X: Spec, Offset: Spec, Length: Spec) -> Spec:
    for slot, spec in (("Offset", Offset), ("Length", Length)):
        if len(spec.shape) != 2 or spec.shape[1] not in (1, -1):
            raise ShapeError(
                f"op 'sequence_slice': {slot} has shape {list(spec.shape)}, wanted [sequences, 1]"
            )
    return X.with_shape(X.shape)


def _sliced(X: Array, X_lod: Lod, Offset: Array, Length: Array) -> tuple[Array, Array]:
    """The rows to keep, and their number in each sequence."""
    offsets = offsets_of_level("sequence_slice", "X", X_lod, 0, len(X))
    if len(X_lod) != 1:
        raise ShapeError(f"op 'sequence_slice': X has {len(X_lod)} levels of detail, wanted 1")
    skipped = host(Offset).reshape(-1).astype(np.int64)
    kept = host(Length).reshape(-1).astype(np.int64)
    _same_count("sequence_slice", len(offsets) - 1, len(skipped), "Offset")
    _same_count("sequence_slice", len(offsets) - 1, len(kept), "Length")
    wrong = np.flatnonzero((skipped < 0) | (kept < 0) | (skipped + kept > lengths_of(offsets)))
    if len(wrong):
        i = wrong[0]
        raise ShapeError(
            f"op 'sequence_slice': {kept[i]} rows from row {skipped[i]} on are requested of "
            f"sequence {i}, which has {offsets[i + 1] - offsets[i]} rows"
        )
    return spans(offsets[:-1] + skipped, kept), kept


@sequence_slice.kernel
def _(xp: Any, X: Array, X_lod: Lod, Offset: Array, Length: Array) -> WithLod:
    rows, lengths = _sliced(X, X_lod, Offset, Length)
    return WithLod(take_rows(xp, X, rows), lengths_lod(lengths))


@sequence_slice.grad("X")
def _(xp: Any, X: Array, X_lod: Lod, Offset: Array, Length: Array, dOut: Array) -> Array:
    out = xp.zeros(X.shape, dOut.dtype)
    out[xp.asarray(_sliced(X, X_lod, Offset, Length)[0])] = dOut
    return out


sequence_reverse = Op("sequence_reverse", "X -> Y")


@sequence_reverse.shape
def _(X: Spec) -> Spec:
    return X.with_shape(X.shape)


@sequence_reverse.kernel
def _(xp: Any, X: Array, X_lod: Lod) -> Array:
    level = level_of("sequence_reverse", "X", X_lod, 0, len(X))
    ends = (level.offsets[:-1] + level.offsets[1:] - 1).repeat(level.lengths)
    return take_rows(xp, X, ends - np.arange(len(X)))


@sequence_reverse.grad_rule("X")
def _(context: GradContext) -> None:
    context.emit("sequence_reverse", {"X": context.out_grad("Y")}, {"Y": context.in_grad("X")})


# ---------------------------------------------------------------------- reshape
sequence_reshape = Op(
    "sequence_reshape", "X -> Out", attrs={"new_dim": required(AttrType.INT)}, dynamic=True, makes_lod=True
)


@sequence_reshape.shape
def _(X: Spec, new_dim: int) -> Spec:
    if len(X.shape) != 2:
        raise ShapeError(f"op 'sequence_reshape': X has shape {list(X.shape)}, wanted a matrix")
    known = min(X.shape) >= 0
    return Spec((X.shape[0] * X.shape[1] // new_dim if known else -1, new_dim), X.dtype, 1)


@sequence_reshape.kernel
def _(X: Array, X_lod: Lod, new_dim: int) -> WithLod:
    offsets = offsets_of_level("sequence_reshape", "X", X_lod, 0, len(X))
    if len(X_lod) != 1:
        raise ShapeError(f"op 'sequence_reshape': X has {len(X_lod)} levels of detail, wanted 1")
    sizes = offsets * X.shape[1]
    wrong = np.flatnonzero(sizes % new_dim)
    if len(wrong):
        i = wrong[0] - 1
        raise ShapeError(
            f"op 'sequence_reshape': sequence {i} has {sizes[i + 1] - sizes[i]} elements, which "
            f"cannot be reshaped to rows of {new_dim}"
        )
    return WithLod(X.reshape(-1, new_dim), (tuple((sizes // new_dim).tolist()),))


@sequence_reshape.grad("X")
def _(X: Array, dOut: Array) -> Array:
    return dOut.reshape(X.shape)
