"""What a trainer says to a parameter server."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Error", "Kind", "Message"]


class Kind(enum.IntEnum):
    """What a message is for; those that wait for an answer stand behind GET."""

    SEND = 0  # here is the value of `name`
    COMPLETE = 1  # this trainer leaves
    GET = 2  # what is the value of `name`?
    ROWS = 3  # what are these rows of the table `name`?
    BARRIER = 4  # this trainer has sent all its gradients; answer when the step is done
    WANT = 5  # what is the value of `name` once the step is done that this trainer's next BARRIER ends?
    SAVE = 6  # write your tables into the folder `name`
    MEET = 7  # here is what this trainer brings to the meeting `name`; answer when all have come
    STATE = 8  # what do you hold besides parameters and accumulators?
    CHANGED = (
        9  # which rows of the table `name` have changed since this trainer asked last, and what are they now?
    )
    LOST = (
        15  # never sent: a server's link says that the connection of `trainer` has ended without a COMPLETE
    )


@dataclass(frozen=True)
class Message:
    """One message; `value` is an array, SelectedRows, or None."""

    kind: Kind
    trainer: int
    name: str = ""
    value: Any = None

    @property
    def wants_answer(self) -> bool:
        """Whether the sender waits."""
        return self.kind >= Kind.GET


class Error(NamedTuple):
    """A server's answer to what it cannot do."""

    text: str
