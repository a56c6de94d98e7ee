"""One process of a launched job, for the tests: `launched.py WHAT` prints what it was told and does WHAT."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import numpy as np

from fluidlite.paddle import distributed as dist

TOLD = ("PADDLE_", "TRAINING_ROLE", "CUDA_VISIBLE", "FLAGS_selected", "OMP_NUM")


def wait_for_ever() -> None:
    """Wait for a rank that does not come."""
    dist.all_reduce(np.ones(3))
    time.sleep(60)


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "nothing"
    if what == "environment":
        told = {name: value for name, value in os.environ.items() if name.startswith(TOLD)}
        sys.stdout.write(json.dumps({**told, "argv": sys.argv[1:]}) + "\n")
        return
    if what == "before" and os.environ["PADDLE_TRAINER_ID"] == "1":
        raise ValueError("before anything was said")
    dist.init_parallel_env()
    total = np.array([1.0 + dist.get_rank()])
    dist.all_reduce(total)
    sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total[0]:g}\n")
    if what == "nothing":
        return
    if what == "wait" and dist.get_rank() == 1:
        time.sleep(60)
    elif dist.get_rank() == (0 if what == "first" else 1):
        if what == "exit":
            sys.exit(7)
        if what == "leave":
            os._exit(0)
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError(f"{what}, as it was told to")
    wait_for_ever()


def add(scale: int, values: np.ndarray) -> None:
    """The work of spawned processes."""
    dist.init_parallel_env()
    values = values * scale
    dist.all_reduce(values)
    if scale == 3 and dist.get_rank() == 1:
        raise ValueError("three")
    if scale == 2 and dist.get_rank() == 0:
        sys.stdout.write(f"{values.tolist()}\n")


if __name__ == "__main__":
    main()
