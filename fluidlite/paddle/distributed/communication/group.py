"""Groups of ranks. A group is a value: its members and the number of the ring that they form."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from fluidlite.base.place import CUDAPlace
from fluidlite.executor.comm import Session
from fluidlite.executor.comm.groups import form_ring
from fluidlite.executor.comm.transports import find_session, single_session
from fluidlite.ir.warned import warn_user
from fluidlite.paddle.device import current_place
from fluidlite.paddle.distributed.environment import ParallelEnv

__all__ = [
    "Group",
    "destroy_process_group",
    "form_global_group",
    "get_backend",
    "get_group",
    "global_group",
    "home_session",
    "known_group",
    "new_group",
]

GLOBAL = 0  # the number of the group of all ranks, and of its ring
_FIRST_ID = 10  # of groups that programs make; rings below are those of transpilers


class Group:
    """Some ranks of a job, which communicate over the ring of the group's number.

    rank: the number of this process in the group; -1 if it is not a member.
    ranks: the members, by their numbers in the job.
    """

    def __init__(
        self,
        rank_in_group: int,
        id: int,
        ranks: Sequence[int],
        pg: Session | None = None,
        name: str | None = None,
    ) -> None:
        self._rank = rank_in_group if ranks else -1
        self._id = id
        self._ranks = list(ranks)
        self._session = pg
        self._name = name

    @property
    def rank(self) -> int:
        """The number of this process in the group; -1 if it is not a member."""
        return self._rank

    @property
    def ranks(self) -> list[int]:
        """The members, by their numbers in the job."""
        return self._ranks

    @property
    def nranks(self) -> int:
        """How many members there are."""
        return len(self._ranks)

    @property
    def name(self) -> str | None:
        """The name that the group was given."""
        return self._name

    @property
    def id(self) -> int:
        """The number of the group and of its ring."""
        return self._id

    @property
    def process_group(self) -> Session | None:
        """The connections that the group communicates through."""
        return self._session

    @property
    def world_size(self) -> int:
        """How many members there are, for a member; -1 for others."""
        return self.nranks if self._rank >= 0 else -1

    @property
    def backend(self) -> str:
        """The carrier of the group's arrays: "NCCL", "MPI", or "LOCAL" within one process."""
        return _backend_of(self._session or home_session(), self._id)

    def is_member(self) -> bool:
        """True if this process is one of several members."""
        return self._rank >= 0 and self.nranks > 1

    def get_group_rank(self, rank: int) -> int:
        """The number in the group of a rank of the job; -1 where it, or this process, is no member."""
        return self._ranks.index(rank) if self.is_member() and rank in self._ranks else -1

    def __repr__(self) -> str:
        members = ", ".join(map(str, self._ranks))
        return (
            f"rank: {self._rank}, nranks: {self.nranks}, id: {self._id}, ranks: {members}; name: {self._name}"
        )


# by the session that they communicate through: threads that stand for processes have each their own
_groups: WeakKeyDictionary[Session, _Groups] = WeakKeyDictionary()


class _Groups:
    """The groups of one session, and the endpoints of the job's processes."""

    def __init__(self) -> None:
        self.by_id: dict[int, Group] = {}
        self.next_id = _FIRST_ID
        self.endpoints: list[str] = []


def home_session() -> Session:
    """The session of this thread or process; that of a process of its own where it was started alone."""
    return find_session(needs_servers=False) or single_session()


def _mine() -> _Groups:
    return _groups.setdefault(home_session(), _Groups())


def _backend_of(session: Session, ring_id: int) -> str:
    return "NCCL" if session.on_device(ring_id) else session.host_backend


# ---------------------------------------------------------------------- making and finding
def global_group() -> Group | None:
    """The group of all processes; None before `init_parallel_env`."""
    return _mine().by_id.get(GLOBAL)


def form_global_group() -> Group:
    """The group of all processes, formed at the first call."""
    mine = _mine()
    if GLOBAL not in mine.by_id:
        env = ParallelEnv()
        mine.endpoints = env.trainer_endpoints
        _form(mine, GLOBAL, range(env.world_size), env.rank)
    return mine.by_id[GLOBAL]


def _form(mine: _Groups, number: int, ranks: Sequence[int], rank: int, name: str | None = None) -> Group:
    session = home_session()
    on_device = isinstance(current_place(), CUDAPlace)
    form_ring(session, number, ranks, [mine.endpoints[member] for member in ranks], on_device)
    place = list(ranks).index(rank) if rank in ranks else -1
    mine.by_id[number] = Group(place, number, ranks, session, name)
    return mine.by_id[number]


def new_group(
    ranks: Sequence[int] | None = None,
    backend: str | None = None,
    timeout: datetime.timedelta = datetime.timedelta(seconds=1800),
) -> Group:
    """The group of these ranks, of all by default. All processes make the same groups in the same order.

    backend, timeout: for programs of 2.x; the place of arrays says what carries them, and
    FLAGS_rpc_deadline is the time limit.

    ValueError for ranks that the job does not have, or that occur twice.
    """
    everybody = form_global_group()
    members = sorted(everybody.ranks if ranks is None else ranks)
    wrong = [rank for rank in members if rank not in everybody.ranks]
    if wrong or len(set(members)) != len(members) or not members:
        raise ValueError(
            f"cannot make a group of the ranks {members}: the ranks of the job are 0 to "
            f"{everybody.nranks - 1}, and each member may be given once"
        )
    mine = _mine()
    number = mine.next_id
    mine.next_id += 1
    return _form(mine, number, members, everybody.rank)


def known_group(id: int) -> Group:
    """The group of this number; ValueError where it was not made."""
    mine = _mine()
    if id not in mine.by_id:
        known = sorted(mine.by_id) or "none: call init_parallel_env"
        raise ValueError(f"Group {id} is not initialized (groups: {known})")
    return mine.by_id[id]


def get_group(id: int = 0) -> Group | None:
    """The group of this number; None, with a warning, where it was not made."""
    found = _mine().by_id.get(id)
    if found is None:
        warn_user(f"Group {id} is not initialized.", category=UserWarning)
    return found


def destroy_process_group(group: Group | None = None) -> None:
    """Forget a group; without one, all of them: `init_parallel_env` begins anew then."""
    mine = _mine()
    if group is None or group.id == GLOBAL:
        _groups.pop(home_session())
    elif mine.by_id.pop(group.id, None) is None:
        raise ValueError(f"group {group.id} was not created, or is already destroyed")


def get_backend(group: Group | None = None) -> str:
    """The carrier of a group's arrays, by default of the group of all: "NCCL", "MPI" or "LOCAL". RuntimeError
    before `init_parallel_env`.
    """
    found = group or global_group()
    if found is None:
        raise RuntimeError("get_backend: the group of all processes is made by init_parallel_env()")
    return found.backend
