"""Records of a job's timeline: spans of the threads of this process, and the two ends of each message.

Times are those of `time.perf_counter`, which on one machine is one clock for all processes.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Tracer", "tracer"]


class Tracer:
    """Collects events of Chrome's trace format while `active`; each also names its thread."""

    def __init__(self) -> None:
        self.active = False
        self.events: list[dict[str, Any]] = []
        self._savers: list[Callable[[], None]] = []

    def at_end(self, save: Callable[[], None]) -> None:
        """Have `save` called once by `end`."""
        self._savers.append(save)

    def end(self, why: str = "") -> None:
        """Save what was recorded: at the end of the process, or before it is ended, for the reason given."""
        if why and self.active:
            start = time.perf_counter() * 1e6
            self._add(name=why, cat="failure", ph="i", s="p", ts=start)
        while self._savers:
            self._savers.pop()()

    def ended(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal that ends the process: save what was recorded, and end as it asks."""
        self.end("ended")
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def span(self, name: str, kind: str, start: float, **details: Any) -> None:
        """Something that began at `start` and ends now."""
        end = time.perf_counter()
        self._add(name=name, cat=kind, ph="X", ts=start * 1e6, dur=(end - start) * 1e6, args=details)

    def message(self, name: str, flow: str, start: float, arrives: bool, **details: Any) -> None:
        """One end of a message, which took from `start` until now; `flow` is the same at both ends."""
        self.span(name, "receive" if arrives else "send", start, **details)
        # an arrow is bound to the span around its own time
        place = {"ts": time.perf_counter() * 1e6 - 0.01} if arrives else {"ts": start * 1e6 + 0.01}
        ends = {"ph": "f", "bp": "e"} if arrives else {"ph": "s"}
        self._add(name="message", cat="message", id=flow, **ends, **place)

    def _add(self, **event: Any) -> None:
        event["thread"] = threading.current_thread().name
        event["tid"] = threading.get_ident()
        self.events.append(event)


tracer = Tracer()
