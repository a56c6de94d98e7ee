"""Functions of several nested loops as LLVM text: integers, addresses and vectors of float32 lanes.

A `Routine` writes the function `LOOP(first, last, arguments)` that `compiler` makes machine code of; its
`loop`s nest as Python's `with` does, and the lanes beyond the end of an array's row are masked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fluidlite.executor.fast.loops.vectors import Code, Vector

__all__ = ["CodeLoop", "Routine"]

_FLOAT = "float"


class CodeLoop:
    """A loop that is being written: its counter, and the vectors that go from one turn to the next."""

    def __init__(self, label: str, start: str, carried: Sequence[Vector]) -> None:
        self.label = label
        self.index = f"%{label}.i"
        self.start = start
        self.first = carried
        self.values = [
            Vector(item.code, f"%{label}.c{number}", item.kind) for number, item in enumerate(carried)
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

    def let(self, text: str) -> str:
        """Append an instruction with a result; gives its name."""
        name = self.code.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def sum(self, *terms: str) -> str:
        """The sum of integers."""
        total = terms[0]
        for term in terms[1:]:
            total = self.let(f"add i64 {total}, {term}")
        return total

    def minus(self, left: str, right: str) -> str:
        """The difference of integers."""
        return self.let(f"sub i64 {left}, {right}")

    def times(self, left: str, right: str) -> str:
        """The product of integers."""
        return self.let(f"mul i64 {left}, {right}")

    def share(self, count: str, part: str, parts: str) -> str:
        """The start of a part of so many that are almost equal."""
        return self.let(f"udiv i64 {self.times(count, part)}, {parts}")

    def least(self, left: str, right: str) -> str:
        """The smaller of two integers."""
        return self.pick(self.is_less(left, right), left, right)

    def is_less(self, left: str, right: str) -> str:
        """The truth of left < right."""
        return self.let(f"icmp slt i64 {left}, {right}")

    def pick(self, condition: str, yes: str, no: str, kind: str = "i64") -> str:
        """One of two values."""
        return self.let(f"select i1 {condition}, {kind} {yes}, {kind} {no}")

    def at(self, base: str, index: str, kind: str = _FLOAT) -> str:
        """The address of an element."""
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def entry(self, base: str, index: str, kind: str = "i64") -> str:
        """An element of an array of integers or addresses."""
        return self.let(f"load {kind}, ptr {self.at(base, index, kind)}")

    def arguments(self, names: Sequence[str]) -> None:
        """Load the arguments in order: integers begin with a small letter, others are addresses."""
        for number, name in enumerate(names):
            kind = "i64" if name[0].islower() else "ptr"
            self.do(f"%{name} = load {kind}, ptr {self.at('%arguments', str(number), 'i64')}")

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
        self, start: str, stop: str, step: str = "1", carried: Sequence[Vector] = ()
    ) -> Iterator[CodeLoop]:
        """A loop from `start` up to `stop`."""
        made = CodeLoop(self.label(), start, carried)
        before, label = self.block, made.label
        self.do(f"br label %{label}")
        self.begin(label)
        place = len(self.lines)
        more = self.is_less(made.index, stop)
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
    def units(self, size: str, is_masked: bool, carried: Sequence[Vector] = ()) -> Iterator[CodeLoop]:
        """A loop over `size` neighbours, as many at once as there are lanes."""
        with self.loop("0", size, str(self.lanes), carried) as loop:
            if is_masked:
                ramp = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
                here = self.code.spread(loop.index, "i64") + Vector(self.code, f"<{ramp}>", "i64")
                self.mask = here.compare("slt", self.code.spread(size, "i64"))
            yield loop
            self.mask = None

    # ------------------------------------------------------------------ lanes
    def zero(self) -> Vector:
        """Lanes of zeros."""
        return self.code.number(0.0, _FLOAT)

    def load(self, base: str, index: str) -> Vector:
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

    def store(self, value: Vector, base: str, index: str) -> None:
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

    def chosen(self, condition: str, value: Vector) -> Vector:
        """`value` where the condition, one for all lanes, holds; zeros elsewhere."""
        kind = self.code.type(_FLOAT)
        zero = self.zero()
        return self.code.emit(f"select i1 {condition}, {kind} {value.name}, {kind} {zero.name}", _FLOAT)

    def function(self, head: str) -> str:
        """The text of the function, whose first line begins with `head`."""
        return "\n".join([f"define {head} {{", "entry:", *self.lines, "  ret void", "}", ""])
