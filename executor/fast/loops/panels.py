"""Products of a few rows with a weight that many steps read, as LLVM text.

The weight is copied into panels of a few registers' columns, each row of a panel next to the one before. Of
up to six rows at a time all products with a panel stay in registers until they are done.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.loops.routine import Routine, Scalar

__all__ = ["Panels", "as_argument", "product_call", "product_text"]

CALL = (
    "void @{name}(ptr {rows}, i64 {count}, i64 {depth}, "
    "ptr {weight}, i64 {whole}, i64 {panels}, ptr {out}, i64 {stride})"
)
_PARAMETERS = {
    "rows": "%rows",
    "count": "%count",
    "depth": "%depth",
    "weight": "%weight",
    "whole": "%whole",
    "panels": "%panels",
    "out": "%out",
    "stride": "%stride",
}


def _most_rows(lanes: int, vectors: int) -> int:
    """Rows whose products with a panel fit into the registers: 32 of them with AVX-512, else 16."""
    registers = 32 if lanes >= 16 else 16
    return max(min((registers - vectors - 2) // vectors, 6), 1)


class Panels:
    """How the columns of a weight are cut: `vectors` registers to a panel."""

    def __init__(self, columns: int, lanes: int) -> None:
        filled = -(-columns // lanes)
        # three and more registers a panel use each row's numbers often enough
        self.vectors = min((4, 3, 2, 1), key=lambda count: (-(-filled // count) * count, -count))
        if lanes < 16:
            self.vectors = min(self.vectors, 3)
        self.columns = columns
        self.width = self.vectors * lanes
        self.count = -(-columns // self.width)

    @property
    def stride(self) -> int:
        """Columns with those that fill the last panel."""
        return self.count * self.width

    def packed(self, weight: Array) -> Array:
        """The weight [depth, columns] as [panels, depth, width]."""
        depth = len(weight)
        if self.stride == self.columns:
            return np.ascontiguousarray(weight.reshape(depth, self.count, self.width).swapaxes(0, 1))
        out = np.zeros((self.count, depth, self.width), weight.dtype)
        whole = self.columns // self.width
        head = weight[:, : whole * self.width].reshape(depth, whole, self.width)
        out[:whole] = head.swapaxes(0, 1)
        out[whole, :, : self.columns - whole * self.width] = weight[:, whole * self.width :]
        return out


def product_call(routine: Routine, vectors: int, **operands: Scalar | str) -> None:
    """Append a call: out[row] = (the vector that rows[row] points to) times the packed weight."""
    routine.do("call " + CALL.format(name=f"product{vectors}", **operands))


def product_text(lanes: int, vectors: int, intrinsics: dict[str, str]) -> str:
    """The text of that function, for panels of so many registers."""
    routine = Routine(lanes, intrinsics)
    most = _most_rows(lanes, vectors)
    # none where a thread's sequences have all ended: `count` is then negative
    rows = routine.integer("count")
    blocks = routine.let(f"sdiv i64 {rows + (most - 1)}, {most}")
    with routine.loop(0, routine.integer("panels")) as panel:
        weight = routine.at("%weight", panel.index * routine.integer("whole"))
        column = panel.index * (vectors * lanes)
        with routine.loop(0, blocks) as block:
            # 32 rows are 6, 5, 5, 6, 5, 5 and not five times 6 and 2: a block of 2 waits for its loads
            first = routine.share(rows, block.index, blocks)
            following = block.index + 1
            left = routine.share(rows, following, blocks) - first
            labels = [routine.label() for _ in range(most)]
            done = routine.label()
            others = " ".join(f"i64 {n + 1}, label %{label}" for n, label in enumerate(labels[:-1]))
            routine.do(f"switch i64 {left}, label %{labels[-1]} [{others}]")
            for count, label in enumerate(labels, 1):
                routine.begin(label)
                _rows(routine, count, vectors, first, weight, column)
                routine.do(f"br label %{done}")
            routine.begin(done)
    return routine.function("internal " + CALL.format(name=f"product{vectors}", **_PARAMETERS))


def _rows(routine: Routine, count: int, vectors: int, first: Scalar, weight: Scalar, column: Scalar) -> None:
    """The products of `count` rows with one panel."""
    numbers = [first + n for n in range(count)]
    rows = [routine.entry("%rows", number, "ptr") for number in numbers]
    zeros = [routine.zero()] * (count * vectors)
    with routine.loop(0, routine.integer("depth"), carried=zeros) as loop:
        at = loop.index * (vectors * routine.lanes)
        parts = [routine.load(weight, at + v * routine.lanes) for v in range(vectors)]
        for n, row in enumerate(rows):
            number = routine.spread(routine.entry(row, loop.index, "float"))
            for v, part in enumerate(parts):
                k = n * vectors + v
                loop.next[k] = number.times_plus(part, loop.values[k])
    for n, place_of in enumerate(numbers):
        place = place_of * routine.integer("stride") + column
        for v in range(vectors):
            routine.store(loop.values[n * vectors + v], "%out", place + v * routine.lanes)


def as_argument(array: Any) -> int:
    """An argument of compiled code: the address of an array, 0 for none, a number itself."""
    if array is None or isinstance(array, int):
        return array or 0
    return address_of(array)
