"""Mode "grad_allreduce": every rank has the mean gradient of all ranks in each step."""

from __future__ import annotations

from fluidlite.ir.program import Program
from fluidlite.transpiler.modes.rings import RingMode, RingOptions
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.roles import Programs
from fluidlite.transpiler.rings.gradients import reduce_gradients
from fluidlite.transpiler.rings.startup import parameters_of, startup_of_rank, trained_parameters

__all__ = ["GradAllReduceMode"]


class GradAllReduceMode(RingMode):
    """Gradients are summed over the ranks as the backward pass makes them, and parameters begin as those of
    rank 0.
    """

    name = "grad_allreduce"
    about = "every rank updates all parameters with the mean gradient, which ops of its program reduce"
    scaled_as = "grad_allreduce"

    def rewrite(self, startup: Program, main: Program, rank: RingMember, options: RingOptions) -> Programs:
        """A communicator a ring; the gradient of the loss divided by the ranks; an all-reduce a bucket."""
        params = parameters_of(startup, main, trained_parameters(main))
        return Programs(
            reduce_gradients(main, rank.count, options.nrings, options.bucket_bytes),
            startup_of_rank(startup, rank, options.id_names, params),
        )
