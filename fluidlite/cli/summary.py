"""`--summary`: the layers of a program as a table, with shapes, parameters and FLOPs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from fluidlite.base.dtypes import VarType
from fluidlite.base.units import amount
from fluidlite.distributed.tables import table
from fluidlite.ir.flops import flops_of
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Parameter, Variable
from fluidlite.transpiler.cost.facts import Sizes

__all__ = ["summary_text"]

_HEADS = ("layer", "ops", "output shape", "parameters", "FLOPs")


def summary_text(program: Program, batch: int = 1, sequence: int = 1, colour: bool = False) -> str:
    """A row for each layer of the forward pass, and totals; FLOPs and bytes are those of `batch` samples of
    `sequence` steps.
    """
    sizes = Sizes(batch, sequence)
    seen: set[str] = set()
    layers = list(_layers(program))
    said = table(_HEADS, [_row(ops, sizes, seen) for ops in layers], 2, colour)
    whole = _parameters(program)
    trained = sum(_count(var) for var in whole if getattr(var, "trainable", True))
    count = sum(map(_count, whole))
    bytes_of = sum(sizes.bytes(var) for var in whole)
    said += f"\nparameters: {count:,} ({amount(bytes_of)})"
    said += f", of which {count - trained:,} are not trained\n" if count != trained else "\n"
    flops = sum(flops_of(op, sizes.shape) for op in _forward(program))
    samples = "1 sample" if batch == 1 else f"{batch} samples"
    said += f"FLOPs: {flops:,} for {samples}: multiplications and additions of products and convolutions\n"
    inputs = sum(map(sizes.bytes, _inputs(program)))
    outputs = sum(sizes.bytes(result) for ops in layers if (result := _result(ops[-1])) is not None)
    sums = ("inputs", inputs), ("outputs of layers", outputs), ("parameters", bytes_of)
    parts = ", ".join(f"{name} {amount(size)}" for name, size in sums)
    said += f"memory for {samples}: {parts}, together {amount(inputs + outputs + bytes_of)}\n"
    others = sum(1 for block in program.blocks for op in block.ops if not _is_forward(op))
    return said + (f"{others} ops of the backward pass and of updates\n" if others else "")


def _layers(program: Program) -> Iterator[list[Operator]]:
    """The ops of each layer: those side by side whose results have its name."""
    for _, ops in itertools.groupby(_forward(program), _layer_of):
        yield list(ops)


def _layer_of(op: Operator) -> str:
    result = _result(op)
    # `fc_0.tmp_1`: a layer's helper names its results so
    return f"op {op.idx}" if result is None else result.name.partition(".tmp_")[0]


def _inputs(program: Program) -> Iterator[Variable]:
    """The variables that ops read and none writes."""
    block = program.global_block()
    ops = [op for op in block.ops if not op.is_boundary]
    written = {name for op in ops for name in op.output_arg_names}
    read = dict.fromkeys(name for op in ops for name in op.input_arg_names if name not in written)
    found = (block.vars.get(name) for name in read)
    yield from (var for var in found if var is not None and not var.persistable)


def _forward(program: Program) -> Iterator[Operator]:
    for block in program.blocks:
        yield from (op for op in block.ops if not op.is_boundary and _is_forward(op))


def _is_forward(op: Operator) -> bool:
    return not op.role & (OpRole.Backward | OpRole.Optimize | OpRole.LRSched | OpRole.RPC)


def _row(ops: Sequence[Operator], sizes: Sizes, seen: set[str]) -> list[str]:
    """A parameter that several layers share counts at the first."""
    known = {var.name for var in _parameters(ops[0].block.program)} - seen
    names = dict.fromkeys(name for op in ops for name in op.input_arg_names)
    own = [var for var in _variables(ops[0], names) if var.name in known]
    seen.update(var.name for var in own)
    result = _result(ops[-1])
    shown = ", ".join(
        "None" if size < 0 else str(size) for size in (result.shape if result is not None else ())
    )
    count, flops = sum(map(_count, own)), sum(flops_of(op, sizes.shape) for op in ops)
    layer = ops[0].type if result is None else result.name.partition(".tmp_")[0]
    types = ", ".join(f"{number} {kind}" if number > 1 else kind for kind, number in _counted(ops))
    return [layer, types, f"[{shown}]", f"{count:,}" if count else "", f"{flops:,}" if flops else ""]


def _counted(ops: Sequence[Operator]) -> Iterable[tuple[str, int]]:
    return Counter(op.type for op in ops).items()


def _result(op: Operator) -> Variable | None:
    """The variable of the first output slot that the op declares: files may list statistics first."""
    declared = op.definition.outputs if op.definition is not None else op.outputs
    names = [name for slot in declared for name in op.outputs.get(slot, ())]
    return next((var for var in _variables(op, names) if not var.persistable), None)


def _variables(op: Operator, names: Iterable[str]) -> Iterator[Variable]:
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
