"""Processes that only wait for each other, on hosts without MPI: through values that one of them keeps.

2.x has Gloo for this; here it is the exchange that Fleet's GeneralRoleMaker uses.
"""

from __future__ import annotations

import time
from typing import Any

from fluidlite.base import flags
from fluidlite.base.errors import ArgumentError
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.incubate.fleet.base.exchange import HttpStore, StoreExchange, serve_store

__all__ = ["gloo_barrier", "gloo_init_parallel_env", "gloo_release"]

_PATIENCE = 10.0  # seconds for the others to release: they may still read the values of the last barrier
_PAUSE = 0.005  # seconds between looks


class _Context:
    """The exchange of this process, while it takes part in one."""

    def __init__(self) -> None:
        self.exchange: StoreExchange | None = None
        self.server: Any = None

    def close(self) -> None:
        """End, and let no value be asked for here any more."""
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
        self.exchange = None
        self.server = None


_context = _Context()


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
    if rank_id == 0:
        _context.server = serve_store(server_endpoint, job_key())
    deadline = flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"] / 1000.0
    store = HttpStore(server_endpoint, job_key())
    _context.exchange = StoreExchange(store, "gloo", rank_id, rank_num, deadline)
    gloo_barrier()


def gloo_barrier() -> None:
    """Return when all processes have called it. ArgumentError before `gloo_init_parallel_env`."""
    if _context.exchange is None:
        raise ArgumentError("gloo context is not initialized: call gloo_init_parallel_env")
    _context.exchange.gather(b"")


def gloo_release() -> None:
    """Take part no longer. Process 0, which keeps the values, gives the others some time to release too."""
    exchange = _context.exchange
    if exchange is None:
        return
    if exchange.rank > 0:
        exchange.store.put(_left(exchange, exchange.rank), b"1")
    else:
        end = time.monotonic() + _PATIENCE
        others = [_left(exchange, rank) for rank in range(1, exchange.size)]
        while time.monotonic() < end and not all(exchange.store.get(name) for name in others):
            time.sleep(_PAUSE)
    _context.close()


def _left(exchange: StoreExchange, rank: int) -> str:
    return f"{exchange.job}.left.{rank}"
