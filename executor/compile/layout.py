"""The layout of activations in memory.

The program's images are (N, C, H, W). Convolutions are fastest where the channels lie behind each other, so
a rule may write a buffer of another order of dimensions and publish it as a transposed view of the shape that
the program knows (`Emitter.published`). Rules that know layouts ask for `Emitter.laid` values, work on the
buffers and publish views of the same kind; all others get a copy in the program's order, which `explain`
shows as a step of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fluidlite.executor.compile.emitter import Emitter
from fluidlite.executor.fast.onednn.library import available
from fluidlite.executor.plan.values import Value
from fluidlite.ops.kernels.conv_geometry import is_channels_last

__all__ = ["beside", "image_order", "in_program_order", "is_of_last", "lays_out", "place", "seen_as"]

_ROWS = {4: "HNWC", 5: "HNDWC"}  # NumPy's convolutions, by rank: a row of all images is one matrix
_IMAGES = {4: "NHWC", 5: "NDHWC"}  # oneDNN's, and those of programs with the channels last
_PROGRAM = {4: "NCHW", 5: "NCDHW"}


def image_order(dtype: object, data_format: str, rank: int = 4) -> tuple[int, ...]:
    """The dimensions of the op's images, or volumes, in the order that convolutions like best here."""
    layouts = _IMAGES if dtype == np.float32 and available() else _ROWS
    letters = _IMAGES if is_channels_last(data_format) else _PROGRAM
    return tuple(map(letters[rank].index, layouts[rank]))


def in_program_order(e: Emitter, laid: Value, order: Sequence[int]) -> Value:
    """A buffer whose dimensions lie in `order`, as a view of the shape that the program knows."""
    return e.transpose(laid, sorted(range(len(order)), key=order.__getitem__))


def lays_out(e: Emitter, value: Value) -> bool:
    """True if a rule may choose the order in which the dimensions of an output like `value` lie."""
    # in bodies of loops values take ways that know one layout only
    return e.on_host and not e.builder.depth and value.dtype in (np.float32, np.float64) and value.size > 0


def place(y_rank: int, rank: int, axis: int) -> int:
    """The dimension at which Y begins; where it has as many as X, `axis` says nothing, whatever it is."""
    return rank - y_rank if axis == -1 or y_rank >= rank else axis


def _dimensions(y: Value, rank: int, axis: int) -> tuple[int, ...]:
    """Y's shape with dimensions of one around it."""
    assert y.shape is not None
    before = place(len(y.shape), rank, axis)
    return (*(1,) * before, *y.shape, *(1,) * (rank - before - len(y.shape)))


def is_of_last(y: Value, x: Value, axis: int) -> bool:
    """True if Y has a value for each element of the dimension of X that lies innermost, and for no other."""
    assert x.shape is not None and x.order is not None
    sizes = _dimensions(y, len(x.shape), axis)
    inner = x.order[-1]
    return sizes == tuple(size if each == inner else 1 for each, size in enumerate(x.shape))


def beside(e: Emitter, y: Value, base: Value, order: tuple[int, ...], axis: int) -> tuple[Value, Value]:
    """(`base`, Y) in shapes that broadcast; the dimensions of `base` lie in `order`."""
    assert base.shape is not None
    sizes = _dimensions(y, len(order), axis)
    if y.size == base.shape[-1] == sizes[order[-1]] and y.size > 1:
        return _as_rows(e, y, base)
    full = e.reshape(y, sizes)
    return base, e.base_in(full, order)


def _as_rows(e: Emitter, y: Value, base: Value) -> tuple[Value, Value]:
    """`base` as long rows, and Y, with a value for each channel, repeated to such a row.

    NumPy's loops over a few channels cost more than what they compute.
    """
    assert base.shape is not None
    *_, wide, channels = base.shape
    repeated = e.temp((wide, channels), base.dtype)
    e.copy(e.reshape(y, (channels,)), repeated)
    height = base.size // repeated.size
    return e.reshape(base, (height, repeated.size)), e.reshape(repeated, (repeated.size,))


def seen_as(e: Emitter, value: Value, like: Value) -> Value:
    """A value in the shape of another."""
    assert like.shape is not None
    return e.reshape(value, like.shape)
