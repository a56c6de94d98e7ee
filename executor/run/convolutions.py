"""Convolutions and pools that are shared by a team of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.run.image_kernels import ImageConv, ImagePool, PoolForm, TailSteps
from fluidlite.executor.run.team import on_team
from fluidlite.ops.kernels.channels_last import ChannelsLast, Portion, Tail
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.ops.kernels.depthwise import DepthwiseLast
from fluidlite.ops.kernels.few_places import FewPlaces, has_few_places
from fluidlite.ops.kernels.merged_groups import MergedGroups, merged_count
from fluidlite.ops.kernels.pooling import PoolPlan
from fluidlite.ops.kernels.scratch import take
from fluidlite.values.tensor import rebinds

__all__ = ["SharedConv", "SharedPool"]


_TURNED = (2, 0, 3, 1)  # (N, C, H, W) as (H, N, W, C)


class SharedConv(ImageConv):
    """Convolutions of arrays of shape (N, C, H, W), whatever their strides; fastest where the channels lie
    behind each other, and rows of all images together.
    """

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any, threads: int, fixed: bool = False) -> None:
        self.fixed = fixed
        self._seen: Any = None
        self._tail: Tail | None = None
        self.plan = _plan(geometry, fixed)
        self.threads = threads

    def _share(self, member: int) -> Portion:
        return Portion(member, self.threads)

    def forward(self, x: Array, w: Array, out: Array) -> None:
        """out = x convolved with w."""
        self._refresh(w)
        source, target = x.transpose(_TURNED), out.transpose(_TURNED)
        on_team(self.threads, lambda t: self.plan.forward(source, w, target, self._share(t)))

    def _refresh(self, w: Array) -> bool:
        """True if what is kept of fixed filters has to be made again."""
        state = (rebinds.state(), address_of(w))
        if not self.fixed or self._seen == state:
            return False
        self._seen = state
        self.plan.keep()
        return True

    def forward_to_tail(self, x: Array, w: Array, steps: TailSteps, out: Array) -> None:
        """out = x convolved with fixed filters, and the steps behind."""
        steps = TailSteps(*steps)
        if self._refresh(w) or self._tail is None:
            self._tail = Tail(*steps.factors(w), steps.relu)
        source, target, tail = x.transpose(_TURNED), out.transpose(_TURNED), self._tail
        on_team(self.threads, lambda t: self.plan.forward(source, w, target, self._share(t), tail))

    def grad_input(self, d: Array, w: Array, out: Array) -> None:
        """out = the gradient of x."""
        source, target = d.transpose(_TURNED), out.transpose(_TURNED)
        on_team(self.threads, lambda t: self.plan.grad_input(source, w, target, self._share(t)))

    def grad_filter(self, x: Array, d: Array, out: Array, reuse: bool = False) -> None:
        """out = the gradient of w; `reuse` says nothing, as nothing that was unfolded is kept."""
        outs = [out] * self.threads
        if not self.plan.shares_filters:
            # each member adds up its rows in an array of its own, so that none waits for another
            outs[1:] = take("conv partial", (self.threads - 1, *out.shape), out.dtype)
        source, incoming = x.transpose(_TURNED), d.transpose(_TURNED)
        on_team(self.threads, lambda t: self.plan.grad_filter(source, incoming, outs[t], self._share(t)))
        if not self.plan.shares_filters:
            for part in outs[1:]:
                np.add(out, part, out=out)


def _plan(geometry: Geometry, fixed: bool) -> ChannelsLast | DepthwiseLast | FewPlaces | MergedGroups:
    """NumPy's convolutions of a geometry; `fixed` filters are laid out once, however many."""
    if geometry.groups == geometry.w[0] > 1 and geometry.w[1] == 1:
        return DepthwiseLast(geometry)
    count = merged_count(geometry)
    if count > 1:
        return MergedGroups(geometry, count)
    return FewPlaces(geometry) if has_few_places(geometry) and not fixed else ChannelsLast(geometry)


class SharedPool(ImagePool):
    """Pools of arrays of one shape, whose dimension `split` is shared."""

    def __init__(self, xp: Any, form: PoolForm) -> None:
        shape, split = form.shape, form.split
        self.split = split
        members = max(1, min(form.threads, shape[split]))
        self.parts = [Portion(t, members).of(shape[split]) for t in range(members)]
        sizes = [part.stop - part.start for part in self.parts]
        shapes = [(*shape[:split], size, *shape[split + 1 :]) for size in sizes]
        self.plans = [PoolPlan(xp, part, form.pooling, form.axes) for part in shapes]

    def _of(self, array: Array, member: int) -> Array:
        return array[(slice(None),) * self.split + (self.parts[member],)]

    def forward(self, x: Array, out: Array) -> None:
        """out = the pooled x."""
        on_team(len(self.parts), lambda t: self.plans[t].forward(self._of(x, t), self._of(out, t)))

    def backward(self, x: Array, pooled: Array, d: Array, out: Array, reuse: bool) -> None:
        """out = the gradient of x."""

        def work(t: int) -> None:
            plan = self.plans[t]
            plan.backward(self._of(x, t), self._of(pooled, t), self._of(d, t), self._of(out, t), reuse)

        on_team(len(self.parts), work)
