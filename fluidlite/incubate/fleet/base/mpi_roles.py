"""Role makers for jobs that `mpirun` starts."""

from __future__ import annotations

import json
import logging
import socket
from typing import Any

import numpy as np

from fluidlite.base.abstract import abstract
from fluidlite.base.errors import FluidError, MissingExtraError
from fluidlite.base.mpi_start import under_mpi
from fluidlite.incubate.fleet.base.roles import RoleMakerBase

__all__ = ["MPIRoleMaker", "MPISymetricRoleMaker", "MpiExchange", "world_of"]

_log = logging.getLogger(__name__)


def _mpi() -> Any:
    try:
        from mpi4py import MPI  # an optional package
    except ImportError as error:
        raise MissingExtraError("a role of mpirun needs mpi4py: pip install fluidlite[mpi]") from error
    return MPI


def world_of(size: int) -> Any:
    """All processes of this `mpirun`, where they are so many; None elsewhere."""
    return _mpi().COMM_WORLD if under_mpi() and _mpi().COMM_WORLD.Get_size() == size else None


class MpiExchange:
    """Rounds in which each process of a communicator brings bytes and gets all of them."""

    def __init__(self, comm: Any, rank: int) -> None:
        self.comm, self.rank, self.deadline = comm, rank, 0.0

    def gather(self, value: bytes) -> list[bytes]:
        """Values of all processes, by rank."""
        sizes = np.zeros(self.comm.Get_size(), np.int64)
        self.comm.Allgather(np.array([len(value)], np.int64), sizes)
        whole = np.zeros(int(sizes.sum()), np.uint8)
        self.comm.Allgatherv(np.frombuffer(value, np.uint8), [whole, sizes.tolist()])
        return [part.tobytes() for part in np.split(whole, np.cumsum(sizes)[:-1])]


class RoleError(FluidError, NameError):
    """A role was asked for before `generate_role()`."""


class MPIRoleMaker(RoleMakerBase):
    """A role by rank, and exchange over MPI. `generate_role` is a derived class's."""

    def __init__(self) -> None:
        super().__init__()
        self.MPI = _mpi()
        self._comm = self.MPI.COMM_WORLD
        self._node_type_comm: Any = None
        self._ips: list[str] | None = None
        self._ip: str | None = None

    def _get_rank(self) -> int:
        self._rank = int(self._comm.Get_rank())
        return self._rank

    def _get_size(self) -> int:
        self._size = int(self._comm.Get_size())
        return self._size

    def _all_gather(self, obj: Any) -> list[Any]:
        """Values of all processes, by rank: numbers, text, or lists of them."""
        return gather(self._comm, obj)

    def _worker_gather(self, obj: Any) -> list[Any] | None:
        """Values of all workers; None for a server."""
        return gather(self._node_type_comm, obj) if self.is_worker() else None

    def _barrier_all(self) -> None:
        self._comm.barrier()

    def _finalize(self) -> None:
        self.MPI.Finalize()

    def _get_ips(self) -> list[str]:
        """The addresses of all processes, by rank."""
        if self._ips is None:
            self._ips = self._all_gather(self.get_local_ip())
        return self._ips

    def get_local_ip(self) -> str:
        """The address of this machine."""
        if self._ip is None:
            try:
                self._ip = socket.gethostbyname(socket.gethostname())
            except OSError:  # a machine whose name nobody knows talks to itself only
                self._ip = "127.0.0.1"
        return self._ip

    def generate_role(self) -> None:
        """Find out who this process is."""
        abstract("Please implement this method in child class")


def gather(comm: Any, obj: Any) -> list[Any]:
    """Values of all processes of a communicator, by rank."""
    return [json.loads(part) for part in MpiExchange(comm, 0).gather(json.dumps(obj).encode())]


class MPISymetricRoleMaker(MPIRoleMaker):
    """Two processes a node: those with even ranks are servers, the others workers.

    NameError where a role is asked for before `generate_role()`. Fluid gave numbers such as 0.5 under Python
    3; here they are whole.
    """

    def __init__(self) -> None:
        super().__init__()
        self._node_type: int | None = None
        self._proc_per_node = 2
        self._pserver_rand_port = 0

    def generate_role(self) -> None:
        """Divide the processes, once: all of them have to call it."""
        if self._role_is_generated:
            return
        self._worker_endpoints = self._get_ips()[1::2]
        self._server_endpoints = self._get_ips()[::2]
        self._node_type = self._get_rank() % self._proc_per_node
        self._node_type_comm = self._comm.Split(self._node_type)
        self._role_is_generated = True

    def _check_role_generation(self) -> bool:
        if not self._role_is_generated:
            raise RoleError("generate_role() should be called first")
        return True

    def is_worker(self) -> bool:
        """True if this process trains."""
        return self._check_role_generation() and self._node_type == 1

    def is_server(self) -> bool:
        """True if this process is a server."""
        return self._check_role_generation() and self._node_type == 0

    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return self.is_worker() and self.worker_index() == 0

    def _worker_num(self) -> int:
        return self._get_size() // self._proc_per_node if self._check_role_generation() else 0

    _server_num = _worker_num

    def worker_num(self) -> int:
        """Number of workers."""
        return self._worker_num()

    def worker_index(self) -> int:
        """This process's node."""
        return self._get_rank() // self._proc_per_node if self._check_role_generation() else 0

    server_index = worker_index

    def get_pserver_endpoints(self) -> list[str]:
        """Endpoints of the servers, whose ports follow from the first one's address."""
        self._check_role_generation()
        if self._pserver_rand_port == 0:
            whole = sum(
                int(part) * 256**place
                for place, part in enumerate(reversed(self._server_endpoints[0].split(".")))
            )
            self._pserver_rand_port = 60000 + whole % 5000
        return [
            f"{address}:{self._pserver_rand_port + number}"
            for number, address in enumerate(self._server_endpoints)
        ]

    # ------------------------------------------------------------------ exchange
    def all_gather(self, input: Any) -> list[Any]:
        """Values of all processes, by rank: numbers, text, or lists of them."""
        if not self._role_is_generated:
            self.generate_role()
        return self._all_gather(input)

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Put the reduction of all workers' array `input` into the array `output`; a server only warns."""
        if not self._role_is_generated:
            self.generate_role()
        if self.is_worker():
            self._all_reduce(input, output, mode)
        else:
            _log.warning("all_reduce_worker does nothing in a process that is not a worker")

    def _all_reduce(self, input: Any, output: Any, mode: str = "sum") -> None:
        """`all_reduce_worker` among the processes of this process's role; ValueError for an unknown mode."""
        ops = {"sum": self.MPI.SUM, "max": self.MPI.MAX, "min": self.MPI.MIN}
        if mode not in ops:
            raise ValueError(f"unknown mode: {mode}")
        self._node_type_comm.Allreduce(input, output, op=ops[mode])

    def barrier_worker(self) -> None:
        """Wait for all workers; a server only warns."""
        if not self._role_is_generated:
            self.generate_role()
        if self.is_worker():
            self._barrier_worker()
        else:
            _log.warning("barrier_worker does nothing in a process that is not a worker")

    def barrier_all(self) -> None:
        """Wait for all processes."""
        self._barrier_all()

    def _barrier_worker(self) -> None:
        if self.is_worker():
            self._node_type_comm.barrier()

    def _barrier_server(self) -> None:
        if self.is_server():
            self._node_type_comm.barrier()
