"""A program as a picture: forward ops from the top down, and beside each of them its gradient, its
communication and its update.

Rows follow the forward ops, so that a training step reads as a ladder: down the first column, up the second,
and out to the parameters in the others. Ops that belong to no forward op stand below, in their order. A
dotted line leads from an op to its gradient. Values that pass ops of another column than the first are not
drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from fluidlite.base import registry
from fluidlite.base.gradient_names import grad_name
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.show.graph import BlockGraph, block_graph
from fluidlite.show.svg import Picture, box, document, line, text

__all__ = ["program_picture"]

_COLUMNS = ("forward", "backward", "communication", "update")
_FORWARD, _BACKWARD, _COMMUNICATION, _UPDATE = range(len(_COLUMNS))
_ARROWS = (" ↓", " ↑", "", "")
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN, _LANE = 196, 40, 44, 14, 20, 9
_MOST = 400  # ops of a block; more are a page's matter
_BESIDE = 3  # small blocks in a row
_FEW = 2  # variables that are named in a box


def program_picture(program: Program, title: str = "") -> Picture:
    """All blocks of a program. Ops without room for them, from the 401st of a block on, are counted."""
    parts: list[str] = []
    top, width = float(_MARGIN), 0.0
    if title:
        parts.append(text(_MARGIN, top + 10, title, "head"))
        top += 24
    for row in _rows_of_blocks(program.blocks):
        left, height = float(_MARGIN), 0.0
        for block in row:
            panel = _Panel(block, named=len(program.blocks) > 1)
            parts += panel.draw(left, top)
            left += panel.width + _GAP_X
            height = max(height, panel.height)
        top, width = top + height + _MARGIN, max(width, left - _GAP_X + _MARGIN)
    ops = sum(len(block.ops) for block in program.blocks)
    return document(width, top, title or f"a program of {ops} ops", parts)


def _rows_of_blocks(blocks: Sequence[Block]) -> Iterator[Sequence[Block]]:
    """The first block alone, the others side by side."""
    yield blocks[:1]
    for start in range(1, len(blocks), _BESIDE):
        yield blocks[start : start + _BESIDE]


@dataclass(eq=False)
class _Cell:
    """An op in the picture: its column, the forward op beside which it stands (None: below all), its row."""

    op: Operator
    column: int
    beside: int | None
    row: int = 0


@dataclass
class _Panel:
    """One block: its cells in rows and columns."""

    block: Block
    named: bool
    cells: list[_Cell] = field(default_factory=list)
    pairs: list[tuple[_Cell, _Cell]] = field(default_factory=list)  # a forward op and its gradient

    def __post_init__(self) -> None:
        self.graph = block_graph(self.block)
        kinds = [_kind(op) for op in self.graph.ops[:_MOST]]
        # without gradients there is nothing to stand beside: one column, in the order of the program
        self.kinds = kinds if _BACKWARD in kinds else [_FORWARD] * len(kinds)
        self.sources = list(_sources(self.graph))
        for number in range(len(kinds)):
            self.cells.append(self._placed(number))
        self.rows = self._number_rows()
        self.columns = sorted({cell.column for cell in self.cells})
        self.lanes = self._lanes()
        deepest = max(self.lanes.values(), default=-1)
        self.left = (deepest + 2) * _LANE if deepest >= 0 else 0.0
        self.head = 24.0 * (self.named + (len(self.columns) > 1))
        self.width = self.left + max(1, len(self.columns)) * (_WIDTH + _GAP_X) - _GAP_X
        self.height = self.head + max(1, self.rows) * (_HEIGHT + _GAP_Y)

    # ------------------------------------------------------------------ placing
    def _placed(self, number: int) -> _Cell:
        op = self.graph.ops[number]
        column = self.kinds[number]
        if column == _FORWARD:
            return _Cell(op, column, number)
        found = [self.cells[source] for source in self.sources[number] if self.cells[source].column]
        beside = {cell.beside for cell in found}
        if column == _BACKWARD:
            forward = self._forward_of(op)
            earlier = [cell.beside for cell in self.cells if cell.column == _BACKWARD]
            last = [cell.beside for cell in self.cells if cell.column == _FORWARD][-1:]
            if forward is None:
                return _Cell(op, column, (earlier or last or [None])[-1])
            cell = _Cell(op, column, forward.beside)
            self.pairs.append((forward, cell))
            return cell
        return _Cell(op, column, beside.pop() if len(beside) == 1 else None)

    def _forward_of(self, op: Operator) -> _Cell | None:
        """The forward op that this one is the gradient of: it reads the gradient of what that one writes."""
        read = set(op.input_arg_names)
        taken = [forward for forward, _ in self.pairs]
        for cell in reversed(self.cells):
            fits = cell.column == _FORWARD and _grad_type(cell.op.type) == op.type
            gradients = map(grad_name, cell.op.output_arg_names)
            if fits and cell not in taken and not read.isdisjoint(gradients):
                return cell
        return None

    def _number_rows(self) -> int:
        """Give each cell its row; the number of rows."""
        row = 0
        for beside in sorted({cell.beside for cell in self.cells if cell.beside is not None}):
            stacks = [
                [cell for cell in self.cells if (cell.beside, cell.column) == (beside, column)]
                for column in range(len(_COLUMNS))
            ]
            stacks[_BACKWARD].reverse()  # gradients go up
            for stack in stacks:
                for place, cell in enumerate(stack):
                    cell.row = row + place
            row += max(map(len, stacks))
        for cell in self.cells:
            if cell.beside is None:
                cell.row, row = row, row + 1
        return row

    def _lanes(self) -> dict[tuple[int, int], int]:
        """Edge of the forward column that passes other ops -> its lane at the left."""
        edges = [
            (source, target)
            for target, sources in enumerate(self.sources[: len(self.cells)])
            for source in sources
            if self.cells[source].column == _FORWARD == self.cells[target].column
            and self._passes(self.cells[source], self.cells[target])
        ]
        ends: list[int] = []  # lane -> the row at which it is free again
        found = {}
        for source, target in sorted(edges, key=lambda edge: self.cells[edge[0]].row):
            first, last = self.cells[source].row, self.cells[target].row
            lane = next((lane for lane, end in enumerate(ends) if end <= first), len(ends))
            ends[lane : lane + 1] = [last]
            found[source, target] = lane
        return found

    def _passes(self, one: _Cell, other: _Cell) -> bool:
        """True where an op of their column stands between two ops."""
        first, last = sorted((one.row, other.row))
        return any(cell.column == one.column and first < cell.row < last for cell in self.cells)

    # ------------------------------------------------------------------ drawing
    def draw(self, left: float, top: float) -> Iterator[str]:
        """The parts of the picture, with the panel's corner at a point."""
        if self.named:
            name = f"block {self.block.idx}"
            yield text(left, top + 12, name if self.cells else f"{name}: empty", "head")
        if len(self.columns) > 1:
            for place, column in enumerate(self.columns):
                x = left + self.left + place * (_WIDTH + _GAP_X)
                name = _COLUMNS[column]
                yield text(x, top + self.head - 10, name + _ARROWS[column], name)
        for target, sources in enumerate(self.sources[: len(self.cells)]):
            for source in sources:
                yield from self._edge(source, target, left, top)
        for one, other in self.pairs:
            (x0, y0), (x1, y1) = self._corner(one, left, top), self._corner(other, left, top)
            yield line([(x0 + _WIDTH, y0 + _HEIGHT / 2), (x1, y1 + _HEIGHT / 2)], "saved")
        for cell in self.cells:
            x, y = self._corner(cell, left, top)
            yield box(x, y, _WIDTH, _HEIGHT, _COLUMNS[_kind(cell.op)], _lines(cell.op), _about(cell.op))
        hidden = len(self.graph.ops) - len(self.cells)
        if hidden:
            yield text(left + self.left, top + self.height, f"and {hidden} more ops", "soft")

    def _corner(self, cell: _Cell, left: float, top: float) -> tuple[float, float]:
        place = self.columns.index(cell.column)
        x = left + self.left + place * (_WIDTH + _GAP_X)
        return x, top + self.head + cell.row * (_HEIGHT + _GAP_Y)

    def _edge(self, source: int, target: int, left: float, top: float) -> Iterator[str]:
        one, other = self.cells[source], self.cells[target]
        (x0, y0), (x1, y1) = self._corner(one, left, top), self._corner(other, left, top)
        middle = _HEIGHT / 2
        if one.column != other.column:
            # what gradients read of the forward pass would cross everything: `pairs` stand for them
            if one.beside == other.beside is not None and _FORWARD < one.column < other.column:
                bend = x1 - _GAP_X / 2
                ends = [
                    (x0 + _WIDTH, y0 + middle),
                    (bend, y0 + middle),
                    (bend, y1 + middle),
                    (x1, y1 + middle),
                ]
                yield line(ends if y0 != y1 else [ends[0], ends[-1]])
        elif (source, target) in self.lanes:
            x = x0 - (self.lanes[source, target] + 1) * _LANE
            yield line(
                [(x0, y0 + middle + 6), (x, y0 + middle + 6), (x, y1 + middle - 6), (x1, y1 + middle - 6)]
            )
        elif not self._passes(one, other):
            down = other.row > one.row
            start, end = (y0 + _HEIGHT, y1) if down else (y0, y1 + _HEIGHT)
            yield line([(x0 + _WIDTH / 2, start), (x1 + _WIDTH / 2, end)])


def _sources(graph: BlockGraph) -> Iterator[list[int]]:
    """For each op, the earlier ops whose values it reads."""
    writer: dict[int, int] = {}
    for number, (read, written) in enumerate(zip(graph.reads, graph.writes, strict=True)):
        yield sorted({writer[value] for value in read if value in writer})
        writer.update(dict.fromkeys(written, number))


def _grad_type(op_type: str) -> str:
    """The type of the gradient op of an op type."""
    return f"{op_type}_grad"


def _kind(op: Operator) -> int:
    """The column of an op, which is also its colour."""
    known = registry.find(op.type)
    # an op that only waits for a stream gives back what it reads
    waits = known is not None and known.effect and op.input_arg_names == op.output_arg_names
    if op.role & (OpRole.RPC | OpRole.Dist) or waits or (known is not None and known.communicates):
        return _COMMUNICATION
    if op.role & (OpRole.Optimize | OpRole.LRSched):
        return _UPDATE
    return _BACKWARD if op.role & OpRole.Backward else _FORWARD


def _lines(op: Operator) -> list[str]:
    """The type, and below it the parameters and fed variables that the op uses, or what it communicates."""
    kind = _kind(op)
    found = {name: op.block._find_var_recursive(name) for name in (*op.input_arg_names, *op.output_arg_names)}
    shown = [name for name, var in found.items() if var is not None and _is_given(var)]
    if kind == _COMMUNICATION and not shown:
        shown = op.input_arg_names
    if kind == _UPDATE:
        shown = op.role_vars[:1] or shown
    if kind == _BACKWARD or not 0 < len(shown) <= _FEW:
        return [op.type]
    only = found.get(shown[0])
    sizes = f" {_sizes(only)}" if len(shown) == 1 and only is not None and kind != _UPDATE else ""
    return [op.type, ", ".join(shown) + sizes]


def _is_given(var: Variable) -> bool:
    return isinstance(var, Parameter) or bool(var.is_data)


def _sizes(var: Variable) -> str:
    sizes = ("N" if size < 0 else str(size) for size in var.shape)
    return f"[{', '.join(sizes)}]"


def _about(op: Operator) -> str:
    read, written = ", ".join(op.input_arg_names), ", ".join(op.output_arg_names)
    return f"{op.type}\nreads {read or 'nothing'}\nwrites {written or 'nothing'}"
