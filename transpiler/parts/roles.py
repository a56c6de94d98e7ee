"""A distributed job: its roles, the programs of each, and which server holds which rows of which
parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.parts.endpoints import parse_endpoints

__all__ = ["MODES", "SERVER_MODES", "Job", "Programs", "Role", "Slice", "make_job"]

SERVER_MODES = ("pserver", "geo_sgd")
MODES = (*SERVER_MODES, "nccl2", "grad_allreduce", "local_sgd", "single_process_multi_thread", "multi_thread")


@dataclass(frozen=True)
class Role:
    """One process of a job: `kind` is "trainer" or "pserver"; trainers of parameter-server jobs have no
    endpoint.
    """

    kind: str
    index: int
    endpoint: str = ""

    @property
    def name(self) -> str:
        """`trainer0`, `pserver1`."""
        return f"{self.kind}{self.index}"


@dataclass(frozen=True)
class Slice:
    """Whole rows of one parameter, and of its gradient, that one server holds.

    Attributes
    ----------
    param, grad: names of the whole parameter and gradient.
    index, count: the position among the parameter's slices, and how many there are.
    first_row, shape: `param[first_row : first_row + shape[0]]`.
    sparse: trainers fetch the rows that they need (the parameter is never received as a whole).
    """

    param: str
    grad: str
    index: int
    count: int
    first_row: int
    shape: tuple[int, ...]
    dtype: VarType
    endpoint: str
    sparse: bool = False

    @property
    def param_name(self) -> str:
        """`w.block1`; plain `w` where the parameter is in one piece."""
        return self.param if self.count == 1 else f"{self.param}.block{self.index}"

    @property
    def grad_name(self) -> str:
        """`w@GRAD.block1`; plain `w@GRAD` where the parameter is in one piece."""
        return self.grad if self.count == 1 else f"{self.grad}.block{self.index}"


@dataclass(frozen=True)
class Programs:
    """What one process runs: `startup` once, then `main` step by step."""

    main: Program
    startup: Program


class Job:
    """All programs of one distributed job, each made when it is first asked for; see `make_job`."""

    def __init__(
        self,
        main: Program,
        startup: Program,
        mode: str,
        trainers: int,
        endpoints: tuple[str, ...],
        sync_mode: bool,
        config: DistributeTranspilerConfig,
    ) -> None:
        self.main, self.startup = main, startup
        self.mode, self.trainers, self.endpoints = mode, trainers, endpoints
        self.sync_mode, self.config = sync_mode, config
        self._made: dict[Role, Programs] = {}
        self._layout: Any = None  # of modes with servers, once it is known

    @property
    def has_servers(self) -> bool:
        """Whether some of the roles are parameter servers."""
        return self.mode in SERVER_MODES

    @cached_property
    def roles(self) -> tuple[Role, ...]:
        """Trainers by number, then servers in the order of their endpoints."""
        places = [""] * self.trainers if self.has_servers else self.endpoints
        servers = self.endpoints if self.has_servers else ()
        return (
            *(Role("trainer", index, place) for index, place in enumerate(places)),
            *(Role("pserver", index, place) for index, place in enumerate(servers)),
        )

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Where every trained parameter went, in the order in which the transpiler placed them; () without
        servers.
        """
        if not self.has_servers:
            return ()
        from fluidlite.transpiler.modes import slices_of

        return slices_of(self)

    def role(self, name: str) -> Role:
        """The role called `name`; TranspilerError with the nearest name."""
        found = {role.name: role for role in self.roles}
        if name not in found:
            raise TranspilerError(
                f"this job has no role {name!r}{did_you_mean(name, found)} "
                f"(it has {self.roles[0].name} to {self.roles[-1].name})"
            )
        return found[name]

    def programs(self, role: Role) -> Programs:
        """What `role` runs. The original programs stay as they are."""
        if role not in self._made:
            from fluidlite.transpiler.modes import make_programs

            self._made[role] = self._in_the_users_lines(make_programs(self, role))
        return self._made[role]

    @cached_property
    def _lines(self) -> frozenset[Any]:
        return frozenset(
            op.where for program in (self.main, self.startup) for block in program.blocks for op in block.ops
        )

    def _in_the_users_lines(self, made: Programs) -> Programs:
        """Ops that stand for none of the original's have no line: else it would be that of whoever asked
        for the programs first.
        """
        for program in (made.main, made.startup):
            for op in (op for block in program.blocks for op in block.ops):
                op.where = op.where if op.where in self._lines else None
        return made

    def trainer(self, index: int = 0) -> Programs:
        """What trainer `index` runs."""
        return self.programs(self.role(f"trainer{index}"))

    def server(self, endpoint: str) -> Programs:
        """What the server at `endpoint` runs."""
        if not self.has_servers or endpoint not in self.endpoints:
            raise TranspilerError(
                f"this job has no server at {endpoint!r}{did_you_mean(endpoint, self.endpoints)}"
            )
        return self.programs(Role("pserver", self.endpoints.index(endpoint), endpoint))


def make_job(
    main: Program,
    startup: Program,
    mode: str = "pserver",
    trainers: int = 2,
    endpoints: int | str | Sequence[str] = 2,
    sync_mode: bool = True,
    config: DistributeTranspilerConfig | None = None,
) -> Job:
    """The distributed form of a training program.

    Parameters
    ----------
    mode: one of `MODES`.
    trainers: how many processes train.
    endpoints: "ip:port,ip:port" of the servers (modes with servers) or of the trainers (the others), or how
    many there are:
        then 127.0.0.1:6174 and the ports behind it. Without servers there are always as many as trainers.
    sync_mode: all trainers take each step together (modes with servers).

    TranspilerError where these do not fit together.
    """
    if mode not in MODES:
        raise TranspilerError(f"no mode {mode!r}{did_you_mean(mode, MODES)} (modes: {', '.join(MODES)})")
    if isinstance(trainers, bool) or not isinstance(trainers, int) or trainers < 1:
        raise TranspilerError(f"trainers should be a positive number, not {trainers!r}")
    places = _places(endpoints if mode in SERVER_MODES or not isinstance(endpoints, int) else trainers)
    if mode not in SERVER_MODES and len(places) != trainers:
        raise TranspilerError(
            f"mode {mode!r} has no servers: {trainers} trainers need as many endpoints, not {len(places)}"
        )
    return Job(
        main, startup, mode, trainers, places, sync_mode, (config or DistributeTranspilerConfig()).copy()
    )


def _places(endpoints: int | str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(endpoints, int):
        return parse_endpoints(endpoints)
    if endpoints < 1:
        raise TranspilerError(f"a job needs at least one endpoint, not {endpoints}")
    first = 6174 if endpoints < 50000 else 1024
    return tuple(f"127.{index // 60000}.0.1:{first + index % 60000}" for index in range(endpoints))
