"""Jobs of many processes: `verify` proves one right before it costs anything, `join_job` makes a script one process of one."""
from __future__ import annotations

from fluidlite.distributed.cluster import Proof, verify
from fluidlite.distributed.environment import Seat, roles_from_environment
from fluidlite.distributed.worker import SCRIPT_MODES, Worker, add_job_options, join_job

__all__ = ["SCRIPT_MODES", "Proof", "Seat", "Worker", "add_job_options", "join_job", "roles_from_environment", "verify"]
