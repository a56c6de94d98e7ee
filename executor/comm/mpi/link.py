"""Trainers and servers under `mpirun`: a message is its header, with a small value behind it, or followed by
the value itself.

The header tells everything about the value, and MPI tells how long the header is: nothing is sent only to
announce sizes. A large value goes from its own memory into the memory that it is for. Who waits sleeps until
a sender rings (`Bell`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.mpi.wait import Waiter
from fluidlite.executor.comm.tcp.stream import recycled
from fluidlite.executor.comm.wire import HEAD_SIZE, Incoming, encode

__all__ = ["MpiLink"]

_TO_SERVER, _TO_TRAINER, _VALUES = 1, 2, 3  # tags; values of what goes to trainers have one more
_SMALL = 1 << 13  # bytes of a value that travels with its header
_AT_ONCE = 3e-4  # seconds in which many answers come: to be woken takes 0.05 ms
_SLOWEST = 2e8  # bytes a second: see mpi_rings


class MpiLink:
    """The way between trainers and servers; `meet(endpoint, trainers)` tells at which ranks the servers
    are.
    """

    def __init__(self, mpi: Any, waiter: Waiter, meet: Callable[..., dict[str, int]]) -> None:
        self.mpi, self.waiter, self.meet = mpi, waiter, meet
        self.world: Any = None  # once all have met
        self.sending = threading.Lock()  # a header and its values follow each other
        self.replies: list[tuple[Any, Any]] = []  # requests, and the memory that they send
        self.trainers: dict[int, int] = {}  # process -> trainer, of those that have not left
        self.status = mpi.Status()

    def rank_of(self, endpoint: str) -> int:
        """The rank of the server at `endpoint`."""
        ranks = self.meet()
        if endpoint not in ranks:
            raise CommunicatorError(
                f"no process is the server at {endpoint}; servers are {', '.join(ranks) or 'none'}"
            )
        return ranks[endpoint]

    # ------------------------------------------------------------------ a trainer
    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to a server; returns when its value may be changed again."""
        rank = self.rank_of(endpoint)
        requests = self._send(message, rank, _TO_SERVER, _VALUES)
        nbytes = sum(memory.nbytes for _, memory in requests)

        def done() -> bool:
            return all(request.Test() for request, _ in requests)

        self.waiter.until(
            done,
            lambda: f"the server at {endpoint} to take {message.name or message.kind.name}",
            (rank,),
            busy=0.001 + nbytes / _SLOWEST,
        )

    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The next answer of a server, read straight into the array `into` where it fits."""
        rank = self.rank_of(endpoint)
        self.waiter.until(
            lambda: self._arrived(rank, _TO_TRAINER),
            lambda: f"an answer of the server at {endpoint}",
            (rank,),
            busy=_AT_ONCE,
            asleep=self.waiter.nap,
        )
        found = self._receive(rank, _TO_TRAINER, _VALUES + 1, into)
        if isinstance(found, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {found.text}")
        return found

    # ------------------------------------------------------------------ a server
    def listen(self, endpoint: str, trainers: int = 0) -> None:
        """Be the server at `endpoint`."""
        self.meet(endpoint, trainers)

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """The next message of any trainer, or that one has ended without saying so; None where nothing
        comes in time.
        """
        self.reap()
        lost: list[int] = []

        def ready() -> bool:
            lost[:] = sorted(self.waiter.gone.intersection(self.trainers))
            return self._arrived(self.mpi.ANY_SOURCE, _TO_SERVER) or bool(lost)

        if not self.waiter.until(
            ready, lambda: "messages of trainers", busy=_AT_ONCE, asleep=self.waiter.nap, within=within
        ):
            return None
        if lost and not self._arrived(self.mpi.ANY_SOURCE, _TO_SERVER):
            return lost[0], Message(Kind.LOST, self.trainers.pop(lost[0]))
        source = self.status.Get_source()
        message = self._receive(source, _TO_SERVER, _VALUES)
        assert isinstance(message, Message)
        self.trainers[source] = message.trainer
        if message.kind is Kind.COMPLETE:
            del self.trainers[source]
        return source, message

    def reply(self, to: Any, value: Any) -> None:
        """Answer a message; does not wait until the trainer takes it, and sends what the array holds then.

        A synchronous server changes no parameter before all trainers have said that they took it.
        """
        self.reap()
        self.replies += self._send(value, to, _TO_TRAINER, _VALUES + 1)

    def reap(self) -> None:
        """Forget the answers that have arrived."""
        if self.replies:
            self.replies = [(request, memory) for request, memory in self.replies if not request.Test()]

    def finish(self) -> None:
        """Have all answers arrive, before this process ends."""

        def done() -> bool:
            self.reap()
            return not self.replies

        self.waiter.until(done, lambda: "trainers to take their answers", asleep=self.waiter.nap, within=5.0)

    # ------------------------------------------------------------------ messages
    def _send(self, item: Any, to: int, tag: int, tag_of_values: int) -> list[tuple[Any, Any]]:
        """Start to send something: requests and the memory that has to stay as it is."""
        head, *frames = encode(item)
        arrays = [np.frombuffer(frame, np.uint8) for frame in frames if memoryview(frame).nbytes]
        with self.sending:
            if sum(array.nbytes for array in arrays) <= _SMALL:
                letter = np.concatenate([np.frombuffer(head, np.uint8), *arrays])
                requests = [(self.world.Isend(letter, to, tag), letter)]
            else:
                letter = np.frombuffer(head, np.uint8)
                requests = [
                    (self.world.Isend(letter, to, tag), letter),
                    *((self.world.Isend(array, to, tag_of_values), array) for array in arrays),
                ]
        self.waiter.bell.ring(to)
        return requests

    def _arrived(self, source: int, tag: int) -> bool:
        return self.world.Iprobe(source, tag, self.status)

    def _receive(self, source: int, tag: int, tag_of_values: int, into: Any = None) -> Any:
        """What `_send` sent; the status is that of its header."""
        letter = np.empty(self.status.Get_count(self.mpi.BYTE), np.uint8)
        self.world.Recv(letter, source, tag)
        incoming = Incoming(letter[:HEAD_SIZE].tobytes())
        start = HEAD_SIZE + incoming.rest
        incoming.describe(letter[HEAD_SIZE:start].tobytes())
        ids, array = incoming.arrays(into, recycled)
        for target in (ids, array):
            if target is None or not target.nbytes:
                continue
            memory = target.reshape(-1).view(np.uint8)
            if incoming.nbytes + incoming.ids_bytes <= _SMALL:
                memory[:] = letter[start : start + memory.size]
                start += memory.size
            else:
                self._receive_value(memory, source, tag_of_values)
        return incoming.item(ids, array)

    def _receive_value(self, memory: Any, source: int, tag: int) -> None:
        request = self.world.Irecv(memory, source, tag)
        self.waiter.until(
            request.Test,
            lambda: f"the value that process {source} has announced",
            (source,),
            busy=0.001 + memory.nbytes / _SLOWEST,
        )
