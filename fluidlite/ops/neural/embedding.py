"""Table look-ups: rows of W by integer ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import LONG, LONGS, STRINGS, Op, Spec
from fluidlite.ops.kernels.numbers import first_wrong
from fluidlite.values.row_sums import add_rows
from fluidlite.values.tensor import SelectedRows, merge_rows, positions

NO_PADDING = -1
_ATTRS = {
    "is_sparse": False,
    "is_distributed": False,
    "padding_idx": LONG(NO_PADDING),
    "remote_prefetch": False,
    "trainer_id": 0,
    "height_sections": LONGS(),
    "epmap": STRINGS(),
    "table_names": STRINGS(),
}


def _matrix(type: str, W: Spec) -> int:
    """The number of columns of the table."""
    if len(W.shape) != 2:
        raise ShapeError(f"op {type!r}: the table W must be a matrix, but has shape {list(W.shape)}")
    return W.shape[1]


def check_range(xp: Any, ids: Array, rows: int, padding_idx: int = NO_PADDING) -> None:
    """Check ids on the host. On a device reading them would stall the queue; there wrong ids give NaN."""
    if xp is np and ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < rows:
        wrong = (ids < 0) | (ids >= rows)
        if padding_idx != NO_PADDING:
            wrong &= ids != padding_idx
        if wrong.any():
            number, where = first_wrong(ids, wrong)
            raise ValueError(f"id {number} is outside the table of {rows} rows ({where} of Ids)")


def look_up(xp: Any, table: Array, ids: Array, padding_idx: int) -> Array:
    """table[ids], with zeros for `padding_idx`."""
    padded = padding_idx != NO_PADDING
    check_range(xp, ids, len(table), padding_idx)
    out = table.take(ids, axis=0, mode="clip") if xp is np else _device_rows(xp, table, ids)
    if padded:
        out = xp.where((ids == padding_idx)[..., None], table.dtype.type(0), out)
    return out


def _rows_of(xp: Any, table: Array | SelectedRows, ids: Array, padding_idx: int) -> Array:
    """The rows of a dense table, or of one that holds some rows only."""
    if not isinstance(table, SelectedRows):
        return look_up(xp, table, ids, padding_idx)
    at, known = positions(xp, table.ids, ids)
    padded = (ids == padding_idx) & (padding_idx != NO_PADDING)
    if xp is np and not (known | padded).all():
        number, where = first_wrong(ids, ~(known | padded))
        raise ValueError(f"id {number} is not one of the {len(table.ids)} rows that W holds ({where} of Ids)")
    return xp.where(padded[..., None], table.dtype.type(0), table.array[at])


def _device_rows(xp: Any, table: Array, ids: Array) -> Array:
    known = (ids >= 0) & (ids < len(table))
    return xp.where(known[..., None], table.take(ids, axis=0), table.dtype.type(np.nan))


def table_gradient(
    xp: Any, table: Array, ids: Array, d: Array, padding_idx: int, is_sparse: bool
) -> Array | SelectedRows:
    """The gradient of the table: rows of `d` [..., D] added up by id, or left as they are in a
    SelectedRows.
    """
    flat = ids.reshape(-1)
    rows = d.reshape(len(flat), table.shape[1])
    if is_sparse:
        if padding_idx != NO_PADDING:
            rows = xp.where((flat == padding_idx)[:, None], rows.dtype.type(0), rows)
        # ids that occur twice keep a row each: whoever adds or applies the gradient merges them
        return SelectedRows(flat, len(table), rows)
    out = xp.zeros_like(table)
    if xp is np and len(flat) and 0 <= int(flat.min()) <= int(flat.max()) < len(table):
        add_rows(xp, out, flat, rows)
    elif xp is np:
        # add.at is slow on the host
        found, sums = merge_rows(xp, flat, rows)
        out[found] = sums
    else:
        xp.add.at(out, flat, rows)
    if padding_idx != NO_PADDING:
        # a slice: a padding_idx beyond the table changes nothing
        out[padding_idx : padding_idx + 1] = 0
    return out


lookup_table = Op(
    "lookup_table",
    "W Ids -> Out",
    attrs={**_ATTRS, "grad_inplace": False},
    lod="Ids",
    idle=("is_test", "entry", "entry_config", "slot", "table_class"),
    below={"Ids": ("W", 0)},
    table="W",
    version=1,
    amp="gray",
    amp_fp16="black",
    amp_bf16="",
)
lookup_table_v2 = Op(
    "lookup_table_v2",
    "W Ids -> Out",
    attrs=_ATTRS,
    lod="Ids",
    below={"Ids": ("W", 0)},
    table="W",
    version=1,
    amp_fp16="black",
    amp_bf16="",
)


@lookup_table.shape
def _(W: Spec, Ids: Spec) -> Spec:
    _check_column(Ids.shape)
    return W.with_shape((*Ids.shape[:-1], _matrix("lookup_table", W)))


def _check_column(shape: Sequence[int]) -> None:
    if not shape or shape[-1] not in (1, -1):
        raise ShapeError(
            f"op 'lookup_table': the last dimension of Ids must be 1, but Ids has shape {list(shape)}"
        )


@lookup_table_v2.shape
def _(W: Spec, Ids: Spec) -> Spec:
    return W.with_shape((*Ids.shape, _matrix("lookup_table_v2", W)))


@lookup_table.kernel
def _(xp: Any, W: Array | SelectedRows, Ids: Array, padding_idx: int) -> Array:
    _check_column(Ids.shape)
    return _rows_of(xp, W, Ids.reshape(Ids.shape[:-1]), padding_idx)


@lookup_table_v2.kernel
def _(xp: Any, W: Array | SelectedRows, Ids: Array, padding_idx: int) -> Array:
    return _rows_of(xp, W, Ids, padding_idx)


def _gradient(
    xp: Any, W: Array, Ids: Array, dOut: Array, padding_idx: int, is_sparse: bool
) -> Array | SelectedRows:
    return table_gradient(xp, W, Ids, dOut, padding_idx, is_sparse)


lookup_table.grad("W", sparse="W@GRAD", only_shape=("W",))(_gradient)
lookup_table_v2.grad("W", sparse="W@GRAD", only_shape=("W",))(_gradient)
