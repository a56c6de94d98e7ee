"""Mode "local_sgd": ranks train alone, and after each step take the mean of what they have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fluidlite.base.errors import TranspilerError
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.cost.model import CostCase, Load, total
from fluidlite.transpiler.cost.rings import all_reduce
from fluidlite.transpiler.modes.job import Job, Reference
from fluidlite.transpiler.modes.rings import RingMode, RingOptions
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.op_kinds import last_updates
from fluidlite.transpiler.parts.roles import JobRole, Programs
from fluidlite.transpiler.rings.snapshots import average_parameters, snapshot_name, take_snapshots
from fluidlite.transpiler.rings.startup import parameters_of, startup_of_rank

__all__ = ["LocalSgdMode"]


class LocalSgdMode(RingMode):
    """Parameters are reduced, not gradients: each rank adds the mean change to a snapshot of them."""

    name = "local_sgd"
    about = "ranks update on their own, and average their changes after each step"
    options = ("nccl_comm_num",)
    scaled_as = "local_sgd"
    reference = Reference.AVERAGING

    def check_config(self, config: DistributeTranspilerConfig) -> None:
        """TranspilerError for buckets of gradients."""
        if config.bucket_bytes:
            raise TranspilerError(f"mode {self.name!r} reduces no gradients, so bucket_bytes must be 0")

    def rewrite(self, startup: Program, main: Program, rank: RingMember, options: RingOptions) -> Programs:
        """A snapshot of each parameter; after its update the mean change is applied to the snapshot."""
        updates = last_updates(main.global_block())
        if not updates:
            raise TranspilerError(
                "the main program updates no parameter, so there is nothing to average; call "
                "optimizer.minimize(loss) first, and transpile the training program, not the test program"
            )
        params = parameters_of(startup, main, list(updates))
        first = startup_of_rank(startup, rank, options.id_names, params)
        return Programs(average_parameters(main, rank.count, options.nrings), take_snapshots(first, params))

    def copies(self, job: Job, role: JobRole) -> Mapping[str, Sequence[str]]:
        """Each parameter's snapshot."""
        return {name: (snapshot_name(name),) for name in last_updates(job.main.global_block())}

    def load_of(self, job: Job, case: CostCase, count: int) -> Load:
        """An all-reduce for each parameter, which is dense even where its gradient is not."""
        return total(all_reduce(tensor.bytes, count) for tensor in case.facts.tensors)

    def kept_bytes(self, case: CostCase) -> int:
        """The snapshots."""
        return sum(tensor.bytes for tensor in case.facts.tensors)
