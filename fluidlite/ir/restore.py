"""Putting a program together from its description: variables and ops as a file states them, without the
checks of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fluidlite.base import registry
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FormatError
from fluidlite.base.registry import AttrType
from fluidlite.ir.block import Block
from fluidlite.ir.operator import DEVICE_ATTR, NAMESCOPE_ATTR, ROLE_ATTR, ROLE_VAR_ATTR, Operator, Where
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter, Variable

__all__ = [
    "MAX_BLOCKS",
    "MAX_OPS",
    "MAX_VARS",
    "STAMPS",
    "add_operator",
    "add_variable",
    "check_blocks",
    "check_parents",
    "exact_value",
]

# An op takes 5 bytes in a file and 2 KB in memory: without these limits a file of 60 MB would ask for 24 GB.
MAX_BLOCKS = 1 << 16
MAX_OPS = 1 << 18
MAX_VARS = 1 << 19
MAX_DIM = 1 << 48
MAX_RANK = 64
MAX_NESTED_OPS = 1 << 22

STAMPS: dict[str, Any] = {ROLE_ATTR: 0, ROLE_VAR_ATTR: [], NAMESCOPE_ATTR: "/", DEVICE_ATTR: ""}
"""What every op carries, and what it means when a file leaves it out."""

_LISTS = {
    AttrType.INTS: int,
    AttrType.LONGS: int,
    AttrType.FLOATS: float,
    AttrType.BOOLEANS: bool,
    AttrType.STRINGS: str,
}
_SCALARS = {
    AttrType.INT: int,
    AttrType.LONG: int,
    AttrType.FLOAT: float,
    AttrType.BOOLEAN: bool,
    AttrType.STRING: str,
}


def exact_value(value: Any, attr_type: AttrType) -> Any:
    """An attribute's value as its type has it: 1 as 1.0 where the type is FLOAT, blocks as their numbers."""
    if attr_type == AttrType.BLOCK:
        return int(value.idx)
    if attr_type == AttrType.BLOCKS:
        return [int(block.idx) for block in value]
    return [_LISTS[attr_type](item) for item in value] if attr_type in _LISTS else _SCALARS[attr_type](value)


def add_variable(
    block: Block,
    name: str,
    *,
    kind: VarType,
    dtype: VarType | None,
    shape: tuple[int, ...],
    parameter: bool = False,
    **fields: Any,
) -> Variable:
    """Declare a variable as a file describes it; FormatError where a block has two of a name or the shape
    is absurd.
    """
    if name in block.vars:
        raise FormatError(f"block {block.idx} declares variable {name!r} twice")
    if len(shape) > MAX_RANK or any(not -1 <= dim <= MAX_DIM for dim in shape):
        raise FormatError(
            f"variable {name!r} has an impossible shape of {len(shape)} dimensions: {list(shape[:MAX_RANK])}"
        )
    if not parameter:
        var = Variable(block, type=kind, name=name, shape=shape, dtype=dtype, **fields)
    else:
        if not shape or min(shape) < 0 or dtype is None:
            raise FormatError(f"parameter {name!r} has no complete shape and dtype: {list(shape)}")
        fields.pop("persistable", None)
        var = Parameter(block, type=kind, name=name, shape=shape, dtype=dtype, **fields)
    block.vars[name] = var
    return var


def add_operator(
    block: Block,
    op_type: str,
    inputs: dict[str, list[str]],
    outputs: dict[str, list[str]],
    attrs: Mapping[str, tuple[AttrType, Any]],
    where: Where | None,
    defaults: bool = True,
) -> Operator:
    """Append an op as a file describes it; an unknown type is kept.

    `attrs` maps a name to the type that the file gives, and the value. With `defaults` attributes that the
    file lacks get those of the registry.
    """
    op = Operator.__new__(Operator)
    op.block, op.type, op.where = block, op_type, where
    op.inputs, op.outputs = inputs, outputs
    op.attrs = {name: value for name, (_, value) in attrs.items()}
    op.attr_types = {}
    op.definition = registry.find(op_type)
    declared = op.definition.attr_defs if op.definition is not None and defaults else {}
    for name, default in {
        **{name: attr.default for name, attr in declared.items() if not attr.required},
        **STAMPS,
    }.items():
        if name not in op.attrs:
            op.attrs[name] = list(default) if isinstance(default, list) else default
    for name, (attr_type, _) in attrs.items():
        if op.attr_type(name) != attr_type:
            op.attr_types[name] = attr_type
    block.adopt(len(block.ops), op)
    return op


def check_parents(program: Program) -> None:
    """FormatError where a block's parent or forward block is none of the program's, or the parents go in a
    circle.
    """
    count = len(program.blocks)
    rooted = {-1}
    for block in program.blocks:
        if not -1 <= block.parent_idx < count or not -1 <= block.forward_block_idx < count:
            raise FormatError(
                f"block {block.idx} of {count} names block {block.parent_idx} as its parent and block "
                f"{block.forward_block_idx} as its forward block"
            )
    for block in program.blocks:
        path: set[int] = set()
        index = block.idx
        while index not in rooted:
            if index in path:
                raise FormatError(f"block {index} is its own ancestor")
            path.add(index)
            index = program.blocks[index].parent_idx
        rooted |= path


def check_blocks(program: Program) -> None:
    """FormatError where a block runs itself, directly or through others, or so many others that no walk would
    end.

    Ops that share a sub-block double the ops below them: 60 nested pairs would be 2**60 ops to whoever walks
    them.
    """
    sizes: dict[int, int] = {}
    entered: set[int] = set()
    stack = [block.idx for block in program.blocks]
    while stack:
        index = stack.pop()
        if index in sizes:
            continue
        kids = [kid.idx for op in program.blocks[index].ops for kid in op.sub_blocks()]
        waiting = [kid for kid in set(kids) if kid not in sizes]
        if index in entered and waiting:
            raise FormatError(f"block {index} runs itself")
        entered.add(index)
        if waiting:
            stack.extend([index, *waiting])
            continue
        sizes[index] = len(program.blocks[index].ops) + sum(sizes[kid] for kid in kids)
        if sizes[index] > MAX_NESTED_OPS:
            raise FormatError(f"block {index} unfolds into more than {MAX_NESTED_OPS} ops")
