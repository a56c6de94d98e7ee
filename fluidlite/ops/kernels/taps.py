"""The elements of one dimension that meet each result of a convolution."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from fluidlite.base.records import dataclass
from fluidlite.ops.kernels.convolution import Geometry

__all__ = ["Taps", "residues", "taps_along", "taps_of"]


@dataclass(frozen=True)
class Taps:
    """The elements of one dimension that meet each of `count` results: result o meets the elements
    o * stride + offset, for each offset; those outside of [0, size) are zeros.
    """

    size: int
    count: int
    stride: int
    offsets: tuple[int, ...]

    def inside(self, offset: int, start: int, stop: int) -> tuple[int, int]:
        """The results in [start, stop) for which a tap lies inside."""
        low = max(start, -(offset // self.stride))
        high = min(stop, (self.size - 1 - offset) // self.stride + 1)
        return min(low, stop), max(high, min(low, stop))

    def reached(self, offset: int, start: int = 0, stop: int | None = None) -> tuple[slice, slice]:
        """The results in [start, stop) for which a tap lies inside, and the elements that it meets."""
        low, high = self.inside(offset, start, self.count if stop is None else stop)
        if low == high:
            return slice(low, low), slice(0, 0)
        first = low * self.stride + offset
        return slice(low, high), slice(first, first + (high - low - 1) * self.stride + 1, self.stride)

    @property
    def whole(self) -> bool:
        """True if every result meets the element in its own place, and no other."""
        return self.offsets == (0,) and self.stride == 1 and self.count == self.size

    @functools.cached_property
    def base(self) -> int:
        """The lowest offset."""
        return min(self.offsets)

    @property
    def spacing(self) -> int:
        """The distance of neighbouring taps, which is the same for all."""
        return self.offsets[1] - self.offsets[0] if len(self.offsets) > 1 else 1

    @functools.cached_property
    def phases(self) -> dict[int, int]:
        """Offset modulo stride -> how many results' worth of elements the taps of that phase reach on."""
        reach: dict[int, int] = {}
        for offset in self.offsets:
            phase, far = self.place(offset)
            reach[phase] = max(reach.get(phase, 0), far)
        return reach

    def place(self, offset: int) -> tuple[int, int]:
        """The phase of an offset, and how many results later its elements are another result's base."""
        far, phase = divmod(offset - self.base, self.stride)
        return phase, far


def taps_along(g: Geometry, axis: int) -> Taps:
    """The elements of x that meet each result, along one of the spatial dimensions."""
    offsets = (i * g.dilations[axis] - g.pads[axis][0] for i in range(g.kernel[axis]))
    return Taps(g.x[2 + axis], g.spatial[axis], g.strides[axis], tuple(offsets))


def taps_of(g: Geometry) -> tuple[Taps, Taps]:
    """The same of an image: along the height and along the width."""
    return taps_along(g, 0), taps_along(g, 1)


def residues(g: Geometry, axis: int) -> Iterator[tuple[slice, Taps, slice]]:
    """For each residue of x's positions along one dimension: the elements of the kernel that reach them, the
    taps of the result's gradient that they meet, and the positions.
    """
    size, stride, dilation = g.x[2 + axis], g.strides[axis], g.dilations[axis]
    for residue in range(min(stride, size)):
        reach = residue + g.pads[axis][0]
        kernel = [i for i in range(g.kernel[axis]) if (reach - i * dilation) % stride == 0]
        # the last first, so that the taps ascend
        offsets = tuple((reach - i * dilation) // stride for i in reversed(kernel))
        places = slice(residue, None, stride)
        yield _backwards(kernel), Taps(g.spatial[axis], len(range(size)[places]), 1, offsets), places


def _backwards(kernel: list[int]) -> slice:
    """Evenly spaced numbers, from the last to the first, as a slice."""
    if not kernel:
        return slice(0, 0)
    step = kernel[1] - kernel[0] if len(kernel) > 1 else 1
    before = kernel[0] - step
    return slice(kernel[-1], before if before >= 0 else None, -step)
