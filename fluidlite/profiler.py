"""Profiles of runs: a table by op type, a file of Paddle's `Profile` message, and a trace for
chrome://tracing (or Perfetto).

The rows of the table add up to the wall time: beside the ops there are the parts of a run that are no op
(`PARTS`), `host`, the rest of the runs in Python, and `outside`, the program between the runs. The first call
of each row stands apart from the mean and the median of the others: it compiles, allocates and measures.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fluidlite.base.cells import table_cell
from fluidlite.base.imported_names import imported_names
from fluidlite.base.messages import declare_messages
from fluidlite.base.place import CUDAPlace, array_module
from fluidlite.base.records import dataclass

__all__ = ["Profile", "cuda_profiler", "profiler", "reset_profiler", "start_profiler", "stop_profiler"]

_KEYS = ("calls", "total", "max", "min", "ave")
RUN = "run"
PARTS = {
    "planning": "making plans and binding them to memory",
    "feed": "checking feeds and converting them",
    "fetch": "copying what is fetched",
    "waiting": "for a compiler, or for a reader's data",
    "profiler": "reading the clock",
}
"""The parts of runs that are no op, and what happens in them."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class TimedOp:
    """One execution of an op, or of a part of a run: start and end in seconds of `time.perf_counter`."""

    name: str
    where: str
    start: float
    end: float
    thread: int
    nested: float = 0.0
    """Seconds of it that other ops have recorded, such as those in the body of a loop."""

    @property
    def own(self) -> float:
        """Seconds without those of others."""
        return self.end - self.start - self.nested


@dataclass
class Profile:
    """The spans between the start of a profiler and its end; empty before that."""

    events: list[TimedOp] = field(default_factory=list, repr=False)
    sorted_key: str | None = None
    parts: list[TimedOp] = field(default_factory=list)
    """Runs, and their parts that are no op."""
    wall: float = 0.0
    """Seconds from the start to the end."""

    def save_trace(self, path: str) -> None:
        """Write Chrome's trace-event JSON, which chrome://tracing and Perfetto open, to `path`."""
        write_whole(path, json.dumps(trace_of(self.events)).encode())

    def __str__(self) -> str:
        return table(self)

    def _repr_html_(self) -> str:
        rows = [
            (row.name, row.calls, *(round(1e3 * each, 4) for each in row.times), f"{self.share(row):.1%}")
            for row in self.rows()
        ]
        title = f"Profile: {len(self.events)} calls of ops, {self.wall * 1e3:.1f} ms"
        return table_cell(title, ("op", "calls", *(f"{head} ms" for head in _TIMES), "share"), rows)

    def rows(self) -> list[ProfileRow]:
        """The ops, in the order of `sorted_key`; behind them the other parts of the wall time."""
        ops = _by_name(self.events)
        if self.sorted_key in _KEYS:
            column = {"calls": "calls", "total": "total", "max": "high", "min": "low", "ave": "mean"}
            ops.sort(key=lambda row: float(getattr(row, column[str(self.sorted_key)])), reverse=True)
        runs = [part for part in self.parts if part.name == RUN]
        inner = [part for part in self.parts if part.name != RUN]
        if not runs:
            return [*ops, *_by_name(inner)]
        rest = self.wall - sum(each.own for each in (*self.events, *self.parts))
        host = ProfileRow("host", [run.own for run in runs])
        return [*ops, *_by_name(inner), host, ProfileRow("outside", [max(rest, 0.0)])]

    def share(self, row: ProfileRow) -> float:
        """The share of the wall time that a row has."""
        return row.total / (self.wall or sum(each.total for each in self.rows()) or 1.0)


_TIMES = ("total", "first", "median", "average", "min", "max")


class ProfileRow:
    """Calls of one name. Mean and median are those of all calls but the first, of which there may be one."""

    def __init__(self, name: str, seconds: Sequence[float]) -> None:
        self.name = name
        self.calls = len(seconds)
        self.total = sum(seconds)
        self.first = seconds[0]
        later = seconds[1:] or seconds
        self.median = float(np.median(later))
        self.mean = sum(later) / len(later)
        self.low = min(later)
        self.high = max(later)

    @property
    def times(self) -> tuple[float, ...]:
        """Seconds, in the order of the columns."""
        return self.total, self.first, self.median, self.mean, self.low, self.high


def _by_name(events: Iterable[TimedOp]) -> list[ProfileRow]:
    """A row for each name, in the order of the first execution."""
    found: dict[str, list[float]] = {}
    for event in events:
        found.setdefault(event.name, []).append(event.own)
    return [ProfileRow(name, seconds) for name, seconds in found.items()]


class Recorder:
    """Collects events while `active`; the executor asks it before each run."""

    def __init__(self) -> None:
        self.active = False
        self.events: list[TimedOp] = []
        self.parts: list[TimedOp] = []
        self.began = 0.0
        self._here = threading.local()
        """Seconds that were recorded on this thread: what is around them counts the rest as its own."""

    @property
    def recorded(self) -> float:
        """Seconds that ops and parts of this thread have recorded."""
        return getattr(self._here, "seconds", 0.0)

    def record(self, name: str, where: str, start: float, end: float, before: float | None = None) -> None:
        """Add one execution of an op; `before` is what was `recorded` when it began."""
        self.events.append(self._event(name, where, start, end, before))

    def part(self, name: str, start: float, end: float, before: float | None = None) -> None:
        """Add a part of a run that is no op."""
        self.parts.append(self._event(name, "", start, end, before))

    def _event(self, name: str, where: str, start: float, end: float, before: float | None) -> TimedOp:
        nested = 0.0 if before is None else self.recorded - before
        self._here.seconds = self.recorded + end - start - nested
        return TimedOp(name, where, start, end, threading.get_ident(), nested)

    def timed(self, name: str, function: Function) -> Function:
        """The function; while the recorder is active, one that records its calls as a part of the run."""
        if not self.active:
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            before, start = self.recorded, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.part(name, start, time.perf_counter(), before)

        return call  # type: ignore[return-value]

    def start(self) -> None:
        """Begin; what was recorded before stays until `clear`."""
        self.active = True
        self.began = time.perf_counter()

    def clear(self) -> None:
        """Forget what was recorded."""
        self.events.clear()
        self.parts.clear()
        self.began = time.perf_counter()


recorder = Recorder()


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begin to record; `state` is "CPU", "GPU" or "All", `tracer_option` "Default", "OpDetail" or
    "AllOpDetail".
    """
    if state not in ("CPU", "GPU", "All"):
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in ("Default", "OpDetail", "AllOpDetail"):
        raise ValueError("tracer option must be 'Default', 'OpDetail', 'AllOpDetail'.")
    recorder.start()


def reset_profiler() -> None:
    """Forget what was recorded so far."""
    recorder.clear()


def stop_profiler(sorted_key: str | None = None, profile_path: str = "/tmp/profile") -> Profile:
    """Stop recording, print the table to stderr and write a `Profile` message of `fluid.proto.profiler`, from
    which Paddle's tools make timelines, to `profile_path`; gives what was recorded.

    `sorted_key`: "calls", "total", "max", "min", "ave", or None for the order of first execution.
    """
    if sorted_key not in (None, "default", *_KEYS):
        raise ValueError("The sorted_key must be None or in 'calls', 'total', 'max', 'min' and 'ave'")
    recorder.active = False
    wall = time.perf_counter() - recorder.began
    found = Profile(list(recorder.events), sorted_key, list(recorder.parts), wall)
    print(found, file=sys.stderr)
    write_whole(profile_path, message_of(found.events).SerializeToString())
    recorder.clear()
    return found


@contextlib.contextmanager
def profiler(
    state: str,
    sorted_key: str | None = None,
    profile_path: str = "/tmp/profile",
    tracer_option: str = "Default",
) -> Iterator[Profile]:
    """Record inside the `with`; see `start_profiler` and `stop_profiler`. The Profile of its `as` is filled
    at the end.
    """
    start_profiler(state, tracer_option)
    profile = Profile(sorted_key=sorted_key)
    try:
        yield profile
    finally:
        found = stop_profiler(sorted_key, profile_path)
        profile.events, profile.parts, profile.wall = found.events, found.parts, found.wall


@contextlib.contextmanager
def cuda_profiler(
    output_file: str, output_mode: str | None = None, config: list[str] | None = None
) -> Iterator[None]:
    """Mark the `with` for an attached CUDA profiler (nsys, ncu); `output_file` and `config` are theirs to
    set now.
    """
    if output_mode not in (None, "key-value", "csv", "kvp"):
        raise ValueError("output_mode must be 'key-value' or 'csv'")
    cuda: Any = array_module(CUDAPlace(0)).cuda
    cuda.profiler.start()
    try:
        yield
    finally:
        cuda.profiler.stop()


def table(profile: Profile) -> str:
    """Milliseconds by op type and part of the runs, with their share of the wall time."""
    heads = ("Calls", "Total ms", "First", "Median", "Ave", "Min", "Max")
    lines = [f"{'Event':28} {heads[0]:>7}" + "".join(f" {head:>9}" for head in heads[1:]) + f" {'Ratio':>7}"]
    rows = profile.rows()
    lines += [
        f"{row.name:28} {row.calls:>7}"
        + "".join(f" {1e3 * each:>9.4f}" for each in row.times)
        + f" {profile.share(row):>7.2%}"
        for row in rows
    ]
    if profile.wall:
        total = sum(row.total for row in rows)
        lines.append(
            f"sum of the rows {total * 1e3:.3f} ms, wall time {profile.wall * 1e3:.3f} ms"
            f"{_threads(profile)}; Median, Ave, Min and Max are those of all calls but the first"
        )
    return "\n".join(lines)


def _threads(profile: Profile) -> str:
    """Threads that ran side by side, whose rows add up to more than the wall time."""
    count = len({event.thread for event in profile.events})
    return f" of {count} threads" if count > 1 else ""


@functools.cache
def timeline_messages() -> dict[str, Any]:
    """The classes of the messages in a profile, by name."""
    return declare_messages(
        "paddle.platform.proto",
        {
            "MemCopy": "1 bytes UINT64 ?",
            "Event": "8 type Event.EventType ?, 1 name STRING ?, 2 start_ns UINT64 ?, 3 end_ns UINT64 ?, "
            "5 device_id INT64 ?, 6 sub_device_id INT64 ?, 7 memcopy MemCopy ?, 9 detail_info STRING ?",
            "MemEvent": "1 start_ns UINT64 ?, 2 end_ns UINT64 ?, 3 bytes UINT64 ?, 4 place MemEvent.Place ?, "
            "5 thread_id UINT64 ?, 6 device_id UINT32 ?, 7 alloc_in STRING ?, 8 free_in STRING ?",
            "Profile": "1 events Event *, 2 start_ns UINT64 ?, 3 end_ns UINT64 ?, 4 mem_events MemEvent *",
        },
        {"Event.EventType": "CPU GPUKernel", "MemEvent.Place": "CUDAPlace CPUPlace CUDAPinnedPlace"},
    )


def message_of(events: list[TimedOp]) -> Any:
    """The events as a `Profile`, in nanoseconds since 1970, as 1.8.5 writes those of a CPU: the device is the
    thread, counted from 0, and the detail is the user's line.
    """
    since = time.time_ns() - time.perf_counter_ns()
    threads = dict.fromkeys(event.thread for event in events)
    numbers = {thread: number for number, thread in enumerate(threads)}
    profile = timeline_messages()["Profile"]()
    for event in events:
        made = profile.events.add(name=event.name, type=0, sub_device_id=0, detail_info=event.where)
        made.start_ns, made.end_ns = (since + int(at * 1e9) for at in (event.start, event.end))
        made.device_id = numbers[event.thread]
    profile.start_ns = min((event.start_ns for event in profile.events), default=time.time_ns())
    profile.end_ns = max((event.end_ns for event in profile.events), default=profile.start_ns)
    return profile


def trace_of(events: list[TimedOp]) -> dict[str, Any]:
    """The events as Chrome's traces have them, in microseconds since the first."""
    origin = events[0].start if events else time.perf_counter()
    found = [
        {
            "name": event.name,
            "cat": "op",
            "ph": "X",
            "pid": os.getpid(),
            "tid": event.thread,
            "ts": (event.start - origin) * 1e6,
            "dur": (event.end - event.start) * 1e6,
            "args": {"where": event.where},
        }
        for event in events
    ]
    return {"traceEvents": found}


def write_whole(path: str, content: bytes) -> None:
    """Write a file, or leave what is there: one that is cut off cannot be opened."""
    import tempfile  # start-up time

    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
