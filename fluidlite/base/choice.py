"""The fastest of several kernels for a geometry: measured once, and kept.

A choice is made the first time that a geometry is run in a process, on the arrays of that run, and holds for
the rest of the process: results do not change from step to step. It is also kept in a file of the user's
cache, so that later processes choose the same without measuring. With `FLAGS_cpu_deterministic`, nothing is
measured or read: the first candidate is taken.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import platform
import tempfile
import time
from collections.abc import Callable, Mapping

import numpy as np

from fluidlite.base import flags
from fluidlite.base.forks import child_lock

__all__ = ["chosen", "fastest"]

_ROUNDS = 3
_MARGIN = 0.9  # another candidate than the first must be faster by a tenth: what is close is decided by rule
_ENTRIES = 20_000

_choices: dict[str, str] = {}
_lock = child_lock()


def fastest(key: str, libraries: str, candidates: Mapping[str, Callable[[], object]]) -> str:
    """The name of the fastest candidate, of which each gives the same result; `key` says what they compute,
    `libraries` in which versions of what.
    """
    first = next(iter(candidates))
    if flags.is_deterministic():
        return first
    with _lock:
        place = f"{_machine(libraries)} {key}"
        found = _choices.get(place) or _kept(_machine(libraries)).get(key)
        if found is None or found not in candidates:
            found = _measured(candidates)
        _choices[place] = found
    return found


def chosen(key: str) -> str | None:
    """The candidate that this process has chosen for a key, if it has."""
    return next((name for place, name in _choices.items() if place.endswith(f" {key}")), None)


def _measured(candidates: Mapping[str, Callable[[], object]]) -> str:
    times = dict.fromkeys(candidates, float("inf"))
    # the first round makes buffers and warms caches; rounds alternate, so that a busy moment hits all
    for turn in range(_ROUNDS + 1):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            if turn:
                times[name] = min(times[name], time.perf_counter() - start)
    first, *others = times
    best = min(others, key=lambda name: times[name], default=first)
    return best if times[best] < times[first] * _MARGIN else first


@functools.cache
def _machine(libraries: str) -> str:
    """A short text for all that a choice depends on beside the geometry."""
    facts = f"{_processor()} {os.cpu_count()} numpy {np.__version__} {libraries}"
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def _processor() -> str:
    """The model of the processor."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines():
            if line.startswith("model name"):
                return line
    return platform.processor()


# ---------------------------------------------------------------------- between processes
def _file(machine: str) -> pathlib.Path:
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "fluidlite" / f"kernels-{machine}.json"


@functools.cache
def _kept(machine: str) -> dict[str, str]:
    """The choices that earlier processes have kept; none where the file is missing or is not ours."""
    # this process's own choices are added when it ends, whoever asked first
    atexit.register(_keep, machine)
    return _read(machine)


def _read(machine: str) -> dict[str, str]:
    try:
        found = json.loads(_file(machine).read_text(encoding="utf8"))
    # no home folder, no permission, another content: a choice is only measured once more
    except (OSError, ValueError, RuntimeError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: name for key, name in found.items() if isinstance(name, str)}


def _keep(machine: str) -> None:
    """Add this process's choices to the file: written beside it and put in its place, whole or not at all."""
    head = f"{machine} "
    mine = {place[len(head) :]: name for place, name in _choices.items() if place.startswith(head)}
    before = _read(machine)
    if mine.items() <= before.items():
        return
    every = list({**before, **mine}.items())[-_ENTRIES:]
    with contextlib.suppress(OSError, RuntimeError):
        path = _file(machine)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem)
        with os.fdopen(handle, "w", encoding="utf8") as stream:
            json.dump(dict(every), stream, indent=0)
        pathlib.Path(name).replace(path)
