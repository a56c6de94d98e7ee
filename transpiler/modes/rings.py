"""Modes without servers: what they have in common."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar

from fluidlite import unique_name
from fluidlite.base.errors import TranspilerError
from fluidlite.base.records import dataclass
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.cost.model import CostCase, Load, StepCost
from fluidlite.transpiler.cost.rings import collectives_of, cost_of_ranks, reduce_all
from fluidlite.transpiler.modes.job import Job, TrainingMode
from fluidlite.transpiler.parts.endpoints import RankClaim, RingMember, parse_endpoints
from fluidlite.transpiler.parts.op_kinds import check_programs
from fluidlite.transpiler.parts.roles import JobRole, Programs

__all__ = ["RankMode", "RingMode", "RingOptions", "check_ring_count"]


class RankMode(TrainingMode):
    """Every rank has the whole program, and gradients or parameters are reduced over the ranks."""

    @abc.abstractmethod
    def transpile(
        self, main: Program, startup: Program, claim: RankClaim, config: DistributeTranspilerConfig
    ) -> None:
        """Make the programs those of one trainer, in place.

        TranspilerError for a claim or choices that do not fit, and for programs that are transpiled already
        or have ops without a role.
        """

    def load(self, job: Job, case: CostCase) -> Load:
        """The traffic of one rank in a step, read off its program, so that buckets show."""
        return collectives_of(job.trainer(0), case.sizes, job.trainers)

    def load_of(self, job: Job, case: CostCase, count: int) -> Load:
        """The same for `count` ranks, of whom there is no program: each gradient travels alone."""
        return reduce_all(case.facts, count)

    def kept_bytes(self, case: CostCase) -> int:
        """Bytes that outlive a step besides parameters and the optimizer's state."""
        return 0

    def cost(self, job: Job, case: CostCase) -> StepCost:
        """Computing, then reducing."""
        load = self.load(job, case)
        return cost_of_ranks(case, job.trainer(0).main, job.trainers, load, self.kept_bytes(case))

    def step(self, job: Job, case: CostCase, servers: int) -> Callable[[int], tuple[float, Load]]:
        """As `cost`, for other numbers of ranks."""

        def step(count: int) -> tuple[float, Load]:
            load = self.load_of(job, case, count)
            return case.compute_s + case.port.both_ways(load), load

        return step


# ---------------------------------------------------------------------- ops of rings in the program
def check_ring_count(nrings: int) -> int:
    """`nrings`; TranspilerError unless it is a positive number."""
    if isinstance(nrings, bool) or not isinstance(nrings, int) or nrings < 1:
        raise TranspilerError(f"nrings is {nrings!r}, but must be 1 or more")
    return nrings


@dataclass(frozen=True)
class RingOptions:
    """The rings of a job, each by the variable that holds its id, and the size of buckets of gradients (0:
    each gradient travels alone).
    """

    id_names: tuple[str, ...]
    bucket_bytes: int = 0

    @property
    def nrings(self) -> int:
        """The number of rings."""
        return len(self.id_names)


class RingMode(RankMode):
    """The program itself reduces, by ops that name rings.

    Attributes
    ----------
    max_rings: the mode uses no more rings than this; None: as many as `nccl_comm_num` says.
    """

    config_mode = "collective"
    options: ClassVar[tuple[str, ...]] = ("nccl_comm_num", "bucket_bytes")
    max_rings: ClassVar[int | None] = None

    @abc.abstractmethod
    def rewrite(self, startup: Program, main: Program, rank: RingMember, options: RingOptions) -> Programs:
        """The programs of a rank; those given stay as they are."""

    def check_config(self, config: DistributeTranspilerConfig) -> None:
        """TranspilerError for choices that the mode cannot follow."""

    def ring_count(self, config: DistributeTranspilerConfig) -> int:
        """The number of rings that the configuration asks for."""
        self.check_config(config)
        if self.max_rings is not None:
            return self.max_rings
        return check_ring_count(config.nccl_comm_num)

    def programs(self, job: Job, role: JobRole) -> Programs:
        """The rewritten programs of a rank, whose rings have the same names in every process."""
        ids = tuple(f"nccl_id_{ring}" for ring in range(self.ring_count(job.config)))
        check_programs(job.main, job.startup)
        rank = RingMember(role.index, job.endpoints)
        return self.rewrite(job.startup, job.main, rank, RingOptions(ids, job.config.bucket_bytes))

    # ------------------------------------------------------------------ in place
    def transpile(
        self, main: Program, startup: Program, claim: RankClaim, config: DistributeTranspilerConfig
    ) -> None:
        """Make the programs those of one trainer, in place."""
        nrings = self.ring_count(config)
        self.rewrite_in_place(startup, main, self.member(claim), nrings, config.bucket_bytes)

    def member(self, claim: RankClaim) -> RingMember:
        """The rank of a claim; TranspilerError unless it is right, and there are others."""
        known = parse_endpoints(claim.endpoints)
        if len(known) < 2 and not self.one_process:
            raise TranspilerError(f"the number of endpoints must > 1, but there is only {known[0]}")
        return claim.checked("rank", "endpoints")

    def rewrite_in_place(
        self, startup: Program, main: Program, rank: RingMember, nrings: int, bucket_bytes: int
    ) -> None:
        """`rewrite`, put in the place of the programs; the variables of the rings' ids get unique names."""
        check_programs(main, startup)
        ids = tuple(unique_name.generate("nccl_id") for _ in range(nrings))
        made = self.rewrite(startup, main, rank, RingOptions(ids, bucket_bytes))
        startup.take_over(made.startup)
        main.take_over(made.main)
