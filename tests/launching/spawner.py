"""A script that spawns processes."""

from __future__ import annotations

import sys

import numpy as np
from launched import add

from fluidlite.paddle import distributed as dist


def double(value: int) -> None:
    """Work of the script itself."""
    dist.init_parallel_env()
    found: list[object] = []
    dist.all_gather_object(found, [value, dist.get_rank()])
    if dist.get_rank() == 0:
        sys.stdout.write(f"{found}\n")


if __name__ == "__main__":
    dist.spawn(double, (5,), nprocs=2)
    job = dist.spawn(add, (2, np.ones(2)), nprocs=2, join=False)
    sys.stdout.write(f"{job.join()}\n")
    try:
        dist.spawn(add, (3, np.ones(1)), nprocs=2)
    except RuntimeError as error:
        sys.stdout.write(f"{error}\n")
