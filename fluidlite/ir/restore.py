"""Putting a program together from its description: variables and ops as a file states them, without the
checks of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fluidlite.base import registry
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FormatError
from fluidlite.base.registry import OF_2X_ATTR, AttrType
from fluidlite.ir.attributes import STAMPS
from fluidlite.ir.operator import Operator
from fluidlite.ir.variable import Variable
from fluidlite.ir.where import Where

if TYPE_CHECKING:
    from fluidlite.ir.block import Block

__all__ = ["MAX_BLOCKS", "MAX_OPS", "MAX_VARS", "add_operator", "add_variable"]

# An op takes 5 bytes in a file and 2 KB in memory: without these limits a file of 60 MB would ask for 24 GB.
MAX_BLOCKS = 1 << 16
MAX_OPS = 1 << 18
MAX_VARS = 1 << 19
MAX_DIM = 1 << 48
MAX_RANK = 64


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
        make = block.program.variable_type
        var = make(block, type=kind, name=name, shape=shape, dtype=dtype, **fields)
    else:
        if not shape or min(shape) < 0 or dtype is None:
            raise FormatError(f"parameter {name!r} has no complete shape and dtype: {list(shape)}")
        # a parameter is persistable by definition, whatever the file says
        fields.pop("persistable", None)
        of_parameter = block.program.parameter_type
        var = of_parameter(block, type=kind, name=name, shape=shape, dtype=dtype, **fields)
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
    # past `__init__`, which looks for the user's line: an op of a file has its own
    op = Operator.__new__(Operator)
    op.block = block
    op.type = op_type
    op.where = where
    op.inputs = inputs
    op.outputs = outputs
    op.attrs = {name: value for name, (_, value) in attrs.items()}
    op.attr_types = {}
    op.definition = registry.find(op_type)
    declared = op.definition.attr_defs if op.definition is not None and defaults else {}
    for name, default in {
        **{name: attr.default for name, attr in declared.items() if not attr.required and not attr.later},
        **STAMPS,
    }.items():
        if name not in op.attrs:
            op.attrs[name] = list(default) if isinstance(default, list) else default
    if OF_2X_ATTR in declared and block.program.is_of_2x:
        op.attrs[OF_2X_ATTR] = True
    for name, (attr_type, _) in attrs.items():
        # only what differs from the declaration is kept: it is written back as it was read
        if op.attr_type(name) != attr_type:
            op.attr_types[name] = attr_type
    block.adopt(len(block.ops), op)
    return op
