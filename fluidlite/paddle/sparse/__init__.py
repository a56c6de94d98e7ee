"""`paddle.sparse`: tensors that store their nonzero elements only, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals
from fluidlite.paddle.sparse import creation, nn
from fluidlite.paddle.sparse.creation import WHY

REFUSED = Refusals(
    "paddle.sparse",
    WHY,
    functions=(
        "sparse_coo_tensor sparse_csr_tensor sin tan asin atan sinh tanh asinh atanh sqrt square "
        "log1p abs pow pca_lowrank cast neg deg2rad rad2deg expm1 mv matmul masked_matmul addmm add "
        "subtract transpose sum multiply divide coalesce is_same_shape reshape isnan slice"
    ),
)
__all__ = ["creation", "nn", *REFUSED.names]


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
