"""The data of a page: names, places, ops and programs, each of which stands once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.registry import AttrType
from fluidlite.ir.attributes import CALLSTACK_ATTR
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, ROLE_VAR_ATTR, Operator, OpRole
from fluidlite.ir.printing import variable_text
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.ir.where import Where
from fluidlite.show.folding import fold, shown_line
from fluidlite.show.listings import listings
from fluidlite.show.tree import Tree

__all__ = ["Ends", "Marks", "PageData", "fixed_numbers", "weights"]

Ends = Mapping[int, Sequence[tuple[str, str]]]
"""By `id` of an op: the variables that it exchanges, as servers call them, each with its server's endpoint;
"" where the op says nothing of a variable."""

# marks of what differs from trainer to trainer: characters that stand in no name
_INDEX, _ENDPOINT = "\x01", "\x02"
_NUMBERS = ("trainer_id", "rank")
# the first that fits: an op of `_lr_schedule_guard(True)` belongs to a schedule and to the optimizer
_CATEGORIES = (
    (OpRole.RPC | OpRole.Dist, "comm"),
    (OpRole.LRSched, "schedule"),
    (OpRole.Optimize, "optimize"),
    (OpRole.Backward, "backward"),
)
_PHASES = {"schedule": "optimize"}
_ARRAYS = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS)
_NOTHING = -1  # in the place of a name


class PageData:
    """Names, places, ops, declarations and programs, each under the number at which it was first seen."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[Hashable, int]] = {
            key: {} for key in ("names", "files", "frames", "stacks", "attrs", "ops", "vars", "programs")
        }
        # the original's, once it is in: a transpiler's own ops have none that says something to a user
        self.places: set[Where] | None = None
        # of each program, the folded ops of its phases
        self.trees: list[dict[str, list[Any]]] = []
        self.endpoints: dict[str, int] = {}

    def number(self, table: str, item: Hashable) -> int:
        """The number of an item, a new one if it is new."""
        found = self.tables[table]
        return found.setdefault(item, len(found))

    def program(self, program: Program, marks: Marks | None = None, ends: Ends | None = None) -> int:
        """The number of a program; `marks` stand in the place of what differs from trainer to trainer."""
        reader = _Reader(marks or Marks(), ends or {}, frozenset(var.name for var in weights(program)))
        blocks = tuple(self._block(block, reader) for block in program.blocks)
        number = self.number("programs", blocks)
        if number == len(self.trees):
            self.trees.append(self._phases(program))
        return number

    def _block(self, block: Block, reader: _Reader) -> Hashable:
        ops = tuple(
            self.number("ops", self._op(op, reader, (block.idx, place))) for place, op in enumerate(block.ops)
        )
        variables = tuple(
            self.number(
                "vars",
                (
                    self.number("names", reader.marks.name(var.name)),
                    *_declared(var, var.name in reader.weights),
                ),
            )
            for var in block.vars.values()
        )
        return block.idx, block.parent_idx, ops, variables

    def _op(self, op: Operator, reader: _Reader, place: tuple[int, int]) -> Hashable:
        marks = reader.marks
        attrs = tuple(
            self.number("attrs", (name, marks.attr(name, _shown(op, name), place)))
            for name in sorted(op.attrs)
            if name not in (ROLE_ATTR, CALLSTACK_ATTR)
        )
        inputs, outputs = (self._slots(slots, marks) for slots in (op.inputs, op.outputs))
        ends = tuple(
            (
                self.number("names", marks.name(name)) if name else _NOTHING,
                self.endpoints.setdefault(endpoint, len(self.endpoints)),
            )
            for name, endpoint in reader.ends.get(id(op), ())
        )
        return op.type, _category(op), inputs, outputs, attrs, self._stack(op.where), ends

    def _stack(self, where: Where | None) -> int:
        """The number of a call stack: what was called, and the frames from the innermost to the outermost."""
        if where is None or (self.places is not None and where not in self.places):
            return -1
        frames = tuple(map(self._frame, (where, *where.callers)))
        return self.number("stacks", (where.called, frames))

    def _frame(self, where: Where) -> int:
        file = self.number("files", where.file)
        return self.number("frames", (file, where.line, where.function, shown_line(where)))

    def _slots(self, slots: dict[str, list[str]], marks: Marks) -> Hashable:
        return tuple(
            (slot, tuple(self.number("names", marks.name(name)) for name in names))
            for slot, names in slots.items()
            if names
        )

    # ------------------------------------------------------------------ folded
    def _phases(self, program: Program) -> dict[str, list[Any]]:
        """The ops of the first block by phase, folded; numbers count the ops of all blocks."""
        ops = [op for block in program.blocks for op in block.ops]
        numbers = {id(op): number for number, op in enumerate(ops)}
        phases: dict[str, list[Operator]] = {}
        for op in program.global_block().ops:
            part = _part(op)
            phases.setdefault(_PHASES.get(part, part), []).append(op)
        return {
            phase: [self._tree(tree, numbers) for tree in fold(found, backwards=phase == "backward")]
            for phase, found in phases.items()
        }

    def _tree(self, tree: Tree, numbers: dict[int, int]) -> Any:
        """An op's number, or [label, kind, frame, op, children] of a group."""
        if isinstance(tree, Operator):
            return numbers[id(tree)]
        shown = tree.where is not None and (self.places is None or tree.where in self.places)
        frame = self._frame(tree.where) if tree.where is not None and shown else -1
        op = -1 if tree.op is None else numbers[id(tree.op)]
        return [tree.label, tree.kind, frame, op, [self._tree(child, numbers) for child in tree.children]]

    def data(self) -> dict[str, Any]:
        """The tables as lists, and the listings of files by their numbers."""
        tables: dict[str, list[Any]] = {key: list(table) for key, table in self.tables.items()}
        files: list[str] = tables["files"]
        lines: dict[str, list[int]] = {file: [] for file in files}
        for file, line, *_ in tables["frames"]:
            lines[files[file]].append(line)
        # those with most lines first: there is room for some only
        fullest = sorted(files, key=lambda file: -len(set(lines[file])))
        listed = listings({file: lines[file] for file in fullest})
        numbered = {number: listed[file] for number, file in enumerate(files) if file in listed}
        return {**tables, "trees": self.trees, "listings": numbered}


class _Reader(NamedTuple):
    """Facts about a program that its own ops and variables do not tell."""

    marks: Marks
    ends: Ends
    weights: frozenset[str]


class Marks:
    """Puts marks in the place of what differs from trainer to trainer.

    `fixed` names the attributes, by op, that hold a number of a trainer but hold the same one in every
    trainer's program.
    """

    def __init__(
        self,
        index: int | None = None,
        endpoint: str = "",
        fixed: frozenset[tuple[int, int, str]] = frozenset(),
    ) -> None:
        self.index = None if index is None else str(index)
        self.endpoint = endpoint
        self.fixed = fixed
        self.tail = f".trainer_{index}"

    def name(self, name: str) -> str:
        """A variable's name."""
        if self.index is None or not name.endswith(self.tail):
            return name
        return f"{name[: -len(self.tail)]}.trainer_{_INDEX}"

    def attr(self, name: str, text: str, place: tuple[int, int]) -> str:
        """An attribute's text, of the op at a place."""
        if self.index is None:
            return text
        if name in _NUMBERS and text == self.index and (*place, name) not in self.fixed:
            return _INDEX
        if name == ROLE_VAR_ATTR:
            # with the quote that ends the name: `.trainer_1` also begins `.trainer_10`
            return text.replace(f"{self.tail}'", f".trainer_{_INDEX}'")
        if name == "endpoint" and self.endpoint and text == repr(self.endpoint):
            return _ENDPOINT
        return text


def fixed_numbers(one: Program, other: Program) -> frozenset[tuple[int, int, str]]:
    """The numbers of trainers that two trainers' programs both hold."""
    return frozenset(
        (block.idx, place, name)
        for block, twin in zip(one.blocks, other.blocks, strict=False)
        for place, (op, same) in enumerate(zip(block.ops, twin.ops, strict=False))
        for name in _NUMBERS
        if name in op.attrs and op.attrs[name] == same.attrs.get(name)
    )


def weights(program: Program) -> list[Variable]:
    """The parameters; of a program whose file tells no parameters from other variables, as Paddle's files,
    what is kept between runs and read by the forward pass before anything writes it.
    """
    found: list[Variable] = list(program.all_parameters())
    if found:
        return found
    read: set[str] = set()
    written: set[str] = set()
    for op in (op for block in program.blocks for op in block.ops):
        if _part(op) == "forward":
            read.update(name for name in op.input_arg_names if name not in written)
        written.update(op.output_arg_names)
    kept = (var for var in program.list_vars() if var.persistable and var.name in read)
    return [var for var in kept if var.type in _ARRAYS and var._dtype is not None]


def _declared(var: Variable, weighs: bool) -> tuple[str, str, tuple[int, ...] | None, int]:
    """A declaration for a reader; "parameter", "data", "state" or ""; shape, and bytes of a number."""
    text = variable_text(var)
    shown = f"{text.split(' ', 1)[0]} {text.rsplit(': ', 1)[-1]}"
    kind = "state" if var.persistable else ""
    if weighs or isinstance(var, Parameter):
        kind = "parameter"
    elif var.is_data:
        kind = "data"
    if var.type not in _ARRAYS or var._dtype is None:
        return shown, kind, None, 0
    return shown, kind, tuple(var.shape), int(to_numpy(var.dtype).itemsize)


def _category(op: Operator) -> str:
    """The colour of an op: its part of the program, or "collective" for what all ranks do together."""
    kind = op.communicates
    if kind is None or kind.is_served:
        return _part(op)
    return "collective" if kind.is_collective or kind is CommKind.MAKE_RING else "comm"


def _part(op: Operator) -> str:
    """The part of the program that an op belongs to."""
    if op.communicates is not None and (op.communicates.is_of_trainer or op.communicates is CommKind.SERVE):
        return "comm"
    return next((name for flags, name in _CATEGORIES if op.role & flags), "forward")


def _shown(op: Operator, name: str) -> str:
    value = op.attrs[name]
    kind = op.attr_type(name)
    if kind == AttrType.BLOCK:
        return f"block {value.idx}"
    if kind == AttrType.BLOCKS:
        return ", ".join(f"block {block.idx}" for block in value)
    return repr(value)
