"""`paddle.sparse.nn`: layers of sparse tensors, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.paddle.sparse.creation import WHY
from fluidlite.paddle.sparse.nn import functional

REFUSED = Refusals(
    "paddle.sparse.nn",
    WHY,
    classes=(
        "ReLU ReLU6 LeakyReLU Softmax BatchNorm SyncBatchNorm Conv2D Conv3D SubmConv2D SubmConv3D MaxPool3D"
    ),
)
__all__ = ["functional", *REFUSED.names]


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
