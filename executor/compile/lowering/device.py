"""Launches of kernels of a CUDA device, for the lowering rules of all families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.executor.compile.emitter import CannotLower, Emitter
from fluidlite.executor.cuda.rows import DeviceRows
from fluidlite.executor.plan.actions import Bound
from fluidlite.executor.plan.values import Value

__all__ = ["for_kernel", "row_kernel", "takes"]


def takes(e: Emitter, dtype: Any) -> bool:
    """True if kernels take elements of a type: on the host, ops of half precision never come to their
    rules.
    """
    return dtype in (np.float32, np.float64) or (dtype == np.float16 and not e.on_host)


def for_kernel(e: Emitter, value: Value, dtype: Any) -> Value:
    """A value as a device's kernels take it, whose text is for one type of elements that lie behind each
    other: itself, or a copy without gaps. On the host a value is taken as it is.
    """
    if e.on_host:
        return value
    if value.dtype != dtype:
        raise CannotLower("operands of several types")
    return value if value.contiguous else e.copied(value)


def row_kernel(
    e: Emitter, name: str, rows: Value, numbers: Sequence[Any] = (), switches: Sequence[str] = ()
) -> Bound:
    """The launch of a kernel over the rows of a matrix."""
    assert rows.shape is not None
    return e.bind_fresh(name, DeviceRows, name, *rows.shape, rows.dtype, tuple(numbers), tuple(switches))
