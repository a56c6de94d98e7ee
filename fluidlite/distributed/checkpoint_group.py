"""The processes that save a checkpoint together: trainers that meet at a server, ranks of a ring, or one
alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.rings import Ring
from fluidlite.executor.comm.server.state import StateValues, decode_state
from fluidlite.executor.comm.transports import find_session
from fluidlite.executor.comm.wire import unpack
from fluidlite.ir.program import Program
from fluidlite.saving.distributed import Servers, servers_of

__all__ = ["CheckpointGroup", "group_of"]


class CheckpointGroup:
    """Trainers that all call the same methods in the same order, with arrays of bytes; here, one alone.
    `number` is this one's.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number

    @property
    def is_alone(self) -> bool:
        """True if there are no others."""
        return type(self) is CheckpointGroup

    @property
    def servers(self) -> Servers | None:
        """The parameter servers of these trainers."""
        return None

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Inside, nothing is on its way to a server."""
        yield

    def begin_anew(self) -> None:
        """Parameters have been loaded: changes are counted from here."""

    def share(self, value: Any, about: str) -> Any:
        """The value that the first of them gave."""
        return value

    def gather(self, value: Any, about: str) -> list[Any] | None:
        """For the first of them: what each has given. None for the others."""
        return [value]


class AtServer(CheckpointGroup):
    """Trainers that meet at the first of their parameter servers."""

    def __init__(self, servers: Servers) -> None:
        # geo-SGD's main program does not say which trainer's it is; its startup program did, when it fetched
        # the parameters
        servers.trainer = servers.session().trainer(servers.trainer)
        super().__init__(servers.trainer)
        self.known = servers
        self.endpoints = list(servers.program.distribution.servers)

    @property
    def servers(self) -> Servers:
        """The parameter servers of these trainers."""
        return self.known

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[None]:
        """Inside, the communicator of an asynchronous trainer is stopped: it has sent what it had."""
        session = self.known.session()
        communicator = session.communicator
        if communicator is None:
            yield
            return
        communicator.stop()
        try:
            yield
        finally:
            communicator.start(session)

    def begin_anew(self) -> None:
        """Geo-SGD's first copies of the parameters are those that were loaded."""
        communicator = self.known.session().communicator
        if communicator is not None:
            communicator.restart_from_parameters()

    def share(self, value: Any, about: str) -> Any:
        """The value that the trainer of the lowest number gave."""
        return self._meet(Kind.SHARE, about, value)

    def gather(self, value: Any, about: str) -> list[Any] | None:
        """For the trainer of the lowest number: what each has given."""
        found = self._meet(Kind.GATHER, about, value)
        return None if found is None else unpack(found)

    def _meet(self, kind: Kind, name: str, value: Any) -> Any:
        session = self.known.session()
        session.post(self.endpoints[0], Message(kind, self.number, name, value))
        return session.link.answer(self.endpoints[0])

    def states(self) -> list[tuple[StateValues, dict[str, Any]]]:
        """The state of each server besides parameters and accumulators."""
        session = self.known.session()
        for endpoint in self.endpoints:
            session.post(endpoint, Message(Kind.STATE, self.number))
        return [decode_state(session.link.answer(endpoint)) for endpoint in self.endpoints]


class InRing(CheckpointGroup):
    """The ranks of a ring."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring.rank)
        self.ring = ring

    def share(self, value: Any, about: str) -> Any:
        """The value that rank 0 gave."""
        # the size first: ranks have to bring an array of the same shape to a broadcast
        size = int(self.ring.broadcast(np.array([value.size]), 0)[0])
        return self.ring.broadcast(value if self.number == 0 else np.zeros(size, np.uint8), 0)

    def gather(self, value: Any, about: str) -> list[Any] | None:
        """For rank 0: what each has given."""
        # 64 bytes each, since ranks gather arrays of one shape
        words = np.frombuffer(about.encode().ljust(64)[:64], np.uint8).reshape(1, -1)
        said = {bytes(each) for each in self.ring.all_gather(words)}
        if len(said) > 1:
            raise CommunicatorError(
                f"ranks do not save the same checkpoint: "
                f"{', '.join(sorted(item.decode().strip() for item in said))}"
            )
        if self.number:
            self.ring.send(value, 0)
            return None
        return [value, *(self.ring.receive(peer) for peer in range(1, self.ring.size))]


def group_of(program: Program, build: Any = None) -> CheckpointGroup:
    """The trainers of the job that a trainer's program belongs to; `build` is the BuildStrategy of one
    that is compiled.
    """
    servers = servers_of(program)
    if servers is not None:
        return AtServer(servers)
    session = find_session(needs_servers=False)
    if session is not None and build is not None and build.num_trainers > 1 and 0 not in session.rings:
        # as the first run would
        session.join(0, build.trainer_id, build.num_trainers)
    rings = [ring for ring in (session.rings.values() if session is not None else ()) if ring.size > 1]
    # the ring of all: in a hierarchical job the others join a part of the ranks
    return InRing(max(rings, key=lambda ring: (ring.size, -ring.ring_id))) if rings else CheckpointGroup()
