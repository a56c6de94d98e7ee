"""One loop nest as text: element-wise actions over broadcast operands, and sums of what they give.

The text holds no size: which operands move along which dimensions is part of it, how long those are is an
argument, so that one compilation serves every batch size. Dimensions along which all operands move alike are
one. The innermost is walked in vectors, the rest of each row in shorter ones with a mask.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.arithmetic import applied
from fluidlite.executor.fast.loops.vectors import KINDS, Code, Vector
from fluidlite.executor.plan.actions import Elementwise
from fluidlite.executor.plan.values import Value

__all__ = ["MOST_DIMENSIONS", "ROW", "Nest", "Moving", "operands_of"]

ROW = 1 << 14  # elements of a row where nothing is broadcast: what one partial sum is of
MOST_DIMENSIONS = 4
_ALIGN = {"float": 4, "double": 8, "i32": 4, "i64": 8, "i8": 1}


@dataclass(frozen=True)
class Moving:
    """An array of a nest; `moves` says along which of its dimensions."""

    value: Value
    moves: tuple[bool, ...]

    @property
    def kind(self) -> str:
        """The type of an element in memory."""
        return KINDS[str(self.value.dtype)][1]


def operands_of(values: Sequence[Value], shape: tuple[int, ...]) -> tuple[list[Moving], tuple[int, ...]]:
    """The operands, and the sizes of the dimensions that are left when those that go together are one."""
    moving = {value: _moves(value.shape or (), shape) for value in values}
    kept: list[int] = []
    groups: list[list[int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if kept and all(moves[axis] == moves[kept[-1]] for moves in moving.values()):
            groups[-1].append(axis)
        else:
            groups.append([axis])
        kept.append(axis)
    sizes = tuple(math.prod(shape[axis] for axis in group) for group in groups)
    found = [Moving(value, tuple(moves[group[0]] for group in groups)) for value, moves in moving.items()]
    return found, sizes


def _moves(shape: tuple[int, ...], full: tuple[int, ...]) -> tuple[bool, ...]:
    """For each dimension of `full`, true if an array of `shape` has all of it."""
    padded = (1,) * (len(full) - len(shape)) + shape
    return tuple(have == want for have, want in zip(padded, full, strict=True))


class Nest:
    """The text of one loop: it takes the addresses of its operands, then those of the sums of its rows."""

    def __init__(
        self,
        run: Sequence[tuple[Elementwise, Value]],
        outputs: Sequence[Value],
        sums: Sequence[Value],
        operands: Sequence[Moving],
        rank: int,
    ) -> None:
        self.run = run
        self.outputs = set(outputs)
        self.sums = sums
        self.operands = operands
        self.rank = rank
        self.intrinsics: dict[str, str] = {}

    def key(self) -> Hashable:
        """All that the text follows from; None where it is to be written anew, for a number may have any
        type.
        """
        names = {operand.value: number for number, operand in enumerate(self.operands)}
        parts: list[Any] = [self.rank]
        parts += [(operand.moves, operand.value.dtype) for operand in self.operands]
        for action, out in self.run:
            items: list[Any] = []
            for item in action.operands:
                if not isinstance(item, Value) and type(item) not in (int, float, bool):
                    return None
                # 0.0, -0.0 and False are equal, and are not written alike
                items.append(names[item] if isinstance(item, Value) else repr(item))
            name = names.setdefault(out, len(names))
            parts.append((action.function, *items, name, out.dtype, out in self.outputs))
        return (*parts, *(names[value] for value in self.sums))

    def text(self, name: str, widths: tuple[int, int]) -> str:
        """The module: a function `name(first row, last row, arguments)`."""
        main = _Lanes(self, Code(widths[0], "m", self.intrinsics), "j", masked=False)
        tail = _Lanes(self, Code(widths[1], "t", self.intrinsics), "k", masked=True)
        bodies = (main, tail)
        entry = [*self._arguments(), *(line for body in bodies for line in body.scalars())]
        row = [*self._row(), *(line for body in bodies for line in body.row_scalars())]
        lines = [
            f"define void @{name}(i64 %first, i64 %last, ptr %arguments) {{",
            "entry:",
            *entry,
            "  %some = icmp slt i64 %first, %last",
            "  br i1 %some, label %row, label %done",
            "row:",
            "  %r = phi i64 [%first, %entry], [%r.next, %row.end]",
            *row,
            f"  %main = and i64 %length, {-widths[0]}",
            "  br label %main.head",
            *_loop("main", "j", "0", "%main", "row", main, "tail.head"),
            *_loop("tail", "k", "%main", "%length", "main.head", tail, "row.end"),
            "row.end:",
            *self._sums(main, tail),
            "  %r.next = add i64 %r, 1",
            "  %again = icmp slt i64 %r.next, %last",
            "  br i1 %again, label %row, label %done",
            "done:",
            "  ret void",
            "}",
        ]
        return "\n".join([*self.intrinsics.values(), *lines, ""])

    def _arguments(self) -> list[str]:
        """Addresses and sizes out of the array of arguments."""
        names = [f"%p{number}" for number in range(len(self.operands))]
        names += [f"%s{number}" for number in range(len(self.sums))]
        lines = []
        for number, name in enumerate([*names, *(f"%d{axis}" for axis in range(max(self.rank, 1)))]):
            lines.append(f"  {name}.at = getelementptr i64, ptr %arguments, i64 {number}")
            lines.append(f"  {name} = load {'ptr' if number < len(names) else 'i64'}, ptr {name}.at")
        return lines

    def _row(self) -> list[str]:
        """The element at which row %r begins in each operand, and the length of the row."""
        if self.rank <= 1:
            # of one dimension: pieces of a fixed length
            lines = [
                f"  %begin = mul i64 %r, {ROW}",
                "  %left = sub i64 %d0, %begin",
                f"  %is.last = icmp slt i64 %left, {ROW}",
                f"  %length = select i1 %is.last, i64 %left, i64 {ROW}",
            ]
            return lines + [
                f"  %o{number} = add i64 %begin, 0"
                for number, operand in enumerate(self.operands)
                if any(operand.moves)
            ]
        lines = [f"  %length = add i64 %d{self.rank - 1}, 0", "  %q0 = add i64 %r, 0"]
        for step, axis in enumerate(range(self.rank - 2, -1, -1)):
            lines.append(f"  %x{axis} = srem i64 %q{step}, %d{axis}")
            lines.append(f"  %q{step + 1} = sdiv i64 %q{step}, %d{axis}")
        for number, operand in enumerate(self.operands):
            lines += self._offset(number, operand)
        return lines

    def _offset(self, number: int, operand: Moving) -> list[str]:
        """The element at which a row begins: position along each dimension, times what lies behind it."""
        lines = []
        total, behind = "0", "1"
        for axis in range(self.rank - 1, -1, -1):
            if not operand.moves[axis]:
                continue
            if axis < self.rank - 1:
                lines.append(f"  %o{number}.m{axis} = mul i64 %x{axis}, {behind}")
                lines.append(f"  %o{number}.a{axis} = add i64 {total}, %o{number}.m{axis}")
                total = f"%o{number}.a{axis}"
            lines.append(f"  %o{number}.b{axis} = mul i64 {behind}, %d{axis}")
            behind = f"%o{number}.b{axis}"
        return [*lines, f"  %o{number} = add i64 {total}, 0"]

    def _sums(self, main: _Lanes, tail: _Lanes) -> list[str]:
        lines = []
        for number, value in enumerate(self.sums):
            kind = KINDS[str(value.dtype)][0]
            for body, phi in ((main, "j"), (tail, "k")):
                full = f"@llvm.vector.reduce.fadd.v{body.code.width}{'f32' if kind == 'float' else 'f64'}"
                vector = body.code.type(kind)
                self.intrinsics[full] = f"declare {kind} {full}({kind}, {vector})"
                lines.append(
                    f"  %{phi}.sum{number} = call reassoc {kind} {full}"
                    f"({kind} 0.0, {vector} %{phi}.acc{number})"
                )
            lines += [
                f"  %sum{number} = fadd {kind} %j.sum{number}, %k.sum{number}",
                f"  %sum{number}.at = getelementptr {kind}, ptr %s{number}, i64 %r",
                f"  store {kind} %sum{number}, ptr %sum{number}.at",
            ]
        return lines


def _loop(name: str, index: str, start: str, stop: str, before: str, body: _Lanes, after: str) -> list[str]:
    """A counted loop with accumulators, in basic blocks."""
    width = body.code.width
    inside = body.lines()
    accumulators = [
        f"  %{index}.acc{number} = phi {body.code.type(total.kind)} "
        f"[zeroinitializer, %{before}], [{total.name}, %{name}.body]"
        for number, total in enumerate(body.totals)
    ]
    return [
        f"{name}.head:",
        f"  %{index} = phi i64 [{start}, %{before}], [%{index}.next, %{name}.body]",
        *accumulators,
        f"  %{index}.more = icmp slt i64 %{index}, {stop}",
        f"  br i1 %{index}.more, label %{name}.body, label %{after}",
        f"{name}.body:",
        *inside,
        f"  %{index}.next = add i64 %{index}, {width}",
        f"  br label %{name}.head",
    ]


class _Lanes:
    """The actions on vectors of one width."""

    def __init__(self, nest: Nest, code: Code, index: str, masked: bool) -> None:
        self.nest = nest
        self.code = code
        self.index = index
        self.masked = masked
        self.fixed: dict[Value, Vector] = {}
        self.totals: list[Vector] = []
        self.numbers = {operand.value: number for number, operand in enumerate(nest.operands)}

    def _flush(self) -> list[str]:
        lines = list(self.code.lines)
        self.code.lines.clear()
        return lines

    def scalars(self) -> list[str]:
        """Vectors of operands of one element."""
        for number, operand in enumerate(self.nest.operands):
            if not any(operand.moves):
                self._spread(operand, f"%p{number}")
        return self._flush()

    def row_scalars(self) -> list[str]:
        """Vectors of operands that have one element a row."""
        for number, operand in enumerate(self.nest.operands):
            if any(operand.moves) and not operand.moves[-1]:
                at = self.code.name()
                self.code.lines.append(
                    f"  {at} = getelementptr {operand.kind}, ptr %p{number}, i64 %o{number}"
                )
                self._spread(operand, at)
        return self._flush()

    def _spread(self, operand: Moving, address: str) -> None:
        name = self.code.name()
        self.code.lines.append(f"  {name} = load {operand.kind}, ptr {address}")
        spread = self.code.spread(name, operand.kind)
        self.fixed[operand.value] = self._unpacked(spread)

    def _unpacked(self, vector: Vector) -> Vector:
        """Truth values are bytes in memory."""
        return vector.compare("ne", 0) if vector.kind == "i8" else vector

    def lines(self) -> list[str]:
        """The body of the loop: loads where they are first needed, stores where a result is there."""
        values = _Loaded(self)
        if self.masked:
            self._mask()
        for action, out in self.nest.run:
            result = applied(self.code, action, out, values)
            values.known[out] = result
            if out in self.nest.outputs:
                self._store(out, result)
        for number, value in enumerate(self.nest.sums):
            self._add(number, values[value])
        return self._flush()

    def _mask(self) -> None:
        code = self.code
        lanes = ", ".join(f"i64 {lane}" for lane in range(code.width))
        here = code.spread(f"%{self.index}", "i64") + Vector(code, f"<{lanes}>", "i64")
        self.mask = here.compare("slt", code.spread("%length", "i64"))

    def _address(self, value: Value) -> tuple[str, str]:
        number = self.numbers[value]
        kind = self.nest.operands[number].kind
        place = self.code.name()
        at = self.code.name()
        self.code.lines.append(f"  {place} = add i64 %o{number}, %{self.index}")
        self.code.lines.append(f"  {at} = getelementptr {kind}, ptr %p{number}, i64 {place}")
        return at, kind

    def load(self, value: Value) -> Vector:
        """The lanes of an operand at hand."""
        at, kind = self._address(value)
        vector = self.code.type(kind)
        if not self.masked:
            return self._unpacked(self.code.emit(f"load {vector}, ptr {at}, align {_ALIGN[kind]}", kind))
        full = f"@llvm.masked.load.v{self.code.width}{_letters(kind)}.p0"
        mask = self.code.type("i1")
        self.nest.intrinsics[full] = f"declare {vector} {full}(ptr, {mask}, {vector})"
        call = (
            f"call {vector} {full}(ptr align {_ALIGN[kind]} {at}, {mask} {self.mask.name}, "
            f"{vector} zeroinitializer)"
        )
        return self._unpacked(self.code.emit(call, kind))

    def _store(self, value: Value, result: Vector) -> None:
        at, kind = self._address(value)
        if kind == "i8":
            result = result.code.emit(
                f"zext {self.code.type('i1')} {result.name} to {self.code.type('i8')}", "i8"
            )
        vector = self.code.type(kind)
        if not self.masked:
            self.code.lines.append(f"  store {vector} {result.name}, ptr {at}, align {_ALIGN[kind]}")
            return
        full = f"@llvm.masked.store.v{self.code.width}{_letters(kind)}.p0"
        mask = self.code.type("i1")
        self.nest.intrinsics[full] = f"declare void {full}({vector}, ptr, {mask})"
        arguments = f"{vector} {result.name}, ptr align {_ALIGN[kind]} {at}, {mask} {self.mask.name}"
        self.code.lines.append(f"  call void {full}({arguments})")

    def _add(self, number: int, value: Vector) -> None:
        if self.masked:
            value = self.code.select(self.mask, value, value.like(0))
        running = Vector(self.code, f"%{self.index}.acc{number}", value.kind)
        self.totals.append(running + value)


class _Loaded(Mapping[Value, Vector]):
    """The vectors that are computed or loaded so far; any other is loaded when it is asked for."""

    def __init__(self, body: _Lanes) -> None:
        self.body = body
        self.known = dict(body.fixed)

    def __getitem__(self, value: Value) -> Vector:
        if value not in self.known:
            self.known[value] = self.body.load(value)
        return self.known[value]

    def __iter__(self) -> Iterator[Value]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def _letters(kind: str) -> str:
    return {"float": "f32", "double": "f64", "i32": "i32", "i64": "i64", "i8": "i8"}[kind]
