"""Convolutions and pools: objects that hold scratch buffers for one geometry, bound into the plan and
given its buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.fast.conv import FastConv, has_fast_conv
from fluidlite.executor.plan.actions import Bound, Out
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.team import pieces, team_of
from fluidlite.ops.kernels.convolution import Geometry, conv_plan
from fluidlite.ops.kernels.pooling import PoolPlan
from fluidlite.ops.neural.conv import conv_attrs, geometry_of
from fluidlite.ops.neural.pool import plan_arguments, pool_attrs

LARGE = 1 << 15  # elements of the input from which a second thread pays


def _geometry(e: Emitter, x: Value, w: Value) -> Geometry:
    if e.attr("data_format") not in ("NCHW", "AnyLayout") or e.op.inputs.get("ResidualData"):
        raise CannotLower("layout")
    assert x.shape is not None and w.shape is not None
    attrs = {name: e.attr(name) for name in conv_attrs(2, "NCHW")}
    return geometry_of(e.op.type, x.shape, w.shape, attrs)


class _InParts:
    """A batch that is split over a team of threads: `parts` are the rows of each."""

    def __init__(self, batch: int, threads: int) -> None:
        self.parts = pieces(batch, max(1, min(threads, batch)))

    def _each(self, task: Callable[[int], None]) -> None:
        """task(number of the part), for each part on a thread of its own."""
        if len(self.parts) == 1:
            task(0)
        else:
            team_of(len(self.parts))(task)


class SharedConv(_InParts):
    """A convolution whose batch is split over a team of threads, each part with scratch buffers of its
    own.
    """

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any, threads: int) -> None:
        super().__init__(geometry.x[0], threads)
        shapes = [(part.stop - part.start, *geometry.x[1:]) for part in self.parts]
        self.plans = [conv_plan(xp, replace(geometry, x=shape), dtype) for shape in shapes]
        self.partial = [xp.empty(geometry.w, dtype) for _ in self.parts[1:]]
        self.xp = xp

    def forward(self, x: Array, w: Array, out: Array) -> None:
        """out = x convolved with w."""

        def work(t: int) -> None:
            part = self.parts[t]
            self.plans[t].forward(x[part], w, out[part])

        self._each(work)

    def grad_input(self, d: Array, w: Array, out: Array) -> None:
        """out = the gradient of x."""

        def work(t: int) -> None:
            part = self.parts[t]
            self.plans[t].grad_input(d[part], w, out[part])

        self._each(work)

    def grad_filter(self, x: Array, d: Array, out: Array, reuse: bool) -> None:
        """out = the gradient of w: the parts' gradients, summed."""
        # each thread sums over its part of the batch into an array of its own, so none waits for another
        outs = [out, *self.partial]

        def work(t: int) -> None:
            part = self.parts[t]
            self.plans[t].grad_filter(x[part], d[part], outs[t], reuse)

        self._each(work)
        for part in self.partial:
            self.xp.add(out, part, out=out)


class SharedPool(_InParts):
    """A pool whose batch is split over a team of threads."""

    def __init__(self, xp: Any, shape: tuple[int, ...], arguments: tuple[Any, ...], threads: int) -> None:
        super().__init__(shape[0], threads)
        shapes = [(part.stop - part.start, *shape[1:]) for part in self.parts]
        self.plans = [PoolPlan(xp, shape, *arguments) for shape in shapes]

    def forward(self, x: Array, out: Array) -> None:
        """out = the pooled x."""

        def work(t: int) -> None:
            part = self.parts[t]
            self.plans[t].forward(x[part], out[part])

        self._each(work)

    def backward(self, x: Array, pooled: Array, d: Array, out: Array, reuse: bool) -> None:
        """out = the gradient of x."""

        def work(t: int) -> None:
            part = self.parts[t]
            self.plans[t].backward(x[part], pooled[part], d[part], out[part], reuse)

        self._each(work)


def _conv_plan(e: Emitter, geometry: Geometry, x: Value) -> Bound:
    """The object that computes a convolution: one that chooses among kernels, where there are several."""
    threads = _shares(e, x)
    if e.on_host and has_fast_conv(geometry, x.dtype):
        return e.bind_fresh("fast_conv", FastConv, geometry, x.dtype, threads, SharedConv)
    return e.bind_fresh("conv", SharedConv, geometry, x.dtype, threads)


def _shares(e: Emitter, *values: Value) -> int:
    """The number of threads that are worth waking for work on `values`."""
    return e.threads if max(value.size for value in values) >= LARGE else 1


@lowering("conv2d", "depthwise_conv2d")
def _(e: Emitter) -> None:
    x = e.need("Input")
    w = e.need("Filter")
    geometry = _geometry(e, x, w)
    plan = _conv_plan(e, geometry, x)
    e.remember(("conv", x, w, geometry), plan)
    out = e.out("Output", geometry.out, x.dtype)
    e.run(plan, x, w, Out(out), method="forward")


@lowering("conv2d_grad", "depthwise_conv2d_grad")
def _(e: Emitter) -> None:
    x = e.need("Input")
    w = e.need("Filter")
    d = e.need("Output@GRAD")
    geometry = _geometry(e, x, w)
    # the same version of X: what the forward pass unfolded of it still lies in the plan's scratch buffers
    plan = e.recall(("conv", x, w, geometry))
    reuse = plan is not None
    plan = plan or _conv_plan(e, geometry, x)
    if e.wants("Filter@GRAD"):
        out = e.out("Filter@GRAD", w.shape, w.dtype)
        e.run(plan, x, d, Out(out), reuse, method="grad_filter")
    if e.wants("Input@GRAD"):
        out = e.out("Input@GRAD", x.shape, x.dtype)
        e.run(plan, d, w, Out(out), method="grad_input")


def _pool_plan(e: Emitter, x: Value) -> Bound:
    if e.attr("data_format") not in ("NCHW", "AnyLayout") or x.dtype not in (np.float32, np.float64):
        raise CannotLower("layout")
    assert x.shape is not None
    attrs = {name: e.attr(name) for name in pool_attrs(2, "NCHW")}
    arguments = plan_arguments(x.shape[2:], attrs, x.dtype)
    return e.bind_fresh("pool", SharedPool, x.shape, arguments, _shares(e, x))


@lowering("pool2d")
def _(e: Emitter) -> None:
    x = e.need("X")
    plan = _pool_plan(e, x)
    out = e.out("Out", e.inferred_shape("Out"), x.dtype)
    e.remember(("pool", x, e.op.outputs["Out"][0]), plan)
    e.run(plan, x, Out(out), method="forward")


@lowering("pool2d_grad")
def _(e: Emitter) -> None:
    x = e.need("X")
    pooled = e.need("Out")
    d = e.need("Out@GRAD")
    remembered = e.recall(("pool", x, pooled.name))
    plan = remembered or _pool_plan(e, x)
    out = e.out("X@GRAD", x.shape, x.dtype)
    e.run(plan, x, pooled, d, Out(out), remembered is not None, method="backward")
