"""Streams and events with logical clocks: work runs at once, and who has waited for whom is kept beside it,
so that a read that nothing orders after a write is an error, however lucky the moment.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, NoReturn

__all__ = [
    "CaptureError",
    "Event",
    "Memory",
    "RaceError",
    "Stream",
    "current",
    "host_reads",
    "place_of",
    "stream_of",
    "submit",
]

Range = tuple["Memory", int, int]
Clock = dict[int, int]

_lock = threading.RLock()
_ids = itertools.count(1)
_memories: weakref.WeakSet[Memory] = weakref.WeakSet()
_streams: weakref.WeakSet[Stream] = weakref.WeakSet()
_host: Clock = {}
"""The work of each stream, up to a number, that the host has waited for."""


class RaceError(AssertionError):
    """A read or write that is not ordered after the write (or read) before it."""


class CaptureError(RuntimeError):
    """An action that CUDA refuses while a stream is captured."""


class Memory:
    """An allocation on a device, with who read and wrote which bytes of it last."""

    def __init__(self, device: int, low: int = 0, high: int = 0) -> None:
        self.device = device
        self.low = low
        self.high = high
        _memories.add(self)
        self.written: dict[tuple[int, int], tuple[int, int]] = {}
        self.read: dict[tuple[int, int], Clock] = {}

    def check(self, start: int, stop: int, clock: Clock, is_write: bool, who: str) -> None:
        """RaceError where `clock` has not seen what was done to these bytes."""
        for (low, high), (stream, time) in self.written.items():
            if low < stop and start < high and clock.get(stream, 0) < time:
                raise RaceError(f"{who} touches bytes {start}-{stop} that stream {stream} may still write")
        for (low, high), readers in self.read.items() if is_write else ():
            for stream, time in readers.items():
                if low < stop and start < high and clock.get(stream, 0) < time:
                    raise RaceError(f"{who} writes bytes {start}-{stop} that stream {stream} may still read")

    def note(self, start: int, stop: int, stream: int, time: int, is_write: bool) -> None:
        """Keep that a stream touched these bytes."""
        if is_write:
            self.written[start, stop] = (stream, time)
            return
        self.read.setdefault((start, stop), {})[stream] = time


def place_of(address: int, nbytes: int) -> Range:
    """The allocation that some bytes lie in."""
    for memory in list(_memories):
        if memory.low <= address and address + nbytes <= memory.high:
            return memory, address, address + nbytes
    raise RaceError(f"no allocation holds the {nbytes} bytes at {address}")


def stream_of(number: int) -> Stream:
    """The stream with a handle."""
    return next(stream for stream in list(_streams) if stream.number == number)


def _merge(into: Clock, other: Clock) -> None:
    for stream, time in other.items():
        into[stream] = max(into.get(stream, 0), time)


class Capture:
    """Work that is kept instead of done, of a stream and of those that wait for events of it."""

    def __init__(self, origin: Stream) -> None:
        self.origin = origin
        self.work: list[Callable[[], None]] = []
        self.streams = [origin]
        self.loose: set[Stream] = set()
        """Streams with work that the origin does not wait for."""
        self.is_broken = False

    def refuse(self, what: str) -> NoReturn:
        """CaptureError; the capture cannot be ended well any more."""
        self.is_broken = True
        raise CaptureError(what)


class Event:
    """A point in the work of a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.clock: Clock = {}
        self.moment = 0.0
        self.capture: Capture | None = None
        self.covers: set[Stream] = set()
        """Of an event in a capture: the streams whose work lies before it."""

    def record(self, stream: Stream | None = None) -> None:
        """Stand behind what the stream has been given so far."""
        found = stream or current()
        self.capture = found.capture
        if found.capture is None:
            self._mark(found)
            return
        self.covers = {found, *found.covered}
        found.capture.work.append(lambda: self._mark(found))

    def _mark(self, stream: Stream) -> None:
        self.clock = dict(stream.seen())
        self.moment = perf_counter()

    def synchronize(self) -> None:
        """Let the host wait."""
        capture = current().capture or self.capture
        if capture is not None:
            capture.refuse("an event is waited for while a stream is captured")
        with _lock:
            _merge(_host, self.clock)


class Stream:
    """A queue of work. While it is captured, work is kept in a list instead of done."""

    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False, **_: Any) -> None:
        self.number = next(_ids)
        _streams.add(self)
        self.non_blocking = non_blocking
        self.clock: Clock = {self.number: 0}
        self.capture: Capture | None = None
        self.covered: set[Stream] = set()
        """While it is captured: the streams that it has waited for."""
        self._before: list[Stream] = []

    @property
    def ptr(self) -> int:
        """The handle."""
        return self.number

    @property
    def is_capturing(self) -> bool:
        """True between `begin_capture` and `end_capture`."""
        return self.capture is not None

    def seen(self) -> Clock:
        """All work that comes before what is given to the stream next."""
        with _lock:
            clock = dict(self.clock)
            _merge(clock, _host)
            # the default stream waits for blocking ones, and they for it
            if self is Stream.null:
                for other in list(_streams):
                    if not other.non_blocking:
                        _merge(clock, other.clock)
            elif not self.non_blocking:
                _merge(clock, Stream.null.clock)
            return clock

    def synchronize(self) -> None:
        """Let the host wait for all work of the stream."""
        if self.capture is not None:
            self.capture.refuse("a stream is waited for while it is captured")
        with _lock:
            _merge(_host, self.clock)

    def wait_event(self, event: Event) -> None:
        """Order what comes next behind an event; one of a captured stream lets this one be captured too."""
        capture = event.capture or self.capture
        if capture is None:
            self._merge(event)
            return
        if event.capture is not capture or self.capture not in (None, capture):
            capture.refuse("a captured stream waits for work that is not captured with it")
        if self.capture is None:
            self.capture = capture
            capture.streams.append(self)
        self.covered |= event.covers
        if self is capture.origin:
            capture.loose -= event.covers
        capture.work.append(lambda: self._merge(event))

    def _merge(self, event: Event) -> None:
        with _lock:
            _merge(self.clock, event.clock)

    def record(self, event: Event | None = None) -> Event:
        """An event behind the work so far."""
        event = event or Event()
        event.record(self)
        return event

    def begin_capture(self, mode: Any = None) -> None:
        """Keep work instead of doing it."""
        if self is Stream.null:
            raise CaptureError("the default stream cannot be captured")
        self.capture = Capture(self)

    def end_capture(self) -> Graph:
        """The work that was kept; CaptureError where the capture was broken, or other streams are left in
        it.
        """
        capture = self.capture
        assert capture is not None, "the stream is not captured"
        for stream in capture.streams:
            stream.capture = None
            stream.covered = set()
        if capture.is_broken:
            raise CaptureError("the capture was broken by something that CUDA refuses in one")
        if capture.loose:
            raise CaptureError("a capture ends while work of another stream is not waited for")
        return Graph(capture.work)

    def use(self) -> Stream:
        """Make it the current stream of this thread."""
        _local.stack = [self]
        return self

    def __enter__(self) -> Stream:
        _stack().append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _stack().pop()


class Graph:
    """Captured work."""

    def __init__(self, work: list[Callable[[], None]]) -> None:
        self.work = work

    def launch(self, stream: Stream | None = None) -> None:
        """Do all of it on a stream."""
        with stream or current():
            for run in self.work:
                run()


Stream.null = Stream()
_local = threading.local()


def _stack() -> list[Stream]:
    if not hasattr(_local, "stack"):
        _local.stack = [Stream.null]
    stack: list[Stream] = _local.stack
    return stack


def current() -> Stream:
    """The current stream of this thread."""
    return _stack()[-1]


def submit(
    who: str,
    reads: Iterable[Range],
    writes: Iterable[Range],
    run: Callable[[], None],
    on: Stream | None = None,
) -> None:
    """Give work to a stream (the current one), with the bytes that it reads and writes."""
    stream = on or current()
    touched = [(place, False) for place in reads] + [(place, True) for place in writes]

    def work() -> None:
        with _lock:
            clock = stream.seen()
            for (memory, start, stop), is_write in touched:
                memory.check(start, stop, clock, is_write, f"{who} on stream {stream.number}")
            clock[stream.number] = clock.get(stream.number, 0) + 1
            stream.clock = clock
            for (memory, start, stop), is_write in touched:
                memory.note(start, stop, stream.number, clock[stream.number], is_write)
        run()

    if stream.capture is None:
        work()
        return
    if stream is not stream.capture.origin:
        stream.capture.loose.add(stream)
    stream.capture.work.append(work)


def host_reads(who: str, place: Range) -> None:
    """Let the host look at bytes: the current stream is waited for, as CuPy does, and no other."""
    capture = current().capture
    if capture is not None:
        capture.refuse(f"{who} reads on the host while a stream is captured")
    with _lock:
        _merge(_host, current().seen())
        memory, start, stop = place
        memory.check(start, stop, _host, False, f"the host's {who}")
