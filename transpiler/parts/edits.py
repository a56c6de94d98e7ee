"""Edits of a whole program that the modes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fluidlite.ir.block import Block
from fluidlite.ir.operator import NAMESCOPE_ATTR, ROLE_VAR_ATTR, Operator
from fluidlite.ir.program import Program, copy_operator, copy_variable
from fluidlite.ir.variable import Variable

__all__ = [
    "append_op",
    "declare_copies",
    "declare_like",
    "drop_ops",
    "drop_variables",
    "mapped_copy",
    "names_in_use",
    "rename_variables",
]


def rename_variables(program: Program, names: Mapping[str, str]) -> None:
    """Give variables new names, in every op and in what the ops say of parameters and gradients, in one pass.

    Sub-blocks keep theirs: a loop's gradient op finds what its body makes under the plain names, and hands it
    out under others.
    """
    if not names:
        return
    block = program.global_block()
    for old in [name for name in block.vars if name in names]:
        var = block.vars.pop(old)
        var.name = names[old]
        block.vars[var.name] = var
    for op in block.ops:
        map_names(op, names)
    program.bump_version()


def map_names(op: Operator, names: Mapping[str, str]) -> None:
    """Write other names into an op's slots and role variables."""
    for slots in (op.inputs, op.outputs):
        for slot, given in slots.items():
            slots[slot] = [names.get(name, name) for name in given]
    if op.attrs.get(ROLE_VAR_ATTR):
        op.attrs[ROLE_VAR_ATTR] = [names.get(name, name) for name in op.attrs[ROLE_VAR_ATTR]]


def mapped_copy(op: Operator, block: Block, names: Mapping[str, str], roles: Mapping[str, str]) -> Operator:
    """A copy of an op without sub-blocks in another program's block, at its end: `names` for its slots,
    `roles` for its role variables.
    """
    copy = copy_operator(op, block)
    copy.attrs[ROLE_VAR_ATTR] = [roles.get(name, name) for name in op.role_vars]
    # as in fluid: name scopes are the trainer's
    copy.attrs[NAMESCOPE_ATTR] = "/"
    for slots in (copy.inputs, copy.outputs):
        for slot, given in slots.items():
            slots[slot] = [names.get(name, name) for name in given]
    return block.adopt(len(block.ops), copy)


def drop_ops(block: Block, dropped: Iterable[Operator]) -> None:
    """Remove ops of a block in one pass, whoever reads what they wrote."""
    gone = set(dropped)
    block.set_ops([op for op in block.ops if op not in gone])


def names_in_use(block: Block) -> set[str]:
    """Names that the ops of a block, and of the blocks that these run, read or write."""
    names: set[str] = set()
    waiting = [block]
    while waiting:
        for op in waiting.pop().ops:
            names.update(op.input_arg_names)
            names.update(op.output_arg_names)
            waiting += op.sub_blocks()
    return names


def drop_variables(block: Block, names: Iterable[str]) -> None:
    """Remove declarations that no op which runs needs any more."""
    used = names_in_use(block)
    for name in names:
        if name not in used:
            block.vars.pop(name, None)
    block.program.bump_version()


def declare_like(
    block: Block,
    var: Variable,
    name: str | None = None,
    shape: Sequence[int] | None = None,
    persistable: bool = True,
) -> Variable:
    """Declare a variable as `var` is, under its own or another name and shape; one that is there already
    stays.
    """
    name = name or var.name
    if name not in block.vars:
        block.vars[name] = Variable(
            block,
            type=var.type,
            name=name,
            shape=var.shape if shape is None else tuple(shape),
            dtype=var._dtype,
            lod_level=var.lod_level,
            persistable=persistable,
        )
    return block.vars[name]


def declare_copies(block: Block, var: Variable, names: Iterable[str]) -> None:
    """Declare many variables just as `var`, which `declare_like` made: a server of a thousand trainers has
    as many for each slice.
    """
    for name in names:
        copy = copy_variable(var, block)
        # past `Variable.__init__`, which would check the same declaration a thousand times
        copy.name = name
        block.vars[name] = copy


def append_op(
    block: Block,
    type: str,
    inputs: Mapping[str, list[str]],
    outputs: Mapping[str, list[str]],
    like: Operator,
    **attrs: object,
) -> Operator:
    """A new op at the end, from the user's line of `like`; its outputs are declared as they shall be, so
    nothing is inferred.
    """
    op = Operator.build(block, type, inputs, outputs, attrs)
    op.where = like.where
    return block.adopt(len(block.ops), op)
