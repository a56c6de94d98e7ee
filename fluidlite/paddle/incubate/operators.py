"""Functions that 2.6.2 has as single ops: a softmax behind a mask, and a loss that is its own gradient."""

from __future__ import annotations

from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, need_float

__all__ = ["identity_loss", "softmax_mask_fuse", "softmax_mask_fuse_upper_triangle"]

_REDUCTIONS = {"sum": 0, "mean": 1, "none": 2}


def softmax_mask_fuse(x: Variable, mask: Variable, name: str | None = None) -> Variable:
    """softmax(x + mask) over the last dimension: x [batch, heads, rows, columns], mask [batch, 1, rows,
    columns].
    """
    need_float(x, "softmax_mask_fuse")
    return append("fused_softmax_mask", {"X": [x], "Mask": [mask]}, dtype=x.dtype)


def softmax_mask_fuse_upper_triangle(x: Variable) -> Variable:
    """softmax(x) over the last dimension of [batch, heads, rows, columns], where the elements above the
    diagonal count as minus infinity.
    """
    need_float(x, "softmax_mask_fuse_upper_triangle")
    return append("fused_softmax_mask_upper_triangle", {"X": [x]}, dtype=x.dtype)


def identity_loss(x: Variable, reduction: str | int = "none") -> Variable:
    """The sum (0), the mean (1), or x itself (2, "none"), as the loss of a program."""
    need_float(x, "identity_loss")
    number = _REDUCTIONS.get(reduction.lower()) if isinstance(reduction, str) else reduction
    if number not in (0, 1, 2):
        raise ValueError(f"Unsupported reduction type: {reduction!r}, wanted one of {', '.join(_REDUCTIONS)}")
    return append("identity_loss", {"X": [x]}, {"reduction": number}, dtype=x.dtype)
