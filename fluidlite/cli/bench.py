"""`--bench`: how long a saved model takes."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Mapping
from typing import Any

from fluidlite.base.place import CPUPlace
from fluidlite.base.units import amount
from fluidlite.cli.models import SavedModel
from fluidlite.executor.executor import Executor
from fluidlite.values.scope import global_scope

__all__ = ["bench_text"]

_SECONDS = 2.0
_MOST_RUNS = 1000
_LEAST_RUNS = 5


def bench_text(model: SavedModel, feed: Mapping[str, Any]) -> str:
    """The time of the first run, which makes the plan, the median of later runs, and the process's largest
    memory.
    """
    global_scope().freeze()
    executor = Executor(CPUPlace())
    fetches = list(model.fetches)

    def run() -> float:
        start = time.perf_counter()
        executor.run(model.program, feed=dict(feed), fetch_list=fetches, return_numpy=False)
        return time.perf_counter() - start

    first, later = run(), [run()]
    end = time.perf_counter() + _SECONDS
    while len(later) < _LEAST_RUNS or (time.perf_counter() < end and len(later) < _MOST_RUNS):
        later.append(run())
    # the kernel counts in KiB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    median, least = statistics.median(later), min(later)
    return (
        f"first run: {1000 * first:.1f} ms\n"
        f"later runs: median {1000 * median:.2f} ms, fastest {1000 * least:.2f} ms ({len(later)} runs)\n"
        f"memory: {amount(peak)} at most\n"
    )
