"""The cores that this process may keep busy: by its affinity, by the quota of its control group, and by the
processes that one mpiexec has started beside it; and the memory that it may have.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pathlib
from collections.abc import Iterator, Mapping

__all__ = ["memory_limit", "own_cores", "usable_cores"]

_SYSTEM = pathlib.Path("/")
# the processes of this host that the same mpiexec has started: Open MPI, MPICH and Intel MPI, MVAPICH
_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE")


def usable_cores(system: pathlib.Path = _SYSTEM) -> int:
    """The cores of a machine, or those that affinity and the control group leave this process of them. What
    says how much processor time a container has lies below `system`.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *_quotas(system)]))


def own_cores(environ: Mapping[str, str], system: pathlib.Path = _SYSTEM) -> int:
    """This process's share of the usable cores, where one mpiexec has started several processes on them:
    more threads than cores slow each other down, and not every mpiexec binds its processes.
    """
    cores = usable_cores(system)
    ranks = [environ[name] for name in _LOCAL_RANKS if environ.get(name, "").isdigit()]
    if not ranks or int(ranks[0]) < 1:
        return cores
    # of all cores of the machine: affinity may be this rank's share already
    return min(cores, max(1, (os.cpu_count() or 1) // int(ranks[0])))


# each Executor asks, and it takes six files of control groups to answer
@functools.cache
def memory_limit(system: pathlib.Path = _SYSTEM) -> int:
    """The bytes of memory that this process may have: those of the machine, or of its control groups and the
    groups around them, as they are when it first asks.
    """
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Windows has neither
    except (AttributeError, ValueError, OSError):
        machine = 8 << 30
    return min([machine, *_memory_limits(system)])


def _memory_limits(system: pathlib.Path) -> Iterator[int]:
    for folder, is_unified in _groups(system, "memory"):
        # `max` means no limit
        with contextlib.suppress(OSError, ValueError):
            yield int((folder / ("memory.max" if is_unified else "memory.limit_in_bytes")).read_text())


def _quotas(system: pathlib.Path) -> Iterator[int]:
    """Whole cores that the process's control groups, and the groups around them, give it time for."""
    for folder, is_unified in _groups(system, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            quota, period = _unified(folder) if is_unified else _legacy(folder)
            if quota > 0 and period > 0:
                yield math.ceil(quota / period)


def _unified(folder: pathlib.Path) -> tuple[float, float]:
    """Quota and period of a group of version 2: `max 100000` or `150000 100000`."""
    quota, period = (folder / "cpu.max").read_text(encoding="utf8").split()
    return math.nan if quota == "max" else float(quota), float(period)


def _legacy(folder: pathlib.Path) -> tuple[float, float]:
    """The same of version 1, where -1 means no limit."""
    quota, period = (
        (folder / f"cpu.cfs_{name}_us").read_text(encoding="utf8") for name in ("quota", "period")
    )
    return float(quota), float(period)


def _groups(system: pathlib.Path, controller: str) -> Iterator[tuple[pathlib.Path, bool]]:
    """The folder of each group that a controller limits, innermost first, and whether it is of version 2."""
    try:
        lines = (system / "proc/self/cgroup").read_text(encoding="utf8").splitlines()
    except OSError:
        return  # no Linux
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        root = system / "sys/fs/cgroup" / (controller if controllers else "")
        # inside of a container the path may be the host's, and the container's own group is the root
        parts = [part for part in path.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield root.joinpath(*parts[:depth]), not controllers
