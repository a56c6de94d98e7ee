"""Mode "nccl2": the main program stays as it is, and the runtime reduces its gradients."""

from __future__ import annotations

from dataclasses import replace

from fluidlite.base.errors import TranspilerError
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.cost.model import CostCase, Load
from fluidlite.transpiler.cost.rings import reduce_all
from fluidlite.transpiler.modes.job import Job
from fluidlite.transpiler.modes.rings import RankMode
from fluidlite.transpiler.parts.endpoints import RankClaim, RingMember
from fluidlite.transpiler.parts.op_kinds import check_programs
from fluidlite.transpiler.parts.roles import JobRole, Programs
from fluidlite.transpiler.rings.nccl2 import Communicators, startup_with_ids
from fluidlite.transpiler.rings.reductions import Trainers, reduce_over_trainers

__all__ = ["Nccl2"]

_USUAL_GROUP = 8  # ranks of a group in comparisons, where the configuration does not say


class Nccl2(RankMode):
    """The startup program fetches the ids of communicators; the main program says who the trainers are."""

    name = "nccl2"
    about = "as grad_allreduce, but the runtime reduces the gradients, and the program is unchanged"
    options = ("nccl_comm_num", "use_hierarchical_allreduce", "hierarchical_allreduce_inter_nranks")
    config_mode = "nccl2"
    scaled_as = "hierarchical"  # where it does not reduce in groups, it costs what grad_allreduce does

    def _startup(self, startup: Program, rank: RingMember, config: DistributeTranspilerConfig) -> Program:
        if config.bucket_bytes:
            raise TranspilerError(
                f"mode {self.name!r} leaves the reduction of gradients to the runtime, so bucket_bytes must "
                "be 0 (BuildStrategy.fuse_all_reduce_ops groups them there)"
            )
        return startup_with_ids(startup, rank, _communicators(config))

    def programs(self, job: Job, role: JobRole) -> Programs:
        """A copy of the main program that knows the trainers, and the startup program with ids."""
        check_programs(job.main, job.startup)
        main = job.main.clone()
        rank = RingMember(role.index, job.endpoints)
        _describe(main, rank, _communicators(job.config))
        return Programs(main, self._startup(job.startup, rank, job.config))

    def transpile(
        self, main: Program, startup: Program, claim: RankClaim, config: DistributeTranspilerConfig
    ) -> None:
        """Make the programs those of one trainer, in place."""
        rank = claim.checked()
        check_programs(main, startup, served=True)  # fluid's own example asks for both kinds of job in turn
        startup.take_over(self._startup(startup, rank, config))
        _describe(main, rank, _communicators(config))

    def trainer(self, job: Job, index: int) -> tuple[Program, list[Program]]:
        """The programs with the runtime's reductions as ops, and another one that joins the rings."""
        made = job.trainer(index)
        communicators = _communicators(job.config)
        group = communicators.group if communicators.hierarchical else 0
        reduced = reduce_over_trainers(made.main, Trainers(index, job.trainers, communicators.count, group))
        return reduced.main, [made.startup, reduced.startup]

    def group_size(self, job: Job) -> int:
        """The configuration's groups, if it asks for them."""
        chosen = _communicators(job.config)
        return chosen.group if chosen.hierarchical else 1

    # ------------------------------------------------------------------ cost
    def load(self, job: Job, case: CostCase) -> Load:
        """An all-reduce for each gradient: the program has none, so none is read off it."""
        return reduce_all(case.facts, job.trainers, self.group_size(job))

    def load_of(self, job: Job, case: CostCase, count: int) -> Load:
        """In groups, as far as they divide the ranks."""
        group = int(job.config.hierarchical_allreduce_inter_nranks or _USUAL_GROUP)
        several = count > group and count % group == 0
        return reduce_all(case.facts, count, group if several else 0)


def _communicators(config: DistributeTranspilerConfig) -> Communicators:
    return Communicators(
        config.nccl_comm_num,
        bool(config.use_hierarchical_allreduce),
        int(config.hierarchical_allreduce_inter_nranks or 0),
    )


def _describe(main: Program, rank: RingMember, communicators: Communicators) -> None:
    """Tell the runtime, through the main program, who the trainers are and how to reduce."""
    known = main.distribution
    main.distribution = replace(
        known,
        trainers=rank.endpoints,
        rings=communicators.count,
        hierarchical=communicators.hierarchical,
        group=communicators.group if communicators.hierarchical else known.group,
    )
