"""`paddle.incubate.nn.functional`: products with a bias, and a dropout with a sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluidlite.ir.guarded import guarded
from fluidlite.ir.variable import Variable
from fluidlite.paddle.nn.functional.common import dropout
from fluidlite.paddle.tensor.linalg import matmul
from fluidlite.paddle.tensor.math import add

__all__ = ["fused_dropout_add", "fused_linear", "fused_matmul_bias"]


def fused_matmul_bias(
    x: Variable,
    y: Variable,
    bias: Variable | None = None,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Variable:
    """x @ y + bias."""
    product = matmul(x, y, transpose_x, transpose_y)
    return product if bias is None else add(product, bias)


def fused_linear(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    transpose_weight: bool = False,
    name: str | None = None,
) -> Variable:
    """x @ weight + bias."""
    return fused_matmul_bias(x, weight, bias, False, transpose_weight)


def fused_dropout_add(
    x: Variable,
    y: Variable,
    p: float = 0.5,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """dropout(x) + y."""
    if p == 0:
        return x + y
    return add(dropout(x, p, training=training, mode=mode), y)


if not TYPE_CHECKING:
    globals().update(guarded(__name__, __all__))
