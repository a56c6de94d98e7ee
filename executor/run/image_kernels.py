"""The kernels of images that plans call, whichever library computes them: what each kind can do, and what one
is made for.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.ops.kernels.pooling import Pooling
from fluidlite.ops.neural.batch_norm import given_factors

__all__ = ["ImageConv", "PoolForm", "ImagePool", "TailSteps"]

Statistics = tuple[Array, Array, Array, Array]


class TailSteps(NamedTuple):
    """The steps behind a convolution of fixed filters: a bias, a batch_norm by `statistics` (scale, bias,
    mean, variance) and relu, those that there are.
    """

    statistics: Statistics | None
    epsilon: float
    bias: Array | None
    relu: bool

    def factors(self, w: Array) -> tuple[Array, Array]:
        """A factor for each filter of w, and a summand for its channel."""
        shift = np.zeros(len(w), w.dtype) if self.bias is None else self.bias.reshape(-1).copy()
        if self.statistics is None:
            return np.ones(len(w), w.dtype), shift
        scale, offset, mean, variance = self.statistics
        return given_factors(scale, offset, mean - shift, variance, self.epsilon)


class ImageConv(Protocol):
    """Convolutions of one geometry, of arrays (N, C, H, W) in any layout."""

    def forward(self, x: Array, w: Array, out: Array) -> None:
        """out = x convolved with w."""

    def forward_to_tail(self, x: Array, w: Array, steps: TailSteps, out: Array) -> None:
        """out = x convolved with fixed filters, and the steps behind; those come as a plain tuple."""

    def grad_input(self, d: Array, w: Array, out: Array) -> None:
        """out = the gradient of x."""

    def grad_filter(self, x: Array, d: Array, out: Array, reuse: bool) -> None:
        """out = the gradient of w; `reuse`: the last forward pass saw the same x."""


@dataclass(frozen=True)
class PoolForm:
    """The arrays of a pool: their shape, what it computes, the pooled dimensions, and the one that
    a team of threads shares.
    """

    shape: tuple[int, ...]
    pooling: Pooling
    axes: tuple[int, ...]
    split: int
    threads: int
    asked: int = 1
    """The run that has a library's kernel made."""


class ImagePool(Protocol):
    """Pools of arrays of one shape."""

    def forward(self, x: Array, out: Array) -> None:
        """out = the pooled x."""

    def backward(self, x: Array, pooled: Array, d: Array, out: Array, reuse: bool) -> None:
        """out = the gradient of x; `reuse`: the last forward pass saw the same x."""
