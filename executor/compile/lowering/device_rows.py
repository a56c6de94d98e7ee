"""Row-sparse gradients on a device, as ids and rows in the plan's own buffers: their sizes are those of the
batch, so that a graph holds the updates, and sums have one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter
from fluidlite.executor.compile.lowering.device import for_kernel, row_kernel
from fluidlite.executor.cuda.tables import DeviceRowSums
from fluidlite.executor.plan.actions import Call, InOut, Out
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.executor.plan.values import Storage, Value
from fluidlite.ops.kernels.scalar import function_of, parse
from fluidlite.ops.training.optimizer import target_of
from fluidlite.values.tensor import SelectedRows, merge_rows

__all__ = [
    "RowsOfIds",
    "change_rows",
    "keep_rows",
    "kept_rows",
    "sum_rows",
    "total_of_rows",
    "update_rows",
    "whole_rows",
]


class RowsOfIds(NamedTuple):
    """Ids and the gradient's row for each of them; `padding` has none."""

    ids: Value
    rows: Value
    padding: int


class SumOfRows:
    """The sum of row-sparse gradients, for those who read it as such."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __call__(self, *parts: SelectedRows) -> SelectedRows:
        ids, rows = (
            self.xp.concatenate(each)
            for each in ([part.ids for part in parts], [part.array for part in parts])
        )
        ids, rows = merge_rows(self.xp, ids, rows)
        return SelectedRows(ids, parts[0].height(), rows)


class RowChange(OwnObject):
    """An expression of the values of row-sparse gradients of the same ids, for those who read it as one."""

    only_computes = True

    def __init__(self, xp: Any, expr: str, names: Sequence[str]) -> None:
        self.xp = xp
        self.function = function_of(expr, names, {})

    def __call__(self, first: SelectedRows, *operands: Any) -> SelectedRows:
        values = [item.array if isinstance(item, SelectedRows) else item for item in (first, *operands)]
        return SelectedRows(first.ids, first.height(), self.function(self.xp, *values))


def keep_rows(e: Emitter, gradient: Value, ids: Value, rows: Value, padding: int) -> None:
    """Let later updates on a device find what a lookup's gradient is made of; the gradient itself is for all
    others, and left out where there are none.
    """
    if not e.on_host and rows.dtype in (np.float32, np.float64) and rows.size:
        part = RowsOfIds(for_kernel(e, ids, np.int64), for_kernel(e, rows, rows.dtype), padding)
        e.remember(("rows", gradient), [part])


def kept_rows(e: Emitter, gradient: Value) -> list[RowsOfIds] | None:
    """The parts of a sparse gradient that have been kept, or None."""
    found: list[RowsOfIds] | None = e.recall(("rows", gradient))
    return found


def sum_rows(e: Emitter) -> bool:
    """The sum of gradients that have been kept; False where not all have been."""
    names = e.op.inputs["X"]
    if e.on_host or any(e.builder.newest(name) is None for name in names):
        return False
    gradients = [e.builder.value(e.op, "X", name) for name in names]
    kept = [kept_rows(e, gradient) for gradient in gradients]
    if any(parts is None for parts in kept):
        return False
    out = e.local("Out")
    e.assign(out, Call(e.bind_fresh("sum_rows", SumOfRows), tuple(gradients)))
    e.remember(("rows", out), [part for parts in kept for part in parts or ()])
    return True


def _differ(first: Sequence[RowsOfIds], second: Sequence[RowsOfIds]) -> bool:
    """True if the rows of two gradients are not of the same ids."""
    return [(part.ids, part.padding) for part in first] != [(part.ids, part.padding) for part in second]


def change_rows(e: Emitter, expr: str, out: Value, gradients: Mapping[str, Value], **numbers: Value) -> bool:
    """out = an expression of gradients and numbers; False, with nothing written, where the rows have not been
    kept, or are of several lists of ids.
    """
    kept = [kept_rows(e, gradient) or [] for gradient in gradients.values()]
    if not all(kept) or any(map(_differ, kept[1:], kept[:-1])):
        return False
    parts = []
    for each in zip(*kept, strict=True):
        ids, like, padding = each[0]
        rows = e.temp(like.shape or (), like.dtype)
        e.elementwise(
            expr, rows, **dict(zip(gradients, (part.rows for part in each), strict=True)), **numbers
        )
        parts.append(RowsOfIds(ids, rows, padding))
    call = e.bind_fresh("changed_rows", RowChange, expr, (*gradients, *numbers))
    e.assign(out, Call(call, (*gradients.values(), *numbers.values())))
    e.remember(("rows", out), parts)
    return True


def total_of_rows(e: Emitter, parts: Sequence[RowsOfIds], out: Value) -> None:
    """out (one number) = the sum of all elements of a gradient."""
    totals = {}
    for index, (ids, rows, padding) in enumerate(parts):
        if padding >= 0:
            added = e.temp(rows.shape or (), rows.dtype)
            column = e.reshape(ids, (ids.size, 1))
            zero = e.number(0, rows)
            e.elementwise(
                "where(ids == padding, zero, x)", added, ids=column, padding=padding, zero=zero, x=rows
            )
            rows = added
        totals[f"x{index}"] = total = e.temp((), rows.dtype)
        e.call("add.reduce", rows, axis=(0, 1), out=total)
    e.elementwise(" + ".join(totals), e.reshape(out, ()), **totals)


def _sums(e: Emitter, parts: Sequence[RowsOfIds], table: Value, by_place: bool, *outs: Value) -> None:
    assert table.shape is not None
    counts = tuple(part.ids.size for part in parts)
    paddings = tuple(part.padding for part in parts)
    sizes = (counts, paddings, table.shape[1], table.shape[0])
    run = e.bind_fresh("add_rows", DeviceRowSums, *sizes, table.dtype, by_place)
    e.run(run, *(part.ids for part in parts), *(part.rows for part in parts), *map(Out, outs))


def whole_rows(e: Emitter, parts: Sequence[RowsOfIds], table: Value, out: Value) -> None:
    """out = zeros with the rows of a gradient, as tall as the table."""
    _sums(e, parts, table, False, out)


def update_rows(
    e: Emitter,
    parts: Sequence[RowsOfIds],
    steps: Sequence[tuple[str, str]],
    known: dict[str, Any],
    written: Sequence[str],
) -> None:
    """The steps of an update over the rows of a gradient: rows of the table and its accumulators are picked,
    computed with in one kernel, and put back.
    """
    table = known["Param"]
    assert table.shape is not None
    height, columns = table.shape
    count = sum(part.ids.size for part in parts)
    heads, sums = e.temp((count,), np.int64), e.temp((count, columns), table.dtype)
    _sums(e, parts, table, True, heads, sums)
    tall = {
        slot: value
        for slot, value in known.items()
        if isinstance(value, Value) and value.shape == table.shape
    }
    if any(value.size != 1 for slot, value in known.items() if isinstance(value, Value) and slot not in tall):
        raise CannotLower("an accumulator of another shape")
    known = {**known, "Grad": sums}
    for slot, value in tall.items():
        known[slot] = e.temp((count, columns), value.dtype)
        rows = known[slot]
        # no row has the number -1: nothing reads as 0
        e.run(row_kernel(e, "lookup", rows, [height, -1]), value, heads, Out(rows))
    known |= _computed(e, steps, known)
    for slot in written:
        target = target_of(slot)
        held = e.need(target)
        out = e.out(slot, held.shape, held.dtype, inplace=True)
        if out.storage is not Storage.PARAM:
            raise CannotLower("other rows would have to be copied")
        if target in tall:
            e.run(row_kernel(e, "put_rows", known[slot], [height]), heads, known[slot], InOut(out))
        else:
            e.elementwise("x", out, x=known[slot])


def _computed(e: Emitter, steps: Sequence[tuple[str, str]], known: Mapping[str, Any]) -> dict[str, Value]:
    """The results of the steps of an update, each of the shape of its operands."""
    found: dict[str, Value] = {}
    like = known["Grad"]
    for name, expr in steps:
        operands = {operand: {**known, **found}[operand] for operand in parse(expr).names}
        is_of_rows = any(isinstance(item, Value) and item.shape == like.shape for item in operands.values())
        found[name] = e.temp(like.shape if is_of_rows else (), like.dtype)
        e.elementwise(expr, found[name], **operands)
    return found
