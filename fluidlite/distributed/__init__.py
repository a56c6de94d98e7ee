"""Jobs of many processes: `verify` proves one right before it costs anything, `join_job` makes a script
one process of one.
"""

from __future__ import annotations

from fluidlite.distributed.checkpoint import Resumed, load_checkpoint, save_checkpoint
from fluidlite.distributed.checkpoint_files import Checkpoint, latest_checkpoint
from fluidlite.distributed.cluster import Proof, verify
from fluidlite.distributed.environment import Seat, roles_from_environment
from fluidlite.distributed.worker import SCRIPT_MODES, Worker, add_job_options, join_job

__all__ = [
    "SCRIPT_MODES",
    "Checkpoint",
    "Proof",
    "Resumed",
    "Seat",
    "Worker",
    "add_job_options",
    "join_job",
    "latest_checkpoint",
    "load_checkpoint",
    "roles_from_environment",
    "save_checkpoint",
    "verify",
]
