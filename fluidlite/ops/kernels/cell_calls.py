"""Steps of cells as calls of an array module into given arrays, and into as few others as there can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fluidlite.ops.kernels.activations import expanded, lines_in_place, reads_once
from fluidlite.ops.kernels.cells import CellSteps
from fluidlite.ops.kernels.scalar import FUNCTIONS, PREDICATES, ExprNode, Ref
from fluidlite.ops.kernels.scalar_steps import Operand, ScalarSteps

__all__ = ["ArrayPart", "cell_calls", "in_planes"]


class ArrayPart(NamedTuple):
    """An array, one of its planes, or those from one up to another."""

    array: str
    plane: int | None = None
    end: int | None = None

    @property
    def text(self) -> str:
        """The name that a function's text has for it."""
        return "_".join(str(part) for part in self if part is not None)

    @property
    def span(self) -> str:
        """The index of the planes."""
        return str(self.plane) if self.end is None else f"{self.plane}:{self.end}"


def in_planes(array: str, names: Sequence[str]) -> dict[str, ArrayPart]:
    """Values that lie in planes of an array, one behind the other."""
    return {name: ArrayPart(array, plane) for plane, name in enumerate(names)}


def cell_calls(
    steps: CellSteps,
    parameters: Sequence[str],
    reads: Mapping[str, ArrayPart],
    writes: Mapping[str, ArrayPart],
    returned: Sequence[str] = (),
) -> Callable[..., tuple[Any, ...]]:
    """A function of an array module and the arrays `parameters`, which writes some values where they belong,
    and returns others.

    What is read and written in the same part is overwritten. Values of the steps that are read are not
    computed.
    """
    text = _CellText(steps, reads, writes, returned)
    head = f"def step(xp, {', '.join(parameters)}):"
    source = "\n    ".join([head, *text.lines()])
    namespace: dict[str, Any] = {}
    exec(compile(source, "<fluidlite cell>", "exec"), namespace)
    function: Callable[..., tuple[Any, ...]] = namespace["step"]
    return function


class _PlacedStep(NamedTuple):
    """A step with the parts of arrays that hold its result and its first operand."""

    node: ExprNode
    out: ArrayPart
    source: ArrayPart

    @property
    def is_whole(self) -> bool:
        """True for an activation, or a slope."""
        return _is_whole(self.node)


def _is_whole(node: ExprNode) -> bool:
    return expanded(*node.parts) is not None


def _in_order(steps: ScalarSteps, ends: Sequence[Operand], parts: Mapping[Operand, ArrayPart]) -> list[int]:
    """The steps that lead to some values.

    Activations of one level, which is the number of those behind one another, go together, those of one kind
    and of neighbours after each other: one call can do for several planes. Arithmetic that leads to none of
    them leaves its room to others until the end.
    """
    needed = steps.needed_by(ends, parts)
    read = [item for index in needed if _is_whole(steps.nodes[index]) for item in steps.nodes[index].operands]
    early = set(steps.needed_by(read, parts))
    levels: dict[Operand, int] = {}
    keys: dict[int, tuple[Any, ...]] = {}
    for index in needed:
        node = steps.nodes[index]
        level = max((levels.get(operand, 0) for operand in node.operands), default=0)
        keys[index] = level if index in early else len(needed), 0, "", index
        if _is_whole(node):
            part = parts.get(node.operands[0])
            plane = index if part is None or part.plane is None else part.plane
            keys[index] = level, 1, node.function, plane
            level += 1
        levels[Ref(index)] = level
    return sorted(keys, key=keys.__getitem__)


class _CellText:
    """The lines of such a function.

    A step's result lies where nothing is read any more: where the output that it leads to belongs, in the
    part of an operand, in that of an output that is written later, or in an array of its own.
    """

    def __init__(
        self,
        steps: CellSteps,
        reads: Mapping[str, ArrayPart],
        writes: Mapping[str, ArrayPart],
        returned: Sequence[str],
    ) -> None:
        self.nodes = steps.steps.nodes
        self.values = steps.values
        self.writes = writes
        self.returned = returned
        self.parts: dict[Operand, ArrayPart] = {}
        """The values that are there, each in its part."""
        for name, part in reads.items():
            self.parts[self.values.get(name, name)] = part
        self.views: dict[ArrayPart, None] = {}
        """The parts of arrays that lines read."""
        self.scratch: list[ArrayPart] = []
        ends = [self.values[name] for name in (*writes, *returned)]
        self.order = _in_order(steps.steps, ends, self.parts)
        self._note_uses(ends)
        held = set(writes.values())
        self.occupants = {part: value for value, part in self.parts.items() if part in held}

    def _note_uses(self, ends: Sequence[Operand]) -> None:
        """Find out by which steps values are read, when for the last time, and when outputs get theirs."""
        end = len(self.order)
        self.last: dict[Operand, int] = {}
        self.readers: dict[Operand, list[int]] = {}
        for position, index in enumerate(self.order):
            for operand in self.nodes[index].operands:
                self.last[operand] = position
                self.readers.setdefault(operand, []).append(index)
        # results that are returned, or not computed but given, stay where they are until the end
        kept = [self.values[name] for name in self.returned]
        kept += [value for value in ends if value in self.parts]
        for value in kept:
            self.last[value] = end + 1
        done: dict[Operand, int] = {Ref(index): position for position, index in enumerate(self.order)}
        self.written = {part: done.get(self.values[name], end) for name, part in self.writes.items()}

    # ------------------------------------------------------------------ parts
    def _part_for(self, position: int, index: int) -> ArrayPart:
        value = Ref(index)
        led_to = self._end_of(value)
        own = [part for name, part in self.writes.items() if self.values[name] == value]
        own += [part for name, part in self.writes.items() if self.values[name] == led_to]
        own += [self.parts[item] for item in self.nodes[index].operands if item in self.parts]
        others = sorted(self.writes.values(), key=lambda part: -self.written[part])
        for part in (*own, *self.scratch, *others):
            if self._is_free(part, position, index):
                return part
        made = ArrayPart(f"s{len(self.scratch)}")
        self.scratch.append(made)
        return made

    def _end_of(self, value: Operand) -> Operand:
        """The last step of a chain in which nothing else reads a value."""
        ends = list(self.values.values())
        while value not in ends and len(self.readers.get(value, ())) == 1:
            value = Ref(self.readers[value][0])
        return value

    def _is_free(self, part: ArrayPart, position: int, index: int) -> bool:
        """True if the result of a step can lie in a part until it is read for the last time."""
        if part not in self.scratch and part not in self.written:
            return False
        end = self.written.get(part, len(self.order) + 1)
        if position > end or (position < end < self.last.get(Ref(index), position)):
            return False
        occupant = self.occupants.get(part)
        if occupant is None:
            return True
        node = self.nodes[index]
        # the result of one call may lie where its operand was
        overwrites = not _is_whole(node) or reads_once(*node.parts)
        return self.last.get(occupant, -1) < position + overwrites

    # ------------------------------------------------------------------ lines
    def lines(self) -> list[str]:
        """Views of planes, arrays, calls, copies, and what is returned."""
        found = self._calls([self._placed(*turn) for turn in enumerate(self.order)])
        for name, part in self.writes.items():
            value = self.values[name]
            if self.parts.get(value) != part:
                found.append(f"{self._text(part)}[...] = {self._spelled(value)}")
        results = "".join(f"{self._spelled(self.values[name])}, " for name in self.returned)
        like = next(iter(self.writes.values()))
        made = [f"{part.text} = xp.empty_like({self._text(like)})" for part in self.scratch]
        views = [f"{part.text} = {part.array}[{part.span}]" for part in self.views]
        return [*views, *made, *found, f"return ({results})"]

    def _text(self, part: ArrayPart) -> str:
        """The name of a part, which is that of a view for planes."""
        if part.plane is not None:
            self.views[part] = None
        return part.text

    def _spelled(self, operand: Operand) -> str:
        return self._text(self.parts[operand]) if operand in self.parts else repr(operand)

    def _placed(self, position: int, index: int) -> _PlacedStep:
        node = self.nodes[index]
        out = self._part_for(position, index)
        source = self.parts.get(node.operands[0], out)
        if not _is_whole(node):
            operands = [self._spelled(item) for item in node.operands]
            node = ExprNode(node.function, tuple(operands))
        self.parts[Ref(index)] = out
        self.occupants[out] = Ref(index)
        return _PlacedStep(node, out, source)

    def _calls(self, placed: Sequence[_PlacedStep]) -> list[str]:
        """The lines of steps; one for activations of neighbouring planes."""
        groups: list[list[_PlacedStep]] = []
        for step in placed:
            if groups and _goes_with(groups[-1][-1], step):
                groups[-1].append(step)
            else:
                groups.append([step])
        return [line for group in groups for line in self._group(group)]

    def _group(self, group: Sequence[_PlacedStep]) -> list[str]:
        node, out, source = group[0]
        last = group[-1]
        target = self._text(_span(out, last.out))
        if _is_whole(node):
            return lines_in_place(*node.parts, self._text(_span(source, last.source)), target)
        operands = ", ".join(map(str, node.operands))
        call = f"xp.{FUNCTIONS[node.function][0]}({operands}"
        if node.function in PREDICATES:
            return [f"{target}[...] = {call})"]
        return [f"{call}, out={target})"]


def _goes_with(before: _PlacedStep, step: _PlacedStep) -> bool:
    """True if both are the same activation, of neighbours."""
    if not before.is_whole or before.node.function != step.node.function:
        return False
    if before.node.operands[1:] != step.node.operands[1:]:
        return False
    # planes of one array must not be overwritten before they are read
    is_apart = step.out == step.source or step.out.array != step.source.array
    return is_apart and _is_next(before.out, step.out) and _is_next(before.source, step.source)


def _is_next(before: ArrayPart, part: ArrayPart) -> bool:
    """True for the plane behind another one."""
    return before.plane is not None and part == ArrayPart(before.array, before.plane + 1)


def _span(first: ArrayPart, last: ArrayPart) -> ArrayPart:
    """Neighbouring planes."""
    if first == last or last.plane is None:
        return first
    return ArrayPart(first.array, first.plane, last.plane + 1)
