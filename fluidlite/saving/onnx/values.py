"""Values of an ONNX graph with operators, for rules that are formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from fluidlite.saving.onnx.graph import OpView

__all__ = ["Value", "counted", "joined", "numbers_to", "values_of"]

_LAST = 2**31 - 1

Other: TypeAlias = "Value | float"


class Value:
    """A value by its name, and its data type. A number beside it becomes a constant of that type."""

    def __init__(self, op: OpView, name: str, dtype: Any) -> None:
        self.op, self.name, self.dtype = op, name, np.dtype(dtype)

    @classmethod
    def constant(cls, op: OpView, array: Any, dtype: Any) -> Value:
        """A value that is known."""
        return cls(op, op.graph.constant(np.asarray(array), dtype), dtype)

    def _other(self, other: Other) -> str:
        if isinstance(other, Value):
            return other.name
        return self.op.graph.constant(other, self.dtype)

    def node(self, kind: str, *others: Other, dtype: Any = None, **attrs: Any) -> Value:
        """What a node makes of this and others."""
        made = self.op.add(kind, self.name, *map(self._other, others), **attrs)
        return Value(self.op, made, dtype or self.dtype)

    def _back(self, kind: str, other: float) -> Value:
        """What a node makes of a number and this."""
        return Value(self.op, self.op.add(kind, self._other(other), self.name), self.dtype)

    def __add__(self, other: Other) -> Value:
        return self.node("Add", other)

    def __radd__(self, other: float) -> Value:
        return self + other

    def __sub__(self, other: Other) -> Value:
        return self.node("Sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._back("Sub", other)

    def __mul__(self, other: Other) -> Value:
        return self.node("Mul", other)

    def __rmul__(self, other: float) -> Value:
        return self * other

    def __truediv__(self, other: Other) -> Value:
        return self.node("Div", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._back("Div", other)

    def __neg__(self) -> Value:
        return self.node("Neg")

    def __and__(self, other: Value) -> Value:
        return self.node("And", other)

    def __or__(self, other: Value) -> Value:
        return self.node("Or", other)

    def __invert__(self) -> Value:
        return self.node("Not")

    def compare(self, kind: str, other: Other) -> Value:
        """Truth values: `kind` is Less, LessOrEqual, Greater, GreaterOrEqual or Equal."""
        return self.node(kind, other, dtype=np.bool_)

    def where(self, yes: Value, no: Other) -> Value:
        """Elements of the first where this is true, else of the second."""
        return Value(self.op, self.op.add("Where", self.name, yes.name, yes._other(no)), yes.dtype)

    def cast(self, dtype: Any) -> Value:
        """The same in another data type."""
        return Value(self.op, self.op.cast(self.name, dtype), dtype)

    def reshape(self, *sizes: int | Value) -> Value:
        """The same numbers in another shape; sizes are numbers, or values of one or more of them."""
        return self.node("Reshape", numbers_to(self.op, sizes))

    def expand(self, *sizes: int | Value) -> Value:
        """Copies laid over a larger shape."""
        return self.node("Expand", numbers_to(self.op, sizes))

    def transpose(self, *order: int) -> Value:
        """Dimensions in another order."""
        return self.node("Transpose", perm=list(order))

    def part(self, axis: int, start: int, end: int | Value = _LAST) -> Value:
        """A range along a dimension."""
        last = end if isinstance(end, Value) else self._ints(end)
        return self.node("Slice", self._ints(start), last, self._ints(axis))

    def _ints(self, *numbers: int) -> Value:
        return Value(self.op, self.op.ints(*numbers), np.int64)

    def dims(self, first: int, last: int) -> Value:
        """Some of its sizes, in a row."""
        return Value(self.op, self.op.dims(self.name, first, last), np.int64)

    def shape(self) -> Value:
        """All of its sizes."""
        return self.node("Shape", dtype=np.int64)

    def unsqueeze(self, *axes: int) -> Value:
        """With dimensions of 1."""
        return self.node("Unsqueeze", self._ints(*axes))

    def squeeze(self, *axes: int) -> Value:
        """Without dimensions of 1."""
        return self.node("Squeeze", self._ints(*axes))

    def take(self, index: Value, axis: int = 0) -> Value:
        """Rows along a dimension."""
        return self.node("Gather", index, axis=axis)

    def take_nd(self, index: Value) -> Value:
        """Elements at places."""
        return self.node("GatherND", index)

    def compress(self, mask: Value, axis: int = 0) -> Value:
        """Rows where the mask is true."""
        return self.node("Compress", mask, axis=axis)

    def reduce(self, kind: str, axis: int, keep: bool = False) -> Value:
        """A reduction over a dimension: Sum, Max, Min, Mean, Prod."""
        made = self.op.graph.reduce(f"Reduce{kind}", self.name, [axis], keep)
        return Value(self.op, made, self.dtype)

    def at_most(self, other: Other) -> Value:
        """The smaller one, element by element."""
        return self.node("Min", other)

    def at_least(self, other: Other) -> Value:
        """The larger one, element by element."""
        return self.node("Max", other)

    def top(self, count: Value | int, axis: int = -1, largest: bool = True) -> tuple[Value, Value]:
        """The largest elements and their places, the largest first; of equal ones the first."""
        number = count if isinstance(count, Value) else self._ints(count)
        names = self.op.add(
            "TopK", self.name, number.name, outputs=2, axis=axis, largest=int(largest), sorted=1
        )
        return Value(self.op, names[0], self.dtype), Value(self.op, names[1], np.int64)

    def columns(self, axis: int, count: int) -> list[Value]:
        """Each place along a dimension of `count`, which stays as one of 1."""
        return [self.part(axis, place, place + 1) for place in range(count)]


def numbers_to(op: OpView, sizes: Sequence[int | Value]) -> Value:
    """Whole numbers in a row, of which some are values."""
    if not any(isinstance(size, Value) for size in sizes):
        return Value.constant(op, list(sizes), np.int64)
    parts = [size.name if isinstance(size, Value) else op.ints(size) for size in sizes]
    return Value(op, op.add("Concat", *parts, axis=0) if len(parts) > 1 else parts[0], np.int64)


def values_of(op: OpView, *slots: str) -> list[Value]:
    """The values in slots."""
    return [Value(op, op.x(slot), op.dtype(slot)) for slot in slots]


def joined(parts: Sequence[Value], axis: int) -> Value:
    """Values side by side."""
    return parts[0].node("Concat", *parts[1:], axis=axis)


def counted(count: Value) -> Value:
    """0, 1, ... below the number in a value of [1]."""
    op = count.op
    last = op.add("Reshape", count.name, op.scalar_shape())
    return Value(op, op.add("Range", op.whole(0), last, op.whole(1)), np.int64)
