"""Mode "geo_sgd": trainers update by themselves, and now and then exchange what has changed."""

from __future__ import annotations

import math
from collections.abc import Callable

from fluidlite.ir.distribution import VarsDistributed
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributedMode, ServerRuntimeConfig
from fluidlite.transpiler.cost.facts import ROW_ID_BYTES, Tensor
from fluidlite.transpiler.cost.model import Load
from fluidlite.transpiler.modes.job import CommunicatorNeed, Job, Reference
from fluidlite.transpiler.modes.servers import ServerMode
from fluidlite.transpiler.parts.roles import Programs, Slice
from fluidlite.transpiler.pserver.geo_sgd import (
    make_geo_server,
    make_geo_trainer,
    place_for_geo,
    pushed_slices,
)
from fluidlite.transpiler.pserver.overview import parameters_only
from fluidlite.transpiler.pserver.placement import Placement

__all__ = ["GeoSgd"]


class GeoSgd(ServerMode):
    """Servers add up the changes that trainers have made; a communicator sends and fetches them."""

    name = "geo_sgd"
    about = "trainers update on their own, and exchange their changes with servers every few steps"
    options = ("split_method", "min_block_size", "geo_sgd_need_push_nums")
    scaled_as = "geo_sgd"
    reference = Reference.CHANGES_IN_ORDER
    changes_of_all = True
    trainers_update = True

    def placement(self, job: Job) -> Placement:
        """The parameters alone: gradients, clips and schedules stay with the trainers."""
        return place_for_geo(job.main, job.startup, job.endpoints, job.trainers, job.config)

    def make_trainer(self, job: Job, index: int) -> Programs:
        """The whole step, and the ids of sparse tables for the communicator."""
        return make_geo_trainer(job.placement, job.startup, index)

    def make_server(
        self, job: Job, endpoint: str, maker: int = 0, threads: ServerRuntimeConfig | None = None
    ) -> Program:
        """A server that adds changes to its slices; every trainer makes the same."""
        return make_geo_server(job.placement, endpoint, threads)

    def parts(self, job: Job) -> VarsDistributed:
        """The slices of parameters; there are no accumulators on the servers."""
        return parameters_only(job.placement)

    # ------------------------------------------------------------------ runs
    def communicator(self, job: Job) -> CommunicatorNeed:
        """One that knows every slice, and after how many steps it exchanges."""
        return CommunicatorNeed(
            DistributedMode.GEO,
            {
                "push_vars": pushed_slices(job.placement),
                "trainers": job.trainers,
                "push_nums": self.steps_between_exchanges(job),
            },
        )

    def steps_between_exchanges(self, job: Job) -> int:
        """The configuration's `geo_sgd_need_push_nums`."""
        return max(int(job.config.geo_sgd_need_push_nums or 1), 1)

    # ------------------------------------------------------------------ cost
    def exchange(self, job: Job) -> Callable[[Slice, Tensor], Load]:
        """The mean step: differences and parameters, once in so many steps."""
        every = self.steps_between_exchanges(job)

        def exchange(part: Slice, tensor: Tensor) -> Load:
            size = part.shape[0] * tensor.row_bytes
            if tensor.sparse:
                rows = tensor.rows_within(part.shape[0], steps=every)
                size = math.ceil(rows) * (tensor.row_bytes + ROW_ID_BYTES)
            return Load(size, size, 2).times(1 / every)

        return exchange
