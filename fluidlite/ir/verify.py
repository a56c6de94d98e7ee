"""Checking a program without running it: slots, definition before use, sub-blocks, and every shape
inferred again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fluidlite.base.dtypes import VarType, is_float
from fluidlite.base.errors import EnforceNotMet, FormatError, ProgramEditError, did_you_mean
from fluidlite.base.registry import EMPTY_VAR, GRAD_SUFFIX, Op, Spec, known_types
from fluidlite.ir.structure import check_blocks, check_parents

if TYPE_CHECKING:
    from fluidlite.ir.block import Block
    from fluidlite.ir.operator import Operator
    from fluidlite.ir.program import Program
    from fluidlite.ir.variable import Variable

__all__ = ["verify"]

# Kinds that ops make on the way: an array may be read before its first write, where it is empty
_MADE_ON_THE_WAY = frozenset(
    (
        VarType.LOD_TENSOR_ARRAY,
        VarType.STEP_SCOPES,
        VarType.LOD_RANK_TABLE,
        VarType.READER,
        VarType.RAW,
        VarType.FEED_MINIBATCH,
        VarType.FETCH_LIST,
    )
)


def verify(program: Program, feeds: Iterable[str] = ()) -> None:
    """ProgramEditError where `program` cannot run; it names the op, the values and the user's line.

    A dense variable must be written before it is read, unless it is persistable, was declared as data, or is
    in `feeds`.
    """
    try:
        check_parents(program)
        check_blocks(program)
    except FormatError as error:
        raise ProgramEditError(str(error)) from None
    checker = _Checker(program, feeds)
    for block in program.blocks:
        for name, var in block.vars.items():
            if var.name != name:
                raise ProgramEditError(
                    f"block {block.idx} keeps variable {var.name!r} under the name {name!r}"
                )
    # blocks that no op runs, as fluid's transpilers leave them, may be broken
    checker.block(program.global_block())


class _Checker:
    """Walks the ops in the order in which they run and remembers what each variable holds by then.

    A variable may be written twice in different shapes (`reshape(x, inplace=True)`), and is declared as the
    last op made it.
    """

    def __init__(self, program: Program, feeds: Iterable[str]) -> None:
        self.feeds = frozenset(feeds)
        self.specs: dict[int, Spec] = {}  # what was written, by id of the variable
        self.visited: set[int] = set()
        self.last_writers = {
            id(op.block._find_var_recursive(name)): op
            for block in program.blocks
            for op in block.ops
            for name in op.output_arg_names
        }

    def block(self, block: Block) -> None:
        """Check the ops of `block`, and of the blocks that they run."""
        if block.idx in self.visited:
            return
        self.visited.add(block.idx)
        for op in block.ops:
            self.operator(op, block)

    def operator(self, op: Operator, block: Block) -> None:
        """Check one op."""
        if op.block is not block:
            raise _wrong(op, f"it is in block {block.idx}, but its own field names another block")
        definition = op.definition
        if definition is None:
            raise _wrong(op, f"no op of that type is registered{did_you_mean(op.type, known_types())}")
        _check_slots(op, definition)
        for slot, names in op.inputs.items():
            for name in names:
                self.read(op, slot, name)
        for inner in op.sub_blocks():
            _check_nesting(op, inner)
            self.block(inner)
        _check_outputs(op)
        inferred = self.infer(op, definition)
        for slot, names in op.outputs.items():
            specs = inferred.get(slot, [])
            for number, name in enumerate(names):
                var = op.block._find_var_recursive(name)
                if var is not None:
                    self.write(op, var, specs[number] if number < len(specs) else None)

    def read(self, op: Operator, slot: str, name: str) -> None:
        """Check that `name` is declared, and written by now."""
        var = op.block._find_var_recursive(name)
        if name == EMPTY_VAR:
            return
        if op.definition is not None and slot in op.definition.outside:
            if var is not None:
                self.specs.setdefault(id(var), var.spec)  # it is there from now on
            return
        if var is None:
            if slot.endswith(GRAD_SUFFIX) and op.type.endswith("_grad"):
                return  # Paddle names the gradient of what nothing reads, and does not declare it
            raise _wrong(
                op,
                f"it reads {name!r}, which no block around it declares"
                f"{did_you_mean(name, op.block.visible_names())}",
            )
        if not (id(var) in self.specs or self.comes_from_outside(var) or self.made_by_owner(op, var)):
            hint = self.late_writer(op, name)
            raise _wrong(op, f"it reads {name!r} before {'anything writes it' if hint is None else hint}")

    def comes_from_outside(self, var: Variable) -> bool:
        """True if the value is there when the run starts, or needs no value."""
        return var.persistable or var.is_data or var.name in self.feeds or var.type in _MADE_ON_THE_WAY

    def made_by_owner(self, op: Operator, var: Variable) -> bool:
        """True if control flow makes the variable: an op lists what its body writes, or puts a step's
        slice into its body.
        """
        return (var.name in op.output_arg_names and bool(op.sub_blocks())) or (
            var.block.idx > 0 and id(var) not in self.last_writers
        )

    def infer(self, op: Operator, definition: Op) -> dict[str, list[Spec]]:
        """Shapes and dtypes of the op's outputs, from those that its inputs hold by now."""
        if definition.shape_rule is None and not op.type.endswith("_grad"):
            return {}
        inputs = {slot: [self.spec(op, name) for name in names] for slot, names in op.inputs.items()}
        try:
            return definition.infer(inputs, op.attrs)
        except (EnforceNotMet, IndexError, ZeroDivisionError) as error:
            raise _wrong(op, str(error)) from None

    def spec(self, op: Operator, name: str) -> Spec | None:
        """The shape and dtype that the variable holds by now, or else its declaration."""
        var = op.block._find_var_recursive(name)
        return None if var is None else self.specs.get(id(var), var.spec)

    def write(self, op: Operator, var: Variable, spec: Spec | None) -> None:
        """Remember the shape that was written, and compare the last write with the declaration."""
        if spec is not None and self.last_writers[id(var)] is op and not _agrees(var, spec):
            raise _wrong(
                op,
                f"{var.name!r} is declared as {var._dtype} {list(var.shape)}, "
                f"and the op makes {spec.dtype} {list(spec.shape)}",
            )
        if spec is None or var.type == VarType.LOD_TENSOR_ARRAY:
            spec = var.spec
        self.specs[id(var)] = spec._replace(lod_level=max(spec.lod_level or 0, var.lod_level))

    @staticmethod
    def late_writer(op: Operator, name: str) -> str | None:
        later = next((other for other in op.block.ops if name in other.output_arg_names), None)
        return None if later is None else f"op {later.type!r} (number {later.idx} of its block) writes it"


def _check_slots(op: Operator, definition: Op) -> None:
    """Slots that must be there; input slots that the op does not know are left to those who saved them."""
    for kind, given, slots in (
        ("input", op.inputs, definition.inputs),
        ("output", op.outputs, definition.outputs),
    ):
        for name, slot in slots.items():
            if not given.get(name) and not slot.optional:
                raise _wrong(op, f"the {kind} slot {name} is empty")
            if len(given.get(name, ())) > 1 and not slot.many:
                raise _wrong(op, f"the {kind} slot {name} takes one variable and has {given[name]}")
    for name, names in op.outputs.items():
        if names and name not in definition.outputs:
            raise _wrong(op, f"it has no output slot {name!r}{did_you_mean(name, definition.outputs)}")


def _check_nesting(op: Operator, inner: Block) -> None:
    ancestor: Block | None = inner.parent
    while ancestor is not None and ancestor is not op.block:
        ancestor = ancestor.parent
    if ancestor is None and inner.forward_block_idx < 0:
        raise _wrong(op, f"it runs block {inner.idx}, whose parent is block {inner.parent_idx}")


def _check_outputs(op: Operator) -> None:
    seen: set[str] = set()
    for name in op.output_arg_names:
        if name in seen and name != EMPTY_VAR:
            raise _wrong(op, f"it writes {name!r} twice")
        seen.add(name)
        if op.block._find_var_recursive(name) is None and name != EMPTY_VAR:
            raise _wrong(op, f"it writes {name!r}, which no block around it declares")


def _agrees(var: Variable, spec: Spec) -> bool:
    """True if a declaration can hold what an op makes.

    No shape and a dimension 0 are what Paddle's programs say where they do not know better, and the rows of
    sequences are only counted at run time. Paddle declares indices and masks as what the layer's input is, so
    only kinds of floating point are told apart.
    """
    if var.type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
        return True
    if var._dtype is not None and is_float(var._dtype) and is_float(spec.dtype) and var._dtype != spec.dtype:
        return False
    declared = var.shape
    found = spec.shape
    if not declared or not found:
        return True
    start = 1 if var.lod_level else 0
    return len(declared) == len(found) and all(
        a <= 0 or b < 0 or a == b for a, b in zip(declared[start:], found[start:], strict=True)
    )


def _wrong(op: Operator, what: str) -> ProgramEditError:
    number = next((index for index, other in enumerate(op.block.ops) if other is op), "?")
    return ProgramEditError(
        f"op {op.type!r} (number {number} of block {op.block.idx}): {what}\n  {op.call_text()}\n"
        f"  built at {op.where}"
    )
