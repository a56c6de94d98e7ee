"""The timeline of a job: what each of its processes did when, as Chrome's trace events (chrome://tracing,
Perfetto): ops, steps, and messages with arrows from sender to receiver.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pathlib
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from fluidlite.base.tracing import tracer
from fluidlite.profiler import recorder
from fluidlite.values.serialize import replace_file

__all__ = ["merge_traces", "recorded", "start_trace", "write_trace"]


@contextlib.contextmanager
def recorded(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Inside the `with`, a job whose roles are threads is recorded; its timeline is written to `path` at the
    end. Nothing happens where that is None.
    """
    if path is None:
        yield
        return
    was_active = recorder.active
    before = len(recorder.events), len(tracer.events), len(recorder.parts)
    tracer.active = recorder.active = True
    names = _names_of_threads()
    try:
        yield
    finally:
        tracer.active, recorder.active = False, was_active
        events = [*_ops(before[0], names), *tracer.events[before[1] :]]
        names |= {event["tid"]: event["thread"] for event in tracer.events[before[1] :]}
        del recorder.events[before[0] :], tracer.events[before[1] :], recorder.parts[before[2] :]
        by_role: dict[str, list[dict[str, Any]]] = {}
        for event in events:
            by_role.setdefault(names.get(event["tid"], event["thread"]), []).append(event)
        write_trace(path, sorted(by_role.items()))


def start_trace(path: str, role: str) -> None:
    """Record this process from now on, and write its events to `path` at its end, or when a signal asks it
    to end.
    """
    tracer.active = recorder.active = True

    def save() -> None:
        names = {event["tid"]: event["thread"] for event in tracer.events} | _names_of_threads()
        text = json.dumps({"role": role, "events": [*_ops(0, names), *tracer.events]})
        with contextlib.suppress(OSError):  # the folder of a job that was ended is gone
            replace_file(pathlib.Path(path), [text.encode()], is_kept=False)

    tracer.at_end(save)
    atexit.register(tracer.end)
    # the processes of a job that has failed elsewhere are ended so
    may_handle = threading.current_thread() is threading.main_thread()
    if may_handle and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, tracer.ended)


def merge_traces(folder: str, path: str) -> int:
    """One timeline of what processes have left in a folder; returns how many they are."""
    files = sorted(pathlib.Path(folder).glob("*.json"))
    found = [json.loads(file.read_text(encoding="utf8")) for file in files]
    write_trace(path, [(one["role"], one["events"]) for one in found])
    return len(found)


def write_trace(path: str | os.PathLike[str], roles: Iterable[tuple[str, list[dict[str, Any]]]]) -> None:
    """Chrome's trace events of several processes, each with its name; written whole or not at all."""
    found: list[dict[str, Any]] = []
    listed = list(roles)
    times = [event["ts"] for _, events in listed for event in events]
    origin = min(times, default=0.0)
    for number, (role, events) in enumerate(listed, 1):
        found.append({"name": "process_name", "ph": "M", "pid": number, "args": {"name": role}})
        threads = {event["tid"]: event["thread"] for event in events}
        for place, (ident, name) in enumerate(threads.items()):
            found.append(
                {"name": "thread_name", "ph": "M", "pid": number, "tid": place, "args": {"name": name}}
            )
            for event in events:
                if event["tid"] == ident:
                    plain = {key: value for key, value in event.items() if key != "thread"}
                    found.append({**plain, "pid": number, "tid": place, "ts": event["ts"] - origin})
    text = json.dumps({"traceEvents": found, "displayTimeUnit": "ms"})
    replace_file(pathlib.Path(path), [text.encode()], is_kept=False)


def _ops(start: int, names: dict[int, str]) -> list[dict[str, Any]]:
    """The ops that the profiler has recorded from number `start` on."""
    return [
        {
            "name": event.name,
            "cat": "op",
            "ph": "X",
            "ts": event.start * 1e6,
            "dur": (event.end - event.start) * 1e6,
            "tid": event.thread,
            "thread": names.get(event.thread, str(event.thread)),
            "args": {"where": event.where},
        }
        for event in recorder.events[start:]
    ]


def _names_of_threads() -> dict[int, str]:
    return {thread.ident: thread.name for thread in threading.enumerate() if thread.ident is not None}
