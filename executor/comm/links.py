"""The two ends of the way between trainers and parameter servers. A transport that serves them has a class
for each end; a thread, a process of `mpirun` and a process at an address differ in these methods only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from fluidlite.executor.comm.messages import Message
from fluidlite.executor.comm.terms import Terms

__all__ = ["ServerLink", "TrainerLink"]


class TrainerLink(ABC):
    """A trainer's end. Answers of one server come in the order of the questions.

    Every wait ends: with the answer, or with a CommunicatorError after the time limit of the transport.
    """

    @abstractmethod
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to the server at `endpoint`, which may not listen yet. When this returns, the value
        of the message may be changed again.
        """

    @abstractmethod
    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The answer to the oldest open question to a server; CommunicatorError where that is an `Error`.

        An array of the same shape and type may be read straight into `into`, and is `into` then.
        """

    @abstractmethod
    def terms(self, endpoint: str) -> Terms | None:
        """The terms of a server, waiting until it listens; None over transports that do not carry them."""

    @abstractmethod
    def is_connected(self, endpoint: str) -> bool:
        """True if a server can be told something without waiting for it to come up."""

    @abstractmethod
    def close(self) -> None:
        """End the connections. What was posted still arrives."""


class ServerLink(ABC):
    """A server's end, from `Session.listen` until `close`."""

    # True if the transport ends every wait of a trainer by itself. Otherwise a server that waits for a
    # trainer limits that time, so that the others hear which one it is.
    ends_waits: bool
    # True if a signal to end shall end the server well. Those of threads are their process's, and those of
    # processes under `mpirun` are mpirun's.
    takes_signals: bool

    @abstractmethod
    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """The next message, and the address for its reply; None where there is none `within` so many
        seconds.

        A message of the kind LOST tells that the connection of a trainer has ended without a COMPLETE.
        CommunicatorError after `interrupt`, or where no message can come any more.
        """

    @abstractmethod
    def reply(self, to: Any, value: Any) -> None:
        """Answer a message with an array, SelectedRows, None or an Error, without waiting until it arrives.
        The value may be sent later: call `keep_replies` before its memory changes.
        """

    @abstractmethod
    def keep_replies(self) -> None:
        """Have the replies that are not sent yet keep their values when the memory of these changes, as far
        as the transport can; one that cannot says what trainers may get.
        """

    @abstractmethod
    def interrupt(self, why: str) -> None:
        """Have `next_message` raise CommunicatorError(why) instead of waiting. Signal handlers and other
        threads may call this.
        """

    @abstractmethod
    def close(self, why: str = "") -> None:
        """End the connections; where there is a reason, let the trainers that are still connected know it."""
