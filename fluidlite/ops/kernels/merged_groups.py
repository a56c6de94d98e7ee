"""Convolutions in many narrow groups, over arrays (H, N, W, C): of ResNeXt and dual path networks.

Products of a few columns take as long as ones of 32, and each group costs its calls. So some groups are
convolved as one, with zeros in the filters for the channels of the others. Ms on one thread, forward and for
the gradients of x and the filters: 4 x 384 x 6 x 6 in 32 groups 2.5, 2.2 and 2.4, by fours 1.2, 1.0 and 1.1;
192 x 24 x 24 by steps of 2, 2.1, 15.4 and 2.3, by eights 1.9, 5.2 and 1.7.
"""

from __future__ import annotations

import math
from dataclasses import replace

from numpy.lib.stride_tricks import as_strided

from fluidlite.base.dtypes import Array
from fluidlite.ops.kernels.channels_last import ChannelsLast, Portion, Tail
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.ops.kernels.scratch import take

__all__ = ["MergedGroups", "merged_count"]

_SMALL = 1 << 10  # places of which calls take longer than products
_WIDE, _NARROW = 48, 8  # channels up to which groups of few and of many places are merged


def merged_count(g: Geometry) -> int:
    """The number of groups that are worth convolving as one."""
    width = max(g.w[1], g.w[0] // g.groups)
    limit = _WIDE if g.x[0] * math.prod(g.spatial) <= _SMALL else _NARROW
    fitting = (count for count in range(2, g.groups) if g.groups % count == 0 and count * width <= limit)
    return max(fitting, default=1)


class MergedGroups:
    """The convolutions of one geometry, `count` groups at a time, and not all of them."""

    shares_filters = False

    def __init__(self, geometry: Geometry, count: int) -> None:
        g = geometry
        self.shape = (g.groups // count, count, g.w[0] // g.groups, *g.w[1:])
        self.merged = (g.w[0], g.w[1] * count, *g.kernel)
        self.plan = ChannelsLast(replace(g, w=self.merged, groups=g.groups // count))
        self._is_fixed = False
        self._kept: Array | None = None

    def keep(self) -> None:
        """Lay out the filters of the forward pass at its next call, and no more until this one is called
        again: they do not change.
        """
        self._is_fixed = True
        self._kept = None
        self.plan.keep()

    def forward(self, x: Array, w: Array, out: Array, mine: Portion, tail: Tail | None = None) -> None:
        """A member's share of out = x convolved with w, and what follows."""
        filters = self._among_zeros(w) if self._kept is None else self._kept
        if self._is_fixed and self._kept is None:
            # what lies in scratch memory is another call's next
            filters = self._kept = filters.copy()
        self.plan.forward(x, filters, out, mine, tail)

    def grad_input(self, d: Array, w: Array, out: Array, mine: Portion) -> None:
        """A member's share of out = the gradient of x."""
        self.plan.grad_input(d, self._among_zeros(w), out, mine)

    def grad_filter(self, x: Array, d: Array, out: Array, mine: Portion) -> None:
        """A member's share of the gradient of w: all filters, from some rows of d."""
        filters = take("merged filters", self.merged, out.dtype)
        self.plan.grad_filter(x, d, filters, mine)
        out.reshape(self.shape)[...] = self._blocks(filters)

    def _among_zeros(self, w: Array) -> Array:
        """The filters of merged groups, with zeros for the channels of other groups."""
        filters = take("merged filters", self.merged, w.dtype)
        filters[...] = 0
        self._blocks(filters)[...] = w.reshape(self.shape)
        return filters

    def _blocks(self, filters: Array) -> Array:
        """Of each group the part for its own channels: (sets of groups, groups of a set, *filters)."""
        sets, count, results, channels, *kernel = self.shape
        whole = filters.reshape(sets, count, results, count, channels, *kernel)
        per_set, per_group, per_result, per_own, *rest = whole.strides
        return as_strided(whole, self.shape, (per_set, per_group + per_own, per_result, *rest))
