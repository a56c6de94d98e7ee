"""`paddle.sparse.creation`: functions that make sparse tensors, which are refused."""

from __future__ import annotations

from typing import Any

from fluidlite.base.refusals import Refusals

WHY = (
    "sparse tensors exist in imperative mode only, and FluidLite runs static graphs: rows of a table "
    "are sparse with paddle.nn.Embedding(sparse=True)"
)
REFUSED = Refusals("paddle.sparse.creation", WHY, functions=("sparse_coo_tensor sparse_csr_tensor"))
__all__ = REFUSED.names


def __getattr__(name: str) -> Any:
    return REFUSED.get(name)
