"""Modes with parameter servers: what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from fluidlite.ir.distribution import VarsDistributed
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributedMode, ServerRuntimeConfig
from fluidlite.transpiler.cost.facts import Tensor
from fluidlite.transpiler.cost.model import CostCase, Load, StepCost
from fluidlite.transpiler.cost.servers import ServerCosts, exchange_each_step
from fluidlite.transpiler.modes.job import CommunicatorNeed, Job, TrainingMode, endpoints_of
from fluidlite.transpiler.parts.roles import JobRole, Programs, Slice
from fluidlite.transpiler.pserver.overview import describe, overview
from fluidlite.transpiler.pserver.placement import Placement, place
from fluidlite.transpiler.pserver.server import make_server, make_server_startup
from fluidlite.transpiler.pserver.trainer import make_trainer
from fluidlite.transpiler.pserver.training import read_training

__all__ = ["ServerMode"]


class ServerMode(TrainingMode):
    """Servers hold and update the parameters; trainers send them gradients and fetch parameters.

    Attributes
    ----------
    trainers_update: trainers run the optimizer, and servers only add up what has changed.
    """

    has_servers = True
    in_step = False
    trainers_update: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = ("slice_var_up", "split_method", "min_block_size")

    # ------------------------------------------------------------------ programs
    def placement(self, job: Job) -> Placement:
        """The parameters cut up and given to servers, as the configuration says."""
        return place(
            read_training(job.main), job.startup, job.endpoints, job.trainers, self.in_step, job.config
        )

    def programs(self, job: Job, role: JobRole) -> Programs:
        """A trainer's programs, or a server's; both know the job's servers, which saving and loading need."""
        made = self.make_trainer(job, role.index) if role.trains else self._server(job, role.endpoint)
        # a trainer has none of its own: fluid notes the first server's
        self.describe(job, made.main, role.index == 0, role.endpoint or job.endpoints[0])
        return made

    def describe(self, job: Job, program: Program, chief: bool, endpoint: str) -> None:
        """Tell a program what it is in the job."""
        program.distribution = describe(job.placement, job.parts, chief, endpoint)

    def _server(self, job: Job, endpoint: str) -> Programs:
        main = self.make_server(job, endpoint)
        return Programs(main, make_server_startup(job.placement, endpoint, main, job.startup))

    def make_trainer(self, job: Job, index: int) -> Programs:
        """The programs of trainer number `index`."""
        return make_trainer(job.placement, job.startup, index)

    def make_server(
        self, job: Job, endpoint: str, maker: int = 0, threads: ServerRuntimeConfig | None = None
    ) -> Program:
        """The main program of the server at `endpoint`, as trainer number `maker` makes it."""
        return make_server(job.placement, endpoint, maker, threads)

    def parts(self, job: Job) -> VarsDistributed:
        """The part of each parameter and accumulator that each server holds, in fluid's form."""
        return overview(job.placement)

    # ------------------------------------------------------------------ runs
    def communicator(self, job: Job) -> CommunicatorNeed | None:
        """One that cuts gradients up as it sends them, if the configuration asks for that."""
        if self.in_step or not job.config.runtime_split_send_recv:
            return None
        half = job.config.half_async
        return CommunicatorNeed(DistributedMode.HALF_ASYNC if half else DistributedMode.ASYNC)

    def copies(self, job: Job, role: JobRole) -> Mapping[str, Sequence[str]]:
        """A server that corrects delays keeps each slice as each trainer last knew it."""
        if role.trains:
            return {}
        placement = job.placement
        held = placement.by_endpoint[role.endpoint].values()
        return {piece.param_name: placement.backup_names(piece) for piece in held}

    # ------------------------------------------------------------------ cost
    def exchange(self, job: Job) -> Callable[[Slice, Tensor], Load]:
        """A function for the traffic of one trainer for one slice in the mean step."""
        return exchange_each_step

    def _costs(self, job: Job, case: CostCase, served: Job) -> ServerCosts:
        return ServerCosts(
            case,
            served.slices,
            served.endpoints,
            served.trainers,
            self.in_step,
            self.trainers_update,
            self.exchange(job),
        )

    def cost(self, job: Job, case: CostCase) -> StepCost:
        """The trainers' ports and the busiest server's port bound the step."""
        return self._costs(job, case, job).cost(job.trainer(0).main)

    def step(self, job: Job, case: CostCase, servers: int) -> Callable[[int], tuple[float, Load]]:
        """As `cost`; the job's own slices are taken where it has as many servers."""
        served = job
        if not (job.has_servers and len(job.endpoints) == servers):
            # two trainers stand for any number: how parameters are placed does not depend on it
            served = Job(job.main, job.startup, self, 2, endpoints_of(servers), job.config)
        return self._costs(job, case, served).step()
