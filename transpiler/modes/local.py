"""Mode "local": one process trains alone, with the original programs."""

from __future__ import annotations

from collections.abc import Callable

from fluidlite.transpiler.cost.model import CostCase, Load, StepCost
from fluidlite.transpiler.cost.rings import cost_of_ranks
from fluidlite.transpiler.modes.job import Job, TrainingMode
from fluidlite.transpiler.parts.roles import JobRole, Programs

__all__ = ["Local"]


class Local(TrainingMode):
    """No job at all, so that a script can treat one process as it treats several."""

    name = "local"
    about = "one process trains alone"
    one_process = True

    def programs(self, job: Job, role: JobRole) -> Programs:
        """The original programs themselves."""
        return Programs(job.main, job.startup)

    def cost(self, job: Job, case: CostCase) -> StepCost:
        """Computing alone."""
        return cost_of_ranks(case, job.main, 1, Load())

    def step(self, job: Job, case: CostCase, servers: int) -> Callable[[int], tuple[float, Load]]:
        """Computing alone, whatever the number of trainers."""
        return lambda count: (case.compute_s, Load())
