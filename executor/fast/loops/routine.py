"""Functions of several nested loops as LLVM text: integers, addresses and vectors of float32 lanes.

A `Routine` writes the function `LOOP(first, last, arguments)` that `compiler` makes machine code of; its
`loop`s nest as Python's `with` does, and the lanes beyond the end of an array's row are masked. Operators on
its `Scalar`s and `Vector`s append instructions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from fluidlite.executor.fast.loops.vectors import Code, Vector, literal

__all__ = ["Address", "CodeLoop", "Integer", "Routine", "Scalar"]

_FLOAT = "float"


class Scalar:
    """A single value of a routine: an integer (`i64`), an address (`ptr`), a number (`float`) or a truth
    value (`i1`). As text it is the name of a result, or a literal.
    """

    def __init__(self, routine: Routine, name: str, kind: str = "i64") -> None:
        self.routine = routine
        self.name = name
        self.kind = kind

    def __str__(self) -> str:
        return self.name

    def _arithmetic(self, name: str, left: Integer, right: Integer) -> Scalar:
        instruction = f"f{name}" if self.kind == _FLOAT else name
        return self.routine.let(f"{instruction} {self.kind} {left}, {right}", self.kind)

    def __add__(self, other: Integer) -> Scalar:
        return self._arithmetic("add", self, other)

    def __radd__(self, other: int) -> Scalar:
        return self._arithmetic("add", other, self)

    def __sub__(self, other: Integer) -> Scalar:
        return self._arithmetic("sub", self, other)

    def __rsub__(self, other: int) -> Scalar:
        return self._arithmetic("sub", other, self)

    def __mul__(self, other: Integer) -> Scalar:
        return self._arithmetic("mul", self, other)

    def __rmul__(self, other: int) -> Scalar:
        return self._arithmetic("mul", other, self)

    def compare(self, relation: str, other: Integer) -> Scalar:
        """The truth of a relation of LLVM's (`ogt`, `ne`, `slt`)."""
        word = "fcmp" if self.kind == _FLOAT else "icmp"
        return self.routine.let(f"{word} {relation} {self.kind} {self}, {other}", "i1")

    def counted(self) -> Scalar:
        """1 for a truth, 0 for what is not true."""
        return self.routine.let(f"zext i1 {self} to i64")


Integer: TypeAlias = "Scalar | int"
Address: TypeAlias = "Scalar | str"
"""An address, or the name of an argument."""


class CodeLoop:
    """A loop that is being written: its counter, and the vectors that go from one turn to the next."""

    def __init__(self, routine: Routine, start: Integer, carried: Sequence[Vector]) -> None:
        self.label = routine.label()
        self.index = Scalar(routine, f"%{self.label}.i")
        self.start = start
        self.first = carried
        self.values = [
            Vector(item.code, f"%{self.label}.c{number}", item.kind) for number, item in enumerate(carried)
        ]
        """The vectors that the turn before left; behind the loop, those of the last one."""
        self.next = list(self.values)
        """The vectors that this turn leaves to the next."""

    def phis(self, before: str) -> list[str]:
        """The lines that choose between the first turn and the others."""
        found = [
            f"  {self.index} = phi i64 [{self.start}, %{before}], [{self.index}.next, %{self.label}.next]"
        ]
        for value, first, last in zip(self.values, self.first, self.next, strict=True):
            choices = f"[{first.name}, %{before}], [{last.name}, %{self.label}.next]"
            found.append(f"  {value.name} = phi {value.code.type(value.kind)} {choices}")
        return found


class Routine:
    """The lines of a function, in order; `lanes` are those of one register."""

    def __init__(self, lanes: int, intrinsics: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.code = Code(lanes, "v", intrinsics)
        # vectors and what stands between them are lines of one text
        self.code.lines = self.lines
        self.lanes = lanes
        self.block = "entry"
        self.labels = 0
        self.mask: Vector | None = None
        """The lanes that there are; None where all of them are."""

    # ------------------------------------------------------------------ integers and addresses
    def do(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def let(self, text: str, kind: str = "i64") -> Scalar:
        """Append an instruction with a result of a kind."""
        name = self.code.name()
        self.lines.append(f"  {name} = {text}")
        return Scalar(self, name, kind)

    def integer(self, name: str) -> Scalar:
        """An integer among the arguments."""
        return Scalar(self, f"%{name}")

    def number(self, number: float) -> Scalar:
        """A number that is known."""
        return Scalar(self, literal(number, _FLOAT), _FLOAT)

    def share(self, count: Scalar, part: Scalar, parts: Integer) -> Scalar:
        """The start of a part of so many that are almost equal."""
        return self.let(f"udiv i64 {count * part}, {parts}")

    def least(self, left: Scalar, right: Integer) -> Scalar:
        """The smaller of two integers."""
        return self.pick(left.compare("slt", right), left, right)

    def pick(self, condition: Scalar, yes: Integer | str, no: Integer | str) -> Scalar:
        """One of two values of a kind, of which one at least is a scalar."""
        kind = next(item.kind for item in (yes, no) if isinstance(item, Scalar))
        return self.let(f"select i1 {condition}, {kind} {yes}, {kind} {no}", kind)

    def at(self, base: Address, index: Integer, kind: str = _FLOAT) -> Scalar:
        """The address of an element."""
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {index}", "ptr")

    def entry(self, base: Address, index: Integer, kind: str = "i64") -> Scalar:
        """An element of an array of single values."""
        return self.let(f"load {kind}, ptr {self.at(base, index, kind)}", kind)

    def put(self, value: Integer, base: Address, index: Integer | None = None) -> None:
        """Write an element of an array of single values; the first one without an index."""
        kind = value.kind if isinstance(value, Scalar) else "i64"
        place = base if index is None else self.at(base, index, kind)
        self.do(f"store {kind} {value}, ptr {place}")

    def arguments(self, names: Sequence[str]) -> None:
        """Load the arguments in order: integers begin with a small letter, others are addresses."""
        for number, name in enumerate(names):
            kind = "i64" if name[0].islower() else "ptr"
            self.do(f"%{name} = load {kind}, ptr {self.at('%arguments', number, 'i64')}")

    # ------------------------------------------------------------------ flow
    def label(self) -> str:
        """A label of its own."""
        self.labels += 1
        return f"l{self.labels}"

    def begin(self, label: str) -> None:
        """Go on in a new block, which others have jumped to."""
        self.lines.append(f"{label}:")
        self.block = label

    @contextlib.contextmanager
    def loop(
        self, start: Integer, stop: Integer, step: int = 1, carried: Sequence[Vector] = ()
    ) -> Iterator[CodeLoop]:
        """A loop from `start` up to `stop`."""
        made = CodeLoop(self, start, carried)
        before, label = self.block, made.label
        self.do(f"br label %{label}")
        self.begin(label)
        place = len(self.lines)
        more = made.index.compare("slt", stop)
        self.do(f"br i1 {more}, label %{label}.body, label %{label}.end")
        self.begin(f"{label}.body")
        yield made
        self.do(f"br label %{label}.next")
        self.begin(f"{label}.next")
        self.do(f"{made.index}.next = add i64 {made.index}, {step}")
        self.do(f"br label %{label}")
        self.lines[place:place] = made.phis(before)
        self.begin(f"{label}.end")

    @contextlib.contextmanager
    def units(self, size: Scalar, is_masked: bool, carried: Sequence[Vector] = ()) -> Iterator[CodeLoop]:
        """A loop over `size` neighbours, as many at once as there are lanes."""
        with self.loop(0, size, self.lanes, carried) as loop:
            if is_masked:
                ramp = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
                here = self.spread(loop.index) + Vector(self.code, f"<{ramp}>", "i64")
                self.mask = here.compare("slt", self.spread(size))
            yield loop
            self.mask = None

    # ------------------------------------------------------------------ lanes
    def zero(self) -> Vector:
        """Lanes of zeros."""
        return self.code.number(0.0, _FLOAT)

    def spread(self, value: Scalar) -> Vector:
        """A single value in all lanes."""
        return self.code.spread(value.name, value.kind)

    def total(self, value: Vector) -> Scalar:
        """The sum of all lanes, in any order."""
        kind = self.code.type(_FLOAT)
        full = f"@llvm.vector.reduce.fadd.v{self.lanes}f32"
        self.code.intrinsics[full] = f"declare float {full}(float, {kind})"
        return self.let(f"call reassoc float {full}(float 0.0, {kind} {value.name})", _FLOAT)

    def load(self, base: Address, index: Integer) -> Vector:
        """Neighbours from an address on."""
        address = self.at(base, index)
        kind = self.code.type(_FLOAT)
        if self.mask is None:
            return self.code.emit(f"load {kind}, ptr {address}, align 4", _FLOAT)
        bits = self.code.type("i1")
        full = f"@llvm.masked.load.v{self.lanes}f32.p0"
        self.code.intrinsics[full] = f"declare {kind} {full}(ptr, {bits}, {kind})"
        parts = f"ptr align 4 {address}, {bits} {self.mask.name}, {kind} zeroinitializer"
        return self.code.emit(f"call {kind} {full}({parts})", _FLOAT)

    def store(self, value: Vector, base: Address, index: Integer) -> None:
        """Write neighbours from an address on."""
        address = self.at(base, index)
        kind = self.code.type(_FLOAT)
        if self.mask is None:
            self.do(f"store {kind} {value.name}, ptr {address}, align 4")
            return
        bits = self.code.type("i1")
        full = f"@llvm.masked.store.v{self.lanes}f32.p0"
        self.code.intrinsics[full] = f"declare void {full}({kind}, ptr, {bits})"
        parts = f"{kind} {value.name}, ptr align 4 {address}, {bits} {self.mask.name}"
        self.do(f"call void {full}({parts})")

    def chosen(self, condition: Scalar, value: Vector) -> Vector:
        """`value` where the condition, one for all lanes, holds; zeros elsewhere."""
        kind = self.code.type(_FLOAT)
        zero = self.zero()
        return self.code.emit(f"select i1 {condition}, {kind} {value.name}, {kind} {zero.name}", _FLOAT)

    def function(self, head: str) -> str:
        """The text of the function, whose first line begins with `head`."""
        return "\n".join([f"define {head} {{", "entry:", *self.lines, "  ret void", "}", ""])
