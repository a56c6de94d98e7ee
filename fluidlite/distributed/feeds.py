"""Batches of random data for a program that nobody has data for: shapes and types from its variables,
ranges from what reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import TranspilerError
from fluidlite.base.registry import Op
from fluidlite.distributed.shares import Values
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.values.tensor import LoDTensor

__all__ = ["data_variables", "random_feeds"]


def random_feeds(program: Program, batch: int, steps: int, sequence: int = 4, seed: int = 0) -> list[Values]:
    """`steps` batches of `batch` samples for everything that `program` is fed; sequences all have `sequence`
    steps.

    Integers lie below the number of rows of the table that they are looked up in, of classes, or of places in
    a one-hot vector; where nothing says how many there are they are 0 or 1. TranspilerError for a program
    that reads its data by itself.
    """
    random = np.random.RandomState(seed)
    block = program.global_block()
    for op in block.ops:
        if any(_is_reader(block, name) for name in (*op.input_arg_names, *op.output_arg_names)):
            raise TranspilerError(
                f"the program cannot be fed, because an op of it reads the data (op {op.type!r}, "
                f"built at {op.where})"
            )
    variables = data_variables(program)
    if not variables:
        raise TranspilerError("the program has no feeds, so there is no batch to divide among the trainers")
    return [
        {var.name: _value(block, var, batch, sequence, random) for var in variables} for _ in range(steps)
    ]


def _is_reader(block: Block, name: str) -> bool:
    var = block._find_var_recursive(name)
    return var is not None and var.type == VarType.READER


def data_variables(program: Program) -> list[Variable]:
    """Variables that a program is fed: those that it reads before it writes them, and that no startup program
    fills.
    """
    block = program.global_block()
    written = set[str]()
    found: dict[str, Variable] = {}
    for op in block.ops:
        for name in _reads(op):
            var = block.vars.get(name)
            if (
                var is not None
                and name not in written
                and not var.persistable
                and var.type == VarType.LOD_TENSOR
            ):
                found[name] = var
        written.update(op.output_arg_names)
    return list(found.values())


def _reads(op: Operator) -> Iterator[str]:
    yield from op.input_arg_names
    for inner in op.sub_blocks():
        for other in inner.ops:
            yield from _reads(other)


def _value(block: Block, var: Variable, batch: int, sequence: int, random: np.random.RandomState) -> Any:
    """A random value of a variable."""
    shape = list(var.shape)
    lengths = list[list[int]]()
    if var.lod_level:
        count = batch
        for level in range(var.lod_level):
            each = sequence if level == var.lod_level - 1 else 2
            lengths.append([each] * count)
            count *= each
        shape = [count, *shape[1:]]
    unknown = [batch, *[sequence] * (len(shape) - 1)]
    filled = [dim if dim >= 0 else size for dim, size in zip(shape, unknown, strict=True)]
    array = _elements(block, var, filled, random)
    if not var.lod_level:
        return array
    value = LoDTensor(array)
    value.set_recursive_sequence_lengths(lengths)
    return value


def _elements(block: Block, var: Variable, shape: list[int], random: np.random.RandomState) -> Any:
    dtype = to_numpy(var.dtype)
    if dtype.kind == "b":
        return random.rand(*shape) < 0.5
    if dtype.kind in "iu":
        # the smallest limit of all readers; 2 where nobody says: 0 and 1 are right almost everywhere
        limits = list(_limits(block, var.name, set()))
        return random.randint(0, max(min(limits, default=2), 1), shape).astype(dtype)
    known = _known_ops(block)
    if any(var.name in op.inputs.get(slot, ()) for op, definition in known for slot in definition.fractions):
        return random.rand(*shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def _limits(block: Block, name: str, seen: set[str]) -> Iterator[int]:
    """Below which numbers the integers of a variable must lie, by the ops that read it or what is made of
    it.
    """
    seen.add(name)
    for op, definition in _known_ops(block):
        if name not in op.input_arg_names:
            continue
        for slot, source in definition.below.items():
            if name in op.inputs.get(slot, ()) and not op.attrs.get("soft_label"):
                yield _count(op, source)
        if definition.moves or op.type == "cast":
            for other in op.output_arg_names:
                if other not in seen:
                    yield from _limits(block, other, seen)


def _known_ops(block: Block) -> list[tuple[Operator, Op]]:
    return [(op, op.definition) for op in block.ops if op.definition is not None]


def _count(op: Operator, source: tuple[str, int] | str) -> int:
    if isinstance(source, str):
        return int(op.attrs[source])
    slot, dim = source
    shape = op.block._var_recursive(op.inputs[slot][0]).shape
    return int(shape[dim]) if shape[dim] > 0 else 2
