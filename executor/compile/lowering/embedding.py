"""Lookup tables: rows gathered into a buffer; gradients by rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.plan.actions import Call, Equals, HostCheck, Out
from fluidlite.executor.plan.values import Value
from fluidlite.ops.neural.embedding import NO_PADDING
from fluidlite.values.row_sums import add_rows
from fluidlite.values.tensor import SelectedRows


def _ids(e: Emitter) -> Value:
    ids = e.need("Ids")
    if ids.dtype != np.int64:
        raise CannotLower("ids")
    return e.reshape(ids, (ids.size,))


@lowering("lookup_table", "lookup_table_v2")
def _(e: Emitter) -> None:
    table = e.need("W")
    ids = e.need("Ids")
    assert table.shape is not None and ids.shape is not None
    padding = e.attr("padding_idx")
    flat = _ids(e)
    lead = ids.shape[:-1] if e.op.type == "lookup_table" else ids.shape
    out = e.out("Out", (*lead, table.shape[1]), table.dtype)
    rows = e.reshape(out, (flat.size, table.shape[1]))
    # checked ahead, so that `take` may clip: with mode="raise" NumPy writes to a buffer first, then to `out`
    check = e.bind("check_ids", IdCheck(table.shape[0], padding))
    e.run(check, flat, effect=True)
    e.call("take", table, flat, axis=0, mode="clip", out=rows)
    if padding != NO_PADDING:
        padding = padding if padding >= 0 else table.shape[0] + padding
        e.set_item(rows, Equals(flat, padding), 0)


class IdCheck(HostCheck):
    """Raises for ids outside the table: `take` would clip them to a row that they do not mean."""

    def __init__(self, rows: int, padding: int) -> None:
        self.rows = rows
        self.padding = padding

    def __call__(self, ids: Array) -> None:
        # two reductions tell that all is well, which it mostly is
        if len(ids) and (ids.min() < 0 or ids.max() >= self.rows):
            outside = ids[(ids < 0) | (ids >= self.rows)]
            if self.padding != NO_PADDING:
                outside = outside[outside != self.padding]
            if len(outside):
                raise ValueError(f"id {int(outside[0])} is outside the table of {self.rows} rows")


@lowering("lookup_table_grad", "lookup_table_v2_grad")
def _(e: Emitter) -> None:
    table = e.need("W")
    d = e.need("Out@GRAD")
    assert table.shape is not None
    ids = _ids(e)
    rows = e.reshape(d, (ids.size, table.shape[1]))
    if e.attr("is_sparse"):
        make = e.bind("selected_rows", SparseRows(e.attr("padding_idx"), table.shape[0]))
        out = e.local("W@GRAD")
        e.assign(out, Call(make, (ids, rows)))
        return
    out = e.out("W@GRAD", table.shape, table.dtype)
    add = e.bind_fresh("add_rows", AddRows, e.attr("padding_idx"), table.shape[0])
    e.run(add, ids, rows, Out(out))


class SparseRows:
    """The row-sparse gradient of a table: the batch's ids and their gradient rows, copied out of the
    plan's buffers.
    """

    def __init__(self, padding: int, height: int) -> None:
        self.padding = padding if padding >= 0 or padding == -1 else height + padding
        self.height = height

    def __call__(self, ids: Array, rows: Array) -> SelectedRows:
        # the gradient outlives the step, and the plan's buffers are used again
        values = rows.copy()
        if self.padding != -1:
            values[ids == self.padding] = 0
        return SelectedRows(ids.copy(), self.height, values)


class AddRows:
    """The dense gradient of a table: zero, with each row of the batch added to its id's row."""

    def __init__(self, xp: Any, padding: int, height: int) -> None:
        self.xp = xp
        self.padding = padding if padding >= 0 or padding == -1 else height + padding

    def __call__(self, ids: Array, rows: Array, out: Array) -> None:
        out.fill(0)
        add_rows(self.xp, out, ids, rows)
        if self.padding != -1:
            # that row reads as zeros, and never moves
            out[self.padding] = 0
