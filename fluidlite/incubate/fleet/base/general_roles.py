"""`GeneralRoleMaker`: a role read from the environment, with exchange between all processes."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from fluidlite.base import flags
from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.tcp.handshake import job_key
from fluidlite.incubate.fleet.base.exchange import FileStore, HttpStore, Store, StoreExchange, serve_store
from fluidlite.incubate.fleet.base.mpi_roles import MpiExchange, world_of
from fluidlite.incubate.fleet.base.roles import Role, RoleMakerBase, from_environment
from fluidlite.values.npy import array_of, bytes_of

__all__ = ["GeneralRoleMaker", "REDUCTIONS", "reduction"]

REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def reduction(mode: str) -> Any:
    """The NumPy function of a mode of `all_reduce_worker`; ValueError for an unknown one."""
    if mode not in REDUCTIONS:
        raise ValueError(f"unknown mode: {mode}")
    return REDUCTIONS[mode]


class GeneralRoleMaker(RoleMakerBase):
    """A role read from the environment, in a job whose processes exchange small values without the servers.

    | variable | meaning |
    |---|---|
    | TRAINING_ROLE | TRAINER or PSERVER |
    | PADDLE_TRAINER_ENDPOINTS, PADDLE_PSERVERS_IP_PORT_LIST | `ip:port,ip:port` of workers and servers |
    | PADDLE_TRAINER_ID | a worker's number |
    | POD_IP, PADDLE_PORT | where a server is |
    | PADDLE_IS_BARRIER_ALL_ROLE | 0: `barrier_all` passes this job by |

    Parameters
    ----------
    path: a folder that all processes see.
    http_ip_port: instead, `ip:port` where worker 0 keeps the values; processes prove that they hold the job's
        key.
    prefix: distinguishes the jobs that use one folder.
    init_timeout_seconds, run_timeout_seconds: time limits of waiting for the others, at first and later.
    hdfs_name, hdfs_ugi, iface: kept for programs that read them.

    Under `mpirun` with as many processes as the job has, neither is needed. KeyError, ValueError, IndexError
    where the environment does not say what it has to; CommunicatorError where the others do not come.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._hdfs_name = kwargs.get("hdfs_name", "")
        self._hdfs_ugi = kwargs.get("hdfs_ugi", "")
        self._hdfs_path = kwargs.get("path", "").rstrip("/")
        self._init_timeout_seconds = kwargs.get("init_timeout_seconds", 3600)
        self._run_timeout_seconds = kwargs.get("run_timeout_seconds", 9999999)
        self._http_ip_port = kwargs["http_ip_port"].split(":") if kwargs.get("http_ip_port") else []
        self._http_server: Any = None
        self._iface = kwargs.get("iface", "")
        self._prefix = kwargs.get("prefix", "")
        self._exchanges: dict[str, StoreExchange] = {}

    # ------------------------------------------------------------------ who is who
    def generate_role(self) -> None:
        """Read the environment, once; the others are waited for when something is first exchanged."""
        if self._role_is_generated:
            return
        workers, servers = (
            from_environment("PADDLE_TRAINER_ENDPOINTS").split(","),
            from_environment("PADDLE_PSERVERS_IP_PORT_LIST").split(","),
        )
        role = from_environment("TRAINING_ROLE")
        if role not in ("TRAINER", "PSERVER"):
            raise ValueError("TRAINING_ROLE must be PSERVER or TRAINER")
        self._is_barrier_all = int(os.environ.get("PADDLE_IS_BARRIER_ALL_ROLE", "1"))
        if role == "TRAINER":
            self._role, self._node_type = Role.WORKER, 1
            self._current_id = int(from_environment("PADDLE_TRAINER_ID"))
            self._cur_endpoint, self._rank = workers[self._current_id], self._current_id
        else:
            self._role, self._node_type = Role.SERVER, 0
            self._cur_endpoint = f"{from_environment('POD_IP')}:{from_environment('PADDLE_PORT')}"
            self._current_id = servers.index(self._cur_endpoint)
            self._rank = len(workers) + self._current_id
        self._trainers_num, self._size = len(workers), len(workers) + len(servers)
        self._worker_endpoints, self._server_endpoints = workers, servers
        self._role_is_generated = True

    def is_worker(self) -> bool:
        """True if this process trains."""
        self.generate_role()
        return bool(self._role == Role.WORKER)

    def is_server(self) -> bool:
        """True if this process is a server."""
        self.generate_role()
        return bool(self._role == Role.SERVER)

    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return self.is_worker() and self._current_id == 0

    def worker_index(self) -> int:
        """Number of this process among the processes of its role."""
        self.generate_role()
        return int(self._current_id)

    server_index = worker_index

    def worker_num(self) -> int:
        """Number of workers."""
        self.generate_role()
        return len(self._worker_endpoints)

    def server_num(self) -> int:
        """Number of servers."""
        self.generate_role()
        return len(self._server_endpoints)

    _worker_num, _server_num = worker_num, server_num

    def get_local_endpoint(self) -> str:
        """Endpoint of this process."""
        self.generate_role()
        return self._cur_endpoint

    def get_trainer_endpoints(self) -> list[str]:
        """Endpoints of the workers."""
        self.generate_role()
        return self._worker_endpoints

    def get_pserver_endpoints(self) -> list[str]:
        """Endpoints of the servers."""
        self.generate_role()
        return self._server_endpoints

    def _get_rank(self) -> int:
        """This process's number among all, workers first."""
        self.generate_role()
        return self._rank

    def _get_size(self) -> int:
        self.generate_role()
        return self._size

    # ------------------------------------------------------------------ exchange
    def all_gather(self, input: Any) -> list[Any]:
        """Values of all processes, workers first: numbers, text, or lists of them."""
        return [json.loads(part) for part in self._gather("all", json.dumps(input).encode())]

    _all_gather = all_gather

    def _worker_gather(self, obj: Any) -> list[Any] | None:
        """Values of all workers; None for a server."""
        return (
            [json.loads(part) for part in self._gather("workers", json.dumps(obj).encode())]
            if self.is_worker()
            else None
        )

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Put the reduction of all workers' `input` into `output`; a server's `output` stays as it is."""
        if self.is_worker():
            self._all_reduce(input, output, mode)

    def _all_reduce(self, input: Any, output: Any, mode: str = "sum") -> None:
        """`all_reduce_worker` among the processes of this process's role."""
        together = reduction(mode)
        packed = self._gather(self._my_group(), bytes_of(np.asarray(input)))
        parts = [array_of(part) for part in packed]
        output[:] = (
            together.reduce(np.stack(parts)).tolist()
            if isinstance(output, list)
            else together.reduce(np.stack(parts))
        )

    def barrier_worker(self) -> None:
        """Wait for all workers; a server does not wait."""
        if self.is_worker():
            self._gather("workers", b"")

    _barrier_worker = barrier_worker

    def _barrier_server(self) -> None:
        if self.is_server():
            self._gather("servers", b"")

    def barrier_all(self) -> None:
        """Wait for all processes."""
        self.generate_role()
        if self._is_barrier_all:
            self._gather("all", b"")

    _barrier_all = barrier_all

    def _finalize(self) -> None:
        """Leave; worker 0 keeps no values any more."""
        self._exchanges.clear()
        if self._http_server is not None:
            self._http_server.stop()
            self._http_server = None

    def _my_group(self) -> str:
        return "workers" if self.is_worker() else "servers"

    def _gather(self, group: str, value: bytes) -> list[bytes]:
        self.generate_role()
        first = group not in self._exchanges
        if first:
            self._exchanges[group] = self._open(group)
        exchange = self._exchanges[group]
        exchange.deadline = min(
            self._init_timeout_seconds if first else self._run_timeout_seconds, _deadline()
        )
        return exchange.gather(value)

    def _open(self, group: str) -> Any:
        rank = self._rank if group == "all" else self._current_id
        size = {"all": self._size, "workers": self._trainers_num, "servers": len(self._server_endpoints)}[
            group
        ]
        if size > 1:
            world = world_of(self._size)
            if world is not None:
                return MpiExchange(
                    world if group == "all" else world.Split(self._node_type, self._rank), self._rank
                )
        return StoreExchange(
            self._store() if size > 1 else FileStore("."), f"{self._prefix}{group}", rank, size, _deadline()
        )

    def _store(self) -> Store:
        if self._http_ip_port:
            endpoint = ":".join(self._http_ip_port)
            if self._role == Role.WORKER and self._current_id == 0 and self._http_server is None:
                self._http_server = serve_store(endpoint, job_key())
            return HttpStore(endpoint, job_key())
        if not self._hdfs_path:
            raise CommunicatorError(
                "the processes of this job have no means to exchange values: give "
                "GeneralRoleMaker(path=...) a folder that all of them can access, or "
                "GeneralRoleMaker(http_ip_port=...) a port of worker 0; or start them with mpirun"
            )
        return FileStore(self._hdfs_path)


def _deadline() -> float:
    return float(flags.get_flags("FLAGS_rpc_deadline")["FLAGS_rpc_deadline"]) / 1000.0
