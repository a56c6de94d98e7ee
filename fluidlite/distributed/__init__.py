"""Jobs of many processes: `verify` proves one right before it costs anything, `join_job` makes a script
one process of one.
"""

from __future__ import annotations

from fluidlite.distributed.checkpoint import Resumed, load_checkpoint, save_checkpoint
from fluidlite.distributed.checkpoint_files import Checkpoint, latest_checkpoint
from fluidlite.distributed.cluster import verify
from fluidlite.distributed.environment import ProcessRole, roles_from_environment
from fluidlite.distributed.picture import job_picture
from fluidlite.distributed.proof import Proof
from fluidlite.distributed.worker import Worker, add_job_options, join_job, script_modes

__all__ = [
    "Checkpoint",
    "ProcessRole",
    "Proof",
    "Resumed",
    "Worker",
    "add_job_options",
    "job_picture",
    "join_job",
    "latest_checkpoint",
    "load_checkpoint",
    "roles_from_environment",
    "save_checkpoint",
    "script_modes",
    "verify",
]
