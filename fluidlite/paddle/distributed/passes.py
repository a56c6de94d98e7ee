"""`paddle.distributed.passes`: passes over programs, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

REFUSED = Refusals(
    "paddle.distributed.passes",
    "rewrites programs by Paddle's passes; `fluidlite.transpiler` has the modes of jobs, and the "
    "executor's passes need no call",
    classes=("PassManager PassContext"),
    functions=("new_pass"),
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
