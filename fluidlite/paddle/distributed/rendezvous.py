"""A place where processes find each other without MPI: values that process 0 keeps at an endpoint."""

from __future__ import annotations

import time

from fluidlite.base import flags
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.incubate.fleet.base.exchange import HttpStore, StoreExchange, serve_store

__all__ = ["Rendezvous", "deadline"]

_PATIENCE = 10.0  # seconds for the others to leave: they may still read the values of the last round
_PAUSE = 0.005  # seconds between looks


def deadline() -> float:
    """Seconds after which a wait ends: FLAGS_rpc_deadline."""
    return float(flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"]) / 1000.0


class Rendezvous:
    """Process `rank` of `size` that meet at `ip:port`, where process 0 keeps what they say. `group` tells
    apart what different parts of a program say there.
    """

    def __init__(self, group: str, rank: int, size: int, endpoint: str) -> None:
        self.rank = rank
        self.size = size
        self._server = serve_store(endpoint, job_key()) if rank == 0 and size > 1 else None
        self._store = HttpStore(endpoint, job_key())
        self._exchange = StoreExchange(self._store, group, rank, size, deadline())

    def gather(self, value: bytes) -> list[bytes]:
        """The values of all processes, by rank; CommunicatorError where one does not come in time."""
        return self._exchange.gather(value)

    def close(self) -> None:
        """Leave. Process 0, which keeps the values, gives the others some time to leave too."""
        if self.rank > 0:
            self._store.put(self._left(self.rank), b"1")
        elif self._server is not None:
            end = time.monotonic() + _PATIENCE
            others = [self._left(rank) for rank in range(1, self.size)]
            while time.monotonic() < end and not all(self._store.get(name) for name in others):
                time.sleep(_PAUSE)
            self._server.stop()

    def _left(self, rank: int) -> str:
        return f"{self._exchange.job}.left.{rank}"
