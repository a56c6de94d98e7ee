"""Communication between the processes of a job: rings of ranks that reduce and broadcast, and servers that
trainers send gradients to.
"""

from __future__ import annotations

from fluidlite.executor.comm.ops import actions_in
from fluidlite.executor.comm.session import Session, current, use
from fluidlite.executor.comm.transports import before_run, leave

__all__ = ["Session", "before_run", "current", "leave", "use"]

actions_in(
    "fluidlite.executor.comm.ring_ops",
    "fluidlite.executor.comm.parallel_ops",
    "fluidlite.executor.comm.server_ops",
)
