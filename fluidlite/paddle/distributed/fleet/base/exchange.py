"""Exchanges between the processes of a job besides gradients: numbers, text, small arrays, barriers."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import ArgumentError, CommunicatorError
from fluidlite.base.mpi_start import under_mpi
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.incubate.fleet.base.exchange import FileStore, HttpStore, Store, StoreExchange, serve_store
from fluidlite.incubate.fleet.base.general_roles import reduction
from fluidlite.incubate.fleet.base.mpi_roles import MpiExchange, world_of
from fluidlite.ir.warned import warn_user
from fluidlite.values.npy import array_of, bytes_of

__all__ = ["Exchange", "Gloo"]

_WORLDS = ("worker", "server", "all")


class Gloo:
    """Ways to meet of the processes of a job, by the names of the variables that say them.

    | variable | meaning |
    |---|---|
    | PADDLE_GLOO_FS_PATH | a folder that all processes see |
    | PADDLE_GLOO_HTTP_ENDPOINT | `ip:port` where server 0 keeps the values, without servers worker 0 |

    Processes of one `mpirun` need neither. Paddle's library gloo is not used.
    """

    class RENDEZVOUS:
        """Numbers that Paddle's launchers put into PADDLE_GLOO_RENDEZVOUS."""

        HDFS = 1
        FILE = 2
        HTTP = 3


class Exchange:
    """Exchanges of process `index` of the workers, or of the servers, with the others."""

    def __init__(self, is_server: bool, index: int, workers: int, servers: int) -> None:
        self.is_server, self.index, self.workers, self.servers = is_server, index, workers, servers
        self._groups: dict[str, Any] = {}
        self._http_server: Any = None

    def all_gather(self, value: Any, world: str) -> list[Any]:
        """The values of all processes of `world`, by number, workers before servers: what JSON can say, or
        arrays.
        """
        return [_unpack(part) for part in self._gather(world, _pack(value))]

    def all_reduce(self, value: Any, mode: str, world: str) -> Any:
        """The "sum", "max" or "min" over the processes of `world`, in the shape that `value` has."""
        together = reduction(mode)
        return together.reduce(np.stack(self.all_gather(np.asarray(value), world)))

    def barrier(self, world: str) -> None:
        """Wait for all processes of `world`. Without a way to meet it only warns, as 2.6.2 does."""
        if self._size(world) > 1 and self._meeting_place(world) is None:
            warn_user(
                f"barrier({world!r}) does not wait, as its processes cannot reach each other: {_WAYS}",
                category=UserWarning,
            )
            return
        self._gather(world, b"")

    # ------------------------------------------------------------------ groups
    def _size(self, world: str) -> int:
        if world not in _WORLDS:
            raise ArgumentError(f"comm_world is {world!r}, but must be one of {', '.join(_WORLDS)}")
        return {"worker": self.workers, "server": self.servers, "all": self.workers + self.servers}[world]

    def _gather(self, world: str, value: bytes) -> list[bytes]:
        size = self._size(world)
        if world != "all" and (world == "server") != self.is_server:
            raise CommunicatorError(
                f"this process is a {'server' if self.is_server else 'worker'}, which cannot "
                f"take part in an exchange between the {world}s"
            )
        if world not in self._groups:
            rank = self.index + (self.workers if world == "all" and self.is_server else 0)
            self._groups[world] = self._open(world, rank, size)
        found: list[bytes] = self._groups[world].gather(value)
        return found

    def _open(self, world: str, rank: int, size: int) -> Any:
        place = self._meeting_place(world) if size > 1 else FileStore(".")
        if place is None:
            raise CommunicatorError(f"the {world}s of this job cannot exchange anything: {_WAYS}")
        if isinstance(place, (FileStore, HttpStore)):
            return StoreExchange(place, f"fleet.{world}", rank, size, _deadline())
        return MpiExchange(place, rank)

    def _meeting_place(self, world: str) -> Any:
        """The place where these processes meet: a communicator of MPI, or a store; None without either."""
        if world == "worker" and not self.servers:
            found = world_of(self.workers)
            if found is not None:
                return found
        return self._store()

    def _store(self) -> Store | None:
        endpoint, folder = (
            os.environ.get(f"PADDLE_GLOO_{name}", "") for name in ("HTTP_ENDPOINT", "FS_PATH")
        )
        if not endpoint:
            return FileStore(folder) if folder else None
        # servers outlive the workers: what is kept there can be read to the end
        keeps = self.index == 0 and self.is_server == bool(self.servers)
        if keeps and self._http_server is None:
            self._http_server = serve_store(endpoint, job_key())
        return HttpStore(endpoint, job_key())

    def start(self) -> None:
        """Begin to keep values, where this process is the one that does. ValueError where PADDLE_WITH_GLOO
        says that processes meet, and nothing where.
        """
        if int(os.environ.get("PADDLE_WITH_GLOO") or 0) == 1:
            _check_rendezvous(int(os.environ.get("PADDLE_GLOO_RENDEZVOUS") or 0))
        self._store()


_NEEDED = {
    Gloo.RENDEZVOUS.FILE: ("PADDLE_GLOO_FS_PATH", "a folder that all processes can access"),
    Gloo.RENDEZVOUS.HTTP: ("PADDLE_GLOO_HTTP_ENDPOINT", "`ip:port`"),
}


def _check_rendezvous(chosen: int) -> None:
    """ValueError where processes should meet, and nothing says where; one of an `mpirun` knows its others."""
    if under_mpi():
        return
    if chosen not in _NEEDED:
        raise ValueError(
            f"gloo initialized error, please check arguments: PADDLE_GLOO_RENDEZVOUS is {chosen}, but has to "
            f"be 2 (a folder) or 3 (an address)"
        )
    name, words = _NEEDED[chosen]
    found = os.environ.get(name, "")
    if not found or (chosen == Gloo.RENDEZVOUS.HTTP and ":" not in found):
        raise ValueError(
            f"gloo initialized error, please check arguments: {name} is {found!r}, but has to be {words}"
        )


_WAYS = (
    "name a folder that all processes can access in PADDLE_GLOO_FS_PATH, or an address in "
    "PADDLE_GLOO_HTTP_ENDPOINT; or start them with mpirun"
)


def _deadline() -> float:
    return float(flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"]) / 1000.0


def _pack(value: Any) -> bytes:
    if not isinstance(value, np.ndarray):
        return b"J" + json.dumps(value).encode()
    return b"A" + bytes_of(value)


def _unpack(data: bytes) -> Any:
    if data[:1] == b"J":
        return json.loads(data[1:])
    return array_of(data[1:])
