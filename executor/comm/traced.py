"""The two ends of the way between trainers and servers, with each message noted in the job's timeline."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

from fluidlite.base.tracing import tracer
from fluidlite.executor.comm.links import ServerLink, TrainerLink
from fluidlite.executor.comm.messages import Kind, Message, nbytes_of
from fluidlite.executor.comm.terms import Terms

__all__ = ["traced_server_link", "traced_trainer_link"]


def traced_trainer_link(link: TrainerLink | None) -> TrainerLink | None:
    """The link, or one that also notes its messages while a timeline is recorded."""
    if link is None or not tracer.active or isinstance(link, _TracedTrainerLink):
        return link
    return _TracedTrainerLink(link)


def traced_server_link(link: ServerLink, endpoint: str) -> ServerLink:
    """The same for the server at `endpoint`."""
    return _TracedServerLink(link, endpoint) if tracer.active else link


class _TracedTrainerLink(TrainerLink):
    """Numbers the messages to each server, and its answers; both ends count alike, for the order is kept."""

    def __init__(self, link: TrainerLink) -> None:
        self.link = link
        self.posted: dict[str, int] = defaultdict(int)
        self.answered: dict[str, int] = defaultdict(int)
        self.trainer = 0

    def post(self, endpoint: str, message: Message) -> None:
        start = time.perf_counter()
        self.trainer = message.trainer
        number = self.posted[endpoint] = self.posted[endpoint] + 1
        self.link.post(endpoint, message)
        name = f"{message.kind.name} {message.name}".rstrip()
        flow = f"{endpoint}/{message.trainer}/{number}"
        tracer.message(name, flow, start, False, bytes=nbytes_of(message.value), to=endpoint)

    def answer(self, endpoint: str, into: Any = None) -> Any:
        start = time.perf_counter()
        number = self.answered[endpoint] = self.answered[endpoint] + 1
        value = self.link.answer(endpoint, into)
        flow = f"{endpoint}/{self.trainer}/answer {number}"
        tracer.message("answer", flow, start, True, bytes=nbytes_of(value), source=endpoint)
        return value

    def terms(self, endpoint: str) -> Terms | None:
        return self.link.terms(endpoint)

    def is_connected(self, endpoint: str) -> bool:
        return self.link.is_connected(endpoint)

    def close(self) -> None:
        self.link.close()


class _TracedServerLink(ServerLink):
    """The server's end of the same numbers."""

    def __init__(self, link: ServerLink, endpoint: str) -> None:
        self.link = link
        self.ends_waits = link.ends_waits
        self.takes_signals = link.takes_signals
        self.endpoint = endpoint
        self.taken: dict[int, int] = defaultdict(int)
        self.replied: dict[int, int] = defaultdict(int)
        self.trainers: dict[Any, int] = {}  # address of a reply -> trainer

    def next_message(self, within: float | None = None) -> tuple[Any, Message] | None:
        found = self.link.next_message(within)
        if found is None or found[1].kind is Kind.LOST:
            return found
        to, message = found
        number = self.taken[message.trainer] = self.taken[message.trainer] + 1
        self.trainers[to] = message.trainer
        name = f"{message.kind.name} {message.name}".rstrip()
        flow = f"{self.endpoint}/{message.trainer}/{number}"
        # from when it was taken: the wait before it is nobody's work
        tracer.message(name, flow, time.perf_counter(), True, bytes=nbytes_of(message.value))
        return found

    def reply(self, to: Any, value: Any) -> None:
        start = time.perf_counter()
        trainer = self.trainers.get(to, 0)
        number = self.replied[trainer] = self.replied[trainer] + 1
        self.link.reply(to, value)
        flow = f"{self.endpoint}/{trainer}/answer {number}"
        tracer.message("answer", flow, start, False, bytes=nbytes_of(value), to=f"trainer{trainer}")

    def keep_replies(self) -> None:
        self.link.keep_replies()

    def interrupt(self, why: str) -> None:
        self.link.interrupt(why)

    def close(self, why: str = "") -> None:
        self.link.close(why)
