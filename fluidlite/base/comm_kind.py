"""Kinds of communication: between the ranks of a ring, and between trainers and their servers."""

from __future__ import annotations

import enum

__all__ = ["CommKind"]


class CommKind(enum.Enum):
    """The exchange that an op makes with other processes."""

    # all ranks of a ring come to the op before any of them goes on
    ALL_REDUCE = enum.auto()
    """Every rank gets the sum, or another reduction, of all."""
    SHARED_SUM = enum.auto()
    """An all-reduce of the parts of a layer that ranks share: no reduction of gradients."""
    REDUCE = enum.auto()
    """One rank gets it."""
    BROADCAST = enum.auto()
    SCATTER = enum.auto()
    ALL_GATHER = enum.auto()
    """Every rank gets the arrays of all."""
    REDUCE_SCATTER = enum.auto()
    """Every rank gets its part of the sum."""
    PART_GATHER = enum.auto()
    """Every rank has a part of an array, and gets all of it."""
    ALL_TO_ALL = enum.auto()
    """Every rank sends each other one a part of its array."""
    TO_EXPERTS = enum.auto()
    """Rows go to any ranks, or come back from there."""
    BARRIER = enum.auto()

    # other exchanges of ranks
    SEND = enum.auto()
    RECEIVE = enum.auto()
    MAKE_RING = enum.auto()
    OTHER = enum.auto()
    """Exchanges that belong to no program that is transpiled here."""

    # a trainer and its servers
    TO_SERVER = enum.auto()
    FROM_SERVER = enum.auto()
    SERVER_BARRIER = enum.auto()
    LOOK_UP = enum.auto()
    """Rows of a table that servers hold."""
    NOTE = enum.auto()
    """A message without variables."""
    SERVE = enum.auto()
    """The server's end of all these."""

    @property
    def is_collective(self) -> bool:
        """True if all ranks of a ring must come to the op before any of them goes on."""
        return self in _COLLECTIVE

    @property
    def reduces(self) -> bool:
        """True for reductions of arrays that every rank has, such as gradients."""
        return self in (CommKind.ALL_REDUCE, CommKind.REDUCE)

    @property
    def is_served(self) -> bool:
        """True between trainers and servers: processes that were started by hand do it over TCP."""
        return self in _SERVED

    @property
    def is_of_trainer(self) -> bool:
        """True for what trainers say to servers, but for look-ups, which belong to the forward pass."""
        return self in (CommKind.TO_SERVER, CommKind.FROM_SERVER, CommKind.SERVER_BARRIER)


_KINDS = tuple(CommKind)
_COLLECTIVE = frozenset(_KINDS[: _KINDS.index(CommKind.SEND)])
_SERVED = frozenset(_KINDS[_KINDS.index(CommKind.TO_SERVER) :])
