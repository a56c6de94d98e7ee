"""A hint for jobs whose script knows nothing of them: each of their processes would train by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from fluidlite.base.mpi_start import LAUNCHED
from fluidlite.executor.comm.session import current
from fluidlite.executor.comm.transports import has_session
from fluidlite.ir.operator import Operator, OpRole

__all__ = ["hint_if_alone"]


def hint_if_alone(ops: Iterable[Operator]) -> None:
    """Say on stderr, once, that the processes of a launched job train without each other: these ops, which
    are about to run, train, none of them communicates, and nothing has connected this process before.
    """
    count = os.environ.get(LAUNCHED, "")
    if not count or current() is not None or has_session():
        return
    listed = list(ops)
    trains = any(op.role & OpRole.Optimize for op in listed)
    if not trains or any(op.communicates is not None for op in listed):
        return
    del os.environ[LAUNCHED]
    sys.stderr.write(
        f"hint: each of the {count} ranks trains on its own: call `join_job` to use --mode "
        "grad_allreduce and others (fluidlite docs running), or use Fleet (fluidlite docs fleet)\n"
    )
