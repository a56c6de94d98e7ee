"""`--summary`: the layers of a program as a table, with shapes, parameters and FLOPs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.cli.tables import amount
from fluidlite.distributed.tables import table
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.transpiler.cost.facts import Sizes, flops_of

__all__ = ["summary_text", "with_shapes"]


def summary_text(program: Program, batch: int = 1, sequence: int = 1, colour: bool = False) -> str:
    """A row for each op of the forward pass, and totals; the FLOPs are those of `batch` samples of `sequence`
    steps.
    """
    sizes = Sizes(batch, sequence)
    seen: set[str] = set()
    rows = [_row(op, sizes, seen) for op in _forward(program)]
    whole = _parameters(program)
    trained = sum(_count(var) for var in whole if getattr(var, "trainable", True))
    count = sum(map(_count, whole))
    bytes_of = sum(sizes.bytes(var) for var in whole)
    flops = sum(flops_of(op, sizes) for op in _forward(program))
    others = sum(1 for block in program.blocks for op in block.ops if not _is_forward(op))
    said = table(["layer", "output", "shape", "parameters", "FLOPs"], rows, 3, colour)
    said += f"\nparameters: {count:,} ({amount(bytes_of)})"
    said += f", of which {count - trained:,} are not trained\n" if count != trained else "\n"
    samples = "1 sample" if batch == 1 else f"{batch} samples"
    said += f"FLOPs: {flops:,} for {samples}: multiplications and additions of products and convolutions\n"
    return said + (f"{others} ops of the backward pass and of updates\n" if others else "")


def _forward(program: Program) -> Iterator[Operator]:
    for block in program.blocks:
        yield from (op for op in block.ops if not op.is_boundary and _is_forward(op))


def _is_forward(op: Operator) -> bool:
    return not op.role & (OpRole.Backward | OpRole.Optimize | OpRole.LRSched | OpRole.RPC)


def _row(op: Operator, sizes: Sizes, seen: set[str]) -> list[str]:
    """A parameter that several layers share counts at the first."""
    known = {var.name for var in _parameters(op.block.program)} - seen
    own = [var for var in _variables(op, op.input_arg_names) if var.name in known]
    seen.update(var.name for var in own)
    result = _result(op)
    name, shape = (result.name, result.shape) if result else ("-", ())
    shown = ", ".join("None" if size < 0 else str(size) for size in shape)
    count, flops = sum(map(_count, own)), flops_of(op, sizes)
    return [op.type, name, f"[{shown}]", f"{count:,}" if count else "", f"{flops:,}" if flops else ""]


def _result(op: Operator) -> Variable | None:
    """The variable of the first output slot that the op declares: files may list statistics first."""
    declared = op.definition.outputs if op.definition is not None else op.outputs
    names = [name for slot in declared for name in op.outputs.get(slot, ())]
    return next((var for var in _variables(op, names) if not var.persistable), None)


def with_shapes(program: Program, shapes: Mapping[str, Sequence[int]]) -> Program:
    """A copy of the program with these shapes of inputs, and the shapes that follow from them."""
    if not shapes:
        return program
    copy = program.clone()
    block = copy.global_block()
    for name, shape in shapes.items():
        block.var(name).shape = tuple(shape)
    for op in block.ops:
        if op.definition is not None and not op.is_boundary:
            op.infer()
    return copy


def _variables(op: Operator, names: list[str]) -> Iterator[Variable]:
    for name in names:
        var = op.block._find_var_recursive(name)
        if var is not None:
            yield var


def _parameters(program: Program) -> list[Variable]:
    # a saved model does not say which of its persistable variables are parameters
    holders = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST)
    kept = [var for var in program.list_vars() if var.persistable and var.type not in holders]
    return [var for var in kept if isinstance(var, Parameter)] or kept


def _count(var: Variable) -> int:
    return math.prod(var.shape)
