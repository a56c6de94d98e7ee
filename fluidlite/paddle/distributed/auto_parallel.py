"""Names of 2.6.2 that spread imperative code over devices by themselves: refused when used."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.distributed",
    "spreads tensors of imperative mode over devices; programs are spread by fleet.distributed_optimizer and "
    "by the modes of fluidlite.transpiler (fluidlite docs strategies)",
    classes="DistAttr Partial Placement ProcessMesh ReduceType Replicate Shard Strategy",
    functions=(
        "dtensor_from_fn load_state_dict reshard save_state_dict shard_layer shard_optimizer shard_tensor "
        "to_static"
    ),
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
