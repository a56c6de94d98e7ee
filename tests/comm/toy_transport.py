"""A transport in one file, as small as it can be: threads that pass values through queues. It shows what a
new transport has to define; the table of `test_transports` runs it.
"""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.errors import CommunicatorError
from fluidlite.executor.comm.links import ServerLink, TrainerLink
from fluidlite.executor.comm.messages import Error, Message, copied
from fluidlite.executor.comm.reduction import reduce_part
from fluidlite.executor.comm.rings import HostRing, ReductionRequest
from fluidlite.executor.comm.session import Pace, Session
from fluidlite.executor.comm.terms import Terms
from fluidlite.executor.comm.wire import Incoming

LIMIT = 300.0  # seconds after which a value counts as lost


class Queues:
    """The queues that the threads of a job share: one for each pair of a place and a purpose."""

    def __init__(self) -> None:
        self._queues: dict[Any, queue.Queue[Any]] = defaultdict(queue.Queue)
        self._looking = threading.Lock()

    def _queue(self, key: Any) -> queue.Queue[Any]:
        with self._looking:  # two threads that ask first would each make a queue
            return self._queues[key]

    def put(self, key: Any, value: Any) -> None:
        self._queue(key).put(value)

    def get(self, key: Any, within: float = LIMIT) -> Any:
        try:
            return self._queue(key).get(timeout=within)
        except queue.Empty:
            raise CommunicatorError(f"nothing came for {key}") from None


class ToySession(Session):
    pace = Pace.COUNT

    def __init__(self, queues: Queues) -> None:
        super().__init__(ToyTrainerLink(queues))
        self.queues = queues

    def listen(self, endpoint: str, terms: Terms, check: Callable[[Incoming], None]) -> ServerLink:
        return ToyServerLink(self.queues, endpoint)

    def agree_on_id(self, members: Sequence[str], rank: int, make: Callable[[], bytes]) -> bytes:
        return ",".join(members).encode()

    def join(self, ring_id: int, rank: int, size: int, name: bytes = b"") -> None:
        self.rings[ring_id] = ToyRing(self.queues, ring_id, rank, size)

    def join_devices(self, ring_id: int) -> None:
        raise CommunicatorError("this thread has one device")


class ToyTrainerLink(TrainerLink):
    def __init__(self, queues: Queues) -> None:
        self.queues = queues

    def post(self, endpoint: str, message: Message) -> None:
        self.queues.put(endpoint, (id(self), message.copy()))

    def answer(self, endpoint: str, into: Any = None) -> Any:
        found = self.queues.get(id(self))
        if isinstance(found, Error):
            raise CommunicatorError(f"the server at {endpoint} says: {found.text}")
        return found

    def terms(self, endpoint: str) -> Terms | None:
        return None

    def is_connected(self, endpoint: str) -> bool:
        return True

    def close(self) -> None:
        pass


class ToyServerLink(ServerLink):
    ends_waits = True
    takes_signals = False

    def __init__(self, queues: Queues, endpoint: str) -> None:
        self.queues, self.endpoint = queues, endpoint

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        try:
            to, message = self.queues.get(self.endpoint, LIMIT if within is None else within)
        except CommunicatorError:
            if within is None:
                raise
            return None
        if message is None:
            raise CommunicatorError(to)
        return to, message

    def reply(self, to: Any, value: Any) -> None:
        self.queues.put(to, copied(value))

    def keep_replies(self) -> None:
        pass

    def interrupt(self, why: str) -> None:
        self.queues.put(self.endpoint, (why, None))

    def close(self, why: str = "") -> None:
        pass


class ToyRing(HostRing):
    def __init__(self, queues: Queues, ring_id: int, rank: int, size: int) -> None:
        super().__init__(ring_id, rank, size)
        self.queues = queues

    def _all_gather(self, array: Any, what: str = "all-gather") -> list[Any]:
        for peer in range(self.size):
            self.queues.put((self.ring_id, "all", self.rank, peer), array.copy())
        return [self.queues.get((self.ring_id, "all", peer, self.rank)) for peer in range(self.size)]

    def _broadcast(self, array: Any, root: int) -> Any:
        return self._all_gather(array)[root]

    def _start_all_reduce(self, source: Any, target: Any, reduce_op: str) -> ReductionRequest:
        parts = [part.reshape(-1) for part in self._all_gather(source)]
        reduce_part(parts, [target.reshape(-1)], reduce_op, slice(0, source.size))
        return Finished()

    def send(self, value: Any, peer: int) -> None:
        self.check_peer(peer)
        self.queues.put((self.ring_id, "one", self.rank, peer), value.copy())

    def receive(self, peer: int) -> Any:
        self.check_peer(peer)
        return self.queues.get((self.ring_id, "one", peer, self.rank))


class Finished:
    def poll(self) -> None:
        pass

    def wait(self) -> None:
        pass
