"""`paddle.sparse.nn.functional`: functions of sparse tensors, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.paddle.sparse.creation import WHY

REFUSED = Refusals(
    "paddle.sparse.nn.functional",
    WHY,
    functions=("conv2d conv3d subm_conv2d subm_conv3d max_pool3d relu relu6 leaky_relu softmax attention"),
)
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
