"""`paddle.distributed.collective`: the module that 2.x had its collective functions in at first."""

from __future__ import annotations

from fluidlite.paddle.distributed.communication.calls import (
    ReduceOp,
    all_gather,
    all_reduce,
    alltoall,
    barrier,
    broadcast,
    recv,
    reduce,
    scatter,
    send,
    wait,
)
from fluidlite.paddle.distributed.communication.group import Group, get_group, new_group
from fluidlite.paddle.distributed.parallel import is_available, is_initialized
from fluidlite.paddle.distributed.sharded_layers import split

__all__ = [
    "Group",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "alltoall",
    "barrier",
    "broadcast",
    "get_group",
    "is_available",
    "is_initialized",
    "new_group",
    "recv",
    "reduce",
    "scatter",
    "send",
    "split",
    "wait",
]
