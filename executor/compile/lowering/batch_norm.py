"""Batch normalisation: on the host with the channels last in memory, on a device as they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.executor.compile import tails
from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.frozen import is_frozen
from fluidlite.executor.compile.layout import image_order, lays_out
from fluidlite.executor.compile.lowering.conv import threads_for
from fluidlite.executor.compile.lowering.device import for_kernel, takes
from fluidlite.executor.cuda.channels import DeviceChannels
from fluidlite.executor.cuda.kernel import sum_dtype
from fluidlite.executor.fast.batch_norm import FastBatchNorm, has_fast_batch_norm
from fluidlite.executor.plan.actions import Out
from fluidlite.executor.plan.values import Value
from fluidlite.executor.run.channels import ChannelKernel
from fluidlite.ops.kernels.conv_geometry import is_channels_last
from fluidlite.ops.kernels.row_kernels import RowKernel
from fluidlite.ops.neural.batch_norm import (
    BY_BATCH,
    BY_GIVEN,
    FACTOR,
    GRADIENT,
    GRADIENT_OF_GIVEN,
    GRADIENT_OF_SAVED,
    INVERSE,
    SHIFT,
    sizes_of,
)


def _order(e: Emitter, x: Value) -> Sequence[int]:
    """The order of dimensions with the channels last; CannotLower where the portable kernel is to do it."""
    assert x.shape is not None
    rank = len(x.shape)
    if not e.on_host and takes(e, x.dtype) and x.size:
        return tuple(range(rank))
    if not lays_out(e, x):
        raise CannotLower("layout")
    channels = rank - 1 if is_channels_last(e.attr("data_layout")) else 1
    if x.order is not None and x.order[-1] == channels:
        return x.order
    if channels == rank - 1:
        return tuple(range(rank))
    if rank in (4, 5):
        return image_order(x.dtype, e.attr("data_layout"), rank)
    raise CannotLower("the channels are not last")


def _run(
    e: Emitter, x: Value, kernel: RowKernel, arrays: Mapping[str, Value | None], outputs: Mapping[str, Value]
) -> None:
    """Call a kernel over channels, which are last on the host; arrays and outputs by their names in it."""
    assert x.shape is not None
    outer, channels, inner = sizes_of(x.shape, "NHWC" if e.on_host else e.attr("data_layout"))
    if outer * inner == 1:
        raise CannotLower("a channel of one element is left as it is")
    absent = {array.name: None for array in kernel.writes if array.name not in outputs}
    form = kernel.form(**absent)
    numbers = tuple(map(e.attr, form.numbers))
    if not e.on_host:
        call = e.bind_fresh("norm", DeviceChannels, form, (outer, channels, inner), x.dtype, numbers)
    else:
        arguments: tuple[Any, ...] = (form, (outer, channels), x.dtype, numbers, threads_for(e, x))
        is_fast = has_fast_batch_norm(x.dtype)
        call = (
            e.bind_fresh("fast_norm", FastBatchNorm, *arguments, e.asked)
            if is_fast
            else e.bind_fresh("norm", ChannelKernel, *arguments)
        )
    e.run(call, *(arrays[name] for name in form.inputs), *(Out(outputs[name]) for name in form.outputs))


def _numbers(e: Emitter, x: Value, *slots: str) -> list[Value]:
    """Values for each channel, all of them of X's dtype, or in single precision where that is half."""
    values = [e.need(slot) for slot in slots]
    assert x.dtype is not None
    dtype = sum_dtype(x.dtype)
    if any(value.dtype != dtype for value in values):
        raise CannotLower("dtype")
    assert x.shape is not None
    channels = x.shape[-1 if is_channels_last(e.attr("data_layout")) else 1]
    if any(value.shape != (channels,) for value in values):
        # a kernel would read past them; the portable one says what is wrong
        raise CannotLower("sizes")
    return [for_kernel(e, value, dtype) for value in values]


def _published(e: Emitter, slot: str, x: Value, order: Sequence[int]) -> Value:
    assert x.shape is not None
    if tuple(order) == tuple(range(len(order))):
        return e.out(slot, x.shape, x.dtype)
    return e.published(slot, x.shape, x.dtype, order)


@lowering("batch_norm")
def _(e: Emitter) -> None:
    x = e.laid_need("X")
    if e.op.inputs.get("MomentumTensor"):
        raise CannotLower("MomentumTensor")
    by_channels = is_frozen(e.op) and _lies_by_channels(e, x)
    order = () if by_channels else _order(e, x)
    scale, bias, mean, variance = _numbers(e, x, "Scale", "Bias", "Mean", "Variance")
    statistics = ("Scale", "Bias", "Mean", "Variance")
    names = [name for slot in statistics for name in e.op.inputs[slot]]
    tail = tails.tail_of(e, "X") if is_frozen(e.op) and tails.is_fixed(e, *names) else None
    if tail is not None and tail.statistics is None and not tail.relu:
        epsilon = e.attr("epsilon")
        tails.extend(e, tail, "Y", x, statistics=(scale, bias, mean, variance), epsilon=epsilon)
        _pass_on(e, mean, variance)
        return
    if by_channels:
        _infer_as_it_lies(e, x, (scale, bias), (mean, variance))
        _pass_on(e, mean, variance)
        return
    base = for_kernel(e, e.base_in(x, order), x.dtype)
    y = _published(e, "Y", x, order)
    arrays = {"x": base, "scale": scale, "bias": bias, "mean": mean, "variance": variance}
    if is_frozen(e.op):
        _run(e, base, BY_GIVEN, arrays, {"y": y})
        _pass_on(e, mean, variance)
        return
    _train(e, base, arrays, y)


def _train(e: Emitter, base: Value, arrays: Mapping[str, Value], y: Value) -> None:
    """Y = X normalised by the batch's statistics, towards which the running ones move."""
    mean, variance = arrays["mean"], arrays["variance"]
    running = [
        e.out(slot, value.shape, value.dtype, inplace=True)
        for slot, value in (("MeanOut", mean), ("VarianceOut", variance))
    ]
    saved = [_statistic(e, slot, mean) for slot in ("SavedMean", "SavedVariance")]
    names = ("y", "meanout", "varianceout", "savedmean", "savedvariance")
    _run(e, base, BY_BATCH, arrays, dict(zip(names, (y, *running, *saved), strict=True)))


def _lies_by_channels(e: Emitter, x: Value) -> bool:
    """True for images on the host that lie channel by channel; those of one element are left as they are."""
    assert x.shape is not None
    is_first = len(x.shape) > 2 and not is_channels_last(e.attr("data_layout"))
    is_plain = x.order is None or tuple(x.order) == tuple(range(len(x.shape)))
    is_known = e.on_host and x.dtype in (np.float32, np.float64)
    return is_known and is_first and is_plain and math.prod(x.shape) > x.shape[1]


def _infer_as_it_lies(
    e: Emitter, x: Value, weights: tuple[Value, Value], statistics: tuple[Value, Value]
) -> None:
    """Y = X normalised by given statistics, as element-wise steps: laying out 16 images of 64 x 56 x 56 for a
    kernel and back took four times as long.
    """
    (scale, bias), (mean, variance) = weights, statistics
    assert x.shape is not None and scale.shape is not None
    factor, shift = (e.temp(scale.shape, scale.dtype) for _ in "fs")
    inverse = e.temp(scale.shape, scale.dtype)
    e.elementwise(INVERSE, inverse, variance=variance, epsilon=e.attr("epsilon"))
    e.elementwise(FACTOR, factor, scale=scale, inverse=inverse)
    e.elementwise(SHIFT, shift, bias=bias, mean=mean, factor=factor)
    beside = (x.shape[1], *(1,) * (len(x.shape) - 2))
    factor, shift = e.reshape(factor, beside), e.reshape(shift, beside)
    e.elementwise("x * f + s", e.out("Y", x.shape, x.dtype), x=x, f=factor, s=shift)


def _statistic(e: Emitter, slot: str, like: Value) -> Value:
    """A value for each channel; scratch where the op does not name it."""
    assert like.shape is not None
    return e.out(slot, like.shape, like.dtype) if e.op.outputs.get(slot) else e.temp(like.shape, like.dtype)


def _pass_on(e: Emitter, mean: Value, variance: Value) -> None:
    """Outputs of a normalisation by given statistics: those, and what nobody reads."""
    for slot, value in (("MeanOut", mean), ("VarianceOut", variance)):
        if e.op.outputs.get(slot) and e.op.outputs[slot][0] != value.name:
            e.alias(slot, value)
    for slot in ("SavedMean", "SavedVariance"):
        if e.op.outputs.get(slot) and e.wants(slot):
            raise CannotLower("statistics of the running mean are read")


@lowering("batch_norm_grad")
def _(e: Emitter) -> None:
    x = e.laid_need("X")
    d = e.laid("Y@GRAD")
    order = _order(e, x)
    frozen = is_frozen(e.op)
    given = frozen and bool(e.op.inputs.get("Mean")) and bool(e.op.inputs.get("Variance"))
    slots = ("Mean", "Variance") if given else ("SavedMean", "SavedVariance")
    scale, *statistics = _numbers(e, x, "Scale", *slots)
    if d is None or d.dtype != x.dtype:
        raise CannotLower("dtype")
    base, incoming = (for_kernel(e, e.base_in(value, order), x.dtype) for value in (x, d))
    found = {"dx": _published(e, "X@GRAD", x, order)} if e.wants("X@GRAD") else {}
    found |= {
        f"d{slot.lower()}": e.out(f"{slot}@GRAD", scale.shape, scale.dtype)
        for slot in ("Scale", "Bias")
        if e.wants(f"{slot}@GRAD")
    }
    constant = GRADIENT_OF_GIVEN if given else GRADIENT_OF_SAVED
    kernel = constant if frozen else GRADIENT
    arrays = {"x": base, "dy": incoming, "scale": scale}
    arrays |= dict(zip([slot.lower() for slot in slots], statistics, strict=True))
    _run(e, base, kernel, arrays, found)
