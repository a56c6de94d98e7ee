"""Kernels over the rows of a float32 matrix, as text: sweeps along each row, sums or maxima between them.

A row stays in the cache from its first sweep to its last, so that memory is read and written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fluidlite.base.records import dataclass
from fluidlite.executor.fast.loops.vectors import Code, Vector

__all__ = ["RowLanes", "Point", "Sweep", "sweeps_text"]

_FLOAT = "float"


@dataclass(frozen=True)
class Sweep:
    """One walk along a row: `compute` stores and reduces lanes, `after` makes numbers of what was reduced."""

    compute: Callable[[RowLanes], None]
    after: Callable[[Point, Sequence[Vector]], Mapping[str, Vector]]


def sweeps_text(
    arrays: Mapping[str, str],
    begin: Callable[[Point], Mapping[str, Vector]],
    sweeps: Sequence[Sweep],
    widths: tuple[int, int],
    is_narrow: bool = False,
) -> str:
    """The text of a function `LOOP(first row, last row, arguments)`; where rows are narrow, each is one
    register from its first sweep to its last.

    `arrays` are in the order of the arguments, each "full" (a matrix), "row" (one for all), "column" (one
    number a row), "labels" (one int64 a row), "number" (one for all) or "flag" (an int64 that is set to 1);
    the last argument is the length of a row. `begin` makes numbers ahead of the first sweep.
    """
    text = _Text(arrays, widths, is_narrow)
    numbers: dict[str, Vector] = {}
    text.point(begin, numbers)
    for number, sweep in enumerate(sweeps):
        text.sweep(number, sweep, numbers)
    return text.whole(len(sweeps))


class _Text:
    """The lines of such a function."""

    def __init__(self, arrays: Mapping[str, str], widths: tuple[int, int], is_narrow: bool) -> None:
        self.arrays = arrays
        self.is_narrow = is_narrow
        self.held: dict[str, Vector] = {}
        """Of a narrow row: the lanes of matrices that are loaded or stored."""
        self.intrinsics: dict[str, str] = {}
        self.codes = [
            Code(width, letter, self.intrinsics) for width, letter in zip(widths, "mt", strict=True)
        ]
        self.single = Code(1, "u", self.intrinsics)
        self.rows: list[str] = []
        self.places: dict[str, str] = {}
        """The place in the row that each array of labels says."""

    def point(self, compute: Callable[[Point], Mapping[str, Vector]], numbers: dict[str, Vector]) -> None:
        """Arithmetic on the numbers of a row."""
        numbers.update(compute(Point(self, numbers)))
        self.rows += self.flush(self.single)

    def flush(self, code: Code) -> list[str]:
        """The lines that a code has gathered."""
        lines = list(code.lines)
        code.lines.clear()
        return lines

    def sweep(self, number: int, sweep: Sweep, numbers: dict[str, Vector]) -> None:
        """A loop of whole vectors, one of what is left, then the arithmetic behind them."""
        if self.is_narrow:
            self._narrow(sweep, numbers)
            return
        self.rows += [f"  br label %s{number}", f"s{number}:"]
        both = []
        for code, letter in zip(self.codes, "jk", strict=True):
            known = {name: self._spread(code, vector) for name, vector in numbers.items()}
            self.rows += self.flush(code)
            both.append(RowLanes(self, code, f"{letter}{number}", known, masked=letter == "k"))
        main, tail = both
        self.rows += ["  br label %" + f"{main.index}.head"]
        self._loop(main, "0", "%main", f"s{number}", f"{tail.index}.head", sweep)
        self._loop(tail, "%main", "%columns", f"{main.index}.head", f"e{number}", sweep)
        self.rows.append(f"e{number}:")
        reduced = [self._reduced(main, tail, which) for which in range(len(main.reduced))]
        self.point(lambda point: sweep.after(point, reduced), numbers)

    def _narrow(self, sweep: Sweep, numbers: dict[str, Vector]) -> None:
        """One register, and the arithmetic behind it."""
        code = self.codes[1]
        known = {name: self._spread(code, vector) for name, vector in numbers.items()}
        lanes = RowLanes(self, code, "zero", known, masked=True)
        sweep.compute(lanes)
        self.rows += self.flush(code)
        reduced = [self._over_lanes(code, how, last) for how, _, last in lanes.reduced]
        self.point(lambda point: sweep.after(point, reduced), numbers)

    def _spread(self, code: Code, vector: Vector) -> Vector:
        name = code.name()
        code.lines.append(f"  {name} = extractelement <1 x float> {vector.name}, i64 0")
        return code.spread(name, _FLOAT)

    def _loop(self, lanes: RowLanes, start: str, stop: str, before: str, after: str, sweep: Sweep) -> None:
        index = lanes.index
        sweep.compute(lanes)
        body = self.flush(lanes.code)
        kind = lanes.code.type(_FLOAT)
        phis = [
            f"  %{index}.acc{which} = phi {kind} [{first}, %{before}], [{last}, %{index}.body]"
            for which, (_, first, last) in enumerate(lanes.reduced)
        ]
        self.rows += [
            f"{index}.head:",
            f"  %{index} = phi i64 [{start}, %{before}], [%{index}.next, %{index}.body]",
            *phis,
            f"  %{index}.more = icmp slt i64 %{index}, {stop}",
            f"  br i1 %{index}.more, label %{index}.body, label %{after}",
            f"{index}.body:",
            *body,
            f"  %{index}.next = add i64 %{index}, {lanes.code.width}",
            f"  br label %{index}.head",
        ]

    def _reduced(self, main: RowLanes, tail: RowLanes, which: int) -> Vector:
        """A reduction over both loops as one number."""
        how = main.reduced[which][0]
        parts = [self._over_lanes(lanes.code, how, f"%{lanes.index}.acc{which}") for lanes in (main, tail)]
        return parts[0] + parts[1] if how == "fadd" else self.single.call("maximum", *parts)

    def _over_lanes(self, code: Code, how: str, name: str) -> Vector:
        """The lanes of a vector as one number."""
        is_sum = how == "fadd"
        kind = code.type(_FLOAT)
        full = f"@llvm.vector.reduce.{how}.v{code.width}f32"
        first = "float 0.0, " if is_sum else ""
        self.intrinsics[full] = f"declare float {full}({'float, ' if is_sum else ''}{kind})"
        result = self.single.name()
        flags = "reassoc " if is_sum else ""
        self.single.lines.append(f"  {result} = call {flags}float {full}({first}{kind} {name})")
        return self.single.spread(result, _FLOAT)

    def whole(self, count: int) -> str:
        """The function."""
        head = []
        names = [f"%p.{name}" for name in self.arrays]
        for number, name in enumerate([*names, "%columns"]):
            head.append(f"  {name}.at = getelementptr i64, ptr %arguments, i64 {number}")
            head.append(f"  {name} = load {'i64' if name == '%columns' else 'ptr'}, ptr {name}.at")
        lines = [
            "define void @LOOP(i64 %first, i64 %last, ptr %arguments) {",
            "entry:",
            *head,
            "  %zero = add i64 0, 0",
            f"  %main = and i64 %columns, {-self.codes[0].width}",
            "  %some = icmp slt i64 %first, %last",
            "  br i1 %some, label %row, label %done",
            "row:",
            f"  %r = phi i64 [%first, %entry], [%r.next, {'%row' if self.is_narrow else f'%e{count - 1}'}]",
            "  %offset = mul i64 %r, %columns",
            *self.rows,
            "  %r.next = add i64 %r, 1",
            "  %again = icmp slt i64 %r.next, %last",
            "  br i1 %again, label %row, label %done",
            "done:",
            "  ret void",
            "}",
        ]
        return "\n".join([*self.intrinsics.values(), *lines, ""])


class Point:
    """The numbers of one row: each a vector of one lane."""

    def __init__(self, text: _Text, numbers: Mapping[str, Vector]) -> None:
        self.text = text
        self.code = text.single
        self.numbers = numbers

    def __getitem__(self, name: str) -> Vector:
        return self.numbers[name]

    def _let(self, text: str) -> str:
        """Append an instruction on what is no float; gives the name of its result."""
        name = self.code.name()
        self.code.lines.append(f"  {name} = {text}")
        return name

    def _address(self, name: str) -> str:
        place = "0" if self.text.arrays[name] == "number" else "%r"
        return self._let(f"getelementptr float, ptr %p.{name}, i64 {place}")

    def choose(self, name: str, flag: str, ignored: int) -> Vector:
        """Read the row's label, the place of what is `picked` from now on: 1, or 0 for a label that is to be
        ignored. One that is neither this nor a place in the row is taken for it, and sets `flag`.
        """
        at = self._let(f"getelementptr i64, ptr %p.{name}, i64 %r")
        label = self._let(f"load i64, ptr {at}, align 8")
        # as unsigned numbers negative labels are large ones
        is_place = self._let(f"icmp ult i64 {label}, %columns")
        is_ignored = self._let(f"icmp eq i64 {label}, {ignored}")
        is_good = self._let(f"or i1 {is_place}, {is_ignored}")
        old = self._let(f"load i64, ptr %p.{flag}, align 8")
        new = self._let(f"select i1 {is_good}, i64 {old}, i64 1")
        self.code.lines.append(f"  store i64 {new}, ptr %p.{flag}, align 8")
        if ignored >= 0:  # it may be a place itself
            is_place = self._let(f"icmp ugt i1 {is_place}, {is_ignored}")
        self.text.places[name] = self._let(f"select i1 {is_place}, i64 {label}, i64 0")
        kept = self._let(f"select i1 {is_place}, float 1.0, float 0.0")
        return self.code.spread(kept, _FLOAT)

    def _picked(self, name: str, labels: str) -> str:
        place = self._let(f"add i64 %offset, {self.text.places[labels]}")
        return self._let(f"getelementptr float, ptr %p.{name}, i64 {place}")

    def picked(self, name: str, labels: str) -> Vector:
        """The element of a matrix at the row's label."""
        return self.code.emit(f"load <1 x float>, ptr {self._picked(name, labels)}, align 4", _FLOAT)

    def set_picked(self, name: str, labels: str, value: Vector) -> None:
        """Set the element of a matrix at the row's label."""
        # what a register holds of it is old
        self.text.held.pop(name, None)
        self.code.lines.append(f"  store <1 x float> {value.name}, ptr {self._picked(name, labels)}, align 4")

    def where(self, kept: Vector, value: Vector) -> Vector:
        """`value` where `kept` is not 0, else 0."""
        return self.code.select(kept.compare("une", 0.0), value, value.like(0.0))

    def load(self, name: str) -> Vector:
        """The row's number of a column, or the one number of all rows."""
        return self.code.emit(f"load <1 x float>, ptr {self._address(name)}, align 4", _FLOAT)

    def store(self, name: str, value: Vector) -> None:
        """Set the row's number of a column."""
        self.code.lines.append(f"  store <1 x float> {value.name}, ptr {self._address(name)}, align 4")

    def columns(self) -> Vector:
        """The length of a row."""
        name = self.code.name()
        self.code.lines.append(f"  {name} = sitofp i64 %columns to float")
        return self.code.spread(name, _FLOAT)

    def root(self, value: Vector) -> Vector:
        """The square root."""
        return self.code.call("sqrt", value)


class RowLanes:
    """The lanes at hand of each array, and the numbers of the row spread over as many."""

    def __init__(
        self, text: _Text, code: Code, index: str, numbers: Mapping[str, Vector], masked: bool
    ) -> None:
        self.text = text
        self.code = code
        self.index = index
        self.numbers = numbers
        self.masked = masked
        self.reduced: list[tuple[str, str, str]] = []
        """For each reduction its function, where it starts and what it comes to."""
        self.mask = self._mask() if masked else None

    def _mask(self) -> Vector:
        lanes = ", ".join(f"i64 {lane}" for lane in range(self.code.width))
        here = self.code.spread(f"%{self.index}", "i64") + Vector(self.code, f"<{lanes}>", "i64")
        return here.compare("slt", self.code.spread("%columns", "i64"))

    def __getitem__(self, name: str) -> Vector:
        if name in self.numbers:
            return self.numbers[name]
        if not self.text.is_narrow:
            return self._loaded(name)
        if name not in self.text.held:
            self.text.held[name] = self._loaded(name)
        return self.text.held[name]

    def _loaded(self, name: str) -> Vector:
        at = self._address(name)
        kind = self.code.type(_FLOAT)
        if self.mask is None:
            return self.code.emit(f"load {kind}, ptr {at}, align 4", _FLOAT)
        bits = self.code.type("i1")
        full = f"@llvm.masked.load.v{self.code.width}f32.p0"
        self.text.intrinsics[full] = f"declare {kind} {full}(ptr, {bits}, {kind})"
        arguments = f"ptr align 4 {at}, {bits} {self.mask.name}, {kind} zeroinitializer"
        return self.code.emit(f"call {kind} {full}({arguments})", _FLOAT)

    def _address(self, name: str) -> str:
        place = self.code.name()
        at = self.code.name()
        first = "%offset" if self.text.arrays[name] == "full" else "0"
        self.code.lines.append(f"  {place} = add i64 {first}, %{self.index}")
        self.code.lines.append(f"  {at} = getelementptr float, ptr %p.{name}, i64 {place}")
        return at

    def store(self, name: str, value: Vector) -> None:
        """Set the lanes of an array."""
        self.text.held[name] = value
        at = self._address(name)
        kind = self.code.type(_FLOAT)
        if self.mask is None:
            self.code.lines.append(f"  store {kind} {value.name}, ptr {at}, align 4")
            return
        bits = self.code.type("i1")
        full = f"@llvm.masked.store.v{self.code.width}f32.p0"
        self.text.intrinsics[full] = f"declare void {full}({kind}, ptr, {bits})"
        arguments = f"{kind} {value.name}, ptr align 4 {at}, {bits} {self.mask.name}"
        self.code.lines.append(f"  call void {full}({arguments})")

    def total(self, value: Vector) -> None:
        """Add up the lanes of a row."""
        if self.mask is not None:
            value = self.code.select(self.mask, value, value.like(0.0))
        if self.text.is_narrow:
            self.reduced.append(("fadd", "", value.name))
            return
        running = Vector(self.code, f"%{self.index}.acc{len(self.reduced)}", _FLOAT)
        self.reduced.append(("fadd", "zeroinitializer", (running + value).name))

    def largest(self, value: Vector) -> None:
        """The largest lane of a row; NaN if there is one."""
        lowest = value.like(-float("inf"))
        if self.mask is not None:
            value = self.code.select(self.mask, value, lowest)
        if self.text.is_narrow:
            self.reduced.append(("fmaximum", "", value.name))
            return
        running = Vector(self.code, f"%{self.index}.acc{len(self.reduced)}", _FLOAT)
        self.reduced.append(("fmaximum", lowest.name, self.code.call("maximum", running, value).name))
