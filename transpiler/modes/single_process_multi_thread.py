"""Mode "single_process_multi_thread": the ranks are threads of one process, one for each of its devices."""

from __future__ import annotations

from fluidlite.ir.program import Program
from fluidlite.transpiler.modes.rings import RingMode, RingOptions
from fluidlite.transpiler.parts.endpoints import RingMember
from fluidlite.transpiler.parts.roles import Programs
from fluidlite.transpiler.rings.gradients import reduce_gradients
from fluidlite.transpiler.rings.startup import startup_of_devices, trained_parameters

__all__ = ["SingleProcessMultiThreadMode"]


class SingleProcessMultiThreadMode(RingMode):
    """One communicator of all devices; endpoints only count the ranks."""

    name = "single_process_multi_thread"
    about = "as grad_allreduce, with a thread of one process for each of its devices"
    options = ("bucket_bytes",)
    one_process = True
    max_rings = 1

    def rewrite(self, startup: Program, main: Program, rank: RingMember, options: RingOptions) -> Programs:
        """One communicator among the devices; gradients are averaged."""
        trained_parameters(main)  # an error says so where there are none
        return Programs(
            reduce_gradients(main, rank.count, 1, options.bucket_bytes), startup_of_devices(startup)
        )
