"""Processes that only wait for each other, on hosts without MPI.

2.x has Gloo for this; here it is the exchange that Fleet's GeneralRoleMaker uses.
"""

from __future__ import annotations

from fluidlite.base.errors import ArgumentError
from fluidlite.paddle.distributed.rendezvous import Rendezvous

__all__ = ["gloo_barrier", "gloo_init_parallel_env", "gloo_release"]

_joined: list[Rendezvous] = []  # that of this process, while it takes part in one


def gloo_init_parallel_env(rank_id: int, rank_num: int, server_endpoint: str) -> None:
    """Take part as process `rank_id` of `rank_num`; process 0 keeps the values, at `ip:port`. Returns when
    all have come; CommunicatorError where they do not within FLAGS_rpc_deadline.
    """
    if rank_num < 2 or not 0 <= rank_id < rank_num:
        raise ArgumentError(
            f"rank_num should be greater than or equal to 2, and rank_id below it: they are {rank_num} and "
            f"{rank_id}"
        )
    gloo_release()
    _joined.append(Rendezvous("gloo", rank_id, rank_num, server_endpoint))
    gloo_barrier()


def gloo_barrier() -> None:
    """Return when all processes have called it. ArgumentError before `gloo_init_parallel_env`."""
    if not _joined:
        raise ArgumentError("gloo context is not initialized: call gloo_init_parallel_env")
    _joined[0].gather(b"")


def gloo_release() -> None:
    """Take part no longer."""
    while _joined:
        _joined.pop().close()
