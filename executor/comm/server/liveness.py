"""Trainers that have gone silently, and signals that end a server."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Collection, Iterator
from typing import Any

from fluidlite.base import flags
from fluidlite.base.tracing import tracer
from fluidlite.executor.comm.links import ServerLink

__all__ = ["LivenessMonitor", "interrupted_by_signals"]

# of the time limit of a trainer's wait that a step may wait for the last trainer: the others then hear which
# one it was, and not only that nobody answers
SHARE = 0.8


def _seconds(name: str) -> float:
    """A time limit, from its flag in milliseconds."""
    return float(flags.get_flags(name)[name]) / 1000.0


class LivenessMonitor:
    """Time limits of trainers: of those whose connection was lost to come back, and, where `limits_waits`, of
    all to come to the barrier at which the first one waits.
    """

    def __init__(self, limits_waits: bool) -> None:
        self.limits_waits = limits_waits
        self._lost: dict[int, tuple[float, str]] = {}  # trainer -> when its connection was lost, and how
        self._waiting_since = 0.0  # when the first trainer came to the barrier; 0: none is there

    def lose(self, trainer: int, why: str) -> None:
        """The connection of a trainer has ended."""
        self._lost[trainer] = time.monotonic(), why

    def hear(self, trainer: int) -> None:
        """A trainer has said something."""
        self._lost.pop(trainer, None)

    def patience(self, is_waiting: bool) -> float | None:
        """Seconds until some trainer is overdue; None while there is no limit.

        is_waiting: True if some trainer is at the barrier.
        """
        now = time.monotonic()
        wait = _seconds("FLAGS_rpc_lost_trainer_wait")
        if not is_waiting or not self.limits_waits:
            self._waiting_since = 0.0
        elif not self._waiting_since:
            self._waiting_since = now
        ends = [since + wait for since, _ in self._lost.values()]
        if self._waiting_since:
            ends.append(self._waiting_since + SHARE * _seconds("FLAGS_rpc_deadline"))
        return max(0.0, min(ends) - now) if ends else None

    def overdue(self, missing: Collection[int]) -> list[tuple[int, str]]:
        """The trainers whose time is over, and why; `missing` are those that are not at the barrier."""
        return [*self._lost_for_good(), *self._late(missing)]

    def _lost_for_good(self) -> Iterator[tuple[int, str]]:
        now = time.monotonic()
        wait = _seconds("FLAGS_rpc_lost_trainer_wait")
        for trainer, (since, why) in list(self._lost.items()):
            if now - since >= wait:
                del self._lost[trainer]
                yield trainer, f"disconnected without notice {now - since:.1f} s ago ({why})"

    def _late(self, missing: Collection[int]) -> Iterator[tuple[int, str]]:
        waited = time.monotonic() - self._waiting_since
        if self._waiting_since and waited >= SHARE * _seconds("FLAGS_rpc_deadline"):
            self._waiting_since = 0.0
            text = f"has not reached the barrier at which the others have been waiting for {waited:.1f} s"
            yield from ((trainer, text) for trainer in sorted(missing))


@contextlib.contextmanager
def interrupted_by_signals(link: ServerLink, received: list[str]) -> Iterator[None]:
    """Inside the `with`, SIGTERM and SIGINT interrupt the link, unless the program has handlers of its own.
    `received` then says which signal it was.
    """
    # only the main thread of a process can set handlers
    may_handle = link.takes_signals and threading.current_thread() is threading.main_thread()
    own = (signal.SIG_DFL, signal.default_int_handler, tracer.ended)  # Python's and ours
    numbers = [
        number for number in (signal.SIGTERM, signal.SIGINT) if may_handle and signal.getsignal(number) in own
    ]

    def handler(number: int, frame: Any) -> None:
        received.append(f"it was told to stop ({signal.Signals(number).name})")
        link.interrupt(received[0])

    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
