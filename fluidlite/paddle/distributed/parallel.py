"""`paddle.distributed.parallel`: connecting this process with the others of its job."""

from __future__ import annotations

from fluidlite.paddle.distributed.communication.group import Group, form_global_group, global_group
from fluidlite.paddle.distributed.environment import ParallelEnv

__all__ = [
    "ParallelEnv",
    "ParallelMode",
    "get_rank",
    "get_world_size",
    "init_parallel_env",
    "is_available",
    "is_initialized",
]


class ParallelMode:
    """The ways of sharing the work of a model."""

    DATA_PARALLEL = 0
    TENSOR_PARALLEL = 1
    PIPELINE_PARALLEL = 2
    SHARDING_PARALLEL = 3
    SEGMENT_PARALLEL = 4


def init_parallel_env() -> Group:
    """Connect this process with the others of its job: group 0, of all of them, can communicate from then on.

    CommunicatorError where the others do not come within FLAGS_rpc_deadline.
    """
    return form_global_group()


def is_initialized() -> bool:
    """True once `init_parallel_env` has been called."""
    return global_group() is not None


def is_available() -> bool:
    """True: communication is always there, with others where a launcher started them."""
    return True


def get_rank(group: Group | None = None) -> int:
    """The number of this process, in a group if one is given; -1 if it is not a member."""
    return ParallelEnv().rank if group is None else group.rank


def get_world_size(group: Group | None = None) -> int:
    """The number of processes, of a group if one is given; -1 where this one is no member."""
    return ParallelEnv().world_size if group is None else group.world_size
