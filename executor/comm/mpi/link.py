"""Trainers and servers under `mpirun`: a message is its header, with a small value after it in the same
buffer, or followed by the value in a message of its own.

The header tells everything about the value, and MPI tells how long the header is: nothing is sent only to
announce sizes. A large value goes from its own memory into the memory that it is for. Who waits sleeps until
a sender wakes it (`Wakeup`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.links import ServerLink, TrainerLink
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.mpi.wait import SLOWEST, Waiter
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.wire import HEAD_SIZE, Incoming, encode, receive_buffer

__all__ = ["MpiChannel", "MpiServerLink", "MpiTrainerLink"]

_TO_SERVER, _TO_TRAINER = 1, 3  # tags of headers; those of values have one more
_SMALL = 1 << 13  # bytes of a value that travels with its header
_AT_ONCE = 3e-4  # seconds in which many answers come: to be woken takes 0.05 ms


class MpiChannel:
    """Messages between two processes; `comm` is the communicator that they travel on."""

    def __init__(self, mpi: Any, comm: Any, waiter: Waiter) -> None:
        self.mpi = mpi
        self.comm = comm
        self.waiter = waiter
        self.status = mpi.Status()  # of the header that `has_arrived` found
        self._sending = threading.Lock()  # a header and its values follow each other

    def send(self, item: Any, to: int, tag: int) -> list[tuple[Any, Any]]:
        """Start to send something: requests, and the memory that has to stay as it is until they are done."""
        head, *frames = encode(item)
        arrays = [np.frombuffer(frame, np.uint8) for frame in frames if memoryview(frame).nbytes]
        header = np.frombuffer(head, np.uint8)
        if sum(array.nbytes for array in arrays) <= _SMALL:
            header = np.concatenate([header, *arrays])
            arrays = []
        with self._sending:
            requests = [(self.comm.Isend(header, to, tag), header)]
            requests += [(self.comm.Isend(array, to, tag + 1), array) for array in arrays]
        self.waiter.wakeup.wake(to)
        return requests

    def has_arrived(self, source: int, tag: int) -> bool:
        """True if a header is there, of a process or of any."""
        return bool(self.comm.Iprobe(source, tag, self.status))

    def receive(self, source: int, tag: int, into: Any = None) -> Any:
        """The message or answer whose header `has_arrived` has found."""
        header = np.empty(self.status.Get_count(self.mpi.BYTE), np.uint8)
        self.comm.Recv(header, source, tag)
        incoming = Incoming(header[:HEAD_SIZE].tobytes())
        start = HEAD_SIZE + incoming.rest
        incoming.describe(header[HEAD_SIZE:start].tobytes())
        ids, array = incoming.arrays(into, receive_buffer)
        for target in (ids, array):
            if target is None or not target.nbytes:
                continue
            memory = target.reshape(-1).view(np.uint8)
            if incoming.nbytes + incoming.ids_bytes <= _SMALL:
                memory[:] = header[start : start + memory.size]
                start += memory.size
            else:
                self._receive_value(memory, source, tag + 1)
        return incoming.item(ids, array)

    def _receive_value(self, memory: Any, source: int, tag: int) -> None:
        request = self.comm.Irecv(memory, source, tag)
        self.waiter.until(
            request.Test,
            lambda: f"the value that process {source} has announced",
            (source,),
            busy=0.001 + memory.nbytes / SLOWEST,
        )


class MpiTrainerLink(TrainerLink):
    """A trainer's way to the processes that are servers. At the first message `meet` gives the channel and
    endpoint -> process.
    """

    def __init__(self, waiter: Waiter, meet: Callable[[], tuple[MpiChannel, dict[str, int]]]) -> None:
        self.waiter = waiter
        self.meet = meet

    def _at(self, endpoint: str) -> tuple[MpiChannel, int]:
        """The channel, and the process that is the server at an endpoint."""
        channel, processes = self.meet()
        if endpoint not in processes:
            known = ", ".join(processes) or "none"
            raise CommunicatorError(f"no process is the server at {endpoint}; servers are {known}")
        return channel, processes[endpoint]

    def post(self, endpoint: str, message: Message) -> None:
        """Send a message to a server, and wait until MPI has taken its value."""
        channel, process = self._at(endpoint)
        requests = channel.send(message, process, _TO_SERVER)
        nbytes = sum(memory.nbytes for _, memory in requests)
        self.waiter.until(
            lambda: all(request.Test() for request, _ in requests),
            lambda: f"the server at {endpoint} to take {message.name or message.kind.name}",
            (process,),
            busy=0.001 + nbytes / SLOWEST,
        )

    def answer(self, endpoint: str, into: Any = None) -> Any:
        """The next answer of a server, read straight into the array `into` where it fits."""
        channel, process = self._at(endpoint)
        self.waiter.until(
            lambda: channel.has_arrived(process, _TO_TRAINER),
            lambda: f"an answer of the server at {endpoint}",
            (process,),
            busy=_AT_ONCE,
            asleep=self.waiter.nap,
        )
        found = channel.receive(process, _TO_TRAINER, into)
        if isinstance(found, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {found.text}")
        return found

    def terms(self, endpoint: str) -> Terms | None:
        """None: the processes tell each other only who they are, of which one transpilation takes care."""
        return None

    def is_connected(self, endpoint: str) -> bool:
        """True: all processes are there until the last one ends."""
        return True

    def close(self) -> None:
        """Do nothing: MPI has no connections that one process could end."""


class MpiServerLink(ServerLink):
    """A server's way to its trainers, which are known once they have said something."""

    ends_waits = True  # every wait of a trainer has a limit, whose error says what the other processes do
    takes_signals = False

    def __init__(self, channel: MpiChannel) -> None:
        self.channel = channel
        self.waiter = channel.waiter
        self._unsent: list[tuple[Any, Any]] = []  # requests of replies, and the memory that they send
        self._trainers: dict[int, int] = {}  # process -> trainer, of those that have not left
        self._interrupted = ""

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        """The next message of any trainer, or that one's process has ended."""
        self._drop_sent()
        mpi = self.channel.mpi
        channel = self.channel
        lost: list[int] = []

        def ready() -> bool:
            lost[:] = sorted(self.waiter.gone.intersection(self._trainers))
            has_arrived = channel.has_arrived(mpi.ANY_SOURCE, _TO_SERVER)
            return has_arrived or bool(lost) or bool(self._interrupted)

        nap = self.waiter.nap
        if not self.waiter.until(
            ready, lambda: "messages of trainers", busy=_AT_ONCE, asleep=nap, within=within
        ):
            return None
        if not channel.has_arrived(mpi.ANY_SOURCE, _TO_SERVER):
            if self._interrupted:
                raise CommunicatorError(self._interrupted)
            return lost[0], Message(Kind.LOST, self._trainers.pop(lost[0]))
        source = channel.status.Get_source()
        message = channel.receive(source, _TO_SERVER)
        assert isinstance(message, Message)
        self._trainers[source] = message.trainer
        if message.kind is Kind.COMPLETE:
            del self._trainers[source]
        return source, message

    def reply(self, to: Any, value: Any) -> None:
        """Start to send an answer, from the memory of `value`."""
        self._drop_sent()
        self._unsent += self.channel.send(value, to, _TO_TRAINER)

    def keep_replies(self) -> None:
        """Do nothing: MPI reads the memory when the trainer takes the answer. A synchronous server changes no
        parameter before all trainers have said that they took it; of an asynchronous one a trainer may get
        a parameter of which some elements are newer than others.
        """

    def interrupt(self, why: str) -> None:
        """Have `next_message` raise, when its sleep of some milliseconds ends."""
        self._interrupted = why

    def close(self, why: str = "") -> None:
        """Do nothing: a process that ends with an error ends all (`python -m mpi4py`), and one that ends
        well waits in `finish` until its answers have arrived.
        """

    def finish(self) -> None:
        """Have all answers arrive, before this process ends."""

        def done() -> bool:
            self._drop_sent()
            return not self._unsent

        self.waiter.until(done, lambda: "trainers to take their answers", asleep=self.waiter.nap, within=5.0)

    def _drop_sent(self) -> None:
        """Let go of the memory of answers that have arrived."""
        if self._unsent:
            self._unsent = [(request, memory) for request, memory in self._unsent if not request.Test()]
