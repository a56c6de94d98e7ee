"""Modes of `paddle.distributed.fleet` for ranks without servers: what 2.x makes of a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluidlite.base.comm_kind import CommKind
from fluidlite.base.errors import TranspilerError
from fluidlite.ir.block import Block
from fluidlite.ir.operator import OpRole
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.cost.facts import ROW_ID_BYTES, Tensor
from fluidlite.transpiler.cost.model import CostCase, Load, total
from fluidlite.transpiler.cost.rings import all_reduce, collectives_of, ring_load
from fluidlite.transpiler.modes.job import Job, Reference
from fluidlite.transpiler.modes.rings import RingMode, RingOptions
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.roles import JobRole, Programs
from fluidlite.transpiler.rings.gradients import reduce_gradients
from fluidlite.transpiler.rings.groups import rings_of, startup_in_rings
from fluidlite.transpiler.rings.merged import due_blocks, reduce_merged
from fluidlite.transpiler.rings.periods import Periods, Rhythm, average_in_periods, startup_of_periods
from fluidlite.transpiler.rings.reductions import Trainers, reduce_in_two_levels
from fluidlite.transpiler.rings.snapshots import snapshot_name
from fluidlite.transpiler.rings.startup import parameters_of, trained_parameters

__all__ = ["FleetAllReduce", "FleetLocalSgd"]


_UNKNOWN = 1 << 60  # steps: no number of them is a multiple


class FleetAllReduce(RingMode):
    """Every rank updates all parameters with the mean gradient.

    most: how many gradients travel together at most; 0: any number, as far as `bucket_bytes` goes.
    group: with 2 or more, gradients are reduced within groups of so many ranks first.
    merged: how many steps the gradients of one update come from.
    """

    name = "fleet_allreduce"
    about = "every rank updates all parameters with the mean gradient, in 2.x's form"

    def __init__(self, most: int = 0, group: int = 0, merged: int = 1) -> None:
        self.most, self.group, self.merged = most, group, merged

    def rewrite(self, startup: Program, main: Program, rank: RingMember, options: RingOptions) -> Programs:
        """Rings; the gradient of the loss divided by the ranks; an all-reduce a bucket, or, where gradients
        are merged, one for each sum in the steps that update.
        """
        if self.group and (self.group < 2 or rank.count % self.group or rank.count == self.group):
            raise TranspilerError(
                f"hierarchical_allreduce_inter_nranks is {self.group}, which cannot divide the "
                f"{rank.count} ranks into several groups of 2 or more"
            )
        params = parameters_of(startup, main, trained_parameters(main))
        if due_blocks(main):
            new = reduce_merged(main, rank.count)
            blocks = due_blocks(new)
        else:
            new = reduce_gradients(main, rank.count, options.nrings, options.bucket_bytes, self.most)
            blocks = [new.global_block()]
        rings = rings_of(rank, options.nrings, self.group)
        if self.group:
            trainers = Trainers(rank.index, rank.count, options.nrings, self.group)
            for block in blocks:
                reduce_in_two_levels(block, trainers)
                _wait_for_groups(block, options.nrings)
        return Programs(new, startup_in_rings(startup, rings, sorted(params)))

    def group_size(self, job: Job) -> int:
        """The ranks of a group."""
        return self.group or 1

    def steps_between_exchanges(self, job: Job) -> int:
        """The steps of an update."""
        return self.merged

    def load(self, job: Job, case: CostCase) -> Load:
        """The mean traffic of a rank in a step; of one that leads its group, where there are groups."""
        if self.group:
            return total(self._of_leader(tensor, job.trainers) for tensor in case.facts.tensors)
        programs = job.trainer(0)
        due = due_blocks(programs.main)
        if not due:
            return super().load(job, case)
        found = total(collectives_of(programs, case.sizes, job.trainers, block.idx) for block in due)
        return found.times(1 / self.merged)

    def _of_leader(self, tensor: Tensor, count: int) -> Load:
        group = self.group
        if not tensor.sparse:
            within = ring_load(CommKind.REDUCE, tensor.bytes, group) + ring_load(
                CommKind.BROADCAST, tensor.bytes, group
            )
            return (within + all_reduce(tensor.bytes, count // group)).times(1 / self.merged)
        # every member learns the rows of its group, leaders those of all, and hand them on
        rows = tensor.rows * (tensor.row_bytes + ROW_ID_BYTES)
        among = ring_load(CommKind.ALL_GATHER, rows, group) + ring_load(
            CommKind.ALL_GATHER, rows * group, count // group
        )
        return (among + ring_load(CommKind.BROADCAST, rows * count, group)).times(1 / self.merged)


def _wait_for_groups(block: Block, nrings: int) -> None:
    """Wait for the rings within groups, which end a reduction, where those of all ranks are waited for."""
    edits = Insertions(block)
    for op in block.ops:
        if op.type == "c_sync_comm_stream":
            names = op.input("X")
            ring = nrings + int(op.attrs["ring_id"])
            edits.after(op, op.type, {"X": names}, {"Out": names}, OpRole.Backward, ring_id=ring)
    edits.apply()


class FleetLocalSgd(RingMode):
    """Ranks train alone, and take the mean of what they have changed at the end of each period.

    periods: how long they are; they may follow the loss.
    """

    name = "fleet_local_sgd"
    about = "ranks update on their own, and average their changes every few steps"
    reference = Reference.AVERAGING

    def __init__(self, periods: Periods) -> None:
        self.periods = periods

    def check_config(self, config: DistributeTranspilerConfig) -> None:
        """Do nothing: buckets of gradients have no meaning here."""

    def ring_count(self, config: DistributeTranspilerConfig) -> int:
        """Two rings in turn, as in 2.x."""
        return 2

    def rewrite(self, startup: Program, main: Program, rank: RingMember, options: RingOptions) -> Programs:
        """Snapshots and a counter of steps; the mean change is applied where a period ends."""
        trained = trained_parameters(main)
        params = parameters_of(startup, main, trained)
        first = startup_in_rings(startup, rings_of(rank, options.nrings), params, options.nrings)
        return Programs(
            average_in_periods(main, params, rank.count, options.nrings, self.periods),
            startup_of_periods(first, params, self.periods),
        )

    def copies(self, job: Job, role: JobRole) -> Mapping[str, Sequence[str]]:
        """Each parameter's snapshot."""
        names = parameters_of(job.startup, job.main, trained_parameters(job.main))
        return {name: (snapshot_name(name),) for name in names}

    def steps_between_exchanges(self, job: Job) -> int:
        """The length of a period; periods that adapt, or begin later, have no mean that is known before."""
        known = not self.periods.loss and self.periods.begin == 1
        return self.periods.steps if known else _UNKNOWN

    def load(self, job: Job, case: CostCase) -> Load:
        """The mean traffic of a rank in a step: all parameters in the last of a period."""
        return self.load_of(job, case, job.trainers)

    def load_of(self, job: Job, case: CostCase, count: int) -> Load:
        """The same for `count` ranks."""
        whole = total(all_reduce(tensor.bytes, count) for tensor in case.facts.tensors)
        return whole.times(1 / self.periods.steps)

    def kept_bytes(self, case: CostCase) -> int:
        """The snapshots."""
        return sum(tensor.bytes for tensor in case.facts.tensors)

    def rhythm(self, job: Job) -> Rhythm:
        """The ends of the periods."""
        return Rhythm(self.periods)
