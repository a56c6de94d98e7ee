"""Which process of a job this one is, as `mpirun` or the environment variables of fluid's scripts say."""

from __future__ import annotations

import os
from collections.abc import Mapping

from fluidlite.base.errors import TranspilerError
from fluidlite.base.mpi_start import check_not_alone, under_mpi
from fluidlite.base.records import dataclass
from fluidlite.transpiler.parts.endpoints import parse_endpoints
from fluidlite.transpiler.parts.roles import PSERVER, TRAINER

__all__ = ["ProcessRole", "roles_from_environment"]

HOW_TO_START = (
    "start several processes, by `mpirun -n 4 python -m mpi4py ...` or one by one with TRAINING_ROLE, "
    "PADDLE_PSERVERS_IP_PORT_LIST "
    "and PADDLE_TRAINERS_NUM set (fluidlite docs running)"
)
_FIRST_PORT = 6174


@dataclass(frozen=True)
class ProcessRole:
    """One process's place in a job.

    Attributes
    ----------
    kind, index: "trainer" or "pserver", and which of them.
    trainers: how many processes train.
    servers: endpoints of the servers; () where there are none.
    by: what said so: "mpi", "environment", or "alone" for a process that was started by itself.
    """

    kind: str
    index: int
    trainers: int
    servers: tuple[str, ...] = ()
    by: str = "alone"

    @property
    def processes(self) -> int:
        """How many processes the job has."""
        return self.trainers + len(self.servers)


def roles_from_environment(pservers: int = 0, environ: Mapping[str, str] | None = None) -> ProcessRole:
    """This process's place: its rank under `mpirun` (trainers first, then `pservers` servers), else what
    fluid's variables say.

    | variable | meaning |
    |---|---|
    | TRAINING_ROLE | TRAINER or PSERVER |
    | PADDLE_PSERVERS_IP_PORT_LIST | `ip:port,ip:port` |
    | PADDLE_PSERVER_IPS | or `ip,ip`, with PADDLE_PSERVER_PORT or PADDLE_PORT |
    | PADDLE_TRAINERS_NUM, PADDLE_TRAINERS | how many trainers |
    | PADDLE_TRAINER_ID | the number of this one |
    | PADDLE_CURRENT_ENDPOINT | the endpoint of this server; or POD_IP with PADDLE_PORT |

    Without any of these the process is alone: trainer 0 of 1. TranspilerError where they do not fit together,
    on every process.
    """
    values = os.environ if environ is None else environ
    if environ is None and under_mpi():
        return _role_of_rank(pservers)
    if "TRAINING_ROLE" in values:
        return _role_of_variables(values)
    return ProcessRole(TRAINER, 0, 1)


def _role_of_rank(pservers: int) -> ProcessRole:
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    size = MPI.COMM_WORLD.size
    check_not_alone(size)
    trainers = size - pservers
    if trainers < 1:
        raise TranspilerError(
            f"{pservers} servers use all of the {size} processes, and none is left to train: start "
            f"at least {pservers + 1}"
        )
    # names: over MPI nobody listens there
    servers = tuple(f"127.0.0.1:{_FIRST_PORT + number}" for number in range(pservers))
    if rank < trainers:
        return ProcessRole(TRAINER, rank, trainers, servers, "mpi")
    return ProcessRole(PSERVER, rank - trainers, trainers, servers, "mpi")


def _role_of_variables(values: Mapping[str, str]) -> ProcessRole:
    role = values["TRAINING_ROLE"].upper()
    if role not in ("TRAINER", "PSERVER"):
        raise TranspilerError(
            f"TRAINING_ROLE is {values['TRAINING_ROLE']!r}, but should be TRAINER or PSERVER"
        )
    servers = _servers(values)
    trainers = _number(values, "PADDLE_TRAINERS_NUM", "PADDLE_TRAINERS")
    if trainers < 1:
        raise TranspilerError(f"PADDLE_TRAINERS_NUM is {trainers}, but a job has at least one trainer")
    if role == "PSERVER":
        here = (
            values.get("PADDLE_CURRENT_ENDPOINT")
            or f"{values.get('POD_IP', '127.0.0.1')}:{_need(values, 'PADDLE_PORT')}"
        )
        if here not in servers:
            raise TranspilerError(
                f"this server is at {here}, which is not in the list of servers: {', '.join(servers)}"
            )
        return ProcessRole(PSERVER, servers.index(here), trainers, servers, "environment")
    index = _number(values, "PADDLE_TRAINER_ID")
    if index >= trainers:
        raise TranspilerError(
            f"PADDLE_TRAINER_ID is {index}, but there are {trainers} trainers, numbered from 0"
        )
    return ProcessRole(TRAINER, index, trainers, servers, "environment")


def _servers(values: Mapping[str, str]) -> tuple[str, ...]:
    given = values.get("PADDLE_PSERVERS_IP_PORT_LIST")
    if not given and values.get("PADDLE_PSERVER_IPS"):
        port = values.get("PADDLE_PSERVER_PORT") or _need(values, "PADDLE_PORT")
        given = ",".join(f"{address.strip()}:{port}" for address in values["PADDLE_PSERVER_IPS"].split(","))
    if not given:
        raise TranspilerError(
            "TRAINING_ROLE is set, but PADDLE_PSERVERS_IP_PORT_LIST is not: set it to the "
            "endpoints of the servers"
        )
    return parse_endpoints(given)


def _number(values: Mapping[str, str], *names: str) -> int:
    name = next((name for name in names if values.get(name)), names[0])
    text = _need(values, name)
    if not (text.isascii() and text.isdigit()):
        raise TranspilerError(f"{name} is {text!r}, which is not an integer")
    return int(text)


def _need(values: Mapping[str, str], name: str) -> str:
    if not values.get(name):
        raise TranspilerError(f"TRAINING_ROLE is set, but {name} is not")
    return values[name]
