"""Mode "multi_thread" of PaddlePaddle 2: the devices of one process, or one rank of several."""

from __future__ import annotations

from fluidlite.ir.program import Program
from fluidlite.transpiler.modes.grad_allreduce import GradAllReduceMode
from fluidlite.transpiler.modes.rings import RingOptions
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.roles import Programs
from fluidlite.transpiler.rings.startup import startup_of_devices

__all__ = ["MultiThreadMode"]


class MultiThreadMode(GradAllReduceMode):
    """As "grad_allreduce"; with one endpoint the communicators are those of the process's devices."""

    name = "multi_thread"
    about = "as grad_allreduce, for the devices of one process or for one rank of several"
    scaled_as = ""
    one_process = True

    def rewrite(self, startup: Program, main: Program, rank: RingMember, options: RingOptions) -> Programs:
        """The programs of "grad_allreduce"; another startup program where there is one process."""
        made = super().rewrite(startup, main, rank, options)
        if rank.count > 1:
            return made
        return Programs(made.main, startup_of_devices(startup, options.nrings))
