"""Attention as one function."""

from __future__ import annotations

from typing import Any

from fluidlite.ir.variable import Variable
from fluidlite.paddle.nn.functional.activation import softmax
from fluidlite.paddle.nn.functional.common import dropout
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.manipulation import transpose

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
) -> Variable:
    """softmax(query @ key^T / sqrt(size)) @ value of [batch, length, heads, size] (Vaswani et al., 2017).

    2.6.2 has masks on CUDA devices alone, by a kernel of its own: a mask is refused here.
    """
    if attn_mask is not None or is_causal:
        raise RuntimeError(
            "scaled_dot_product_attention: 2.6.2 supports masks on CUDA devices only; add the "
            "mask to the scores before paddle.nn.functional.softmax"
        )
    order = [0, 2, 1, 3]
    queries: Any
    queries, keys, values = (transpose(x, order) for x in (query, key, value))
    shares = softmax(matmul(queries * query.shape[-1] ** -0.5, keys, transpose_y=True))
    if dropout_p > 0:
        shares = dropout(shares, dropout_p, training=training, mode="upscale_in_train")
    return transpose(matmul(shares, values), order)
