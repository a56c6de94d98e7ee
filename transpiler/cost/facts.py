"""Facts that costs are made of: sizes of a program's values, its FLOPs, its peak of activations, and the
parameters and gradients that training moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.flops import flops_of
from fluidlite.ir.operator import Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.parts.op_kinds import is_lookup, update_of

__all__ = ["ROW_ID_BYTES", "Sizes", "Tensor", "TrainingFacts", "peak_activations", "read_facts"]

ROW_ID_BYTES = 8  # the int64 that goes with each row of a sparse gradient


@dataclass(frozen=True)
class Sizes:
    """How large a value is at run time: -1 in front is `batch` samples (times `sequence` steps where there
    is a level of detail).

    Attributes
    ----------
    batch, sequence: samples of one trainer's step, and mean steps of a sample.
    fed: elements of those fed variables of which they are known.
    even: the rows that a step moves of a sparse table are spread evenly over the table, as in a mean step;
        otherwise all of them may lie in one slice, which bounds any step.
    """

    batch: int
    sequence: int = 1
    fed: Mapping[str, int] = field(default_factory=dict)
    even: bool = True

    def shape(self, var: Variable) -> tuple[int, ...]:
        """The shape with its unknown dimensions filled in; further unknown ones are `sequence`."""
        front = self.batch * (self.sequence if var.lod_level else 1)
        unknown = (front, *[self.sequence] * (len(var.shape) - 1))
        return tuple(dim if dim >= 0 else size for dim, size in zip(var.shape, unknown, strict=False))

    def count(self, var: Variable) -> int:
        """The number of elements."""
        known = self.fed.get(var.name)
        return math.prod(self.shape(var)) if known is None else known

    def bytes(self, var: Variable) -> int:
        """The number of bytes; 0 for what is no tensor."""
        if var.type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS) or var._dtype is None or not var.shape:
            return 0
        return self.count(var) * to_numpy(var._dtype).itemsize


class Tensor(NamedTuple):
    """One trained parameter: its size, its optimizer's state, and the rows that one trainer's step moves."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    state_rows: int  # bytes of state that are cut with the parameter
    state_fixed: int  # bytes of state that each slice has its own copy of
    update_ops: int  # ops of role Optimize that are there for it
    rows: int  # rows that a step touches; 0 for a dense gradient
    lookups: int  # ops that look rows up
    even: bool = True  # the rows are spread evenly over the table

    @property
    def sparse(self) -> bool:
        """True if the gradient is rows of the parameter."""
        return self.rows > 0

    def ids_within(self, height: int) -> float:
        """Ids of a step that fall among `height` of the parameter's rows, each as often as it comes."""
        return self.rows * height / self.shape[0] if self.even else self.rows

    def rows_within(self, height: int, steps: int = 1) -> float:
        """Rows that `steps` steps touch among `height` of the parameter's."""
        rows = min(self.rows * steps, self.shape[0]) if steps > 1 else self.rows
        return rows * height / self.shape[0] if self.even else min(rows, height)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.bytes // max(self.shape[0], 1)

    @property
    def state(self) -> int:
        """Bytes of the optimizer's state."""
        return self.state_rows + self.state_fixed


@dataclass(frozen=True)
class TrainingFacts:
    """Facts of the original program about a step of one trainer."""

    tensors: tuple[Tensor, ...]
    other_bytes: int  # of persistable values that no optimizer updates: running means, counters
    schedule_ops: int  # ops of the learning rate's schedule
    forward_flops: int
    backward_flops: int

    @property
    def flops(self) -> int:
        """Multiplications and additions of one step."""
        return self.forward_flops + self.backward_flops


def read_facts(program: Program, sizes: Sizes) -> TrainingFacts:
    """Read the original training program, once."""
    block = program.global_block()
    updates: dict[str, Operator] = {}
    for op in block.ops:
        update = update_of(op)
        if update is not None:
            updates[update[0]] = op
    helpers: dict[str, int] = {}
    lookups: dict[str, list[Operator]] = {}
    gradients: dict[str, str] = {}
    for op in block.ops:
        if op.role == OpRole.Optimize and op.role_vars:
            helpers[op.role_vars[0]] = helpers.get(op.role_vars[0], 0) + 1
        if is_lookup(op):
            lookups.setdefault(op.inputs["W"][0], []).append(op)
        if op.role & OpRole.Backward:
            gradients.update(zip(op.role_vars[::2], op.role_vars[1::2], strict=False))
    # a table that something else reads, too, has a dense gradient, whatever its lookups say
    whole = {param for param, name in gradients.items() if _is_dense(block, name)}
    tensors = tuple(
        _tensor(block, name, op, helpers.get(name, 1), () if name in whole else lookups.get(name, ()), sizes)
        for name, op in updates.items()
    )
    trained = set(updates)
    for op in updates.values():
        trained.update(_state_names(block, op))
    other = sum(
        sizes.bytes(var) for name, var in block.vars.items() if var.persistable and name not in trained
    )
    schedule = sum(bool(op.role & OpRole.LRSched) for op in block.ops)
    counted = [(op.role, flops_of(op, sizes.shape)) for op in block.ops]
    return TrainingFacts(
        tensors,
        other,
        schedule,
        sum(flops for role, flops in counted if not role & OpRole.Backward),
        sum(flops for role, flops in counted if role & OpRole.Backward),
    )


def _is_dense(block: Block, gradient: str) -> bool:
    var = block._find_var_recursive(gradient)
    return var is not None and var.type == VarType.LOD_TENSOR


def _state_names(block: Block, op: Operator) -> Iterator[str]:
    for slot, names in op.inputs.items():
        # one learning rate serves all parameters, so it is no parameter's state
        if slot not in ("Param", "Grad", "LearningRate"):
            for name in names:
                var = block._find_var_recursive(name)
                if var is not None and var.persistable:
                    yield name


def _tensor(
    block: Block, name: str, op: Operator, update_ops: int, lookups: Iterable[Operator], sizes: Sizes
) -> Tensor:
    param = block.var(name)
    rows_of_state = fixed = 0
    for other in _state_names(block, op):
        var = block._var_recursive(other)
        if var.shape == param.shape:
            rows_of_state += sizes.bytes(var)
        else:
            fixed += sizes.bytes(var)
    sparse = [
        lookup for lookup in lookups if lookup.attrs.get("is_sparse") or lookup.attrs.get("is_distributed")
    ]
    rows = sum(_ids(lookup, sizes) for lookup in sparse)
    state = (rows_of_state, fixed)
    return Tensor(name, param.shape, sizes.bytes(param), *state, update_ops, rows, len(sparse), sizes.even)


def _ids(lookup: Operator, sizes: Sizes) -> int:
    var = lookup.block._find_var_recursive(lookup.inputs["Ids"][0])
    return 0 if var is None else max(sizes.count(var), 1)


# ---------------------------------------------------------------------- activations
def peak_activations(program: Program, sizes: Sizes) -> int:
    """The largest sum of bytes that are alive at one op: from the first write (or the feed) to the last use.

    Each output has a buffer of its own, but for the slices of a gradient, which are views; values of
    sub-blocks live as long as the op that runs them.
    """
    block = program.global_block()
    uses = [list(dict.fromkeys(_names(op))) for op in block.ops]
    last = {name: number for number, names in enumerate(uses) for name in names}
    cuts = [op for op in block.ops if op.type == "split_byref"]
    views = {name: op.inputs["X"][0] for op in cuts for name in op.outputs["Out"]}
    for name, whole in views.items():
        last[whole] = max(last[whole], last[name])
    ending: dict[int, list[str]] = {}
    for name, number in last.items():
        ending.setdefault(number, []).append(name)
    written = {name for op in block.ops for name in op.output_arg_names}
    rows: dict[str, int] = {}  # of the sparse gradients made so far
    alive = {name: _held(block, name, sizes, rows) for name in last if name not in written}
    now = peak = sum(alive.values())
    for number, op in enumerate(block.ops):
        _count_rows(block, op, sizes, rows)
        for name in uses[number]:
            if name not in alive:
                alive[name] = 0 if name in views else _held(block, name, sizes, rows)
                now += alive[name]
        peak = max(peak, now)
        now -= sum(alive[name] for name in ending.get(number, ()))
    return peak


def _names(op: Operator) -> Iterator[str]:
    yield from op.input_arg_names
    yield from op.output_arg_names
    for inner in op.sub_blocks():
        for other in inner.ops:
            yield from _names(other)


def _count_rows(block: Block, op: Operator, sizes: Sizes, rows: dict[str, int]) -> None:
    """A look-up's gradient has a row an id; other sparse values have their inputs' rows, cut as the table
    is cut.
    """
    for name in op.output_arg_names:
        var = block._find_var_recursive(name)
        if var is None or var.type != VarType.SELECTED_ROWS:
            continue
        if op.inputs.get("Ids") and op.inputs.get("W"):
            rows[name] = _ids(op, sizes)
            continue
        share = 1.0
        source = block._find_var_recursive(op.input_arg_names[0]) if op.input_arg_names else None
        if op.type == "split_selected_rows" and source is not None and source.shape:
            share = var.shape[0] / source.shape[0]
        rows[name] = math.ceil(share * sum(rows.get(other, 0) for other in op.input_arg_names))


def _held(block: Block, name: str, sizes: Sizes, rows: Mapping[str, int]) -> int:
    var = block._find_var_recursive(name)
    if var is None or var.persistable:
        return 0
    if var.type == VarType.SELECTED_ROWS and var.shape and var._dtype is not None:
        row_bytes = math.prod(var.shape[1:]) * to_numpy(var._dtype).itemsize
        return rows.get(name, 0) * (row_bytes + ROW_ID_BYTES)
    return sizes.bytes(var)
