"""One program's ops inside another: what a saved model computes, as a part of a program that is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fluidlite import unique_name
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program, copy_operator, copy_variable
from fluidlite.ir.where import user_location

__all__ = ["inline"]


def inline(source: Program, target: Block, given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Append what `source` computes to `target`, a block of another program, and return variable -> its name
    there.

    given: variables of `source` that are in sight of `target` already, such as its inputs and its weights.
    All others get the name `prefix`.name, or one like it that is free. Shapes are inferred again, so that
    an input that does not fit is an error of the op that reads it. Feed and fetch ops stay behind.

    A name stands for one variable in all blocks of `source`: loops tie the variables of their bodies to those
    outside by name, and stay tied.
    """
    names = dict(given)
    known = {name for block in target.program.blocks for name in block.vars}
    for var in source.list_vars():
        if var.name not in names:
            wanted = f"{prefix}.{var.name}"
            names[var.name] = unique_name.generate(wanted) if wanted in known else wanted
    _append(source.global_block(), target, names, given)
    return names


def _append(source: Block, target: Block, names: Mapping[str, str], given: Collection[str] = ()) -> None:
    ops = [op for op in source.ops if not op.is_boundary]
    holders = {name for op in source.ops if op.is_boundary for name in _own_names(op)}
    for var in source.vars.values():
        if var.name not in given and var.name not in holders:
            copy = copy_variable(var, target)
            copy.name = names[var.name]
            target.vars[copy.name] = copy
    for op in ops:
        copy_of_op = _copied(op, target, names)
        copy_of_op.infer()
        target.adopt(len(target.ops), copy_of_op)


def _own_names(op: Operator) -> list[str]:
    """The variable of a program's end that holds what is fed or fetched."""
    return op.input_arg_names if op.type == "feed" else op.output_arg_names


def _copied(op: Operator, target: Block, names: Mapping[str, str]) -> Operator:
    """An op with its blocks, under the new names."""
    blocks = {inner.idx: _copied_block(inner, target, names) for inner in op.sub_blocks()}
    # past its blocks, which `copy_operator` would look up by their numbers in the other program
    plain = {name: value for name, value in op.attrs.items() if not _holds_blocks(value)}
    bare = Operator.__new__(Operator)
    bare.__dict__.update(op.__dict__)
    # files of inference have no lines
    bare.where = op.where or user_location()
    bare.attrs = {name: _renamed(value, names) if blocks else value for name, value in plain.items()}
    made = copy_operator(bare, target)
    for name, value in op.attrs.items():
        if isinstance(value, Block):
            made.attrs[name] = blocks[value.idx]
        elif name not in plain:
            made.attrs[name] = [blocks[inner.idx] for inner in value]
    for slots in (made.inputs, made.outputs):
        for slot, found in slots.items():
            slots[slot] = [name if name == EMPTY_VAR else names[name] for name in found]
    return made


def _copied_block(source: Block, parent: Block, names: Mapping[str, str]) -> Block:
    program = parent.program
    current = program.current_block_idx
    made = program._create_block(parent_idx=parent.idx)
    program.current_block_idx = current
    _append(source, made, names)
    return made


def _holds_blocks(value: Any) -> bool:
    return isinstance(value, Block) or (isinstance(value, list) and any(isinstance(v, Block) for v in value))


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Names of variables in an attribute of a loop, such as the states of `recurrent`."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value
