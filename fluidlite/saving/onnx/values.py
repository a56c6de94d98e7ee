"""Values of an ONNX graph with operators, for rules that are formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.saving.onnx.graph import OpView

__all__ = ["GraphValue", "counted", "joined", "numbers_to", "values_of"]

_LAST = 2**31 - 1

Other: TypeAlias = "GraphValue | float"


class GraphValue:
    """A value by its name, and its data type. A number beside it becomes a constant of that type."""

    def __init__(self, op: OpView, name: str, dtype: Any) -> None:
        self.op, self.name, self.dtype = op, name, np.dtype(dtype)

    @classmethod
    def constant(cls, op: OpView, array: Any, dtype: Any) -> GraphValue:
        """A value that is known."""
        return cls(op, op.graph.constant(np.asarray(array), dtype), dtype)

    def _other(self, other: Other) -> str:
        if isinstance(other, GraphValue):
            return other.name
        return self.op.graph.constant(other, self.dtype)

    def node(self, kind: str, *others: Other, dtype: Any = None, **attrs: Any) -> GraphValue:
        """The result of a node that reads this and others."""
        made = self.op.add(kind, self.name, *map(self._other, others), **attrs)
        return GraphValue(self.op, made, dtype or self.dtype)

    def _back(self, kind: str, other: float) -> GraphValue:
        """The result of a node that reads a number and this."""
        return GraphValue(self.op, self.op.add(kind, self._other(other), self.name), self.dtype)

    def __add__(self, other: Other) -> GraphValue:
        node = self.node("Add", other)
        return node

    def __radd__(self, other: float) -> GraphValue:
        return self + other

    def __sub__(self, other: Other) -> GraphValue:
        node = self.node("Sub", other)
        return node

    def __rsub__(self, other: float) -> GraphValue:
        return self._back("Sub", other)

    def __mul__(self, other: Other) -> GraphValue:
        node = self.node("Mul", other)
        return node

    def __rmul__(self, other: float) -> GraphValue:
        return self * other

    def __truediv__(self, other: Other) -> GraphValue:
        node = self.node("Div", other)
        return node

    def __rtruediv__(self, other: float) -> GraphValue:
        return self._back("Div", other)

    def __neg__(self) -> GraphValue:
        return self.node("Neg")

    def __and__(self, other: GraphValue) -> GraphValue:
        node = self.node("And", other)
        return node

    def __or__(self, other: GraphValue) -> GraphValue:
        node = self.node("Or", other)
        return node

    def __invert__(self) -> GraphValue:
        return self.node("Not")

    def compare(self, kind: str, other: Other) -> GraphValue:
        """Truth values: `kind` is Less, LessOrEqual, Greater, GreaterOrEqual or Equal."""
        node = self.node(kind, other, dtype=np.bool_)
        return node

    def where(self, yes: GraphValue, no: Other) -> GraphValue:
        """Elements of the first where this is true, else of the second."""
        chosen = self.op.add("Where", self.name, yes.name, yes._other(no))
        return GraphValue(self.op, chosen, yes.dtype)

    def cast(self, dtype: Any) -> GraphValue:
        """The same in another data type."""
        cast = self.op.cast(self.name, dtype)
        return GraphValue(self.op, cast, dtype)

    def reshape(self, *sizes: int | GraphValue) -> GraphValue:
        """The same numbers in another shape; sizes are numbers, or values of one or more of them."""
        node = self.node("Reshape", numbers_to(self.op, sizes))
        return node

    def expand(self, *sizes: int | GraphValue) -> GraphValue:
        """Copies laid over a larger shape."""
        node = self.node("Expand", numbers_to(self.op, sizes))
        return node

    def transpose(self, *order: int) -> GraphValue:
        """Dimensions in another order."""
        node = self.node("Transpose", perm=list(order))
        return node

    def part(self, axis: int, start: int, end: int | GraphValue = _LAST) -> GraphValue:
        """A range along a dimension."""
        last = end if isinstance(end, GraphValue) else self._ints(end)
        node = self.node("Slice", self._ints(start), last, self._ints(axis))
        return node

    def _ints(self, *numbers: int) -> GraphValue:
        return GraphValue(self.op, self.op.ints(*numbers), np.int64)

    def dims(self, first: int, last: int) -> GraphValue:
        """Some of its sizes, in a row."""
        sizes = self.op.dims(self.name, first, last)
        return GraphValue(self.op, sizes, np.int64)

    def shape(self) -> GraphValue:
        """All of its sizes."""
        node = self.node("Shape", dtype=np.int64)
        return node

    def unsqueeze(self, *axes: int) -> GraphValue:
        """With dimensions of 1."""
        node = self.node("Unsqueeze", self._ints(*axes))
        return node

    def squeeze(self, *axes: int) -> GraphValue:
        """Without dimensions of 1."""
        node = self.node("Squeeze", self._ints(*axes))
        return node

    def take(self, index: GraphValue, axis: int = 0) -> GraphValue:
        """Rows along a dimension."""
        node = self.node("Gather", index, axis=axis)
        return node

    def take_nd(self, index: GraphValue) -> GraphValue:
        """Elements at places."""
        node = self.node("GatherND", index)
        return node

    def compress(self, mask: GraphValue, axis: int = 0) -> GraphValue:
        """Rows where the mask is true."""
        node = self.node("Compress", mask, axis=axis)
        return node

    def reduce(self, kind: str, axis: int, keep: bool = False) -> GraphValue:
        """A reduction over a dimension: Sum, Max, Min, Mean, Prod."""
        made = self.op.graph.reduce(f"Reduce{kind}", self.name, [axis], keep)
        return GraphValue(self.op, made, self.dtype)

    def at_most(self, other: Other) -> GraphValue:
        """The smaller one, element by element."""
        node = self.node("Min", other)
        return node

    def at_least(self, other: Other) -> GraphValue:
        """The larger one, element by element."""
        node = self.node("Max", other)
        return node

    def top(
        self, count: GraphValue | int, axis: int = -1, largest: bool = True
    ) -> tuple[GraphValue, GraphValue]:
        """The largest elements and their places, the largest first; of equal ones the first."""
        number = count if isinstance(count, GraphValue) else self._ints(count)
        names = self.op.add(
            "TopK", self.name, number.name, outputs=2, axis=axis, largest=int(largest), sorted=1
        )
        return GraphValue(self.op, names[0], self.dtype), GraphValue(self.op, names[1], np.int64)

    def columns(self, axis: int, count: int) -> list[GraphValue]:
        """Each place along a dimension of `count`, which stays as one of 1."""
        return [self.part(axis, place, place + 1) for place in range(count)]


def numbers_to(op: OpView, sizes: Sequence[int | GraphValue]) -> GraphValue:
    """Whole numbers in a row, of which some are values."""
    if not any(isinstance(size, GraphValue) for size in sizes):
        return GraphValue.constant(op, list(sizes), np.int64)
    parts = [size.name if isinstance(size, GraphValue) else op.ints(size) for size in sizes]
    return GraphValue(op, op.add("Concat", *parts, axis=0) if len(parts) > 1 else parts[0], np.int64)


def values_of(op: OpView, *slots: str) -> list[GraphValue]:
    """The values in slots."""
    return [GraphValue(op, op.x(slot), op.dtype(slot)) for slot in slots]


def joined(parts: Sequence[GraphValue], axis: int) -> GraphValue:
    """Values side by side."""
    node = parts[0].node("Concat", *parts[1:], axis=axis)
    return node


def counted(count: GraphValue) -> GraphValue:
    """0, 1, ... below the number in a value of [1]."""
    op = count.op
    shape = op.scalar_shape()
    last = op.add("Reshape", count.name, shape)
    places = op.add("Range", op.whole(0), last, op.whole(1))
    return GraphValue(op, places, np.int64)
