"""`fluid.dygraph.parallel`: what a launcher told this process of its job."""

from __future__ import annotations

import os
from typing import Any

from fluidlite.base.left_out import left_out

_REFUSED = left_out("fluid.dygraph.parallel")
__all__ = ["Env", "ParallelEnv", *_REFUSED.names]


class ParallelEnv:
    """The place of this process among the trainers, from the variables that a launcher sets."""

    def __init__(self) -> None:
        endpoints = os.environ.get("PADDLE_TRAINER_ENDPOINTS", "")
        self._nranks = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
        self._local_rank = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
        self._dev_id = int(os.environ.get("FLAGS_selected_gpus", "0") or 0)
        self._trainer_endpoints = endpoints.split(",")
        self._current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT", "")

    @property
    def nranks(self) -> int:
        """The number of trainers."""
        return self._nranks

    @property
    def local_rank(self) -> int:
        """The number of this trainer."""
        return self._local_rank

    @property
    def dev_id(self) -> int:
        """The number of the CUDA device that this trainer is to use."""
        return self._dev_id

    @property
    def current_endpoint(self) -> str:
        """The address of this trainer."""
        return self._current_endpoint

    @property
    def trainer_endpoints(self) -> list[str]:
        """The addresses of all trainers."""
        return self._trainer_endpoints


Env = ParallelEnv


def __getattr__(name: str) -> Any:
    return _REFUSED.get(name)
