"""Circular convolution of rows (conv_shift), as neural Turing machines shift their attention."""

from __future__ import annotations

from typing import Any

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.registry import Op, Spec

conv_shift = Op("conv_shift", "X. Y. -> Out", alike=("X", "Y"))


@conv_shift.shape
def _(X: Spec, Y: Spec) -> Spec:
    are_rows = len(X.shape) == 2 and len(Y.shape) == 2
    if not are_rows or X.shape[0] >= 0 <= Y.shape[0] != X.shape[0]:
        raise ShapeError(
            f"op 'conv_shift': X and Y must be [B, M] and [B, N], but they have shapes {list(X.shape)} and "
            f"{list(Y.shape)}"
        )
    wide, kernel = X.shape[1], Y.shape[1]
    if kernel >= 0 and (kernel % 2 == 0 or 0 <= wide < kernel):
        raise ShapeError(f"op 'conv_shift': Y has {kernel} columns, wanted an odd number, at most X's {wide}")
    return X


def _shifted(xp: Any, X: Array, kernel: int) -> Array:
    """(B, M, N): for each place of a row its N neighbours, around the ends."""
    wide = X.shape[1]
    place = (xp.arange(wide)[:, None] + xp.arange(kernel) - kernel // 2) % wide
    return X[:, place]


@conv_shift.kernel
def _(xp: Any, X: Array, Y: Array) -> Array:
    return xp.matmul(_shifted(xp, X, Y.shape[1]), Y[:, :, None])[:, :, 0]


@conv_shift.grad("X Y")
def _(xp: Any, X: Array, Y: Array, dOut: Array) -> tuple[Array, Array]:
    kernel = Y.shape[1]
    dx = xp.matmul(_shifted(xp, dOut, kernel), Y[:, ::-1, None])[:, :, 0]
    return dx, xp.matmul(dOut[:, None], _shifted(xp, X, kernel))[:, 0]
