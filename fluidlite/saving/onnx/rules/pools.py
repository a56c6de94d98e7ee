"""ONNX for pools.

A pool is one node where ONNX has the same windows and divides by the same numbers. Elsewhere, and where the
sizes are known, the elements of each window are gathered along one dimension after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base import registry
from fluidlite.ops.kernels.pooling import Pooling, Windows, divisors
from fluidlite.ops.neural.pool import windows_of
from fluidlite.saving.onnx.graph import OpView, exports
from fluidlite.saving.onnx.rules.neural import back, front, front_shape, window_pads


@exports("pool2d", "pool3d", "max_pool2d_with_index", "max_pool3d_with_index")
def _pool(op: OpView) -> None:
    # the op's own attributes, read as its kernel reads them
    attrs = {name: op.attr(name) for name in registry.get(op.type).attr_defs}
    of_index = "with_index" in op.type
    is_max = of_index or attrs["pooling_type"] == "max"
    shape = front_shape(op)
    x = front(op)
    spatial = shape[2:]
    if attrs["adaptive"] and attrs["global_pooling"]:
        result = op.x()
        op.put(result)
        return
    is_whole = attrs["global_pooling"] or (attrs["adaptive"] and set(attrs["ksize"]) == {1})
    if is_whole and not of_index:
        made = op.add("GlobalMaxPool" if is_max else "GlobalAveragePool", x)
    elif attrs["adaptive"] or attrs["global_pooling"]:
        made = _by_windows(op, x, spatial, attrs, is_max)
    else:
        made = _regular(op, x, spatial, attrs, is_max)
    found = back(op, made, len(shape))
    op.put(found)


def _by_windows(op: OpView, x: str, spatial: Sequence[int], attrs: dict[str, Any], is_max: bool) -> str:
    """Windows of any kind over sizes that are known."""
    if min(spatial) < 0:
        raise op.error(f"windows that depend on the size of the image, which is {list(spatial)}")
    windows = windows_of(spatial, attrs)
    even = all(each.kernel and not (each.before or each.after) for each in windows)
    if even and all(each.disjoint for each in windows):
        sizes = [each.kernel for each in windows]
        return _node(op, x, is_max, sizes, sizes, [0] * 2 * len(sizes), exclusive=True)
    return _gathered(op, x, windows, attrs, is_max)


def _regular(op: OpView, x: str, spatial: Sequence[int], attrs: dict[str, Any], is_max: bool) -> str:
    """Windows of one size at equal distances."""
    window = list(attrs["ksize"])
    strides = list(attrs["strides"])
    pads = window_pads(op, spatial, window)
    if pads is not None and _is_node(spatial, window, strides, pads, attrs, is_max):
        flat = [before for before, _ in pads] + [after for _, after in pads]
        found = attrs.get("ceil_mode")
        ceil = bool(found)
        return _node(op, x, is_max, window, strides, flat, attrs.get("exclusive", True), ceil)
    if min(spatial) >= 0:
        return _gathered(op, x, windows_of(spatial, attrs), attrs, is_max)
    if pads is None and not attrs.get("ceil_mode") and (is_max or attrs["exclusive"]):
        kind = "MaxPool" if is_max else "AveragePool"
        return str(op.add(kind, x, kernel_shape=window, strides=strides, auto_pad="SAME_UPPER"))
    raise op.error(
        f"windows of {window} every {strides} with ceil_mode or padding beyond the image, whose size is "
        f"{list(spatial)}: give it with --shape"
    )


def _is_node(
    spatial: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    attrs: dict[str, Any],
    is_max: bool,
) -> bool:
    """True if ONNX's node has the same windows, whatever the sizes that are not known, and the same means."""
    for size, length, stride, (before, after) in zip(spatial, window, strides, pads, strict=True):
        # every window begins inside of the image, and ends inside of it or of its padding
        if before >= length or after >= length:
            return False
        room = size + before + after - length
        if size >= 0 and room < 0:
            return False
        if not attrs.get("ceil_mode"):
            continue
        if not is_max and not attrs["exclusive"] and (size < 0 or room % stride):
            return False
        last = -(-room // stride) * stride
        if (size < 0 and after + stride > length) or (size >= 0 and last >= size + before):
            return False
    return True


def _node(
    op: OpView,
    x: str,
    is_max: bool,
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    exclusive: bool,
    ceil: bool = False,
) -> str:
    attrs = {
        "kernel_shape": list(window),
        "strides": list(strides),
        "pads": list(pads),
        "ceil_mode": int(ceil),
    }
    if not is_max:
        averagepool = op.add("AveragePool", x, count_include_pad=int(not exclusive), **attrs)
        return str(averagepool)
    if "with_index" not in op.type:
        maxpool = op.add("MaxPool", x, **attrs)
        return str(maxpool)
    made, index = op.add("MaxPool", x, outputs=2, **attrs)
    # places count within each image, and ONNX's within all
    rank = op.rank()
    sizes = op.dims(x, 2, rank)
    size = op.graph.reduce("ReduceProd", sizes, [0], keep=True)
    rest = op.add("Mod", index, size)
    cast = op.cast(rest, np.int32)
    op.put(cast, "Mask")
    return str(made)


def _gathered(op: OpView, x: str, windows: Sequence[Windows], attrs: dict[str, Any], is_max: bool) -> str:
    """The elements of each window side by side, along one dimension after the other."""
    if "with_index" in op.type:
        raise op.error("ONNX has no pooling with these windows that also returns the indices of the maxima")
    if not all(each.whole for each in windows):
        raise op.error("a window lies in the padding alone")
    for axis, each in enumerate(windows, start=2):
        longest = max(each.lengths)
        places = np.array(each.starts)[:, None] + np.arange(longest)
        inside = places < np.array(each.ends)[:, None]
        # a largest element may be looked at twice; of a sum others are left out
        places = np.where(inside, places, np.array(each.starts)[:, None])
        x = op.add("Gather", x, op.graph.constant(places, np.int64), axis=axis)
        if not is_max and not inside.all():
            behind = [1] * (len(windows) + 1 - axis)
            reshaped = inside.reshape(*inside.shape, *behind)
            mask = op.graph.constant(reshaped, np.bool_)
            x = op.add("Where", mask, x, op.number(0.0))
        x = op.graph.reduce("ReduceMax" if is_max else "ReduceSum", x, [axis + 1])
    return x if is_max else _divided(op, x, windows, attrs)


def _divided(op: OpView, sums: str, windows: Sequence[Windows], attrs: dict[str, Any]) -> str:
    """The sums of windows divided by the sizes that the op's kernel divides by."""
    mode = Pooling(windows, "avg", attrs["exclusive"], op.dtype(), bool(attrs["of_2x"]))
    sizes = divisors(mode)
    count: Any = math.prod(each.kernel for each in windows)
    if sizes is not None:
        count = np.ones([1] * len(windows))
        for axis, lengths in enumerate(sizes):
            shape = [1] * len(windows)
            shape[axis] = -1
            reshaped = np.reshape(lengths, shape)
            count = count * reshaped
    quotient = op.add("Div", sums, op.graph.constant(count, op.dtype()))
    return str(quotient)
