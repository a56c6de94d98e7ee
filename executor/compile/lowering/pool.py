"""Pools: on the host as their operand lies, before bias and relu where these commute; on a device by a
kernel.
"""

from __future__ import annotations

import functools

import numpy as np

from fluidlite.executor.compile import commuting
from fluidlite.executor.compile.commuting import Commuted, Rising
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.layout import in_program_order, lays_out
from fluidlite.executor.compile.lowering.conv import threads_for
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.cuda.pools import DevicePool
from fluidlite.executor.fast.pool import FastPool, has_fast_pool
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.sizes import about
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.convolutions import SharedPool
from fluidlite.executor.run.image_kernels import PoolForm
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.pooling import Pooling, PoolPlan
from fluidlite.ops.neural.pool import pool_attrs, pooling_of


class _PoolImages:
    """A pool's op: the order in which its operands lie, which is that of X."""

    def __init__(self, e: Emitter, x: Value) -> None:
        self.dims = len(e.attr("ksize"))
        is_known = takes(e, x.dtype) if self.dims == 2 else x.dtype in (np.float32, np.float64)
        if not is_known or x.shape is None or len(x.shape) != self.dims + 2:
            raise CannotLower("layout")
        self.e = e
        self.x = x
        self.order = x.order if lays_out(e, x) else None
        if is_channels_last(e.attr("data_format")):
            raise CannotLower("layout")

    def source(self, slot: str) -> Value:
        """An operand."""
        value = self.e.laid_need(slot)
        if not self.e.on_host:
            return for_kernel(self.e, self.e.plain(value), self.x.dtype)
        return self.e.plain(value) if self.order is None else self.e.base_in(value, self.order)

    def out(self, slot: str, shape: tuple[int, ...]) -> Value:
        """The output."""
        if self.order is None:
            return self.e.out(slot, shape, self.x.dtype)
        return self.e.published(slot, shape, self.x.dtype, self.order)

    @functools.cached_property
    def _pooling(self) -> Pooling:
        assert self.x.shape is not None
        attrs = {name: self.e.attr(name) for name in pool_attrs(self.dims, "NCHW")}
        return pooling_of(self.x.shape[2:], attrs, self.x.dtype)

    @property
    def keeps_largest(self) -> bool:
        """True if each result is the largest element of a window that is not empty."""
        pooling = self._pooling
        return pooling.mode == "max" and all(each.whole for each in pooling.windows)

    def before(self, steps: Rising, plan: Bound, shape: tuple[int, ...]) -> None:
        """Pool what lay before `steps`, and do those."""
        e = self.e
        assert self.order is not None
        pooled = e.temp([shape[axis] for axis in self.order], self.x.dtype)
        e.run(plan, e.base_in(steps.source, self.order), Out(pooled), method="forward")
        commuting.finish(e, steps, pooled, self.out("Out", shape), self.order)
        e.remember(("commuted", self.x, e.op.outputs["Out"][0]), Commuted(plan, steps, pooled))

    def gradient_before(self, earlier: Commuted) -> None:
        """The gradient of such a pool, with relu's zeros."""
        e = self.e
        assert self.order is not None and self.x.shape is not None
        d, steps = self.source("Out@GRAD"), earlier.steps
        if steps.relu:
            masked = e.temp(d.shape or (), d.dtype)
            e.elementwise("d * (out > 0)", masked, d=d, out=self.source("Out"))
            d = masked
        source = e.base_in(steps.source, self.order)
        out = self.out("X@GRAD", self.x.shape)
        e.run(earlier.plan, source, earlier.pooled, d, Out(out), True, method="backward")
        commuting.note_routed(e, in_program_order(e, d, self.order), self.x)

    def plan(self) -> Bound:
        """The object that pools."""
        e = self.e
        assert self.x.shape is not None
        pooling = self._pooling
        if not e.on_host:
            factory = DevicePool if self.dims == 2 else PoolPlan
            return e.bind_fresh("pool", factory, self.x.shape, pooling)
        order = self.order or tuple(range(self.dims + 2))
        shape = tuple(self.x.shape[axis] for axis in order)
        threads = threads_for(e, self.x)
        split = order.index(0 if about(self.x.shape[0]) >= threads else 1)
        axes = tuple(order.index(2 + axis) for axis in range(self.dims))
        fast = has_fast_pool(shape, pooling, axes)
        shared, hint = (FastPool, "fast_pool") if fast else (SharedPool, "pool")
        return e.bind_fresh(hint, shared, PoolForm(shape, pooling, axes, split, threads, e.asked))


@lowering("pool2d", "pool3d")
def _(e: Emitter) -> None:
    pool = _PoolImages(e, e.laid_need("X"))
    shape = e.inferred_shape("Out")
    plan = pool.plan()
    steps = commuting.rising(e, pool.x) if pool.keeps_largest else None
    if steps is not None:
        pool.before(steps, plan, shape)
        return
    source = pool.source("X")
    e.remember(("pool", source, e.op.outputs["Out"][0]), plan)
    e.run(plan, source, Out(pool.out("Out", shape)), method="forward")


@lowering("pool2d_grad", "pool3d_grad")
def _(e: Emitter) -> None:
    x = e.laid_need("X")
    pool = _PoolImages(e, x)
    earlier = commuting.serves_gradient(e, x)
    if earlier is not None:
        pool.gradient_before(earlier)
        return
    source, pooled, d = (pool.source(slot) for slot in ("X", "Out", "Out@GRAD"))
    remembered = e.recall(("pool", source, e.op.inputs["Out"][0]))
    plan = remembered or pool.plan()
    assert x.shape is not None
    out = pool.out("X@GRAD", x.shape)
    e.run(plan, source, pooled, d, Out(out), remembered is not None, method="backward")
