"""`paddle.distributed.fleet.base.role_maker`: who this process is in its job.

Role makers of 2.x are asked through methods with an underscore; `fleet.worker_index()` and its like are the
public way to them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fluidlite.base.abstract import abstract
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.distributed.environment import ParallelEnv
from fluidlite.paddle.distributed.fleet.base.exchange import Exchange, Gloo

__all__ = ["Gloo", "PaddleCloudRoleMaker", "Role", "RoleMakerBase", "UserDefinedRoleMaker"]

_CHECK = "please check your environment."
_NO_HETER = "{} needs heterogeneous devices or a federated-learning coordinator, which do not exist here"


class Role:
    """Roles of processes."""

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4
    COORDINATOR = 5


class RoleMakerBase:
    """The role of this process in its job; derived classes define where they read it from."""

    def __init__(self) -> None:
        self._worker_endpoints: Any = []
        self._server_endpoints: Any = []
        self._role_is_generated = False
        self._role: Any = None
        self._current_id: Any = -1

    def _is_worker(self) -> bool:
        """True if this process trains."""
        abstract()

    def _is_server(self) -> bool:
        """True if this process is a server."""
        abstract()

    def _is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        abstract()

    def _worker_num(self) -> int:
        """Number of workers."""
        abstract()

    def _server_num(self) -> int:
        """Number of servers."""
        abstract()

    def _worker_index(self) -> int:
        """This process's number among the workers."""
        abstract()

    def _server_index(self) -> int:
        """This process's number among the servers."""
        abstract()

    def _role_id(self) -> int:
        """This process's number among those of its role."""
        abstract()

    def _node_num(self) -> int:
        """Number of machines with workers."""
        abstract()

    def _get_trainer_endpoints(self) -> Any:
        """Endpoints of the workers."""
        return self._worker_endpoints

    def _get_pserver_endpoints(self) -> Any:
        """Endpoints of the servers."""
        return self._server_endpoints

    def to_string(self) -> str:
        """All that is known, in one line."""
        return (
            f"role: {self._role}, current_id: {self._current_id}, worker_endpoints: "
            f"{self._worker_endpoints}, server_endpoints: {self._server_endpoints}"
        )

    def _all_gather(self, input: Any, comm_world: str = "worker") -> Any:
        """Values of all processes; nothing in this base class, which knows no other process."""
        warn_user("RoleMakerBase does not have all gather worker.", category=UserWarning)

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        """The reduction over all processes; nothing in this base class, which knows no other process."""
        warn_user("RoleMakerBase does not have all reduce worker.", category=UserWarning)

    def _barrier(self, comm_world: str) -> None:
        """Wait for all processes; in this base class there are none."""
        warn_user("RoleMakerBase does not have barrier worker.", category=UserWarning)


class PaddleCloudRoleMaker(RoleMakerBase):
    """A role read from the environment when it is first asked for.

    | variable | with servers | `is_collective` |
    |---|---|---|
    | TRAINING_ROLE | TRAINER or PSERVER | |
    | PADDLE_PSERVERS_IP_PORT_LIST | `ip:port,ip:port` of the servers; without it this process is alone | |
    | PADDLE_TRAINERS_NUM | number of workers | |
    | PADDLE_TRAINER_ID | a worker's number | this worker's (default 0) |
    | PADDLE_PSERVER_ID | a server's number, where its endpoint is not given | |
    | POD_IP, PADDLE_PORT | where a server is | |
    | PADDLE_TRAINER_ENDPOINTS | `ip:port,ip:port` of the workers, if they are known | those of the workers |
    | PADDLE_CURRENT_ENDPOINT | | where this worker is |
    | PADDLE_RANK_IN_NODE, PADDLE_LOCAL_DEVICE_IDS, PADDLE_WORLD_DEVICE_IDS | | as a launcher says |

    How the processes exchange values is said by `Gloo`'s variables. ValueError for a variable that is missing
    or cannot be meant.
    """

    def __init__(self, is_collective: bool = False, **kwargs: Any) -> None:
        super().__init__()
        self._is_collective = is_collective
        self._kwargs = kwargs
        self._non_distributed = False
        self._trainers_num = 0
        self._nodes_num = 0
        self._local_rank: str | None = None
        self._local_device_ids: str | None = None
        self._world_device_ids: str | None = None
        self._current_endpoint: str | None = None
        self._exchange: Exchange | None = None

    # ------------------------------------------------------------------ reading
    def _generate_role(self) -> None:
        """Read the environment, once."""
        if self._role_is_generated:
            return
        if self._is_collective:
            self._collective_env()
        else:
            self._ps_env()
        self._role_is_generated = True

    def _collective_env(self) -> None:
        self._current_id = _number("PADDLE_TRAINER_ID", "0")
        self._role = Role.WORKER
        given = os.environ.get("PADDLE_TRAINER_ENDPOINTS")
        self._current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT")
        self._worker_endpoints = (given or "127.0.0.1:6170").split(",")
        if given is None:  # no launcher says it, but mpirun or PADDLE_TRAINERS_NUM may
            found = ParallelEnv()
            self._non_distributed = found.world_size <= 1
            if not self._non_distributed:
                self._current_id, self._worker_endpoints = found.rank, found.trainer_endpoints
        self._trainers_num = len(self._worker_endpoints)
        if not self._non_distributed and not 0 <= self._current_id < self._trainers_num:
            raise ValueError(
                f"PADDLE_TRAINER_ID is {self._current_id}, but PADDLE_TRAINER_ENDPOINTS names "
                f"{','.join(self._worker_endpoints)}, {_CHECK}"
            )
        self._nodes_num = _count_of_machines(self._worker_endpoints)
        self._local_rank = os.environ.get("PADDLE_RANK_IN_NODE")
        self._local_device_ids = os.environ.get("PADDLE_LOCAL_DEVICE_IDS")
        self._world_device_ids = os.environ.get("PADDLE_WORLD_DEVICE_IDS")

    def _ps_env(self) -> None:
        servers = os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST")
        workers = os.environ.get("PADDLE_TRAINER_ENDPOINTS")
        if servers is None:
            # a script that is started by hand trains by itself
            self._non_distributed, self._server_endpoints = True, ""  # as 2.6.2 gives it
            self._role, self._current_id, self._trainers_num, self._nodes_num = Role.WORKER, 0, 1, 1
            return
        self._server_endpoints = servers.split(",")
        self._worker_endpoints = workers.split(",") if workers else []
        self._trainers_num = _number("PADDLE_TRAINERS_NUM")
        role = _needed("TRAINING_ROLE")
        if role == "TRAINER":
            self._role, self._current_id = Role.WORKER, _number("PADDLE_TRAINER_ID")
        elif role == "PSERVER":
            self._role, self._current_id = Role.SERVER, _number_of_server(self._server_endpoints)
            self._current_endpoint = self._server_endpoints[self._current_id]
        elif role in ("HETER_TRAINER", "COORDINATOR"):
            raise ValueError(_NO_HETER.format(f"TRAINING_ROLE {role}"))
        else:
            raise ValueError(f"TRAINING_ROLE must be PSERVER or TRAINER, but get {role}, {_CHECK}")
        self._nodes_num = _count_of_machines(self._worker_endpoints)

    # ------------------------------------------------------------------ who is who
    def _is_worker(self) -> bool:
        """True if this process trains."""
        self._generate_role()
        return bool(self._role == Role.WORKER)

    def _is_server(self) -> bool:
        """True if this process is a server."""
        self._generate_role()
        return bool(self._role == Role.SERVER)

    def _is_heter_worker(self) -> bool:
        """False: all workers are of one kind."""
        return False

    def _is_coordinator(self) -> bool:
        """False: there are none."""
        return False

    def _is_first_worker(self) -> bool:
        """True if this process is the worker with number 0."""
        return self._is_worker() and self._current_id == 0

    def _is_non_distributed(self) -> bool:
        """True if the environment describes no job."""
        self._generate_role()
        return self._non_distributed

    def _worker_index(self) -> int:
        """This process's number."""
        self._generate_role()
        return int(self._current_id)

    _server_index = _role_id = _worker_index

    def _worker_num(self) -> int:
        """Number of workers."""
        self._generate_role()
        return self._trainers_num

    def _server_num(self) -> int:
        """Number of servers."""
        return len(self._get_pserver_endpoints())

    def _node_num(self) -> int:
        """Number of machines with workers; 0 where their endpoints are not known."""
        self._generate_role()
        return self._nodes_num

    _get_node_num = _node_num

    def _get_local_rank(self) -> str | None:
        """This worker's number on its machine, if its launcher says it."""
        self._generate_role()
        return self._local_rank

    def _get_local_device_ids(self) -> str | None:
        """The devices of this machine, if the launcher says them."""
        self._generate_role()
        return self._local_device_ids

    def _get_world_device_ids(self) -> str | None:
        """The devices of all machines, if the launcher says them."""
        self._generate_role()
        return self._world_device_ids

    def _get_trainer_endpoints(self) -> Any:
        """Endpoints of the workers; [] in a job with servers that does not say them."""
        self._generate_role()
        return self._worker_endpoints

    def _get_trainer_endpoint(self) -> str | None:
        """The place of this process, if its launcher says it."""
        self._generate_role()
        return self._current_endpoint

    def _get_pserver_endpoints(self) -> Any:
        """Endpoints of the servers; "" without a job."""
        self._generate_role()
        return self._server_endpoints

    # ------------------------------------------------------------------ workers of one kind
    def _heter_worker_num(self) -> int:
        """0: all workers are of one kind."""
        return 0

    def _get_heter_worker_endpoints(self) -> list[str]:
        """[]: all workers are of one kind."""
        return []

    _get_stage_trainers = _get_next_trainers = _get_previous_trainers = _get_heter_worker_endpoints

    def _get_stage_id(self) -> int:
        """1: workers are of one stage."""
        return 1

    _get_num_stage = _get_stage_id

    def _heter_device_type(self) -> str:
        """The devices of workers of another kind, if there were some."""
        return "cpu"

    _heter_device = _heter_device_type

    # ------------------------------------------------------------------ exchanging
    def _all_gather(self, input: Any, comm_world: str = "worker") -> Any:
        """Values of all processes of "worker", "server" or "all", by their numbers."""
        return self._exchanging().all_gather(input, comm_world)

    def _all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:
        """The "sum", "max" or "min" over such processes."""
        return self._exchanging().all_reduce(input, mode, comm_world)

    def _barrier(self, comm_world: str) -> None:
        """Wait for such processes."""
        self._exchanging().barrier(comm_world)

    def _exchanging(self) -> Exchange:
        self._generate_role()
        if self._exchange is None:
            self._exchange = Exchange(
                self._is_server(), int(self._current_id), self._trainers_num, self._server_num()
            )
        return self._exchange


class UserDefinedRoleMaker(PaddleCloudRoleMaker):
    """A role given by keyword arguments.

    current_id: this process's number among those of its role.
    role: `Role.WORKER` or `Role.SERVER`, in a job with servers.
    worker_num: number of workers, where `worker_endpoints` does not say it.
    worker_endpoints, server_endpoints: lists of `ip:port`.

    AssertionError and TypeError where they do not say enough, ValueError for a number or a role that cannot
    be meant.
    """

    def __init__(self, is_collective: bool = False, init_gloo: bool = False, **kwargs: Any) -> None:
        super().__init__(is_collective=is_collective, init_gloo=init_gloo, **kwargs)
        self._init_gloo = init_gloo

    def _collective_env(self) -> None:
        given: Mapping[str, Any] = self._kwargs
        endpoints = given.get("worker_endpoints")
        if not isinstance(endpoints, (list, tuple)):
            raise TypeError(f"worker_endpoints takes a list of 'ip:port', not {endpoints!r}")
        self._worker_endpoints, self._current_id = list(endpoints), given.get("current_id")
        self._role = Role.WORKER
        self._trainers_num, self._nodes_num = len(endpoints), _count_of_machines(endpoints)
        _check_number(self._current_id, len(endpoints), "worker_endpoints")

    def _ps_env(self) -> None:
        given: Mapping[str, Any] = self._kwargs
        self._server_endpoints = given.get("server_endpoints") or []
        self._worker_endpoints = given.get("worker_endpoints") or []
        self._trainers_num = given.get("worker_num") or len(self._worker_endpoints)
        assert self._trainers_num > 0, "UserDefinedRoleMaker needs worker_num or worker_endpoints"
        self._role, self._current_id = given.get("role"), given.get("current_id")
        self._nodes_num = _count_of_machines(self._worker_endpoints)
        if self._role == Role.SERVER:
            _check_number(self._current_id, len(self._server_endpoints), "server_endpoints")
            self._current_endpoint = self._server_endpoints[self._current_id]
        elif self._role == Role.WORKER:
            _check_number(self._current_id, self._trainers_num, "worker_num")
        else:
            raise ValueError(f"role must be Role.WORKER or Role.SERVER, not {self._role!r}")


def _check_number(number: Any, count: int, of: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"current_id should be a number, not {number!r}")
    if not 0 <= number < count:
        raise ValueError(f"current_id is {number}, but must be between 0 and {count - 1}: {of} says {count}")


def _count_of_machines(endpoints: Any) -> int:
    return len({str(place).split(":")[0].strip() for place in endpoints})


def _needed(name: str) -> str:
    if name not in os.environ:
        raise ValueError(f"Can not find {name}, {_CHECK}")
    return os.environ[name]


def _number(name: str, default: str | None = None) -> int:
    text = _needed(name) if default is None else os.environ.get(name, default)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}, which is not an integer, {_CHECK}") from None


def _number_of_server(servers: list[str]) -> int:
    """This server's number, by its endpoint, or as its launcher says it."""
    if "PADDLE_PORT" not in os.environ and "PADDLE_PSERVER_ID" in os.environ:
        number = _number("PADDLE_PSERVER_ID")
        if not 0 <= number < len(servers):
            raise ValueError(f"PADDLE_PSERVER_ID is {number}, but there are {len(servers)} servers, {_CHECK}")
        return number
    here = f"{_needed('POD_IP') if 'PADDLE_PORT' in os.environ else ''}:{_needed('PADDLE_PORT')}"
    if here not in servers:
        raise ValueError(
            f"this server is at {here} (POD_IP, PADDLE_PORT), which is not in PADDLE_PSERVERS_IP_PORT_LIST "
            f"{','.join(servers)}, {_CHECK}"
        )
    return servers.index(here)
