"""Kernels over channels as kernels over rows: what renderers of rows can do is enough for them.

A kernel over channels reduces along them, computes numbers of each channel from the sums, and goes through
all elements once more. Its arrays are looked at as rows of channels, x[rc]:

    sums        x[rc] first_x[c] -> away2[c] squares2[c]        sums over rows
    statistics  away2[c] squares2[c] ... -> v1[c] v2[c]         what they come to, for a float of more digits
    numbers     v1[c] v2[c] scale[c] ... -> v7[c] meanout[c]    functions of numbers
    elements    x[rc] v7[c] v9[c] -> y[rc]                      functions of elements

Means and variances are found in one sweep, as sums of what elements are away from a pivot, the first element
or one near the mean: the square of the mean can be taken off then without losing digits.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fluidlite.ops.kernels.row_kernels import REDUCTIONS, RowForm, RowKernel, RowNode, RowOperand
from fluidlite.ops.kernels.scalar import Ref

__all__ = ["ELEMENTS", "ChannelStep", "channel_steps"]

ELEMENTS = "elements"
"""The number of elements of a channel, in statistics."""


class ChannelStep(NamedTuple):
    """A kernel over rows that is a step of one over channels."""

    kind: str
    """ "sums", "statistics", "numbers" or "elements"."""
    form: RowForm
    pivots: tuple[tuple[str, str], ...]
    """The arrays that are pivots, each with that whose elements they are near."""


@functools.cache
def channel_steps(form: RowForm) -> tuple[ChannelStep, ...]:
    """The steps of a kernel over channels, in order. Their arrays are those of the form by name, and what
    steps leave to those behind them.
    """
    return tuple(_ChannelSplit(form).found)


class _ChannelSplit:
    """The steps of a form, which are gathered depth by depth."""

    def __init__(self, form: RowForm) -> None:
        self.form = form
        self.found: list[ChannelStep] = []
        self.axes = {name: self._laid(axes) for name, axes in form.axes.items() if name in form.inputs}
        """The arrays that the next step may read."""
        self.names = {index: f"value{index}" for index in form.live}
        self.names |= {index: str(node.operands[0]) for index, node in self._nodes("load")}
        for output in form.outputs:
            value = form.last(output)
            if isinstance(value, Ref) and self.names[value.index] == f"value{value.index}":
                self.names[value.index] = output
        self.known = [index for index, _ in self._nodes("load", *REDUCTIONS) if self._is_number(index)]
        """The numbers of channels that there will be when the next step runs."""
        elements = [output for output in form.outputs if not form.is_of_row(form.last(output))]
        for depth in range(max(form.nodes[index].depth for index in form.live)):
            self._reduce(depth)
        self._compute_numbers(
            [form.last(output) for output in elements],
            [output for output in form.outputs if output not in elements],
        )
        self._compute_elements(elements)

    def _laid(self, axes: str) -> str:
        kernel = self.form.kernel
        assert axes in (kernel.axes, kernel.rows), f"an array of a kernel over channels: {axes}"
        return "rc" if axes == kernel.axes else "c"

    def _nodes(self, *functions: str) -> list[tuple[int, RowNode]]:
        nodes = self.form.nodes
        return [(index, nodes[index]) for index in self.form.live if nodes[index].function in functions]

    def _is_number(self, index: int) -> bool:
        """True for a number of each channel; one of all is computed wherever it is read."""
        return self.form.nodes[index].axes == self.form.kernel.rows

    # ------------------------------------------------------------------ kinds of steps
    def _compute_numbers(self, along: Iterable[RowOperand], outputs: Iterable[str] = ()) -> None:
        """The numbers that values along channels need, and the outputs that are numbers."""
        form = self.form
        numbers = [index for index in form.live if self._is_number(index)]
        read = {
            item.index
            for index in form.needed_by(along, numbers)
            for item in form.nodes[index].operands
            if isinstance(item, Ref) and item.index in numbers
        }
        others = [output for output in outputs if self._name(form.last(output)) != output]
        results = {value.index for value in map(form.last, outputs) if isinstance(value, Ref)}
        wanted = [index for index in sorted(read | results) if index not in self.known]
        lines = self._lines(map(Ref, wanted))
        lines += [f"{output} = {self._name(form.last(output))}" for output in others]
        self._add("numbers", lines, [*(self.names[index] for index in wanted), *others], "c")
        self.known += wanted

    def _compute_elements(self, outputs: Sequence[str]) -> None:
        values = [self.form.last(output) for output in outputs]
        lines = self._lines(values)
        names = map(self._name, values)
        lines += [f"{output} = {name}" for output, name in zip(outputs, names, strict=True) if name != output]
        self._add("elements", lines, outputs, "rc")

    def _reduce(self, depth: int) -> None:
        """The sums of a depth, and the statistics that they come to."""
        nodes = self.form.nodes
        reduced = [index for index, _ in self._nodes(*REDUCTIONS) if nodes[index].depth == depth + 1]
        pairs = [nodes[index].operands for index in reduced if nodes[index].function == "variance"]
        self._compute_numbers([nodes[index].operands[0] for index in reduced])
        lines: list[str] = []
        results: list[str] = []
        pivots: dict[str, str] = {}
        for index in reduced:
            node = nodes[index]
            value = node.operands[0]
            text = f"sum{value.index if isinstance(value, Ref) else index}"
            if node.function == "variance":
                self._moments(index, lines, results, pivots)
            elif (value, Ref(index)) not in pairs:
                added = f"{text} = total({self._name(value)})"
                made = self._lines([value])
                lines += [line for line in [*made, added] if line not in lines]
                results.append(f"{self.names[index]} = {text}{f' / {ELEMENTS}' * (node.function == 'mean')}")
        sums = [line.partition(" = ")[0] for line in lines if " = total(" in line]
        self.axes |= dict.fromkeys(pivots, "c")
        self._add("sums", lines, sums, "c", pivots)
        self._add("statistics", results, [self.names[index] for index in reduced], "c", pivots)

    def _moments(self, index: int, lines: list[str], results: list[str], pivots: dict[str, str]) -> None:
        """The mean and the variance of an array."""
        value, mean = self.form.nodes[index].operands
        assert isinstance(mean, Ref)
        array = self._name(value)
        assert array in self.form.inputs, "a variance of an array"
        pivot = f"first_{array}"
        pivots[pivot] = array
        lines += [
            f"from{index} = {array} - {pivot}",
            f"away{index} = total(from{index})",
            f"squares{index} = total(from{index} * from{index})",
        ]
        results += [
            f"shift{index} = away{index} / {ELEMENTS}",
            f"{self.names[mean.index]} = {pivot} + shift{index}",
            f"spread{index} = squares{index} / {ELEMENTS} - shift{index} * shift{index}",
            f"{self.names[index]} = maximum(spread{index}, 0)",
        ]

    # ------------------------------------------------------------------ text
    def _name(self, operand: RowOperand) -> str:
        if isinstance(operand, Ref):
            return self.names[operand.index]
        return operand if isinstance(operand, str) else repr(operand)

    def _line(self, index: int) -> str:
        node = self.form.nodes[index]
        return f"{self.names[index]} = {node.function}({', '.join(map(self._name, node.operands))})"

    def _lines(self, values: Iterable[RowOperand]) -> list[str]:
        """The lines that values are made of, but what is known."""
        needed = self.form.needed_by(values, self.known)
        return [self._line(index) for index in needed if self.form.nodes[index].function != "load"]

    def _add(
        self,
        kind: str,
        lines: Sequence[str],
        outputs: Sequence[str],
        axes: str,
        pivots: Mapping[str, str] | None = None,
    ) -> None:
        if not lines:
            return
        text = "\n".join(lines)
        used = {tree.id for tree in ast.walk(ast.parse(text)) if isinstance(tree, ast.Name)}
        arrays = [name for name in self.axes if name in used and name not in outputs]
        reads = [f"{name}[{self.axes[name]}]" for name in arrays]
        reads += [number for number in (*self.form.numbers, ELEMENTS) if number in used]
        writes = [f"{output}[{axes}]" for output in outputs]
        signature = f"{' '.join(reads)} -> {' '.join(writes)}"
        kernel = RowKernel(f"{self.form.kernel.name}_{kind}", signature, text)
        mine = [(name, near) for name, near in (pivots or {}).items() if name in used]
        self.found.append(ChannelStep(kind, kernel.form(), tuple(mine)))
        self.axes |= dict.fromkeys(outputs, axes)
