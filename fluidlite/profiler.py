"""Profiles of runs: a table by op type, a file of Paddle's `Profile` message, and a trace for
chrome://tracing (or Perfetto).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fluidlite.base.cells import table_cell
from fluidlite.base.imported_names import imported_names
from fluidlite.base.messages import declare_messages
from fluidlite.base.place import CUDAPlace, array_module

__all__ = ["Profile", "cuda_profiler", "profiler", "reset_profiler", "start_profiler", "stop_profiler"]

_KEYS = ("calls", "total", "max", "min", "ave")


@dataclass(frozen=True)
class TimedOp:
    """One execution of an op: start and end in seconds of `time.perf_counter`."""

    name: str
    where: str
    start: float
    end: float
    thread: int


@dataclass
class Profile:
    """The spans between the start of a profiler and its end; empty before that."""

    events: list[TimedOp] = field(default_factory=list, repr=False)
    sorted_key: str | None = None

    def save_trace(self, path: str) -> None:
        """Write Chrome's trace-event JSON, which chrome://tracing and Perfetto open, to `path`."""
        write_whole(path, json.dumps(trace_of(self.events)).encode())

    def __str__(self) -> str:
        return table(self.events, self.sorted_key)

    def _repr_html_(self) -> str:
        rows = [(name, calls, *(round(each, 4) for each in times)) for name, calls, *times in self._rows()]
        total = sum(event.end - event.start for event in self.events) * 1e3
        heads = ("op", "calls", "total ms", "min", "max", "average")
        return table_cell(f"Profile: {len(self.events)} calls of ops, {total:.1f} ms", heads, rows)

    def _rows(self) -> list[tuple[str, int, float, float, float, float]]:
        return _rows(self.events, self.sorted_key)


class Recorder:
    """Collects events while `active`; the executor asks it before each run."""

    def __init__(self) -> None:
        self.active = False
        self.events: list[TimedOp] = []

    def record(self, name: str, where: str, start: float, end: float) -> None:
        """Add one execution."""
        self.events.append(TimedOp(name, where, start, end, threading.get_ident()))


recorder = Recorder()


def start_profiler(state: str, tracer_option: str = "Default") -> None:
    """Begin to record; `state` is "CPU", "GPU" or "All", `tracer_option` "Default", "OpDetail" or
    "AllOpDetail".
    """
    if state not in ("CPU", "GPU", "All"):
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in ("Default", "OpDetail", "AllOpDetail"):
        raise ValueError("tracer option must be 'Default', 'OpDetail', 'AllOpDetail'.")
    recorder.active = True


def reset_profiler() -> None:
    """Forget what was recorded so far."""
    recorder.events.clear()


def stop_profiler(sorted_key: str | None = None, profile_path: str = "/tmp/profile") -> Profile:
    """Stop recording, print the table to stderr and write a `Profile` message of `fluid.proto.profiler`, from
    which Paddle's tools make timelines, to `profile_path`; gives what was recorded.

    `sorted_key`: "calls", "total", "max", "min", "ave", or None for the order of first execution.
    """
    if sorted_key not in (None, "default", *_KEYS):
        raise ValueError("The sorted_key must be None or in 'calls', 'total', 'max', 'min' and 'ave'")
    recorder.active = False
    print(table(recorder.events, sorted_key), file=sys.stderr)
    write_whole(profile_path, message_of(recorder.events).SerializeToString())
    found = Profile(list(recorder.events), sorted_key)
    recorder.events.clear()
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
        profile.events = stop_profiler(sorted_key, profile_path).events


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


def _rows(events: list[TimedOp], sorted_key: str | None) -> list[tuple[str, int, float, float, float, float]]:
    """Calls, total, min, max and average milliseconds by op type."""
    rows: dict[str, list[float]] = {}
    for event in events:
        rows.setdefault(event.name, []).append((event.end - event.start) * 1e3)
    found = [
        (name, len(times), sum(times), min(times), max(times), sum(times) / len(times))
        for name, times in rows.items()
    ]
    if sorted_key in _KEYS:
        column = {"calls": 1, "total": 2, "min": 3, "max": 4, "ave": 5}[sorted_key]
        found.sort(key=lambda row: row[column], reverse=True)
    return found


def table(events: list[TimedOp], sorted_key: str | None = None) -> str:
    """Calls, total, min, max and average milliseconds, and share of the whole, by op type."""
    found = _rows(events, sorted_key)
    whole = sum(row[2] for row in found) or 1.0
    lines = [f"{'Event':32} {'Calls':>8} {'Total ms':>11} {'Min':>9} {'Max':>9} {'Ave':>9} {'Ratio':>7}"]
    lines += [
        f"{name:32} {calls:>8} {total:>11.4f} {low:>9.4f} {high:>9.4f} {mean:>9.4f} {total / whole:>7.2%}"
        for name, calls, total, low, high, mean in found
    ]
    return "\n".join(lines)


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
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_names(__name__)
