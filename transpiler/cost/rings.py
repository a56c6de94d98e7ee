"""The cost of a step of collective jobs: what one rank sends around its rings, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.base.comm_kind import CommKind
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.transpiler.cost.facts import ROW_ID_BYTES, Sizes, Tensor, TrainingFacts, peak_activations
from fluidlite.transpiler.cost.model import CostCase, CostRow, Load, StepCost, Traffic, total
from fluidlite.transpiler.parts.op_kinds import is_collective
from fluidlite.transpiler.parts.roles import TRAINER, JobRole, Programs

__all__ = ["all_reduce", "collectives_of", "cost_of_ranks", "reduce_all", "ring_load"]


def ring_load(kind: CommKind | None, size: float, count: int) -> Load:
    """One rank's part in a collective op of a `kind`, of `size` bytes, over a ring of `count` ranks.

    An all-reduce sends 2 (n - 1) messages of 1/n of the bytes; a reduce-scatter or all-gather half of that; a
    broadcast or a reduction passes everything on once, in pieces: n - 1 messages.
    """
    if count < 2:
        return Load()
    if kind in (CommKind.ALL_REDUCE, CommKind.SHARED_SUM):
        return all_reduce(size, count)
    if kind is CommKind.ALL_GATHER:
        return Load((count - 1) * size, (count - 1) * size, count - 1)
    if kind in (CommKind.REDUCE_SCATTER, CommKind.ALL_TO_ALL, CommKind.PART_GATHER):
        return Load((count - 1) / count * size, (count - 1) / count * size, count - 1)
    return Load(size, size, count - 1)


def all_reduce(size: float, count: int) -> Load:
    """One rank's part in an all-reduce of `size` bytes over a ring of `count` ranks."""
    if count < 2:
        return Load()
    share = 2 * (count - 1) / count * size
    return Load(share, share, 2 * (count - 1))


def _in_two_levels(size: float, count: int, group: int) -> Load:
    """The leader's part of an all-reduce in groups of `group`: reduced in the group, all-reduced among
    leaders, broadcast in the group.
    """
    within = ring_load(CommKind.REDUCE, size, group) + ring_load(CommKind.BROADCAST, size, group)
    return within + all_reduce(size, count // group)


def reduce_all(facts: TrainingFacts, count: int, group: int = 0) -> Load:
    """One all-reduce for each parameter's gradient, in groups of `group` first where that is more than 1.

    Rows of a sparse gradient cannot be added place by place: every rank gets the rows of all.
    """

    def load(tensor: Tensor) -> Load:
        if tensor.sparse:
            return ring_load(CommKind.ALL_GATHER, tensor.rows * (tensor.row_bytes + ROW_ID_BYTES), count)
        if group > 1:
            return _in_two_levels(tensor.bytes, count, group)
        return all_reduce(tensor.bytes, count)

    return total(map(load, facts.tensors))


def ring_sizes(startup: Program) -> dict[int, int]:
    """The number of ranks of each ring that a startup program joins."""
    found = {}
    for op in startup.global_block().ops:
        if op.type == "c_comm_init":
            found[int(op.attrs["ring_id"])] = int(op.attrs["nranks"])
    return found


def collectives_of(programs: Programs, sizes: Sizes, count: int, number: int = 0) -> Load:
    """One rank's part in all collectives of a block of its main program, and what it sends to one rank and
    gets from one, read off the ops; `count` ranks are in a ring that the startup program does not join.
    """
    block = programs.main.blocks[number]
    ranks = ring_sizes(programs.startup)
    parts = {
        op.outputs["FusedOutput"][0]: op.outputs["Output"] for op in block.ops if op.type == "coalesce_tensor"
    }

    def size(op: Operator) -> int:
        names = [part for name in op.input_arg_names for part in parts.get(name, [name])]
        return sum(sizes.bytes(block._var_recursive(name)) for name in names)

    def load(op: Operator) -> Load:
        if op.communicates is CommKind.RECEIVE:
            coming = sum(sizes.bytes(block._var_recursive(name)) for name in op.output_arg_names)
            return Load(0.0, coming / op.attrs.get("num", 1), 0)
        if op.communicates is CommKind.SEND:
            return Load(size(op) / op.attrs.get("num", 1), 0.0, 1)
        return ring_load(op.communicates, size(op), ranks.get(op.attrs.get("ring_id", 0), count))

    ends = (CommKind.SEND, CommKind.RECEIVE)
    return total(load(op) for op in block.ops if is_collective(op) or op.communicates in ends)


def cost_of_ranks(case: CostCase, main: Program, count: int, load: Load, kept: int = 0) -> StepCost:
    """The cost of a step of `count` ranks that all run `main`, each with this load; `kept` bytes besides
    parameters and the optimizer's state outlive a step.
    """
    tensors = case.facts.tensors
    port_s = case.port.both_ways(load)
    row = CostRow(
        kind=TRAINER,
        first=0,
        last=count - 1,
        ops=sum(len(block.ops) for block in main.blocks),
        parameters=sum(tensor.bytes for tensor in tensors) + case.facts.other_bytes,
        state=sum(tensor.state for tensor in tensors) + kept,
        activations=peak_activations(main, case.sizes),
        bytes_out=load.out,
        bytes_in=load.into,
        messages=load.messages,
        seconds=case.compute_s + port_s,
    )
    links: Sequence[Traffic] = ()
    if count > 1:
        first = JobRole(TRAINER, 0).name
        second = JobRole(TRAINER, 1).name
        links = (Traffic(first, second, load.out, load.messages),)
    return StepCost(case.compute_s + port_s, row.role, tuple(links), (row,))
