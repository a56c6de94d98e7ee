"""Steps of kernels over channels as LLVM text: sums over rows of channels, and functions of their elements.

A thread has rows of its own. oneDNN's gradient is one call, on one thread: of 524,288 numbers it takes 0.2
ms, and this on two 0.09.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping

from fluidlite.executor.fast.loops.arithmetic import result_of
from fluidlite.executor.fast.loops.compiler import LoopCode, loop_of, widths
from fluidlite.executor.fast.loops.routine import Routine, Scalar
from fluidlite.executor.fast.loops.vectors import Vector
from fluidlite.ops.kernels.row_kernels import RowForm, RowOperand
from fluidlite.ops.kernels.scalar import Ref

__all__ = ["channel_code"]

_ROWS = 32  # that are added up in registers: their sums are added to those of all rows, which loses less


@functools.cache
def channel_code(form: RowForm) -> LoopCode:
    """The loop of a step without numbers: its arguments are the arrays of the form, and the channels."""
    assert not form.numbers, "a number of a step over elements"
    intrinsics: dict[str, str] = {}
    a = Routine(widths()[1], intrinsics)
    a.arguments([*map(_argument, form.axes), "channels"])
    (_write_sums if form.totals else _write_elements)(a, form)
    return loop_of(
        "\n".join([*intrinsics.values(), a.function("void @LOOP(i64 %first, i64 %last, ptr %arguments)")])
    )


def _argument(name: str) -> str:
    """Arguments that are addresses begin with a capital letter."""
    return f"P{name}"


def _write_sums(a: Routine, form: RowForm) -> None:
    channels = a.integer("channels")
    outputs = form.outputs
    with a.units(channels, is_masked=True) as unit:
        for name in outputs:
            a.store(a.zero(), f"%P{name}", unit.index)
    totals = [form.nodes[value.index] for value in map(form.last, outputs) if isinstance(value, Ref)]
    with _channels_of_rows(a, form) as (channel, start, end, known):
        with a.loop(start, end, carried=[a.zero()] * len(outputs)) as row:
            lanes = _ChannelLanes(a, form, row.index * channels + channel, known)
            row.next = [
                lanes.plus(node.operands[0], value) for node, value in zip(totals, row.values, strict=True)
            ]
        for name, found in zip(outputs, row.values, strict=True):
            a.store(a.load(f"%P{name}", channel) + found, f"%P{name}", channel)


def _write_elements(a: Routine, form: RowForm) -> None:
    with _channels_of_rows(a, form) as (channel, start, end, known), a.loop(start, end) as row:
        at = row.index * a.integer("channels") + channel
        lanes = _ChannelLanes(a, form, at, known)
        for name in form.outputs:
            a.store(lanes.of(form.last(name)), f"%P{name}", at)


@contextlib.contextmanager
def _channels_of_rows(
    a: Routine, form: RowForm
) -> Iterator[tuple[Scalar, Scalar, Scalar, Mapping[str, Vector]]]:
    """Loops over some rows at a time and their channels: the first of these, the first row and the end of the
    rows, and the numbers of each channel.
    """
    last = a.integer("last")
    given = [name for name in form.inputs if form.axes[name] == "c"]
    with a.loop(a.integer("first"), last, _ROWS) as block:
        end = a.least(block.index + _ROWS, last)
        with a.units(a.integer("channels"), is_masked=True) as unit:
            known = {name: a.load(f"%P{name}", unit.index) for name in given}
            yield unit.index, block.index, end, known


class _ChannelLanes:
    """The values of neighbouring elements of a row."""

    def __init__(self, a: Routine, form: RowForm, at: Scalar, known: Mapping[str, Vector]) -> None:
        self.a = a
        self.form = form
        self.at = at
        self.known = known
        self.made: dict[int, Vector] = {}

    def of(self, item: RowOperand) -> Vector:
        """The lanes of a value."""
        if not isinstance(item, Ref):
            assert not isinstance(item, str)
            return self.a.code.number(item, "float")
        if item.index not in self.made:
            self.made[item.index] = self._made(item.index)
        return self.made[item.index]

    def plus(self, item: RowOperand, term: Vector) -> Vector:
        """A value and a term: a product is added as it is made."""
        node = self.form.nodes[item.index] if isinstance(item, Ref) else None
        if node is None or node.function != "mul":
            return self.of(item) + term
        first, second = self.of(node.operands[0]), self.of(node.operands[-1])
        return first.times_plus(second, term)

    def _made(self, index: int) -> Vector:
        node = self.form.nodes[index]
        if node.function == "load":
            name = str(node.operands[0])
            return self.known[name] if name in self.known else self.a.load(f"%P{name}", self.at)
        if node.function == "add":
            return self.plus(node.operands[0], self.of(node.operands[1]))
        operands = [self.of(item) for item in node.operands]
        if node.function == "where":
            return self.a.code.select(*operands)
        result = result_of(self.a.code, node.function, operands)
        assert result is not None, f"{node.function} has no code"
        return result
