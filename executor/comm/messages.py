"""The messages between trainers and parameter servers."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from fluidlite.base.records import dataclass
from fluidlite.values.tensor import SelectedRows

__all__ = ["Error", "Kind", "Message", "copied", "nbytes_of"]


class Kind(enum.IntEnum):
    """The purpose of a message; the number travels. Those from GET on are answered."""

    SEND = 0  # the value of `name`: a gradient, or a count of steps
    COMPLETE = 1  # this trainer leaves
    GET = 2  # asks for the value of `name`
    ROWS = 3  # asks for rows of the table `name`
    BARRIER = 4  # this trainer has sent all its gradients; answered when the step is done
    WANT = 5  # asks for the value of `name` after the step that this trainer's next BARRIER ends
    SAVE = 6  # asks the server to write its tables into the folder `name`
    GATHER = 7  # for the rendezvous `name`, whose first trainer gets the values of all
    STATE = 8  # asks for what the server holds besides parameters and accumulators
    CHANGED = 9  # asks for the rows of the table `name` that have changed since this trainer asked last
    SHARE = 10  # for the rendezvous `name`, in which all get the value of the first trainer
    LOST = 15  # never sent: a server's link says that a trainer's connection has ended without a COMPLETE


@dataclass(frozen=True)
class Message:
    """One message; `value` is an array, SelectedRows, or None."""

    kind: Kind
    trainer: int
    name: str = ""
    value: Any = None

    @property
    def wants_answer(self) -> bool:
        """True if the sender waits for an answer."""
        return self.kind >= Kind.GET

    def copy(self) -> Message:
        """The message with a value of its own, which stays when the sender's memory changes."""
        return Message(self.kind, self.trainer, self.name, copied(self.value))


class Error(NamedTuple):
    """A server's answer to what it cannot do."""

    text: str


def copied(value: Any) -> Any:
    """A value in memory of its own; an Error, or None, as it is."""
    if isinstance(value, SelectedRows):
        return SelectedRows(value.ids.copy(), value.height(), value.array.copy())
    return value if value is None or isinstance(value, Error) else value.copy()


def nbytes_of(value: Any) -> int:
    """Bytes of an array, or of SelectedRows with their row numbers; 0 for None and for an Error."""
    if isinstance(value, SelectedRows):
        return int(value.array.nbytes + value.ids.nbytes)
    return 0 if value is None or isinstance(value, Error) else int(value.nbytes)
