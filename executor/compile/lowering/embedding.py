"""Lookup tables: rows gathered into a buffer; gradients by rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, row_kernel
from fluidlite.executor.compile.lowering.device_rows import RowsOfIds, keep_rows, whole_rows
from fluidlite.executor.fast.loops.tables import row_adder
from fluidlite.executor.plan.actions import Call, Equals, Out
from fluidlite.executor.plan.values import Value
from fluidlite.ops.neural.embedding import NO_PADDING, check_range
from fluidlite.values.tensor import SelectedRows


def _ids(e: Emitter) -> Value:
    ids = e.need("Ids")
    if ids.dtype != np.int64:
        raise CannotLower("ids")
    return e.reshape(ids, (ids.size,))


def _padding(e: Emitter, height: int) -> int:
    """The row that reads as zeros; -1 for none."""
    padding: int = e.attr("padding_idx")
    return padding if padding >= 0 or padding == NO_PADDING else height + padding


@lowering("lookup_table", "lookup_table_v2")
def _(e: Emitter) -> None:
    table = e.need("W")
    ids = e.need("Ids")
    assert table.shape is not None and ids.shape is not None
    if e.op.type == "lookup_table" and ids.shape[-1:] != (1,):
        e.builder.inferred(e.op)  # says what is wrong with the ids
    padding = e.attr("padding_idx")
    flat = _ids(e)
    lead = ids.shape[:-1] if e.op.type == "lookup_table" else ids.shape
    out = e.out("Out", (*lead, table.shape[1]), table.dtype)
    rows = e.reshape(out, (flat.size, table.shape[1]))
    if not e.on_host and table.dtype in (np.float32, np.float64):
        kernel = row_kernel(e, "lookup", rows, [table.shape[0], _padding(e, table.shape[0])])
        e.run(kernel, for_kernel(e, table, table.dtype), for_kernel(e, flat, np.int64), Out(rows))
        return
    # checked ahead, so that `take` may clip: with mode="raise" NumPy writes to a buffer first, then to `out`
    check = e.bind_fresh("check_ids", id_check, table.shape[0], padding)
    e.run(check, flat, effect=True)
    e.call("take", table, flat, axis=0, mode="clip", out=rows)
    if padding != NO_PADDING:
        e.set_item(rows, Equals(flat, _padding(e, table.shape[0])), 0)


def id_check(xp: Any, rows: int, padding: int) -> Callable[[Array], None]:
    """The check of ids that an array module allows: it needs them on the host, and would stop a device's
    stream.
    """
    return IdCheck(rows, padding) if xp is np else _no_check


def _no_check(ids: Array) -> None:
    """Take ids as they are."""


class IdCheck:
    """Raises for ids outside the table: `take` would clip them to a row that they do not mean."""

    def __init__(self, rows: int, padding: int) -> None:
        self.rows = rows
        self.padding = padding

    def __call__(self, ids: Array) -> None:
        # one maximum tells that all is well, which it mostly is: as unsigned numbers negative ids are large
        if len(ids) and np.maximum.reduce(ids.view(np.uint64)) >= self.rows:
            check_range(np, ids, self.rows, self.padding)


@lowering("lookup_table_grad", "lookup_table_v2_grad")
def _(e: Emitter) -> None:
    table = e.need("W")
    d = e.need("Out@GRAD")
    assert table.shape is not None
    ids = _ids(e)
    rows = e.reshape(d, (ids.size, table.shape[1]))
    if e.attr("is_sparse"):
        make = e.bind_fresh("selected_rows", SparseRows, e.attr("padding_idx"), table.shape[0])
        out = e.local("W@GRAD")
        e.assign(out, Call(make, (ids, rows)))
        keep_rows(e, out, ids, rows, _padding(e, table.shape[0]))
        return
    out = e.out("W@GRAD", table.shape, table.dtype)
    if not e.on_host and table.dtype in (np.float32, np.float64):
        given = for_kernel(e, ids, np.int64), for_kernel(e, rows, table.dtype)
        whole_rows(e, [RowsOfIds(*given, _padding(e, table.shape[0]))], table, out)
        return
    add = e.bind_fresh("add_rows", AddRows, e.attr("padding_idx"), table.shape[0], e.loops)
    e.run(add, ids, rows, Out(out))


class SparseRows:
    """The row-sparse gradient of a table: the batch's ids and their gradient rows, copied out of the
    plan's buffers.
    """

    def __init__(self, xp: Any, padding: int, height: int) -> None:
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

    def __init__(self, xp: Any, padding: int, height: int, loops: str) -> None:
        self.add = row_adder(xp, loops)
        self.padding = padding if padding >= 0 or padding == -1 else height + padding

    def __call__(self, ids: Array, rows: Array, out: Array) -> None:
        out.fill(0)
        self.add(out, ids, rows)
        if self.padding != -1:
            # that row reads as zeros, and never moves
            out[self.padding] = 0
