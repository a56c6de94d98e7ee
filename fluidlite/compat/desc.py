"""Programs under the interface of Paddle's descriptions: `program.desc`, `block.desc`, `var.desc`, `op.desc`.

Each is a thin view: it holds no state, and what is set through it is set on the object that it shows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from fluidlite.base import dtypes, registry
from fluidlite.base.dtypes import DTypeLike, VarType, to_vartype
from fluidlite.base.errors import EnforceNotMet
from fluidlite.base.flags import PROGRAM_VERSION
from fluidlite.base.registry import AttrType, Spec
from fluidlite.ir import proto
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program, copy_operator
from fluidlite.ir.variable import Variable

__all__ = ["BlockDesc", "OpDesc", "ProgramDesc", "VarDesc", "describe", "shown"]


_TENSORS = (VarType.LOD_TENSOR, VarType.SELECTED_ROWS, VarType.LOD_TENSOR_ARRAY)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _texts(names: Sequence[str | bytes]) -> list[str]:
    if not all(isinstance(name, (str, bytes)) for name in names):
        raise TypeError(f"a slot takes names, not {list(names)!r}")
    return [_text(name) for name in names]


class _View:
    """Two views are equal when they show the same object."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _View) and other.target is self.target

    def __hash__(self) -> int:
        return hash(id(self.target))

    def __repr__(self) -> str:
        return repr(self.target)


class ProgramDesc(_View):
    """A program; made from nothing, from bytes, or as a copy of another one."""

    version = PROGRAM_VERSION  # of the class, as in Paddle, until `_set_version` gives one of its own

    def __init__(self, source: Program | ProgramDesc | bytes | None = None) -> None:
        if isinstance(source, ProgramDesc):
            source = source.target.clone()
        elif source is None:
            source = Program()
        elif not isinstance(source, Program):
            source = Program.parse_from_string(source)
        super().__init__(source)

    def block(self, index: int) -> BlockDesc:
        """The block at `index`."""
        return BlockDesc(self.target.blocks[index])

    def num_blocks(self) -> int:
        """The number of blocks."""
        return len(self.target.blocks)

    def append_block(self, parent: BlockDesc) -> BlockDesc:
        """A new block inside `parent`."""
        block = Block(self.target, len(self.target.blocks), parent.target.idx)
        self.target.blocks.append(block)
        self.target.bump_version()
        return BlockDesc(block)

    def serialize_to_string(self) -> bytes:
        """The program as Paddle's bytes."""
        return proto.serialize_program(self.target)

    def parse_from_string(self, data: bytes) -> None:
        """Become the program that `data` describes."""
        self.target.adopt(Program.parse_from_string(data))

    def _version(self) -> int:
        return self.version

    def _set_version(self, version: int = PROGRAM_VERSION) -> None:
        self.version = version

    def flush(self) -> None:
        """Do nothing: Paddle keeps edits back until this call, and here they are made at once."""

    def get_feed_target_names(self) -> list[str]:
        """Names that the feed ops write, by column."""
        return self._columns("feed", Operator.output, "Out")

    def get_fetch_target_names(self) -> list[str]:
        """Names that the fetch ops read, by column."""
        return self._columns("fetch", Operator.input, "X")

    def _columns(self, op_type: str, slot_of: Any, slot: str) -> list[str]:
        ops = [op for op in self.target.global_block().ops if op.type == op_type]
        return [
            name
            for op in sorted(ops, key=lambda op: int(op.attrs.get("col", 0)))
            for name in slot_of(op, slot)
        ]


class BlockDesc(_View):
    """A block."""

    @property
    def id(self) -> int:
        """The position in the program."""
        return int(self.target.idx)

    @property
    def parent(self) -> int:
        """The position of the enclosing block; -1 for none."""
        return int(self.target.parent_idx)

    def get_forward_block_idx(self) -> int:
        """The block whose gradients this one holds; -1 for none."""
        return int(self.target.forward_block_idx)

    def _set_forward_block_idx(self, index: int) -> None:
        self.target._set_forward_block_idx(index)

    def serialize_to_string(self) -> bytes:
        """The block as Paddle's bytes."""
        return proto.serialize_block(self.target)

    # ------------------------------------------------------------------ variables
    def var(self, name: str | bytes) -> VarDesc:
        """The variable `name` of this block, made if it is not there."""
        return VarDesc(self.target.vars.get(_text(name)) or self.target.create_var(name=_text(name)))

    def find_var(self, name: str | bytes) -> VarDesc | None:
        """The variable `name` of this block, or None."""
        found = self.target.vars.get(_text(name))
        return None if found is None else VarDesc(found)

    def find_var_recursive(self, name: str | bytes) -> VarDesc | None:
        """The variable `name` of this block or one around it, or None."""
        found = self.target._find_var_recursive(_text(name))
        return None if found is None else VarDesc(found)

    def has_var(self, name: str | bytes) -> bool:
        """True if this block declares `name`."""
        return _text(name) in self.target.vars

    def has_var_recursive(self, name: str | bytes) -> bool:
        """True if this block or one around it declares `name`."""
        return self.find_var_recursive(name) is not None

    def all_vars(self) -> list[VarDesc]:
        """The variables of this block."""
        return [VarDesc(var) for var in self.target.vars.values()]

    def _rename_var(self, name: str | bytes, new_name: str | bytes) -> None:
        self.target._rename_var(_text(name), _text(new_name))

    def _remove_var(self, name: str | bytes) -> None:
        self.target._remove_var(_text(name))

    # ------------------------------------------------------------------ ops
    def op(self, index: int) -> OpDesc:
        """The op at `index`."""
        return OpDesc(self.target.ops[index])

    def op_size(self) -> int:
        """The number of ops."""
        return len(self.target.ops)

    def append_op(self) -> OpDesc:
        """An op at the end, to be filled in."""
        return self._insert_op(len(self.target.ops))

    def _prepend_op(self) -> OpDesc:
        return self._insert_op(0)

    def _insert_op(self, index: int) -> OpDesc:
        return OpDesc(self.target.adopt(index, _blank(self.target)))

    def _remove_op(self, start: int, end: int) -> None:
        for _ in range(start, end):
            self.target._remove_op(start)


def _blank(block: Block) -> Operator:
    op = Operator(block, type="")
    op.where = None
    return op


class VarDesc(_View):
    """A variable; `VarDesc.VarType` numbers its kinds and dtypes."""

    VarType = VarType

    def __init__(self, target: Variable | str) -> None:
        super().__init__(
            Variable(Program().global_block(), name=target) if isinstance(target, str) else target
        )

    def name(self) -> str:
        """The name."""
        return str(self.target.name)

    def set_name(self, name: str | bytes) -> None:
        """Rename the variable, not the ops that use it."""
        block = self.target.block
        old = self.target.name
        self.target.name = _text(name)
        # the dict is made anew, so that the variable keeps its position under the new name
        if block.vars.get(old) is self.target:
            block.vars = {var.name: var for var in block.vars.values()}

    def type(self) -> dtypes.VarType:
        """The kind."""
        found: dtypes.VarType = self.target.type
        return found

    def set_type(self, kind: dtypes.VarType) -> None:
        """Set the kind."""
        if not isinstance(kind, VarType):
            raise TypeError(f"set_type takes a VarType, not {kind!r}")
        self.target.type = kind

    def serialize_to_string(self) -> bytes:
        """The variable as Paddle's bytes."""
        return proto.serialize_variable(self.target)

    def _need(self, what: str, *kinds: dtypes.VarType) -> None:
        if self.target.type not in kinds:
            raise EnforceNotMet(f"variable {self.target.name!r} of kind {self.target.type} has no {what}")

    def dtype(self) -> dtypes.VarType:
        """The element type."""
        self._need("element type", *_TENSORS)
        found: dtypes.VarType = self.target.dtype
        return found

    def set_dtype(self, dtype: DTypeLike) -> None:
        """Set the element type."""
        if not isinstance(dtype, VarType):
            raise TypeError(f"set_dtype takes a VarType, not {dtype!r}")
        self._need("element type", *_TENSORS)
        self.target.dtype = dtype

    def shape(self) -> list[int]:
        """The dimensions, -1 for an unknown one."""
        self._need("shape", *_TENSORS)
        return list(self.target.shape)

    get_shape = shape

    def set_shape(self, shape: Sequence[int]) -> None:
        """Set the dimensions."""
        self._need("shape", *_TENSORS)
        self.target.shape = shape

    def lod_level(self) -> int:
        """The number of levels of detail."""
        self._need("level of detail", VarType.LOD_TENSOR, VarType.LOD_TENSOR_ARRAY)
        return int(self.target.lod_level)

    def set_lod_level(self, level: int) -> None:
        """Set the number of levels of detail."""
        self._need("level of detail", VarType.LOD_TENSOR, VarType.LOD_TENSOR_ARRAY)
        self.target.lod_level = level

    def persistable(self) -> bool:
        """True if the value outlives a run."""
        return bool(self.target.persistable)

    def set_persistable(self, persistable: bool) -> None:
        """Set whether the value outlives a run."""
        self.target.persistable = persistable

    def need_check_feed(self) -> bool:
        """True if what is fed must have the declared shape."""
        return bool(self.target.need_check_feed)

    def set_need_check_feed(self, need: bool) -> None:
        """Set whether what is fed must have the declared shape."""
        self.target.need_check_feed = bool(need)

    # ------------------------------------------------------------------ of a reader
    def shapes(self) -> list[list[int]]:
        """The shapes of what a reader reads."""
        self._need("shapes", VarType.READER)
        return [list(spec.shape) for spec in self.target.reader_specs]

    def set_shapes(self, shapes: Iterable[Sequence[int]]) -> None:
        """Set the shapes of what a reader reads."""
        self._set_reader("shape", [tuple(int(dim) for dim in shape) for shape in shapes])

    def dtypes(self) -> list[Any]:
        """The element types of what a reader reads."""
        self._need("element types", VarType.READER)
        return [spec.dtype for spec in self.target.reader_specs]

    def set_dtypes(self, dtypes: Iterable[DTypeLike]) -> None:
        """Set the element types of what a reader reads."""
        self._set_reader("dtype", [to_vartype(dtype) for dtype in dtypes])

    def lod_levels(self) -> list[int]:
        """The levels of detail of what a reader reads."""
        self._need("levels of detail", VarType.READER)
        return [spec.lod_level or 0 for spec in self.target.reader_specs]

    def set_lod_levels(self, levels: Iterable[int]) -> None:
        """Set the levels of detail of what a reader reads."""
        self._set_reader("lod_level", [int(level) for level in levels])

    def _set_reader(self, field: str, values: list[Any]) -> None:
        self._need(f"{field}s", VarType.READER)
        known = list(self.target.reader_specs)
        if len(known) != len(values):
            known = [Spec((), VarType.BOOL, 0)] * len(values)
        self.target.reader_specs = tuple(
            spec._replace(**{field: value}) for spec, value in zip(known, values, strict=True)
        )


class OpDesc(_View):
    """An op; made from nothing it stands in a program of its own."""

    def __init__(self, target: Operator | None = None) -> None:
        super().__init__(_blank(Program().global_block()) if target is None else target)

    def type(self) -> str:
        """The op type."""
        return str(self.target.type)

    def serialize_to_string(self) -> bytes:
        """The op as Paddle's bytes."""
        return proto.serialize_operator(self.target)

    def set_type(self, op_type: str) -> None:
        """Set the op type."""
        self.target.type, self.target.definition = op_type, registry.find(op_type)

    def block(self) -> BlockDesc:
        """The block that contains the op."""
        return BlockDesc(self.target.block)

    def become(self, op: Operator) -> None:
        """Show, where this op stands, a copy of another one."""
        block = self.target.block
        self.target.__dict__.update(copy_operator(op, block).__dict__)
        block.program.bump_version()

    def copy_from(self, other: OpDesc) -> None:
        """Become a copy of another op."""
        self.become(other.target)

    # ------------------------------------------------------------------ slots
    def input(self, slot: str) -> list[str]:
        """Names in an input slot."""
        return list(self.target.input(slot))

    def output(self, slot: str) -> list[str]:
        """Names in an output slot."""
        return list(self.target.output(slot))

    def inputs(self) -> dict[str, list[str]]:
        """Input slot -> names."""
        return {slot: list(names) for slot, names in self.target.inputs.items()}

    def outputs(self) -> dict[str, list[str]]:
        """Output slot -> names."""
        return {slot: list(names) for slot, names in self.target.outputs.items()}

    def input_names(self) -> list[str]:
        """The input slots; of a forward op those without a variable as well."""
        return self.target.input_names

    def output_names(self) -> list[str]:
        """The output slots."""
        return list(self.target.outputs)

    def input_arg_names(self) -> list[str]:
        """All names read."""
        return list(self.target.input_arg_names)

    def output_arg_names(self) -> list[str]:
        """All names written."""
        return list(self.target.output_arg_names)

    def set_input(self, slot: str, names: Sequence[str]) -> None:
        """Set the names in an input slot."""
        self.target.set_input(slot, _texts(names))

    def set_output(self, slot: str, names: Sequence[str]) -> None:
        """Set the names in an output slot."""
        self.target.set_output(slot, _texts(names))

    def _rename_input(self, old: str, new: str) -> None:
        self.target._rename_input(old, new)

    def _rename_output(self, old: str, new: str) -> None:
        self.target._rename_output(old, new)

    # ------------------------------------------------------------------ attributes
    def attr(self, name: str) -> Any:
        """The value of an attribute; a sub-block as a BlockDesc."""
        value = self.target.attr(name)
        kind = self.target.attr_type(name)
        if kind == AttrType.BLOCK:
            return BlockDesc(value)
        return [BlockDesc(block) for block in value] if kind == AttrType.BLOCKS else value

    def attr_names(self) -> list[str]:
        """Names of the attributes."""
        return list(self.target.attr_names)

    def has_attr(self, name: str) -> bool:
        """True if the op carries the attribute."""
        return bool(self.target.has_attr(name))

    def attr_type(self, name: str) -> AttrType:
        """The type of an attribute."""
        found: AttrType = self.target.attr_type(name)
        return found

    def _set_attr(self, name: str, value: Any) -> None:
        self.target._set_attr(name, value)

    def remove_attr(self, name: str) -> None:
        """Take an attribute away."""
        self.target._remove_attr(name)

    def set_block_attr(self, name: str, block: BlockDesc) -> None:
        """Set an attribute to a block."""
        self.target._set_attr(name, block.target)

    def set_blocks_attr(self, name: str, blocks: Sequence[BlockDesc]) -> None:
        """Set an attribute to a list of blocks."""
        self.target._set_attr(name, [block.target for block in blocks])

    def _block_attr_id(self, name: str) -> int:
        index: int = self.target._block_attr_id(name)
        return index

    def _blocks_attr_ids(self, name: str) -> list[int]:
        indices: list[int] = self.target._blocks_attr_ids(name)
        return indices

    # ------------------------------------------------------------------ checks
    def check_attrs(self) -> None:
        """Give missing attributes their defaults; ValueError for one that has none."""
        self.target._fill_attrs(registry.get(self.target.type))

    def infer_var_type(self, block: BlockDesc) -> None:
        """Set the outputs' kinds and dtypes from the inputs', whose shapes need not fit yet."""
        with contextlib.suppress(EnforceNotMet):
            self.target.infer()

    def infer_shape(self, block: BlockDesc) -> None:
        """Set the outputs' shapes, dtypes and levels of detail from the inputs'; UnknownOpError for a type
        that is not registered.
        """
        registry.get(self.target.type)
        self.target.infer()

    def set_is_target(self, is_target: bool) -> None:
        """Do nothing: pruning takes its targets as arguments here, not from marks on ops."""


def shown(target: Any) -> Any:
    """The object that a view shows; anything else as it is."""
    return target.target if isinstance(target, _View) else target


def describe(target: Program | Block | Variable | Operator) -> ProgramDesc | BlockDesc | VarDesc | OpDesc:
    """The view of a program or of one of its parts: `program.desc` and its like."""
    if isinstance(target, Program):
        return ProgramDesc(target)
    if isinstance(target, Block):
        return BlockDesc(target)
    return VarDesc(target) if isinstance(target, Variable) else OpDesc(target)
