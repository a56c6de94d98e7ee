"""`paddle.distributed.communication`: groups of ranks, and what they exchange"""

from __future__ import annotations

from fluidlite.base.lazy import LazyNames

_HERE = "fluidlite.paddle.distributed.communication"
_NAMES = LazyNames(
    __name__,
    {
        f"{_HERE}.calls": "P2POp ReduceOp all_gather all_reduce alltoall alltoall_single barrier "
        "batch_isend_irecv broadcast gather irecv isend recv reduce reduce_scatter scatter send wait",
        f"{_HERE}.group": "destroy_process_group get_backend get_group",
        f"{_HERE}.objects": "all_gather_object broadcast_object_list scatter_object_list",
        "fluidlite.paddle.distributed.parallel": "is_initialized",
    },
    "calls group objects stream tensors",
)


__getattr__, __dir__ = _NAMES.load, _NAMES.names
