"""Pools by oneDNN, of arrays whose channels lie last in memory, or before the places."""

from __future__ import annotations

from collections.abc import Sequence

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.machine import MachineCalls
from fluidlite.executor.fast.onednn.layouts import channels_first, channels_last
from fluidlite.executor.fast.onednn.library import OneDnnError, engine
from fluidlite.executor.fast.onednn.primitive import (
    DIFF_DST,
    DIFF_SRC,
    DST,
    SRC,
    WORKSPACE,
    Attributes,
    Desc,
    Primitive,
    PrimitiveDesc,
    aligned,
    dims,
)
from fluidlite.ops.kernels.pooling import Pooling, Windows

__all__ = ["PoolKernel"]

_TRAINING = 64
_MAX, _AVERAGE_WITH_PADDING, _AVERAGE = 511, 767, 1023


class PoolKernel:
    """A pool of arrays of one shape, (N, *spatial, C) where `is_last`, else (N, C, *spatial), and its
    gradient; OneDnnError where the library has no kernel of its own for it.
    """

    def __init__(self, shape: Sequence[int], pooling: Pooling, is_last: bool) -> None:
        windows, mode = pooling.windows, pooling.mode
        what = f"{mode} pool of {tuple(shape)} with windows of {[each.kernel for each in windows]}"
        if not all(each.kernel and each.whole for each in windows) or 0 in shape:
            raise OneDnnError(f"oneDNN: {what}: windows of different sizes")
        self.is_max = mode == "max"
        average = _AVERAGE if pooling.exclusive else _AVERAGE_WITH_PADDING
        algorithm = _MAX if self.is_max else average
        first = (shape[0], shape[-1], *shape[1:-1]) if is_last else tuple(shape)
        pooled = (*first[:2], *(each.count for each in windows))
        strides = channels_last if is_last else channels_first
        x, y = (Desc.strided(each, strides(each)) for each in (first, pooled))
        window = _window(windows)
        attributes = Attributes()
        forward = PrimitiveDesc(
            "pooling_forward", what, engine(), _TRAINING, algorithm, x, y, *window, attributes
        )
        backward = PrimitiveDesc(
            "pooling_backward", what, engine(), algorithm, x, y, *window, forward, attributes
        )
        self.name = forward.name
        if self.name.startswith("ref") or backward.name.startswith("ref"):
            raise OneDnnError(f"oneDNN: {what}: only by reference")
        ahead, back = {SRC: x, DST: y}, {DIFF_SRC: x, DIFF_DST: y}
        self._workspace: list[int] = []
        if self.is_max:
            # the positions of the largest elements, kept from the forward pass for the gradient
            places = ahead[WORKSPACE] = back[WORKSPACE] = forward.layout(WORKSPACE)
            self._places = aligned(places.nbytes)
            self._workspace = [address_of(self._places)]
        self._forward = Primitive(forward, ahead)
        self._backward = Primitive(backward, back)

    def forward(self, calls: MachineCalls, x: Array, out: Array, squares: Array) -> None:
        """out = the pooled x, which means what the op does if `squares` is finite then: of NaN and infinities
        the library makes numbers, where it looks for the largest.
        """
        if self.is_max:
            # one pass at the speed of memory; `isfinite` would write a mask and read it
            calls.squares(x, squares)
        calls.primitive(self._forward, address_of(x), address_of(out), *self._workspace)

    def backward(self, calls: MachineCalls, d: Array, out: Array) -> None:
        """out = the gradient of the x of the last `forward`."""
        calls.primitive(self._backward, address_of(out), address_of(d), *self._workspace)


def _window(windows: Sequence[Windows]) -> tuple[object, ...]:
    """Strides, kernel, dilation and padding, as the library has them."""
    # windows that reach further than the padding (ceil_mode) are so many more elements of padding
    ends = [(each.count - 1) * each.stride + each.kernel - each.size - each.before for each in windows]
    return (
        dims([each.stride for each in windows]),
        dims([each.kernel for each in windows]),
        dims([0 for _ in windows]),
        dims([each.before for each in windows]),
        dims([max(each.after, end) for each, end in zip(windows, ends, strict=True)]),
    )
