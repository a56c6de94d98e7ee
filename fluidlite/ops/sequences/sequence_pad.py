"""Between sequences and padded batches: pad, unpad, mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.attr_limits import Limit, limited
from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import AttrType, Lod, Op, Spec, WithLod, required
from fluidlite.ops.kernels.numbers import check_lengths
from fluidlite.ops.kernels.sequence_rows import lengths_lod, lengths_of, offsets_of_level, spans, take_rows
from fluidlite.values.tensor import host

sequence_pad = Op(
    "sequence_pad",
    "X PadValue -> Out Length",
    attrs={"padded_length": -1},
    lod=None,
    dynamic=True,
    makes_lod=True,
    moves=True,
)


@sequence_pad.shape
def _(X: Spec, PadValue: Spec, padded_length: int) -> tuple[Spec, Spec]:
    step = X.shape[1:]
    if len(X.shape) < 2:
        raise ShapeError(f"op 'sequence_pad': X has shape {list(X.shape)}, wanted at least 2 dimensions")
    if X.lod_level == 0:
        raise ShapeError("op 'sequence_pad': X has no level of detail; declare it with lod_level=1")
    if not fits(PadValue.shape, (1,), step):
        raise ShapeError(
            f"op 'sequence_pad': PadValue has shape {list(PadValue.shape)}, wanted [1] or that of a row, "
            f"{list(step)}"
        )
    return Spec((-1, padded_length, *step), X.dtype, 0), Spec((-1,), VarType.INT64, 0)


def _positions(offsets: Array, steps: int) -> Array:
    """Positions of the rows in a padded batch of `steps` rows a sequence."""
    return spans(np.arange(len(offsets) - 1) * steps, lengths_of(offsets))


def _steps(offsets: Array, padded_length: int) -> int:
    longest = int(lengths_of(offsets).max(initial=0))
    if 0 <= padded_length < longest:
        raise ShapeError(
            f"op 'sequence_pad': padded_length is {padded_length}, but a sequence has {longest} rows"
        )
    return padded_length if padded_length >= 0 else longest


@sequence_pad.kernel
def _(xp: Any, X: Array, X_lod: Lod, PadValue: Array, padded_length: int) -> tuple[WithLod, WithLod]:
    offsets = offsets_of_level("sequence_pad", "X", X_lod, 0, len(X))
    steps = _steps(offsets, padded_length)
    sequences = len(offsets) - 1
    out = xp.empty((sequences * steps, *X.shape[1:]), X.dtype)
    out[...] = PadValue
    out[xp.asarray(_positions(offsets, steps))] = X
    return WithLod(out.reshape(sequences, steps, *X.shape[1:]), ()), WithLod(
        xp.asarray(lengths_of(offsets)), ()
    )


@sequence_pad.grad("X")
def _(xp: Any, X: Array, X_lod: Lod, dOut: Array) -> Array:
    offsets = offsets_of_level("sequence_pad_grad", "X", X_lod, 0, len(X))
    return take_rows(
        xp, dOut.reshape(dOut.shape[0] * dOut.shape[1], *X.shape[1:]), _positions(offsets, dOut.shape[1])
    )


sequence_unpad = Op("sequence_unpad", "X Length -> Out", lod=None, dynamic=True, makes_lod=True, moves=True)


@sequence_unpad.shape
def _(X: Spec, Length: Spec) -> Spec:
    if len(X.shape) < 2:
        raise ShapeError(f"op 'sequence_unpad': X has shape {list(X.shape)}, wanted at least 2 dimensions")
    if len(Length.shape) != 1:
        raise ShapeError(f"op 'sequence_unpad': Length has shape {list(Length.shape)}, wanted one dimension")
    return Spec((-1, *(X.shape[2:] or (1,))), X.dtype, 1)


def _kept(X: Array, lengths: Array) -> Array:
    """Rows of the flattened batch that hold sequences."""
    check_lengths(np, "sequence_unpad", "Length", lengths, *X.shape[:2])
    return spans(np.arange(len(lengths)) * X.shape[1], lengths)


@sequence_unpad.kernel
def _(xp: Any, X: Array, Length: Array) -> WithLod:
    lengths = host(Length).reshape(-1)
    flat = X.reshape(X.shape[0] * X.shape[1], *(X.shape[2:] or (1,)))
    return WithLod(take_rows(xp, flat, _kept(X, lengths)), lengths_lod(lengths))


@sequence_unpad.grad("X")
def _(xp: Any, X: Array, dOut: Array, dOut_lod: Lod) -> Array:
    lengths = lengths_of(offsets_of_level("sequence_unpad_grad", "Out@GRAD", dOut_lod, 0, len(dOut)))
    out = xp.zeros((X.shape[0] * X.shape[1], *dOut.shape[1:]), dOut.dtype)
    out[xp.asarray(_kept(X, lengths))] = dOut
    return out.reshape(X.shape)


# ---------------------------------------------------------------------- mask
sequence_mask = Op(
    "sequence_mask",
    "X MaxLenTensor? -> Y",
    attrs={
        "maxlen": limited(-1, Limit("negative or positive", lambda value: value != 0)),
        "out_dtype": required(AttrType.INT),
    },
    lod=None,
    dynamic=True,
)


@sequence_mask.shape
def _(X: Spec, MaxLenTensor: Spec | None, maxlen: int, out_dtype: int) -> Spec:
    return Spec((*X.shape, maxlen if maxlen > 0 and MaxLenTensor is None else -1), VarType(out_dtype))


@sequence_mask.kernel
def _(xp: Any, X: Array, MaxLenTensor: Array | None, maxlen: int, out_dtype: int) -> Array:
    if MaxLenTensor is not None:
        maxlen = int(host(MaxLenTensor).reshape(-1)[0])
    elif maxlen < 0:
        maxlen = int(X.max()) if X.size else 0
    if xp is np and X.size and X.min() < 0:
        # beyond `maxlen` a sequence is cut, below 0 there is none
        raise ShapeError(f"op 'sequence_mask': X holds the length {int(X.min())}, wanted 0 or more")
    return (xp.arange(maxlen) < X[..., None]).astype(to_numpy(VarType(out_dtype)))
