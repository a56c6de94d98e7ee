"""What each mode of `make_job` makes for a role."""

from __future__ import annotations

from fluidlite.ir.distribution import VarsDistributed
from fluidlite.transpiler.collective import COLLECTIVE_MODES, Rank, check_programs, collective_mode
from fluidlite.transpiler.parts.roles import Job, Programs, Role, Slice
from fluidlite.transpiler.pserver.geo_sgd import geo_layout, make_geo_server, make_geo_trainer
from fluidlite.transpiler.pserver.overview import add_parameters, describe, overview
from fluidlite.transpiler.pserver.placement import Layout, place
from fluidlite.transpiler.pserver.server import make_server, make_server_startup
from fluidlite.transpiler.pserver.trainer import make_trainer
from fluidlite.transpiler.pserver.training import read_training
from fluidlite.transpiler.rings.nccl2 import describe_nccl2, rewrite_nccl2

__all__ = ["layout_of", "make_programs", "slices_of"]


def layout_of(job: Job) -> Layout:
    """Where the parameters of a job with servers go; worked out once for each job."""
    if job._layout is None:
        config = job.config.copy()
        config._sync_mode = job.sync_mode  # one choice, said in two places
        if job.mode == "geo_sgd":
            job._layout = geo_layout(job.main, job.startup, job.endpoints, job.trainers, config)
        else:
            job._layout = place(
                read_training(job.main), job.startup, job.endpoints, job.trainers, job.sync_mode, config
            )
    found: Layout = job._layout
    return found


def slices_of(job: Job) -> tuple[Slice, ...]:
    """Where every parameter went."""
    return layout_of(job).slices


def make_programs(job: Job, role: Role) -> Programs:
    """What `role` runs."""
    if job.mode in COLLECTIVE_MODES:
        return _collective(job, role)
    if job.mode == "nccl2":
        return _nccl2(job, role)
    layout, geo = layout_of(job), job.mode == "geo_sgd"
    if role.kind == "trainer":
        return _described(
            (make_geo_trainer if geo else make_trainer)(layout, job.startup, role.index), job, role
        )
    main = (make_geo_server if geo else make_server)(layout, role.endpoint)
    return _described(
        Programs(main, make_server_startup(layout, role.endpoint, main, job.startup)), job, role
    )


def _described(made: Programs, job: Job, role: Role) -> Programs:
    """Let the main program know of the job what fluid's programs know: what saves and loads needs it."""
    layout = layout_of(job)
    parts = VarsDistributed()
    if job.mode == "geo_sgd":
        add_parameters(parts, layout)
    else:
        parts = overview(layout)
    made.main.distribution = describe(layout, parts, role.index == 0, role.endpoint or layout.endpoints[0])
    return made


def _nccl2(job: Job, role: Role) -> Programs:
    check_programs(job.main, job.startup)
    main, rank = job.main.clone(), Rank(role.index, job.endpoints)
    describe_nccl2(main, rank, job.config)
    return Programs(main, rewrite_nccl2(job.startup, rank, job.config))


def _collective(job: Job, role: Role) -> Programs:
    startup, main = collective_mode(job.mode, job.config).rewrite(
        job.startup, job.main, Rank(role.index, job.endpoints)
    )
    return Programs(main, startup)
