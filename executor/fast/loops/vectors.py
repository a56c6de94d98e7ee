"""Arithmetic on vectors, written down as LLVM's intermediate representation.

A `Vector` stands for one register (or a few) of lanes; Python's operators on it append instructions to its
`Code`. So a polynomial is written as in a textbook, and comes out as instructions that need no vectoriser.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import numpy as np

__all__ = ["KINDS", "Code", "Number", "Vector"]

Number: TypeAlias = "int | float | bool"

# dtype -> the type of a lane in arithmetic, and in memory
KINDS: dict[str, tuple[str, str]] = {
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "int32": ("i32", "i32"),
    "int64": ("i64", "i64"),
    "bool": ("i1", "i8"),
}
_FLOATS = ("float", "double")
_LETTERS = {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64", "i1": "i1", "i8": "i8"}


class Code:
    """Instructions on vectors of `width` lanes, in order; `intrinsics` are the functions that they call."""

    def __init__(self, width: int, prefix: str, intrinsics: dict[str, str]) -> None:
        self.width = width
        self.prefix = prefix
        self.intrinsics = intrinsics
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        """A name for a result."""
        self.count += 1
        return f"%{self.prefix}{self.count}"

    def type(self, kind: str) -> str:
        """The vector of a lane's type."""
        return f"<{self.width} x {kind}>"

    def emit(self, text: str, kind: str) -> Vector:
        """Append an instruction with a result."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return Vector(self, name, kind)

    def number(self, number: Number, kind: str) -> Vector:
        """A vector of one number."""
        return Vector(self, f"splat ({kind} {literal(number, kind)})", kind)

    def spread(self, name: str, kind: str) -> Vector:
        """A vector of one value that is known when the loop starts."""
        first = self.emit(f"insertelement {self.type(kind)} poison, {kind} {name}, i64 0", kind)
        kinds = f"{self.type(kind)} {first.name}, {self.type(kind)} poison"
        return self.emit(f"shufflevector {kinds}, <{self.width} x i32> zeroinitializer", kind)

    def call(self, function: str, *operands: Vector) -> Vector:
        """A function of LLVM's own on vectors of one type."""
        kind = operands[0].kind
        full = f"@llvm.{function}.v{self.width}{_LETTERS[kind]}"
        types = ", ".join([self.type(kind)] * len(operands))
        self.intrinsics[full] = f"declare {self.type(kind)} {full}({types})"
        arguments = ", ".join(f"{self.type(kind)} {item.name}" for item in operands)
        return self.emit(f"call {self.type(kind)} {full}({arguments})", kind)

    def select(self, condition: Vector, first: Vector, second: Vector) -> Vector:
        """`first` where the condition holds, `second` elsewhere."""
        kind = self.type(first.kind)
        return self.emit(
            f"select {self.type('i1')} {condition.name}, {kind} {first.name}, {kind} {second.name}",
            first.kind,
        )


def literal(number: Number, kind: str) -> str:
    """A number of a lane's type as LLVM reads it."""
    if kind == "i1":
        return "true" if number else "false"
    if kind not in _FLOATS:
        return str(int(number))
    # the bits of the double that it is exactly, whatever it is: infinities and NaN have no other spelling
    with np.errstate(all="ignore"):
        exact = float(np.float32(number)) if kind == "float" else float(number)
    return "0x" + struct.pack(">d", exact).hex().upper()


class Vector:
    """A value of the code: the name of a result, or a number."""

    def __init__(self, code: Code, name: str, kind: str) -> None:
        self.code = code
        self.name = name
        self.kind = kind

    @property
    def is_float(self) -> bool:
        """True for floating-point lanes."""
        return self.kind in _FLOATS

    def like(self, other: Vector | Number) -> Vector:
        """Another operand as a vector of this one's type."""
        return other if isinstance(other, Vector) else self.code.number(other, self.kind)

    def _two(self, instruction: str, first: Vector, second: Vector) -> Vector:
        text = f"{instruction} {self.code.type(first.kind)} {first.name}, {second.name}"
        return self.code.emit(text, first.kind)

    def _arithmetic(self, name: str, other: Vector | Number, is_swapped: bool = False) -> Vector:
        second = self.like(other)
        pair = (second, self) if is_swapped else (self, second)
        return self._two(f"f{name}" if self.is_float else name, *pair)

    def __add__(self, other: Vector | Number) -> Vector:
        return self._arithmetic("add", other)

    def __radd__(self, other: Number) -> Vector:
        return self._arithmetic("add", other)

    def __sub__(self, other: Vector | Number) -> Vector:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: Number) -> Vector:
        return self._arithmetic("sub", other, is_swapped=True)

    def __mul__(self, other: Vector | Number) -> Vector:
        return self._arithmetic("mul", other)

    def __rmul__(self, other: Number) -> Vector:
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Vector | Number) -> Vector:
        return self._two("fdiv", self, self.like(other))

    def __rtruediv__(self, other: Number) -> Vector:
        return self._two("fdiv", self.like(other), self)

    def __neg__(self) -> Vector:
        if self.is_float:
            return self.code.emit(f"fneg {self.code.type(self.kind)} {self.name}", self.kind)
        return 0 - self

    def times_plus(self, factor: Vector | Number, term: Vector | Number) -> Vector:
        """self * factor + term, rounded once where the machine can."""
        return self.code.call("fmuladd", self, self.like(factor), self.like(term))

    def compare(self, relation: str, other: Vector | Number) -> Vector:
        """The lanes for which a relation of LLVM's (`ogt`, `une`, `slt`) holds."""
        second = self.like(other)
        word = "fcmp" if self.is_float else "icmp"
        text = f"{word} {relation} {self.code.type(self.kind)} {self.name}, {second.name}"
        return self.code.emit(text, "i1")

    def bits(self, name: str, other: Vector | Number) -> Vector:
        """An operation on bits: `and`, `or`, `xor`, `shl`, `lshr`, `ashr`."""
        return self._two(name, self, self.like(other))

    def as_kind(self, kind: str) -> Vector:
        """The same bits as lanes of another type of the same size."""
        here = self.code.type(self.kind)
        return self.code.emit(f"bitcast {here} {self.name} to {self.code.type(kind)}", kind)

    def converted(self, kind: str) -> Vector:
        """The same numbers in another type."""
        if kind == self.kind:
            return self
        if kind == "i1":
            return self.compare("une" if self.is_float else "ne", 0)
        word = _conversion(self.kind, kind)
        here = self.code.type(self.kind)
        return self.code.emit(f"{word} {here} {self.name} to {self.code.type(kind)}", kind)


def _conversion(source: str, target: str) -> str:
    """The instruction that converts numbers of one type to another."""
    sizes = {"float": 4, "double": 8, "i1": 0, "i8": 1, "i32": 4, "i64": 8}
    is_wider = sizes[target] > sizes[source]
    if source in _FLOATS:
        assert target in _FLOATS  # a float beyond the integers has no defined result
        return "fpext" if is_wider else "fptrunc"
    is_unsigned = source == "i1"
    if target in _FLOATS:
        return "uitofp" if is_unsigned else "sitofp"
    if not is_wider:
        return "trunc"
    return "zext" if is_unsigned else "sext"
