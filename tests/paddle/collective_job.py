"""One process of a job under mpirun that makes collective calls: `mpiexec -n 4 python collective_job.py
WHAT`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from collective_cases import CASES, check_arrays, check_program, dist, groups

from fluidlite.errors import CommunicatorError

RANK, SIZE = dist.get_rank(), dist.get_world_size()


def table() -> None:
    made = groups(SIZE)
    for case in CASES:
        for group in made:
            check_arrays(case, group)
            check_program(case, group)
    found: list[Any] = []
    dist.all_gather_object(found, {"rank": RANK, "array": np.arange(RANK)})
    assert [(each["rank"], each["array"].size) for each in found] == [(rank, rank) for rank in range(SIZE)]


def mixed() -> None:
    """An error on every rank, which each prints and survives."""
    dist.init_parallel_env()
    value = np.zeros(2, "float32")
    calls = [
        lambda: dist.all_reduce(value),
        lambda: dist.all_gather([], value),
        lambda: dist.gather(value, [], 0),
        lambda: dist.alltoall([value] * SIZE, []),
    ]
    try:
        calls[RANK]()
    except CommunicatorError as error:
        sys.stdout.write(f"{RANK} heard: {error}\n")
        sys.stdout.flush()


def waits() -> None:
    """A receiver whose sender reduces: a wait that ends at the time limit, with what both do."""
    dist.init_parallel_env()
    value = np.zeros(2, "float32")
    try:
        if RANK:
            dist.all_reduce(value)
        else:
            dist.recv(value, 1)
    except CommunicatorError as error:
        sys.stdout.write(f"{RANK} heard: {error}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    {"table": table, "mixed": mixed, "waits": waits}[sys.argv[1]]()
    sys.stdout.write(f"{RANK} is done\n")
    sys.stdout.flush()
