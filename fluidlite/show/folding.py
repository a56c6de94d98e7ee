"""A program folded: its ops in groups, as the script that built it has them in functions and loops.

An op's name scopes and the lines that led to it say in which groups it stands: a group for each scope, each
call of a function, each turn of a loop, and each call of a layer. Calls and turns leave no trace of their
own, so where one ends is read off the lines: in one call of a function they go down, unless a loop around
them starts again.
"""

from __future__ import annotations

import ast
import bisect
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from fluidlite.base.records import dataclass
from fluidlite.ir.attributes import NAMESCOPE_ATTR
from fluidlite.ir.operator import Operator
from fluidlite.ir.where import Where, source_line, source_lines
from fluidlite.show.repeats import repeated
from fluidlite.show.tree import Group, Tree, ops_of

__all__ = ["fold", "shown_line"]

_FEW_PARTS = 3
_LABEL = 40  # characters of a loop's line


def fold(
    ops: Sequence[Operator], backwards: bool = False, inside: Operator | None = None
) -> tuple[Tree, ...]:
    """The ops of one block in groups; `backwards` for gradients, whose lines run upwards; `inside` is the op
    that runs the block.
    """
    first, end = _network(ops)
    if (first, end) != (0, len(ops)):
        return (*ops[:first], *fold(ops[first:end], backwards, inside), *ops[end:])
    if not any(op.where for op in ops):
        return tuple(repeated(_chains(ops)))
    root = _Open(_Element("root", "", "root"))
    opened = [root]
    before: _Levels | None = None
    for op in reversed(ops) if backwards else ops:
        place = _Levels(op, inside)
        kept = 0 if before is None else place.shared(before, opened)
        del opened[1 + kept :]
        for element in place.elements[kept:]:
            opened.append(_Open(element, place.wheres[element]))
            opened[-2].children.append(opened[-1])
        opened[-1].children.append(op)
        before = place
    if backwards:
        _turn(root)
    found = root.closed().children
    while len(found) == 1 and isinstance(found[0], Group) and found[0].kind != "block":
        found = found[0].children
    return found


def _network(ops: Sequence[Operator]) -> tuple[int, int]:
    """The first op of a network and the one after its last: ops in front and behind hand values in and out.

    The line that saved a model made those, often in a loop over epochs, which is no loop of the network.
    """
    handing = [op.definition is not None and op.definition.boundary for op in ops]
    lines = {op.where for op, hands in zip(ops, handing, strict=True) if hands and op.where is not None}
    inner = [number for number, op in enumerate(ops) if not handing[number] and op.where not in lines]
    return (inner[0], inner[-1] + 1) if inner and any(handing) else (0, len(ops))


def _chains(ops: Sequence[Operator]) -> list[Tree]:
    """Ops that nobody knows the lines of: each with those behind it that only finish it."""
    chains: list[list[Operator]] = []
    for op in ops:
        # without a script's lines: ops that finish what the op before them began
        follows = chains and op.definition is not None and op.definition.follows
        if follows and set(op.input_arg_names) & set(chains[-1][-1].output_arg_names):
            chains[-1].append(op)
        else:
            chains.append([op])
    found: list[Tree] = []
    for chain in chains:
        first, *others = chain
        found += [Group(first.type, "layer", tuple(chain))] if others else _settled(first)
    return found


def shown_line(where: Where) -> str:
    """The text of a line, cut where it is long; nothing where the source is not there."""
    return source_line(where.file, where.line)[:160]


def _turn(group: _Open) -> None:
    group.children.reverse()
    for child in group.children:
        if isinstance(child, _Open):
            _turn(child)


# ------------------------------------------------------------------------------------------------ places
class _Element(NamedTuple):
    """A level of an op's place."""

    kind: str
    file: str
    label: str
    line: int = 0


class _Levels:
    """Elements of an op's place, the outermost first, and for each frame its line and its elements."""

    def __init__(self, op: Operator, inside: Operator | None) -> None:
        self.op = op
        around = () if inside is None or inside.where is None else (inside.where, *inside.where.callers)
        # functions that the whole block stands in
        known = {(frame.file, frame.function) for frame in around}
        self.elements: list[_Element] = []
        self.wheres: dict[_Element, Where | None] = {}
        self.frames: list[tuple[Where, list[int], int]] = []
        for part in str(op.attrs.get(NAMESCOPE_ATTR, "/")).split("/"):
            if part:
                self._add(_Element("scope", "", part), None)
        self.scopes = len(self.elements)
        if op.where is None:
            return
        for frame in (*reversed(op.where.callers), op.where):
            start = len(self.elements)
            if not frame.function.startswith("<") and (frame.file, frame.function) not in known:
                self._add(_Element("call", frame.file, frame.function, start), frame)
            loops = []
            for first, text in _loops_around(frame.file, frame.line):
                loops.append(len(self.elements))
                self._add(_Element("loop", frame.file, text, first), frame)
            self.frames.append((frame, loops, start))
        if op.where.called:
            self._add(_Element("layer", op.where.file, op.where.called, op.where.line), op.where)

    def _add(self, element: _Element, where: Where | None) -> None:
        self.elements.append(element)
        self.wheres[element] = where

    def shared(self, before: _Levels, opened: Sequence[_Open]) -> int:
        """The number of elements that this op and the one before it stand in together; `opened` are the
        groups that the latter stands in, behind the root.
        """
        if self.elements[: self.scopes] != before.elements[: before.scopes]:
            return _common(self.elements[: self.scopes], before.elements[: before.scopes])
        for depth, ((mine, _, start), (theirs, _, other)) in enumerate(zip(self.frames, before.frames)):
            if (mine.file, mine.function, start) != (theirs.file, theirs.function, other):
                return start
            if mine.line != theirs.line:
                kept = _common(self.elements[: self._end(depth)], before.elements[: before._end(depth)])
                return kept if mine.line > theirs.line else self._again(depth, kept, opened)
        return self._same_line(before, opened)

    def _end(self, depth: int) -> int:
        _, loops, start = self.frames[depth]
        return max([start, *loops]) + 1

    def _again(self, depth: int, kept: int, opened: Sequence[_Open]) -> int:
        """The lines of a frame go up: a loop's next turn in it, a new call of its function, or nothing but
        an op that was made early.
        """
        frame, loops, start = self.frames[depth]

        def begins(place: int) -> bool:
            first = opened[1 + place].where
            return first is not None and frame.line <= first.line

        for place in reversed(loops):
            if place < kept and begins(place):
                return place
        if depth == 0 or start >= kept or self.elements[start].kind != "call" or not begins(start):
            return kept
        # whoever called it, or called that one, stands in a loop; or a line calls it twice
        return next((outer[-1] for _, outer, _ in reversed(self.frames[:depth]) if outer), start)

    def _same_line(self, before: _Levels, opened: Sequence[_Open]) -> int:
        """The same line: another op of the same layer, or the next turn of a loop around the line."""
        common = _common(self.elements, before.elements)
        types = {child.type for child in opened[-1].children if isinstance(child, Operator)}
        loops = [place for place in self.frames[-1][1] if place < common] if self.frames else []
        return loops[-1] if loops and self.op.type in types else common


def _common(one: Sequence[_Element], other: Sequence[_Element]) -> int:
    pairs = enumerate(zip(one, other))
    return next((place for place, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


@functools.lru_cache(maxsize=256)
def _loops(file: str) -> tuple[tuple[int, int, str], ...]:
    """The loops of a file: first and last line of what is repeated, and the text of the loop's line."""
    lines = source_lines(file)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)):
            first, last = node.body[0].lineno, node.body[-1].end_lineno or node.lineno
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            first, last = node.lineno, node.end_lineno or node.lineno
        else:
            continue
        text = lines[node.lineno - 1].strip().partition(":")[0]
        found.append((first, last, text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"))
    return tuple(sorted(found))


def _loops_around(file: str, line: int) -> list[tuple[int, str]]:
    """The loops that repeat a line, the outermost first."""
    loops = _loops(file)
    near = bisect.bisect_right(loops, (line, 1 << 30, ""))
    return [(first, text) for first, last, text in loops[:near] if first <= line <= last]


# ------------------------------------------------------------------------------------------------ groups
@dataclass
class _Open:
    """A group that ops are added to."""

    element: _Element
    where: Where | None = None
    children: list[_Open | Operator] = field(default_factory=list)

    def closed(self) -> Group:
        """The group without levels that say nothing, and with repetitions as groups of their own."""
        children = [tree for child in self.children for tree in _settled(child)]
        return Group(self.element.label, self.element.kind, tuple(repeated(children)), self.where)


def _settled(child: _Open | Operator) -> Iterator[Tree]:
    if isinstance(child, Operator):
        blocks = child.sub_blocks()
        yield _of_blocks(child, [block.ops for block in blocks]) if blocks else child
        return
    group = child.closed()
    if len(group.children) != 1:
        yield group
        return
    (only,) = group.children
    keeps = isinstance(only, Group) and group.kind != "loop" and only.kind in ("call", "loop", "layer")
    if keeps and isinstance(only, Group):
        yield Group(group.label, group.kind, only.children, group.where)
    else:
        # a level around one op or one repetition
        yield only


def _of_blocks(op: Operator, blocks: Sequence[Sequence[Operator]]) -> Group:
    """An op that runs blocks, as a group of what stands in them."""
    if len(blocks) == 1:
        return Group(op.type, "block", fold(blocks[0], inside=op), op.where, op)
    parts = [
        Group(_subject(ops, number), "part", fold(ops, inside=op))
        for number, ops in enumerate(blocks, 1)
        if ops
    ]
    return Group(op.type, "block", tuple(_same_parts(parts)), op.where, op)


def _same_parts(parts: Sequence[Group]) -> Iterator[Tree]:
    """The parts, those that run the same ops for one parameter after another in a group."""
    for _, found in itertools.groupby(parts, lambda part: [op.type for op in ops_of(part)]):
        same = tuple(found)
        if len(same) > _FEW_PARTS:
            yield Group("each parameter", "repeat", same)
        else:
            yield from same


def _subject(ops: Iterable[Operator], number: int) -> str:
    """The parameter that a block is there for, or its number."""
    subjects = [name for op in ops for name in op.role_vars[:1]]
    return subjects[0] if subjects else f"block {number}"
