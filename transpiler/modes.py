"""What each mode of `make_job` makes for a role."""
from __future__ import annotations

from collections.abc import Callable

from fluidlite.transpiler.collective import Collective, GradAllReduce, LocalSGD, MultiThread, Rank, SingleProcessMultiThread, check_programs
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.layout import Layout, place
from fluidlite.transpiler.roles import Job, Programs, Role, Slice
from fluidlite.transpiler.server import make_server, make_server_startup
from fluidlite.transpiler.trainer import make_trainer
from fluidlite.transpiler.training import read_training

__all__ = ["layout_of", "make_programs", "slices_of"]


def layout_of(job: Job) -> Layout:
    """Where the parameters of a job with servers go; worked out once for each job."""
    if job._layout is None:
        config = job.config.copy()
        config._sync_mode = job.sync_mode                   # one choice, said in two places
        job._layout = place(read_training(job.main), job.startup, job.endpoints, job.trainers, job.sync_mode, config)
    found: Layout = job._layout
    return found


def slices_of(job: Job) -> tuple[Slice, ...]:
    """Where every parameter went."""
    return layout_of(job).slices


def make_programs(job: Job, role: Role) -> Programs:
    """What `role` runs."""
    if job.mode in _COLLECTIVE:
        return _collective(job, role)
    if job.mode == "nccl2":
        from fluidlite.transpiler.nccl2 import rewrite_nccl2
        startup = rewrite_nccl2(job.startup, Rank(role.index, job.endpoints), job.config)
        return Programs(job.main.clone(), startup)
    layout = layout_of(job)
    if role.kind == "trainer":
        return make_trainer(layout, job.startup, role.index)
    main = make_server(layout, role.endpoint)
    return Programs(main, make_server_startup(layout, role.endpoint, main, job.startup))


_COLLECTIVE: dict[str, Callable[[DistributeTranspilerConfig], Collective]] = {
    "grad_allreduce": lambda config: GradAllReduce(config.nccl_comm_num, config.bucket_bytes),
    "local_sgd": lambda config: LocalSGD(config.nccl_comm_num),
    "single_process_multi_thread": lambda config: SingleProcessMultiThread(config.bucket_bytes),
    "multi_thread": lambda config: MultiThread(config.nccl_comm_num, bucket_bytes=config.bucket_bytes),
}


def _collective(job: Job, role: Role) -> Programs:
    check_programs(job.main, job.startup)
    startup, main = _COLLECTIVE[job.mode](job.config).rewrite(job.startup, job.main, Rank(role.index, job.endpoints))
    return Programs(main, startup)
