"""The place of this process in its job: what a launcher told it, or what `mpirun` says."""

from __future__ import annotations

import os

from fluidlite.base.mpi_start import mpi_place
from fluidlite.executor.comm import current

__all__ = ["ParallelEnv"]

_FIRST_PORT = 6170  # of the endpoints of trainers that nobody named; launchers of 2.x begin there too
_DEVICE_VARIABLES = ("FLAGS_selected_gpus", "FLAGS_selected_xpus")


class ParallelEnv:
    """The place of this process among the trainers, as it is when the object is made.

    The variables PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM, PADDLE_TRAINER_ENDPOINTS and PADDLE_CURRENT_ENDPOINT
    say it; without them `mpirun` or `srun` does. A thread that stands for a process is asked itself.
    """

    def __init__(self) -> None:
        self._rank, self._world_size = _place()
        if self._world_size > 1 and not 0 <= self._rank < self._world_size:
            raise ValueError(
                f"PADDLE_TRAINER_ID is {self._rank}, but PADDLE_TRAINERS_NUM is {self._world_size}"
            )
        given = os.environ.get("PADDLE_TRAINER_ENDPOINTS", "")
        self._trainer_endpoints = given.split(",")
        if self._world_size > 1 and len(self._trainer_endpoints) != self._world_size:
            ports = range(_FIRST_PORT, _FIRST_PORT + self._world_size)
            self._trainer_endpoints = [f"127.0.0.1:{port}" for port in ports]
        mine = self._trainer_endpoints[self._rank] if self._world_size > 1 else ""
        self._current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT") or mine
        self._nrings = int(os.environ.get("FLAGS_nccl_nrings", "1"))
        assert self._nrings > 0, f"FLAGS_nccl_nrings must be greater than 0, not {self._nrings}"
        self._pg_timeout = int(os.environ.get("PADDLE_PG_TIMEOUT", "1800000"))

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many processes train."""
        return self._world_size

    @property
    def device_id(self) -> int:
        """The number of the device that this process is to use."""
        chosen = [os.environ[name] for name in _DEVICE_VARIABLES if os.environ.get(name)]
        return int(chosen[0].split(",")[0]) if chosen else 0

    @property
    def device_type(self) -> str:
        """The kind of device, where a plug-in brought it: always empty."""
        return ""

    @property
    def current_endpoint(self) -> str:
        """The address of this process."""
        return self._current_endpoint

    @property
    def trainer_endpoints(self) -> list[str]:
        """The addresses of all processes. Under `mpirun` they are names: nobody listens there."""
        return self._trainer_endpoints

    @property
    def nrings(self) -> int:
        """How many rings a reduction may use."""
        return self._nrings

    @property
    def pg_timeout(self) -> int:
        """The time limit of a group in milliseconds, as the environment gives it."""
        return self._pg_timeout

    # the names of 1.x
    local_rank = rank
    nranks = world_size
    dev_id = device_id


def _place() -> tuple[int, int]:
    """Rank and number of processes."""
    session = current()
    if session is not None:
        return session.place
    if "PADDLE_TRAINERS_NUM" in os.environ or "PADDLE_TRAINER_ID" in os.environ:
        return int(os.environ.get("PADDLE_TRAINER_ID", "0")), int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
    return mpi_place() or (0, 1)
