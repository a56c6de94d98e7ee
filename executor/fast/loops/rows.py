"""Row kernels over float32 rows by compiled code, behind the objects of `fluidlite.executor.run.rows`.

The same calls with the same arrays: until the code is there, and for other dtypes, NumPy's kernel computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import is_not
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.executor.fast.loops.arithmetic import result_of
from fluidlite.executor.fast.loops.compiler import LoopCode, RunCount, loop_of, widths
from fluidlite.executor.fast.loops.sweeps import Point, RowLanes, Sweep, sweeps_text
from fluidlite.executor.fast.loops.vectors import Code, Vector
from fluidlite.executor.fast.machine import MachineCalls, SharedCalls
from fluidlite.executor.run.rows import members_of
from fluidlite.ops.kernels.row_kernels import REDUCTIONS, RowForm, RowOperand, RowStore
from fluidlite.ops.kernels.scalar import Ref

__all__ = ["CompiledRows"]

_ASKED_AT = 2
_KEPT = "kept"
RowFactory: TypeAlias = Callable[..., Callable[..., None]]
_KINDS = {"rc": "full", "c": "row", "r": "column", "": "number"}


@cache
def _code(form: RowForm, numbers: tuple[float, ...], is_narrow: bool) -> LoopCode:
    """The loop of a form with such numbers."""
    sweeps = _Sweeps(form, dict(zip(form.numbers, numbers, strict=True)))
    labels = {label.name for label in form.labels}
    arrays = {name: "labels" if name in labels else _KINDS[axes] for name, axes in form.axes.items()}
    arrays |= dict.fromkeys(["flag"] if labels else [], "flag")
    return loop_of(sweeps_text(arrays, sweeps.begin, sweeps.all(), widths(), is_narrow))


class _Sweeps:
    """The sweeps of a form: one for each depth at which something is reduced or stored along the row.

    A value that an output has in memory is read from there; others are computed anew in each sweep.
    """

    def __init__(self, form: RowForm, numbers: Mapping[str, float]) -> None:
        self.form = form
        self.numbers = numbers
        self.kept: Vector | None = None
        """Of the row at hand: 0 if its label is to be ignored."""
        depths = [form.depth_of(store.value) for store in form.stores]
        self.last = max(depths)
        self.reduced = [
            [index for index in form.live if self._reduces(index) and self._operand_depth(index) == depth]
            for depth in range(self.last + 1)
        ]

    def _reduces(self, index: int) -> bool:
        return self.form.nodes[index].function in REDUCTIONS

    def _operand_depth(self, index: int) -> int:
        return self.form.depth_of(self.form.nodes[index].operands[0])

    def _stored(self, depth: int) -> list[RowStore]:
        """The values that a sweep stores along the row."""
        return [
            store
            for store in self.form.stores
            if not self.form.is_of_row(store.value)
            and self.form.depth_of(store.value) == depth
            and not self._is_put(store.value)
        ]

    def _is_put(self, value: RowOperand) -> bool:
        return isinstance(value, Ref) and self.form.nodes[value.index].function == "put"

    def all(self) -> list[Sweep]:
        """The sweeps; what follows one that would do nothing is done behind the one before."""
        found = []
        depth = 0
        while depth <= self.last:
            following = depth + 1
            while following <= self.last and not self._does_something(following):
                following += 1
            found.append(self._sweep(depth, range(depth + 1, following + 1)))
            depth = following
        return found

    def _does_something(self, depth: int) -> bool:
        return bool(self.reduced[depth] or self._stored(depth))

    def _sweep(self, depth: int, points: range) -> Sweep:
        def compute(lanes: RowLanes) -> None:
            self._compute(lanes, depth)

        def after(point: Point, found: Sequence[Vector]) -> Mapping[str, Vector]:
            known: dict[int, Vector] = dict(zip(self.reduced[depth], found, strict=True))
            for index in self.reduced[depth]:
                if self.form.nodes[index].function == "mean":
                    known[index] = known[index] / point.columns()
            numbers: dict[str, Vector] = {}
            for place in points:
                numbers |= self._point(point, place, known)
            return numbers

        return Sweep(compute, after)

    # ------------------------------------------------------------------ along the row
    def _compute(self, lanes: RowLanes, depth: int) -> None:
        """The stores and the reductions of a sweep."""
        values = _RowValues(self, lanes, depth)
        for store in self._stored(depth):
            if self.form.is_total(store.value):
                assert isinstance(store.value, Ref)
                (operand,) = self.form.nodes[store.value.index].operands
                lanes.store(store.output, lanes[store.output] + values.of(operand))
            else:
                kept = lanes[_KEPT] if self.kept else None
                lanes.store(store.output, self._cleared(store.output, values.of(store.value), kept))
        for index in self.reduced[depth]:
            node = self.form.nodes[index]
            (lanes.largest if node.function == "max" else lanes.total)(values.of(node.operands[0]))

    def _cleared(self, output: str, value: Vector, kept: Vector | None) -> Vector:
        """`value`, or 0 in a row whose label is to be ignored: such a row may hold NaN."""
        if kept is None or output not in self.form.kernel.cleared:
            return value
        return value.code.select(kept.compare("une", 0.0), value, value.like(0.0))

    def in_memory(self, index: int, depth: int) -> str:
        """The output that has a value in memory when a sweep begins; nothing where none has."""
        for output in self.form.outputs:
            there = [
                store.value
                for store in self.form.stores
                if store.output == output
                and self.form.depth_of(store.value) + (not self._is_put(store.value)) <= depth
            ]
            if there and there[-1] == Ref(index):
                return output
        return ""

    # ------------------------------------------------------------------ the numbers of a row
    def begin(self, point: Point) -> Mapping[str, Vector]:
        """The numbers that are known ahead of the first sweep."""
        for label in self.form.labels:
            self.kept = point.choose(label.name, "flag", int(self.numbers[label.ignored]))
        numbers = {_KEPT: self.kept} if self.kept else {}
        return numbers | self._point(point, 0, {})

    def _point(self, point: Point, depth: int, known: dict[int, Vector]) -> dict[str, Vector]:
        """The numbers of a row that are known ahead of a sweep; outputs and elements at labels are stored."""
        form = self.form
        for index in form.live:
            node = form.nodes[index]
            is_number = form.is_of_row(Ref(index)) or node.function == "put"
            if node.depth == depth and is_number and index not in known:
                self._number(point, index, known)
        for store in form.stores:
            if store.is_last and form.is_of_row(store.value) and form.depth_of(store.value) == depth:
                value = self._operand(point, store.value, known)
                point.store(store.output, self._cleared(store.output, value, self.kept))
        return {f"v{index}": vector for index, vector in known.items()}

    def _number(self, point: Point, index: int, known: dict[int, Vector]) -> None:
        node = self.form.nodes[index]
        if node.function == "load":
            known[index] = point.load(str(node.operands[0]))
        elif node.function in ("pick", "put"):
            self._at_label(point, index, known)
        else:
            operands = [self._operand(point, item, known) for item in node.operands]
            known[index] = _result(point.code, node.function, operands)

    def _at_label(self, point: Point, index: int, known: dict[int, Vector]) -> None:
        node = self.form.nodes[index]
        source, label = node.operands[0], str(node.operands[1])
        assert isinstance(source, Ref)
        output = next((store.output for store in self.form.stores if store.value == source), "")
        if node.function == "pick":
            loaded = self.form.nodes[source.index]
            known[index] = point.picked(output or str(loaded.operands[0]), label)
            return
        value = self._operand(point, node.operands[2], known)
        point.set_picked(output, label, self._cleared(output, value, self.kept))

    def _operand(self, point: Point, item: RowOperand, known: Mapping[int, Vector]) -> Vector:
        if isinstance(item, Ref):
            return known[item.index] if item.index in known else point[f"v{item.index}"]
        return point.code.number(self.numbers[item] if isinstance(item, str) else item, "float")


class _RowValues:
    """Values along a row in one sweep."""

    def __init__(self, sweeps: _Sweeps, lanes: RowLanes, depth: int) -> None:
        self.sweeps = sweeps
        self.form = sweeps.form
        self.lanes = lanes
        self.depth = depth
        self.known: dict[int, Vector] = {}

    def of(self, item: RowOperand) -> Vector:
        """The lanes of a value."""
        if not isinstance(item, Ref):
            number = self.sweeps.numbers[item] if isinstance(item, str) else item
            return self.lanes.code.number(number, "float")
        if item.index not in self.known:
            self.known[item.index] = self._made(item)
        return self.known[item.index]

    def _made(self, item: Ref) -> Vector:
        node = self.form.nodes[item.index]
        if self.form.is_of_row(item):
            return self.lanes[f"v{item.index}"]
        if node.function == "load":
            return self.lanes[str(node.operands[0])]
        output = self.sweeps.in_memory(item.index, self.depth)
        if output:
            return self.lanes[output]
        return _result(self.lanes.code, node.function, [self.of(operand) for operand in node.operands])


def _result(code: Code, function: str, operands: Sequence[Vector]) -> Vector:
    if function == "where":
        return code.select(*operands)
    result = result_of(code, function, operands)
    assert result is not None, f"{function} has no code"
    return result


class CompiledRows:
    """A kernel over rows: compiled code as soon as it is there, NumPy's kernel until then, which is made by
    `factory(xp, *arguments)`: `block_rows`, or `LabelledRows` where there are labels.
    """

    def __init__(
        self, xp: Any, factory: RowFactory, arguments: Sequence[Any], wait: bool, count: RunCount
    ) -> None:
        # made where it is needed: compiled code takes no scratch
        self.make_plain = partial(factory, xp, *arguments)
        self.form, (self.rows, self.columns), _, self.numbers, self.threads = arguments
        names = [*self.form.inputs, *self.form.outputs]
        labels = {label.name for label in self.form.labels}
        self.dtypes = [np.int64 if name in labels else np.float32 for name in names]
        self.total_positions = [names.index(name) for name in self.form.totals]
        self.flags = [np.zeros(1, np.int64) for _ in range(self.threads if labels else 0)]
        """For each thread whether it has met a label that is no column."""
        self.members = members_of(self.rows, self.columns, self.threads)
        self.sums: list[Any] = []
        """The arrays that sums over rows are added to: the outputs, or a row of each for each thread."""
        self.asked_at = 0 if wait else _ASKED_AT
        self.count = count
        self.wait = wait
        self.code: LoopCode | None = None
        self.held: Sequence[Any] = ()
        self.tables: list[Any] = []
        self.calls: list[tuple[int, int, int]] = []

    @cached_property
    def plain(self) -> Callable[..., None]:
        """NumPy's kernel."""
        return self.make_plain()

    def __call__(self, *arrays: Any) -> None:
        # a plan calls with the same arrays at each run, but for what is fed
        is_known = len(self.held) == len(arrays) and not any(map(is_not, self.held, arrays))
        if not is_known and not self._take(arrays):
            self.plain(*arrays)
            return
        for sums in self.sums:
            sums.fill(0)
        if self.members == 1:
            assert self.code is not None
            self.code.function(*self.calls[0])
        else:
            self.sharing.run(None, self.members, self._run)
            for sums, position in zip(self.sums, self.total_positions, strict=True):
                np.add.reduce(sums, axis=0, out=arrays[position])
        if self.flags and any(self.flags):
            for flag in self.flags:
                flag.fill(0)
            self.plain(*arrays)  # raises the error

    def _run(self, calls: MachineCalls, member: int) -> None:
        assert self.code is not None
        calls.code(self.code.function, *self.calls[member])

    def _take(self, arrays: Sequence[Any]) -> bool:
        """Write down the addresses of the arrays that are other ones; False where the compiled code cannot
        compute them, or is not there yet.
        """
        if not self._has_code():
            return False
        held = self.held or [None] * len(arrays)
        others = [position for position, array in enumerate(arrays) if array is not held[position]]
        for position in others:
            array = arrays[position]
            if array.dtype != self.dtypes[position] or not array.flags.c_contiguous:
                self.held = ()
                return False
        if not self.held:
            self._begin(arrays)
        for position in others:
            # the sums of each of several threads are its own
            if self.members == 1 or position not in self.total_positions:
                for table in self.tables:
                    table[position] = address_of(arrays[position])
        if self.members == 1:
            self.sums = [arrays[position] for position in self.total_positions]
        self.held = arrays
        return True

    def _begin(self, arrays: Sequence[Any]) -> None:
        """Make the tables of addresses, and share out the rows."""
        members = self.members
        self.tables, self.calls = [], []
        self.sharing = SharedCalls(members)
        self.sums = [np.empty((members, self.columns), np.float32) for _ in self.total_positions]
        for member in range(members):
            own = list(arrays)
            for sums, position in zip(self.sums, self.total_positions, strict=True):
                own[position] = sums[member]
            own += [self.flags[member]] if self.flags else []
            table = np.array([*map(address_of, own), self.columns], np.int64)
            self.tables.append(table)
            first, last = self.rows * member // members, self.rows * (member + 1) // members
            self.calls.append((first, last, address_of(table)))

    def _has_code(self) -> bool:
        """True once the code is there; asks for it when it is clear that there will be more runs."""
        if self.code is not None and self.code.function is not None:
            return True
        if self.count.next() < self.asked_at:
            return False
        if self.code is None:
            self.code = _code(self.form, tuple(self.numbers), self.columns <= widths()[1])
            if self.wait:
                self.code.compile()
            self.code.ask()
        return self.code.function is not None
