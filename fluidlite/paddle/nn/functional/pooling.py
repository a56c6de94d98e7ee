"""Pools of 2.x."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.ir.variable import Variable
from fluidlite.paddle.build import append, need_variable
from fluidlite.paddle.nn.functional.averages import averaged
from fluidlite.paddle.nn.functional.padding import pad
from fluidlite.paddle.nn.functional.windows import LAYOUTS, is_last, is_open, line_padding, padding_of, window
from fluidlite.paddle.tensor.manipulation import squeeze, unsqueeze
from fluidlite.paddle.tensor.math import cast

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def _pool(
    kind: str,
    dims: int,
    x: Variable,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    name: str | None,
) -> Variable:
    need_variable(x, "x", f"{kind}_pool{dims}d")
    is_last(data_format, dims)  # an error for an unknown layout
    paddings, algorithm = padding_of(padding, dims, data_format)
    if algorithm == "VALID" and ceil_mode:
        raise ValueError("When Attr(padding) is 'VALID', Attr(ceil_mode) must be False.")
    size = window(kernel_size, dims, "kernel_size")
    attrs = {
        "pooling_type": kind,
        "ksize": size,
        "global_pooling": False,
        "strides": size if stride is None else window(stride, dims, "stride"),
        "paddings": paddings,
        "padding_algorithm": algorithm,
        "ceil_mode": ceil_mode,
        "exclusive": exclusive,
        "adaptive": False,
        "data_format": data_format,
    }
    return append(f"pool{dims}d", {"X": [x]}, attrs, dtype=x.dtype, name=name)


def _with_places(
    dims: int,
    x: Variable,
    size: list[int],
    strides: list[int],
    paddings: Any,
    adaptive: bool,
    name: str | None,
    ceil_mode: bool = False,
) -> tuple[Variable, Variable]:
    """The largest of each window, and their places in the flattened image."""
    attrs = {
        "ksize": size,
        "strides": strides,
        "paddings": paddings,
        "global_pooling": False,
        "adaptive": adaptive,
        "ceil_mode": ceil_mode,
    }
    op_type = f"max_pool{dims}d_with_index"
    out = append(op_type, {"X": [x]}, attrs, dtype=x.dtype, name=name, extra={"Mask": VarType.INT32})
    return out, out.block.var(out.block.ops[-1].output("Mask")[0])


# ---------------------------------------------------------------------- windows of one size
def avg_pool1d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """As `avg_pool2d`, over [batch, channels, length]."""
    size, steps, pads = _on_a_line(kernel_size, stride, padding)
    flat = _pool("avg", 2, unsqueeze(x, [2]), size, steps, pads, ceil_mode, exclusive, "NCHW", name)
    return squeeze(flat, [2])


def avg_pool2d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The mean of each window of `kernel_size`, every `stride` (by default the size) places.

    padding: zeros at the borders, which `exclusive` leaves out of the mean. ceil_mode: a last window may
    reach beyond the border. divisor_override: divide by this number instead of the window's size.
    """
    out = _pool("avg", 2, x, kernel_size, stride, padding, ceil_mode, exclusive, data_format, name)
    return _overridden(out, kernel_size, divisor_override, 2)


def avg_pool3d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """As `avg_pool2d`, over depth, height and width."""
    out = _pool("avg", 3, x, kernel_size, stride, padding, ceil_mode, exclusive, data_format, name)
    return _overridden(out, kernel_size, divisor_override, 3)


def _overridden(out: Variable, kernel_size: Any, divisor: float | None, dims: int) -> Variable:
    if divisor is None:
        return out
    return out * (math.prod(window(kernel_size, dims, "kernel_size")) / divisor)


def _on_a_line(kernel_size: Any, stride: Any, padding: Any) -> tuple[list[int], Any, Any]:
    """Size, stride and padding of one dimension, for images that are one pixel high."""
    size = window(kernel_size, 1, "kernel_size")
    steps = None if stride is None else [1, *window(stride, 1, "stride")]
    return [1, *size], steps, line_padding(padding, LAYOUTS[1][0])


def max_pool1d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """As `max_pool2d`, over [batch, channels, length]."""
    size, steps, pads = _on_a_line(kernel_size, stride, padding)
    return _on_pictures(
        _max(2, unsqueeze(x, [2]), size, steps, pads, return_mask, ceil_mode, "NCHW", name), return_mask
    )


def _on_pictures(found: Any, both: bool) -> Any:
    """Results for images that are one pixel high, as those of lines."""
    return tuple(squeeze(one, [2]) for one in found) if both else squeeze(found, [2])


def _max(
    dims: int,
    x: Variable,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    return_mask: bool,
    ceil_mode: bool,
    data_format: str,
    name: str | None,
) -> Any:
    if not return_mask:
        # 2.6.2 marks the pool over three dimensions as not exclusive; for the largest it is all one
        return _pool("max", dims, x, kernel_size, stride, padding, ceil_mode, dims < 3, data_format, name)
    if data_format != LAYOUTS[dims][0]:
        raise ValueError(
            f"When setting return_mask to true, data_format must be set to {LAYOUTS[dims][0]} in "
            f"max_pool{dims}d"
        )
    size = window(kernel_size, dims, "kernel_size")
    strides = size if stride is None else window(stride, dims, "stride")
    paddings, algorithm = padding_of(padding, dims, data_format)
    sides = _sides(x, size, strides, paddings, algorithm)
    if all(before == after for before, after in sides):
        even = [before for before, _ in sides]
        return _with_places(dims, x, size, strides, even, False, name, ceil_mode)
    bordered = pad(x, [0] * 4 + [number for side in sides for number in side], value=_lowest(x))
    out, mask = _with_places(dims, bordered, size, strides, [0] * dims, False, name, ceil_mode)
    return out, _in_the_picture(mask, x.shape[2:], sides)


def _sides(
    x: Variable, size: list[int], strides: list[int], paddings: list[int], algorithm: str
) -> list[tuple[int, int]]:
    """The padding in front of and behind each spatial dimension."""
    if algorithm != "SAME":
        pairs = paddings if len(paddings) == 2 * len(size) else [one for one in paddings for _ in range(2)]
        return list(zip(pairs[::2], pairs[1::2], strict=True))
    if min(x.shape[2:]) < 0:
        raise ValueError(
            f"max_pool{len(size)}d: padding 'SAME' with return_mask=True depends on the sizes of "
            f"images, but {x.name!r} has the shape {list(x.shape)}"
        )
    totals = [
        max((math.ceil(length / step) - 1) * step + reach - length, 0)
        for length, reach, step in zip(x.shape[2:], size, strides, strict=True)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def _lowest(x: Variable) -> float:
    """The lowest number of a dtype, below which nothing is."""
    return float(np.finfo(to_numpy(x.dtype)).min)


def _in_the_picture(mask: Variable, sizes: Sequence[int], sides: list[tuple[int, int]]) -> Variable:
    """Places in a flattened image, from those in the same one with borders."""
    if min(sizes) < 0:
        raise ValueError(
            f"max_pool{len(sizes)}d: return_mask=True with paddings that differ between the sides "
            f"needs images of known sizes, not {list(sizes)}"
        )
    found: Any = 0
    rest: Any = mask
    step = 1
    for size, (before, after) in zip(sizes[::-1], sides[::-1], strict=True):
        wide = size + before + after
        found = found + (rest % wide - before) * step
        rest, step = rest // wide, step * size
    return cast(found, mask.dtype)


def max_pool2d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The largest of each window of `kernel_size`, every `stride` (by default the size) places; with
    `return_mask` also its place in the flattened image. `padding` and `ceil_mode` as in `avg_pool2d`.
    """
    return _max(2, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format, name)


def max_pool3d(
    x: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """As `max_pool2d`, over depth, height and width."""
    return _max(3, x, kernel_size, stride, padding, return_mask, ceil_mode, data_format, name)


# ---------------------------------------------------------------------- results of one size
def _output_size(output_size: Any, x: Variable, dims: int, last: bool) -> list[int]:
    """One number a dimension; None stands for the input's."""
    places = x.shape[1:-1] if last else x.shape[2:]
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * dims
    filled = [own if size is None else size for size, own in zip(given, places, strict=True)]
    return window(filled, dims, "output_size")


def _adaptive_avg(dims: int, x: Variable, output_size: Any, data_format: str, name: str | None) -> Variable:
    need_variable(x, "x", f"adaptive_avg_pool{dims}d")
    attrs = {
        "pooling_type": "avg",
        "ksize": _output_size(output_size, x, dims, is_last(data_format, dims)),
        "adaptive": True,
        "data_format": data_format,
    }
    return append(f"pool{dims}d", {"X": [x]}, attrs, dtype=x.dtype, name=name)


def adaptive_avg_pool1d(x: Variable, output_size: Any, name: str | None = None) -> Variable:
    """As `adaptive_avg_pool2d`, over [batch, channels, length]."""
    size = window(output_size, 1, "output_size")
    return squeeze(_adaptive_avg(2, unsqueeze(x, [2]), [1, *size], "NCHW", name), [2])


def adaptive_avg_pool2d(
    x: Variable, output_size: Any, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Means of windows that divide each dimension into `output_size` parts, numbers or Variables; None leaves
    a dimension as it is.
    """
    if is_open(output_size):
        return averaged(x, output_size, is_last(data_format, 2))
    return _adaptive_avg(2, x, output_size, data_format, name)


def adaptive_avg_pool3d(
    x: Variable, output_size: Any, data_format: str = "NCDHW", name: str | None = None
) -> Variable:
    """As `adaptive_avg_pool2d`, over depth, height and width."""
    return _adaptive_avg(3, x, output_size, data_format, name)


def _adaptive_max(dims: int, x: Variable, output_size: Any, return_mask: bool, name: str | None) -> Any:
    need_variable(x, "x", f"adaptive_max_pool{dims}d")
    size = _output_size(output_size, x, dims, False)
    found = _with_places(dims, x, size, [1] * dims, [0] * dims, True, name)
    return found if return_mask else found[0]


def adaptive_max_pool1d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """As `adaptive_max_pool2d`, over [batch, channels, length]."""
    size = [1, *window(output_size, 1, "output_size")]
    return _on_pictures(_adaptive_max(2, unsqueeze(x, [2]), size, return_mask, name), return_mask)


def adaptive_max_pool2d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """The largest of windows that divide each dimension into `output_size` parts; with `return_mask` also
    their places in the flattened image.
    """
    return _adaptive_max(2, x, output_size, return_mask, name)


def adaptive_max_pool3d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """As `adaptive_max_pool2d`, over depth, height and width."""
    return _adaptive_max(3, x, output_size, return_mask, name)


# ---------------------------------------------------------------------- the way back
def _unpool(
    dims: int,
    x: Variable,
    indices: Variable,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    data_format: str,
    output_size: Any,
    name: str | None,
) -> Variable:
    """Elements put back to where `max_pool` found them, among zeros; lines are images one pixel high."""
    if data_format != LAYOUTS[dims][0]:
        raise ValueError(f"Attr(data_format) should be {LAYOUTS[dims][0]!r}. Received: {data_format}.")
    size = window(kernel_size, dims, "kernel_size")
    steps = size if stride is None else window(stride, dims, "stride")
    pads = window(padding, dims, "padding")
    if output_size is None:
        lengths = x.shape[2:]
        places = [(n - 1) * steps[i] + size[i] - 2 * pads[i] for i, n in enumerate(lengths)]
    else:
        places = list(output_size)[-dims:]
    if dims == 1:
        size, steps, pads, places = [1, *size], [1, *steps], [0, *pads], [1, *places]
        x, indices = unsqueeze(x, [2]), unsqueeze(indices, [2])
    layout = LAYOUTS[max(dims, 2)][0]
    attrs = {"ksize": size, "strides": steps, "paddings": pads, "output_size": places, "data_format": layout}
    op_type = "unpool3d" if dims == 3 else "unpool"
    if dims < 3:
        attrs["unpooling_type"] = "max"
    out = append(op_type, {"X": [x], "Indices": [indices]}, attrs, dtype=x.dtype, name=name)
    return squeeze(out, [2]) if dims == 1 else out


def _max_unpool(dims: int) -> Callable[..., Variable]:
    def function(
        x: Variable,
        indices: Variable,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        data_format: str = LAYOUTS[dims][0],
        output_size: Any = None,
        name: str | None = None,
    ) -> Variable:
        return _unpool(dims, x, indices, kernel_size, stride, padding, data_format, output_size, name)

    function.__name__ = function.__qualname__ = f"max_unpool{dims}d"
    function.__doc__ = f"Elements put back to where `max_pool{dims}d` found them, among zeros."
    return function


max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)
