"""`paddle.distributed.spawn`: a function in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fluidlite.base.errors import ArgumentError, did_you_mean
from fluidlite.base.place import get_cuda_device_count
from fluidlite.launching import LaunchOptions
from fluidlite.launching.spawn import SpawnedJob
from fluidlite.launching.spawn import spawn as spawn_job

__all__ = ["spawn"]

_OPTIONS = (
    "start_method",
    "gpus",
    "xpus",
    "ips",
    "backend",
    "print_config",
    "use_paddlecloud",
    "started_port",
)


def spawn(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = -1,
    join: bool = True,
    daemon: bool = False,
    **options: Any,
) -> SpawnedJob:
    """Run `func(*args)` in `nprocs` processes that can communicate: by default one for each CUDA device, or
    one.

    args: what JSON can say, arrays and bytes.
    join: False gives the job at once; its `join` returns when the processes have ended.
    options: `gpus` names the devices; others of 2.x are accepted and change nothing.
    """
    for name in options:
        if name not in _OPTIONS:
            raise ArgumentError(f"spawn has no option {name!r}{did_you_mean(name, _OPTIONS)}")
    given = options.get("gpus")
    devices = None if given is None else tuple(int(part) for part in str(given).split(","))
    count = nprocs if nprocs > 0 else len(devices or ()) or max(1, get_cuda_device_count())
    job = LaunchOptions("", processes=count, devices=devices)
    return spawn_job(func, tuple(args), job, join)
