"""How the processes of a job talk: rings of ranks that reduce and broadcast, and servers that trainers
send gradients to.
"""

from __future__ import annotations

from fluidlite.executor.comm.session import Session, before_run, current, leave, use

__all__ = ["Session", "before_run", "current", "leave", "use"]
