"""top_k and accuracy on a device: portable kernels would keep a classifier's step from being captured."""

from __future__ import annotations

import math

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter, lowering
from fluidlite.executor.compile.lowering.device import for_kernel, row_kernel
from fluidlite.executor.cuda.rows import DeviceAccuracy
from fluidlite.executor.plan.actions import Out

_FEW = 16  # elements that are found one by one: more are sorted by the portable kernel


@lowering("top_k")
def _(e: Emitter) -> None:
    x = e.need("X")
    k = e.attr("k")
    is_plain = x.dtype in (np.float32, np.float64) and x.shape and not e.op.inputs.get("K")
    if e.on_host or not is_plain or k > _FEW:
        raise CannotLower("the portable kernel does it")
    assert x.shape is not None
    rows = e.reshape(for_kernel(e, x, x.dtype), (math.prod(x.shape[:-1]), x.shape[-1]))
    shape = (*x.shape[:-1], k)
    values, indices = e.out("Out", shape, x.dtype), e.out("Indices", shape, np.int64)
    e.run(row_kernel(e, "top_k", rows, [k]), rows, Out(values), Out(indices))


@lowering("accuracy")
def _(e: Emitter) -> None:
    if e.on_host:
        raise CannotLower("the portable kernel does it")
    indices, label = (for_kernel(e, e.need(slot), np.int64) for slot in ("Indices", "Label"))
    assert indices.shape is not None and label.shape is not None
    rows = indices.shape[0]
    if label.size != rows:
        raise CannotLower("another number of labels")
    outs = zip(("Accuracy", "Correct", "Total"), ("float32", "int32", "int32"), strict=True)
    kernel = e.bind_fresh("accuracy", DeviceAccuracy, rows, math.prod(indices.shape[1:]))
    e.run(kernel, indices, label, *(Out(e.out(slot, (1,), dtype)) for slot, dtype in outs))
