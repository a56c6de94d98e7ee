"""Communication between the processes of a job: rings of ranks that reduce and broadcast, and servers that
trainers send gradients to.
"""

from __future__ import annotations

# these declare what the ops do that communicate
from fluidlite.executor.comm import parallel_ops as _parallel_ops  # noqa: F401
from fluidlite.executor.comm import ring_ops as _ring_ops  # noqa: F401
from fluidlite.executor.comm import server_ops as _server_ops  # noqa: F401
from fluidlite.executor.comm.session import Session, current, use
from fluidlite.executor.comm.transports import before_run, leave

__all__ = ["Session", "before_run", "current", "leave", "use"]
