"""Jobs, and the interface of modes: what a job asks of the way in which its processes train together."""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar

from fluidlite.base.cells import table_cell
from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.records import dataclass
from fluidlite.ir.distribution import VarsDistributed
from fluidlite.ir.program import Program
from fluidlite.transpiler.config import DistributedMode, DistributeTranspilerConfig
from fluidlite.transpiler.cost.model import CostCase, Load, StepCost
from fluidlite.transpiler.parts.endpoints import parse_endpoints
from fluidlite.transpiler.parts.roles import PSERVER, TRAINER, JobRole, Programs, Slice
from fluidlite.transpiler.pserver.placement import Placement
from fluidlite.transpiler.rings.periods import Rhythm

__all__ = ["CommunicatorNeed", "Job", "Reference", "TrainingMode", "endpoints_of"]

_SHOWN_ROLES = 8
"""Roles that a notebook shows, before the last one: each has its programs made."""


class Reference(enum.Enum):
    """A computation that a job must agree with."""

    ONE_PROCESS = enum.auto()
    AVERAGING = enum.auto()
    SERVERS_IN_ORDER = enum.auto()
    CHANGES_IN_ORDER = enum.auto()

    @property
    def words(self) -> str:
        """The computation in words that follow "equal to"."""
        return _WORDS[self]

    @property
    def in_order(self) -> bool:
        """True if the result depends on the order of messages: the job then runs one role at a time."""
        return self in (Reference.SERVERS_IN_ORDER, Reference.CHANGES_IN_ORDER)


_IN_ORDER = "a simulation of its servers that takes the same messages in the same order"
_WORDS = {
    Reference.ONE_PROCESS: "one process on the whole batches",
    Reference.AVERAGING: "processes that average their parameters after each step",
    Reference.SERVERS_IN_ORDER: _IN_ORDER,
    Reference.CHANGES_IN_ORDER: _IN_ORDER,
}


@dataclass(frozen=True)
class CommunicatorNeed:
    """A communicator that stands between a trainer and its servers; `facts` are its keyword arguments."""

    kind: DistributedMode
    facts: Mapping[str, Any] = field(default_factory=dict)


class TrainingMode(abc.ABC):
    """One way in which the processes of a job train together.

    Everything that depends on the mode of a job is asked here, so that a new mode is one file with a subclass
    and one line in `fluidlite.transpiler.modes`. Most modes derive from `ServerMode` or `RingMode`, which
    leave them a few lines.

    Attributes
    ----------
    name: the word for it in `make_job`, the command and scripts; also the name of its file.
    about: one sentence for the command's help and the documentation.
    options: the fields of DistributeTranspilerConfig that it reads.
    config_mode: the value of `DistributeTranspilerConfig.mode` that asks for it; "" if none does.
    scaled_as: the name of its line where modes are compared by cost; "" if another line says the same.
    has_servers: some of the roles are parameter servers.
    in_step: all trainers take each step together.
    one_process: the ranks are devices of one process, so that no script is started in it.
    reference: the computation that its results are compared with.
    changes_of_all: rows of sparse tables come back that any trainer has changed, not only those asked for.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    config_mode: ClassVar[str] = ""
    scaled_as: ClassVar[str] = ""
    has_servers: ClassVar[bool] = False
    in_step: ClassVar[bool] = True
    one_process: ClassVar[bool] = False
    reference: ClassVar[Reference] = Reference.ONE_PROCESS
    changes_of_all: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.name

    # ------------------------------------------------------------------ programs
    @abc.abstractmethod
    def programs(self, job: Job, role: JobRole) -> Programs:
        """The programs of `role`; those of the job stay as they are."""

    def configured(self, config: DistributeTranspilerConfig) -> DistributeTranspilerConfig:
        """A copy of the user's choices, with those that the mode itself makes."""
        return config.waiting(self.in_step)

    def asynchronous(self, config: DistributeTranspilerConfig) -> TrainingMode:
        """The mode for trainers that do not wait for each other, if there is one besides this."""
        return self

    def placement(self, job: Job) -> Placement | None:
        """The slices of all parameters on their servers; None in modes without servers."""
        return None

    def parts(self, job: Job) -> VarsDistributed:
        """The part of each variable that each server holds, in fluid's form; empty without servers."""
        return VarsDistributed()

    def trainer(self, job: Job, index: int) -> tuple[Program, list[Program]]:
        """The program that trainer `index` runs step by step, and those that it runs once before."""
        made = job.trainer(index)
        return made.main, [made.startup]

    # ------------------------------------------------------------------ runs
    def communicator(self, job: Job) -> CommunicatorNeed | None:
        """The communicator that a trainer needs; None if its ops talk to servers by themselves."""
        return None

    def copies(self, job: Job, role: JobRole) -> Mapping[str, Sequence[str]]:
        """Parameter, or slice, of a role -> other variables of the role that begin with the same value."""
        return {}

    def steps_between_exchanges(self, job: Job) -> int:
        """The number of steps after which trainers exchange something: 1 in most modes."""
        return 1

    def rhythm(self, job: Job) -> Rhythm | None:
        """The steps at whose end trainers that average do so; None: all of them."""
        return None

    def group_size(self, job: Job) -> int:
        """The number of trainers that are reduced first; only the first of such a group talks to others."""
        return 1

    # ------------------------------------------------------------------ cost
    @abc.abstractmethod
    def cost(self, job: Job, case: CostCase) -> StepCost:
        """The cost of one step of a job."""

    @abc.abstractmethod
    def step(self, job: Job, case: CostCase, servers: int) -> Callable[[int], tuple[float, Load]]:
        """A function of the number of trainers that gives seconds of a step, and what one trainer exchanges
        in it, if the program of `job` were trained in this mode on so many servers.
        """


class Job:
    """All programs of one distributed job, each made when it is first asked for; see `make_job`."""

    def __init__(
        self,
        main: Program,
        startup: Program,
        mode: TrainingMode,
        trainers: int,
        endpoints: tuple[str, ...],
        config: DistributeTranspilerConfig,
    ) -> None:
        self.main = main
        self.startup = startup
        self.mode = mode
        self.trainers = trainers
        self.endpoints = endpoints
        self.config = config
        self._made: dict[JobRole, Programs] = {}

    @property
    def has_servers(self) -> bool:
        """True if some of the roles are parameter servers."""
        return self.mode.has_servers

    @cached_property
    def roles(self) -> tuple[JobRole, ...]:
        """Trainers by number, then servers in the order of their endpoints."""
        places = [""] * self.trainers if self.has_servers else self.endpoints
        servers = self.endpoints if self.has_servers else ()
        return (
            *(JobRole(TRAINER, index, place) for index, place in enumerate(places)),
            *(JobRole(PSERVER, index, place) for index, place in enumerate(servers)),
        )

    @cached_property
    def placement(self) -> Placement:
        """The slices of all parameters on their servers; TranspilerError in modes without servers."""
        found = self.mode.placement(self)
        if found is None:
            raise TranspilerError(f"mode {self.mode.name!r} has no servers, so no variable is placed on one")
        return found

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """The slices in the order in which servers were given out; () without servers."""
        return self.placement.slices if self.has_servers else ()

    @cached_property
    def parts(self) -> VarsDistributed:
        """The part of each variable that each server holds, in fluid's form."""
        return self.mode.parts(self)

    def role(self, name: str) -> JobRole:
        """The role called `name`; TranspilerError with the nearest name."""
        found = {role.name: role for role in self.roles}
        if name not in found:
            raise TranspilerError(
                f"this job has no role {name!r}{did_you_mean(name, found)} "
                f"(it has {self.roles[0].name} to {self.roles[-1].name})"
            )
        return found[name]

    def programs(self, role: JobRole) -> Programs:
        """The programs of `role`. The original programs stay as they are."""
        if role not in self._made:
            self._made[role] = self._in_the_users_lines(self.mode.programs(self, role))
        return self._made[role]

    def _repr_html_(self) -> str:
        """The first roles with the sizes of their programs, as a notebook shows them."""
        shown = (*self.roles[:_SHOWN_ROLES], *self.roles[_SHOWN_ROLES:][-1:])
        rows = [self._row(role) for role in shown]
        if len(self.roles) > len(shown):
            rows.insert(-1, (f"... {len(self.roles) - len(shown)} more", "", "", ""))
        servers = f", {len(self.endpoints)} servers" if self.has_servers else ""
        title = f"Job: {self.mode.name}, {self.trainers} trainers{servers}"
        return table_cell(title, ("role", "endpoint", "ops a step", "ops at the start"), rows)

    def _row(self, role: JobRole) -> tuple[object, ...]:
        made = self.programs(role)
        main, startup = (sum(len(block.ops) for block in each.blocks) for each in (made.main, made.startup))
        return role.name, role.endpoint, main, startup

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
            for block in program.blocks:
                for op in block.ops:
                    if op.where not in self._lines:
                        op.where = None
        return made

    def trainer(self, index: int = 0) -> Programs:
        """The programs of trainer `index`."""
        return self.programs(self.role(JobRole(TRAINER, index).name))

    def server(self, endpoint: str) -> Programs:
        """The programs of the server at `endpoint`."""
        if not self.has_servers or endpoint not in self.endpoints:
            raise TranspilerError(
                f"this job has no server at {endpoint!r}{did_you_mean(endpoint, self.endpoints)}"
            )
        return self.programs(JobRole(PSERVER, self.endpoints.index(endpoint), endpoint))


def endpoints_of(given: int | str | Sequence[str]) -> tuple[str, ...]:
    """The endpoints as given, or so many on this machine: 127.0.0.1:6174 and the ports after it."""
    if not isinstance(given, int):
        return parse_endpoints(given)
    if given < 1:
        raise TranspilerError(f"a job needs at least one endpoint, not {given}")
    # from fluid's usual port on; a job of many thousand endpoints takes all ports, and then more addresses
    first = 6174 if given < 50000 else 1024
    return tuple(f"127.{index // 60000}.0.1:{first + index % 60000}" for index in range(given))
