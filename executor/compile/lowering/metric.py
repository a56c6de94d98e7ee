"""top_k, accuracy and auc on a device, where portable kernels would keep a step from being captured."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, row_kernel
from fluidlite.executor.cuda.auc import DeviceAuc
from fluidlite.executor.cuda.rows import DeviceAccuracy
from fluidlite.executor.plan.actions import Out

_FEW = 16  # elements that are found one by one: more are sorted by the portable kernel


@lowering("top_k")
def _(e: Emitter) -> None:
    x = e.need("X")
    k = e.attr("k")
    is_plain = x.dtype in (np.float32, np.float64) and x.shape and not e.op.inputs.get("K")
    if e.on_host or not is_plain or k > _FEW:
        raise CannotLower("only the portable kernel supports it")
    assert x.shape is not None
    rows = e.reshape(for_kernel(e, x, x.dtype), (math.prod(x.shape[:-1]), x.shape[-1]))
    shape = (*x.shape[:-1], k)
    values = e.out("Out", shape, x.dtype)
    indices = e.out("Indices", shape, np.int64)
    e.run(row_kernel(e, "top_k", rows, [k]), rows, Out(values), Out(indices))


@lowering("accuracy")
def _(e: Emitter) -> None:
    if e.on_host:
        raise CannotLower("only the portable kernel supports it")
    indices, label = (for_kernel(e, e.need(slot), np.int64) for slot in ("Indices", "Label"))
    assert indices.shape is not None and label.shape is not None
    rows = indices.shape[0]
    if label.size != rows:
        raise CannotLower("another number of labels")
    outs = zip(("Accuracy", "Correct", "Total"), ("float32", "int32", "int32"), strict=True)
    kernel = e.bind_fresh("accuracy", DeviceAccuracy, rows, math.prod(indices.shape[1:]))
    e.run(kernel, indices, label, *(Out(e.out(slot, (1,), dtype)) for slot, dtype in outs))


@lowering("auc")
def _(e: Emitter) -> None:
    scores = e.need("Predict")
    if e.on_host or scores.dtype not in (np.float32, np.float64):
        raise CannotLower("only the portable kernel supports it")
    scores = for_kernel(e, scores, scores.dtype)
    assert scores.shape is not None
    labels, positive, negative = (
        for_kernel(e, e.need(slot), np.int64) for slot in ("Label", "StatPos", "StatNeg")
    )
    bins = e.attr("num_thresholds") + 1
    steps = e.attr("slide_steps")
    shape = positive.shape if steps else (1, bins)
    if labels.size != scores.shape[0] or min(positive.size, negative.size) < math.prod(shape or ()):
        raise CannotLower("other sizes")
    area = e.out("AUC", (1,), np.float64)
    states = [
        e.out(slot, shape, np.int64, inplace=value.shape == shape)
        for slot, value in (("StatPosOut", positive), ("StatNegOut", negative))
    ]
    kernel = e.bind_fresh("auc", DeviceAuc, *scores.shape, bins, steps, scores.dtype)
    e.run(kernel, scores, labels, positive, negative, Out(area), *map(Out, states))
