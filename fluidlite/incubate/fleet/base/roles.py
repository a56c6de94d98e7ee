"""Roles, and the role makers that read theirs from their arguments or from the environment."""

from __future__ import annotations

import logging
import os
from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.base.errors import ReaderError

__all__ = [
    "PaddleCloudRoleMaker",
    "Role",
    "RoleMakerBase",
    "UserDefinedCollectiveRoleMaker",
    "UserDefinedRoleMaker",
    "from_environment",
]

_log = logging.getLogger(__name__)


class Role:
    """Roles of processes."""

    WORKER = 1
    SERVER = 2


class RoleMakerBase:
    """The role of this process in its job; derived classes define where they read it from.

    A base without connections to the other processes does nothing where these would have to be asked
    (`all_gather`, `barrier_worker` and their like), and warns of that.
    """

    def __init__(self) -> None:
        self._worker_endpoints: Any = []
        self._server_endpoints: list[str] = []
        self._role_is_generated = False
        self._role: Any = None
        self._current_id: Any = -1

    def is_worker(self) -> bool:
        """True if this process trains."""
        abstract()

    def is_server(self) -> bool:
        """True if this process is a server."""
        abstract()

    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        abstract()

    def worker_num(self) -> int:
        """Number of workers."""
        abstract()

    def worker_index(self) -> int:
        """This process's number among the workers."""
        abstract()

    def server_index(self) -> int:
        """This process's number among the servers."""
        abstract()

    def get_trainer_endpoints(self) -> list[str]:
        """Endpoints of the workers."""
        return self._worker_endpoints

    def get_pserver_endpoints(self) -> list[str]:
        """Endpoints of the servers."""
        return self._server_endpoints

    def to_string(self) -> str:
        """All that is known, in one line."""
        return (
            f"role: {self._role}, current_id: {self._current_id}, worker_endpoints: "
            f"{self._worker_endpoints}, server_endpoints: {self._server_endpoints}"
        )

    def all_gather(self, input: Any) -> Any:
        """Values of all processes, in the order of their ranks; None in this base class, which knows no other
        process.
        """
        _log.warning("RoleMakerBase does not have all gather.")

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Put the reduction of all workers' `input` into `output`; `mode` is "sum", "max" or "min"."""
        _log.warning("RoleMakerBase does not have all reduce worker.")

    def _gather(self, group: str, value: bytes) -> list[bytes]:
        """The `value` of each process of "workers", "servers" or "all"; ReaderError without connections."""
        raise ReaderError(
            f"{type(self).__name__} does not let workers exchange values: use GeneralRoleMaker, or "
            "split the files yourself"
        )

    def barrier_worker(self) -> None:
        """Wait for all workers."""
        _log.warning("RoleMakerBase does not have barrier worker.")

    def barrier_all(self) -> None:
        """Wait for all processes."""
        _log.warning("RoleMakerBase does not have barrier all.")


class UserDefinedRoleMaker(RoleMakerBase):
    """A role in a job with servers, given by the arguments.

    TypeError and ValueError for arguments that cannot be meant: unknown roles, endpoints that occur twice, a
    server that is none of them.
    """

    def __init__(
        self,
        current_id: int = 0,
        role: int = Role.WORKER,
        worker_num: int = 0,
        server_endpoints: list[str] | None = None,
    ) -> None:
        super().__init__()
        self._server_endpoints = _endpoints("server_endpoints", server_endpoints)
        if role != Role.WORKER and role != Role.SERVER:
            raise TypeError("role must be as Role")
        self._role = role
        self._current_id = _number("current_id", current_id)
        if role == Role.SERVER and current_id >= len(self._server_endpoints):
            raise ValueError(
                "if role is Role.SERVER, current_id must be less than or equal to len(server_endpoints) - 1"
            )
        if not isinstance(worker_num, int):
            raise TypeError("worker_num must be as int")
        if worker_num <= 0:
            raise ValueError("worker_num must be greater than 0")
        self._worker_num = worker_num

    def generate_role(self) -> None:
        """Do nothing: the role is given to the constructor."""
        self._role_is_generated = True

    def is_worker(self) -> bool:
        """True if this process trains."""
        return bool(self._role == Role.WORKER)

    def is_server(self) -> bool:
        """True if this process is a server."""
        return bool(self._role == Role.SERVER)

    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return bool(self._role == Role.WORKER and self._current_id == 0)

    def worker_index(self) -> int:
        """This process's number."""
        return self._current_id

    def server_index(self) -> int:
        """This process's number."""
        return self._current_id

    def worker_num(self) -> int:
        """Number of workers."""
        return self._worker_num


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """A worker in a job without servers, given by the arguments; TypeError and ValueError where they cannot
    be meant.
    """

    def __init__(self, current_id: int = 0, worker_endpoints: list[str] | None = None) -> None:
        super().__init__()
        self._worker_endpoints = _endpoints("worker_endpoints", worker_endpoints)
        self._current_id = _number("current_id", current_id)
        if current_id >= len(self._worker_endpoints):
            raise ValueError("current_id must be less than or equal to len(worker_endpoints) - 1")
        self._worker_num = len(self._worker_endpoints)

    def generate_role(self) -> None:
        """Do nothing: the role is given to the constructor."""
        self._role_is_generated = True

    def is_worker(self) -> bool:
        """All processes train."""
        return True

    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return bool(self._current_id == 0)

    def worker_index(self) -> int:
        """This process's number."""
        return self._current_id

    def worker_num(self) -> int:
        """Number of workers."""
        return self._worker_num


def _endpoints(name: str, given: Any) -> list[str]:
    """A list of different endpoints."""
    if not isinstance(given, list):
        raise TypeError(f"{name} must be as string list")
    if not given:
        raise ValueError(f"the length of {name} list must be greater than 0")
    if len(given) != len(set(given)):
        raise ValueError(f"{name} can't have duplicate elements")
    if not all(isinstance(place, str) for place in given):
        raise TypeError(f"every element in {name} list must be as string")
    return given


def _number(name: str, given: Any) -> int:
    if not isinstance(given, int):
        raise TypeError(f"{name} must be as int")
    if given < 0:
        raise ValueError(f"{name} must be greater than or equal to 0")
    return given


class PaddleCloudRoleMaker(RoleMakerBase):
    """A role read from the environment when it is first asked for.

    | variable | with servers | `is_collective` |
    |---|---|---|
    | TRAINING_ROLE | TRAINER or PSERVER | |
    | PADDLE_PSERVERS_IP_PORT_LIST | `ip:port,ip:port` of the servers | |
    | PADDLE_TRAINERS_NUM | how many workers | |
    | PADDLE_TRAINER_ID | a worker's number | this worker's (default 0) |
    | POD_IP, PADDLE_PORT | where a server is | |
    | PADDLE_TRAINER_ENDPOINTS | | `ip:port,ip:port` of the workers |
    | PADDLE_CURRENT_ENDPOINT | | where this worker is |

    KeyError for one that is missing (AssertionError in a collective job), ValueError for one that cannot be
    meant.
    """

    def __init__(self, is_collective: bool = False) -> None:
        super().__init__()
        self._is_collective = is_collective

    def generate_role(self) -> None:
        """Read the environment, once."""
        if self._role_is_generated:
            return
        if self._is_collective:
            self._read_collective()
        else:
            self._read_served()
        self._role_is_generated = True

    def _read_served(self) -> None:
        try:
            servers = from_environment("PADDLE_PSERVERS_IP_PORT_LIST").split(",")
            workers = number_from_environment("PADDLE_TRAINERS_NUM")
            role, current = _place_of(from_environment("TRAINING_ROLE"), servers)
        except ValueError as error:
            raise ValueError(
                f"something wrong with PaddleCloud, please check environment: {error}"
            ) from error
        self._trainers_num, self._server_endpoints, self._role, self._current_id = (
            workers,
            servers,
            role,
            current,
        )

    def _read_collective(self) -> None:
        self._current_id = number_from_environment("PADDLE_TRAINER_ID", "0")
        self._training_role = "TRAINER"
        self._worker_endpoints = os.environ.get("PADDLE_TRAINER_ENDPOINTS")
        self._current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT")
        assert self._worker_endpoints is not None, "can't find PADDLE_TRAINER_ENDPOINTS"
        self._worker_endpoints = self._worker_endpoints.split(",")
        self._trainers_num = len(self._worker_endpoints)

    def get_pserver_endpoints(self) -> list[str]:
        """Endpoints of the servers."""
        self.generate_role()
        return self._server_endpoints

    def is_worker(self) -> bool:
        """True if this process trains, in a job with servers; False in a collective one, as in fluid."""
        self.generate_role()
        return bool(self._role == Role.WORKER)

    def is_server(self) -> bool:
        """True if this process is a server."""
        self.generate_role()
        return bool(self._role == Role.SERVER)

    def is_first_worker(self) -> bool:
        """True if this process is the worker with number 0, in a job with servers; False in a collective one,
        as in fluid.
        """
        self.generate_role()
        return bool(self._role == Role.WORKER and self._current_id == 0)

    def worker_index(self) -> int:
        """This process's number."""
        self.generate_role()
        return self._current_id

    def server_index(self) -> int:
        """This process's number."""
        self.generate_role()
        return self._current_id

    def worker_num(self) -> int:
        """Number of workers."""
        self.generate_role()
        return self._trainers_num


def _place_of(role: str, servers: list[str]) -> tuple[int, int]:
    """Role and number of this process in a job with servers."""
    if role == "TRAINER":
        return Role.WORKER, number_from_environment("PADDLE_TRAINER_ID")
    if role != "PSERVER":
        raise ValueError(f"TRAINING_ROLE must be PSERVER or TRAINER, not {role!r}")
    here = f"{from_environment('POD_IP')}:{from_environment('PADDLE_PORT')}"
    if here not in servers:
        raise ValueError(
            f"POD_IP:PADDLE_PORT is {here}, which is not one of the servers in "
            f"PADDLE_PSERVERS_IP_PORT_LIST: {', '.join(servers)}"
        )
    return Role.SERVER, servers.index(here)


def number_from_environment(name: str, default: str | None = None) -> int:
    """The same as an integer; ValueError for anything else."""
    text = os.environ.get(name, default) if default is not None else from_environment(name)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} is {text!r}, which is not an integer") from None


def from_environment(name: str) -> str:
    """A variable that the process which starts a job sets; KeyError with what to do where it is missing."""
    if name not in os.environ:
        raise KeyError(
            f"the environment variable {name} is not set; start the job with the variables of its roles "
            f"(fluidlite docs running), or use UserDefinedRoleMaker"
        )
    return os.environ[name]
