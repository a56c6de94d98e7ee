"""Kernels over channels as CUDA C: for each launch a kernel, whose loops are those of `channels.cuh`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fluidlite.executor.cuda.row_text import RowText, indented
from fluidlite.ops.kernels.channel_steps import ELEMENTS, ChannelStep, channel_steps
from fluidlite.ops.kernels.row_kernels import RowForm, RowNode
from fluidlite.ops.kernels.scalar import Ref

__all__ = ["FILES", "arrays_of", "channels_text", "launches_of", "numbers_of"]

FILES = ("blocks.cuh", "columns.cuh", "channels.cuh")
"""The texts in front of a kernel."""

_WHOLE = "rc"
"""The axes of arrays of elements; others have a number for each channel."""
_LOOPS = {
    "sums": "FOR_EACH_PLACE(at, channel, outer, channels, inner)",
    "numbers": "FOR_EACH(channel, channels)",
    "elements": "FOR_EACH_ELEMENT(at, channel, rows, columns, channels)",
}
_SIZES = {
    "sums": ("outer", "channels", "inner"),
    "numbers": ("parts", "channels", "inner", ELEMENTS),
    "elements": ("rows", "columns", "channels"),
}


def launches_of(form: RowForm) -> list[tuple[str, list[ChannelStep]]]:
    """The steps of each launch, and their kind: "sums", "numbers" or "elements"."""
    groups = itertools.groupby(channel_steps(form), _kind)
    return [(kind, list(steps)) for kind, steps in groups]


def _kind(step: ChannelStep) -> str:
    return "numbers" if step.kind == "statistics" else step.kind


def arrays_of(steps: Sequence[ChannelStep]) -> list[str]:
    """The arrays that the kernel of some steps reads, and those that it writes. Pivots are elements."""
    read = [dict(step.pivots).get(name, name) for step in steps for name in step.form.inputs]
    written = _written(steps)
    return [*(name for name in dict.fromkeys(read) if name not in written), *written]


def numbers_of(steps: Sequence[ChannelStep]) -> list[str]:
    """The numbers that it is given behind sizes."""
    found = dict.fromkeys(number for step in steps for number in step.form.numbers)
    return [number for number in found if number != ELEMENTS]


def _written(steps: Sequence[ChannelStep]) -> list[str]:
    return [name for step in steps for name in step.form.outputs]


def channels_text(kind: str, steps: Sequence[ChannelStep]) -> str:
    """The kernel of some steps of a kind."""
    lines = [f"{_LOOPS[kind]} {{"]
    for step in steps:
        lines += indented(["{", *indented(_StepText(step).lines_of_step()), "}"])
    lines.append("}")
    if kind == "sums":
        names = _written(steps)
        begun = [f"S sum_of_{name} = 0;" for name in names]
        kept = [f"keep(sum_of_{name}, {name}, channel, channels);" for name in names]
        lines = ["const Index channel = CHANNEL;", *begun, *lines, *kept]
    return "\n".join([f"{_head(kind, steps)} {{", *indented(lines), "}", ""])


def _head(kind: str, steps: Sequence[ChannelStep]) -> str:
    axes = {name: axes for step in steps for name, axes in step.form.axes.items()}
    axes |= {near: _WHOLE for step in steps for _, near in step.pivots}
    written = _written(steps)
    parameters = []
    for name in arrays_of(steps):
        kind_of_number = "T" if axes[name] == _WHOLE else "S"
        pointer = f"{kind_of_number}* {name}"
        parameters.append(pointer if name in written else f"const {pointer}")
    parameters += [f"Index {size}" for size in _SIZES[kind]]
    parameters += [f"S {number}" for number in numbers_of(steps)]
    return f'extern "C" __global__ void {steps[-1].form.kernel.name}({", ".join(parameters)})'


class _StepText(RowText):
    """The lines of a step, for an element `at` and its `channel`. Statistics have the digits of double."""

    def __init__(self, step: ChannelStep) -> None:
        super().__init__(step.form, "", _WHOLE)
        self.pivots = dict(step.pivots)
        self.is_statistic = step.kind == "statistics"
        self.number = "double" if self.is_statistic else "S"

    def lines_of_step(self) -> list[str]:
        """Lines that add to sums, or write what is computed."""
        form = self.form
        values = list(map(form.last, form.outputs))
        line = f"{{}}[{self._place(form.axes[form.outputs[0]])}] = {{}};"
        if form.totals:
            totals = [form.nodes[value.index] for value in values if isinstance(value, Ref)]
            values = [node.operands[0] for node in totals]
            line = "sum_of_{} += {};"
        lines = self._values(values)
        names = map(self._name, values)
        return lines + [line.format(*pair) for pair in zip(form.outputs, names, strict=True)]

    def _place(self, axes: str) -> str:
        return "at" if axes == _WHOLE else "channel"

    def _expression(self, node: RowNode) -> str:
        name = str(node.operands[0])
        if node.function == "load" and name in self.pivots:
            return f"(S){self.pivots[name]}[channel * inner]"
        if node.function == "load" and self.is_statistic:
            return f"total({name}, parts, channel, channels)"
        return super()._expression(node)
