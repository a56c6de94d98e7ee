"""Reductions over trainers, for main programs that leave them to the runtime (as in mode "nccl2").

The job's startup program names communicators (`gen_nccl_id`), and a plain run of its main program reduces
nothing: fluid's runtime did it after the program's own ops. Here ops are added that do.

| rings | who | where the name is |
|---|---|---|
| 0 ... n - 1 | all trainers | NCCLID, NCCLID_1, ... |
| n ... 2n - 1 | the trainers of one group | Hierarchical_inter_NCCLID_0, ... |
| 2n ... 3n - 1 | the first trainer of each group | Hierarchical_exter_NCCLID_0, ... |
"""

from __future__ import annotations

from typing import Any

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import TranspilerError
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.roles import Programs
from fluidlite.transpiler.rings.gradients import reduce_gradients
from fluidlite.transpiler.rings.nccl2 import flat_id, inner_id, outer_id

__all__ = ["Trainers", "reduce_in_two_levels", "reduce_over_trainers"]


@dataclass(frozen=True)
class Trainers:
    """Trainer `index` of `count`, with `rings` communicators; `group` > 0: gradients are reduced within
    groups of so many first.
    """

    index: int
    count: int
    rings: int = 1
    group: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count or self.rings < 1:
            raise TranspilerError(
                f"there is no trainer {self.index} of {self.count} with {self.rings} communicators"
            )
        if self.group and (self.group < 2 or self.count % self.group or self.count == self.group):
            raise TranspilerError(
                f"hierarchical_allreduce_inter_nranks is {self.group}, which cannot divide the "
                f"{self.count} trainers into several groups"
            )

    @property
    def leads(self) -> bool:
        """True for the first trainer of a group, which speaks for it."""
        return bool(self.group) and self.index % self.group == 0


def reduce_over_trainers(
    main: Program, trainers: Trainers, devices: int = 1, bucket_bytes: int = 0
) -> Programs:
    """`main` with its gradients averaged over the trainers, and a startup program that joins the rings and
    gives all trainers the variables of trainer 0.

    Parameters
    ----------
    main: a program that does not reduce its gradients; it stays as it is.
    devices: how many devices each trainer has: the loss gradient is divided by trainers x devices.
    bucket_bytes: gradients travel together up to so many bytes; 0: each alone.
    """
    new = reduce_gradients(main, trainers.count * devices, trainers.rings, bucket_bytes)
    if trainers.group:
        reduce_in_two_levels(new.global_block(), trainers)
    return Programs(new, _startup(main, trainers))


def reduce_in_two_levels(block: Block, trainers: Trainers) -> None:
    """Each all-reduce becomes a reduction to the leader of a group, one among leaders, and a broadcast
    within the group.
    """
    edits = Insertions(block)
    rings = trainers.rings
    flat = [op for op in block.ops if op.communicates is CommKind.ALL_REDUCE]
    for op in flat:
        name = op.input("X")[0]
        ring = op.attrs["ring_id"]
        here: dict[str, Any] = {"inputs": {"X": name}, "outputs": {"Out": name}, "role": OpRole.Backward}
        edits.before(op, "c_reduce_sum", **here, ring_id=rings + ring, root_id=0)
        if trainers.leads:
            edits.before(op, "c_allreduce_sum", **here, ring_id=2 * rings + ring)
        # rank 0 of a group is the trainer that leads it
        edits.before(op, "c_broadcast", **here, ring_id=rings + ring, root=0)
    edits.apply()
    block.remove_ops(flat)


def _startup(main: Program, trainers: Trainers) -> Program:
    """Rings are joined by the names that the startup program left in the scope, and persistable variables
    come from trainer 0.
    """
    program = Program()
    block = program.global_block()
    edits = Insertions(block)
    group = trainers.group
    rings = trainers.rings
    for number in range(rings):
        _join(edits, flat_id(number), trainers.index, trainers.count, number)
        if group:
            _join(edits, inner_id(number), trainers.index % group, group, rings + number)
        if trainers.leads:
            _join(
                edits, outer_id(number), trainers.index // group, trainers.count // group, 2 * rings + number
            )
    for name in _shared(main):
        var = main.global_block().vars[name]
        block.create_var(name=name, shape=var.shape, dtype=var.dtype, persistable=True)
        edits.last("c_broadcast", {"X": name}, {"Out": name}, OpRole.Forward, ring_id=0, root=0)
    edits.apply()
    return program


def _join(edits: Insertions, name: str, rank: int, size: int, ring: int) -> None:
    edits.block.create_var(name=name, persistable=True, type=VarType.RAW)
    edits.last("c_comm_init", {"X": name}, {}, OpRole.Forward, rank=rank, nranks=size, ring_id=ring)


def _shared(main: Program) -> list[str]:
    """The variables that the program reads before it writes them, and keeps: parameters and what
    optimizers remember.
    """
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in main.global_block().ops:
        for name in op.input_arg_names:
            var = main.global_block().vars.get(name)
            if (
                var is not None
                and var.persistable
                and var.type == VarType.LOD_TENSOR
                and not var.is_data
                and name not in written
            ):
                found[name] = None
        written.update(op.output_arg_names)
    return list(found)
