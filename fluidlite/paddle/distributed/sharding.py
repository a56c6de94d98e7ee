"""`paddle.distributed.sharding`: layers whose states are sharded, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.distributed.sharding",
    "shards layers of imperative mode; programs are spread over devices by the modes of fluidlite.transpiler "
    "(fluidlite docs strategies)",
    functions=("group_sharded_parallel save_group_sharded_model"),
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
