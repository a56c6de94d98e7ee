"""The class of each row that a number between 0 and 1 draws, as `sampling_id` finds it: text for LLVM."""

from __future__ import annotations

from fluidlite.executor.fast.loops.routine import Routine, Scalar
from fluidlite.executor.fast.loops.vectors import Vector

__all__ = ["BLOCK", "write_drawn_classes"]

BLOCK = 16  # classes after which it is looked whether the rest is needed


def write_drawn_classes(a: Routine) -> None:
    """The function over rows: how many sums of a row's first probabilities lie below its number, added up in
    order as far as they do. All lanes hold the same.
    """
    a.arguments(["Probabilities", "Drawn", "Classes", "width", "blocks"])
    width = a.integer("width")
    with a.loop(a.integer("first"), a.integer("last")) as row:
        limit = a.entry("%Drawn", row.index, "float")
        line, wanted = a.at("%Probabilities", row.index * width), a.spread(limit)
        none = a.code.number(0, "i32")
        with a.loop(0, a.integer("blocks"), carried=[a.zero(), none]) as block:
            start = block.index * BLOCK
            is_below = _first_lane(a, block.values[0]).compare("olt", limit)
            end = a.pick(is_below, a.least(start + BLOCK, width), start)
            with a.loop(start, end, carried=block.values) as column:
                total = column.values[0] + a.spread(a.entry(line, column.index, "float"))
                column.next = [total, column.values[1] + total.compare("olt", wanted).converted("i32")]
            block.next = column.values
        count = _first_lane(a, block.values[1])
        a.put(a.least(a.let(f"zext i32 {count} to i64"), width - 1), "%Classes", row.index)


def _first_lane(a: Routine, vector: Vector) -> Scalar:
    kind = a.code.type(vector.kind)
    return a.let(f"extractelement {kind} {vector.name}, i64 0", vector.kind)
