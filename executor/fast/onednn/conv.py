"""Convolutions by oneDNN: each thread of a team computes its part of the batch, or of a single image's rows.

The library's kernels are made for channels-last activations and for weights in blocks. Arrays in another
layout are copied into that on the way, part by part: the copies cost 5 % of a convolution of 64 channels with
3 x 3, and its kernels for channels first are 1.6 to 8 times slower.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass
from fluidlite.executor.fast.machine import NOW, MachineCalls, SharedCalls
from fluidlite.executor.fast.onednn.layouts import channels_first, channels_last, described
from fluidlite.executor.fast.onednn.library import engine
from fluidlite.executor.fast.onednn.primitive import (
    BIAS,
    DIFF_DST,
    DIFF_SRC,
    DIFF_WEIGHTS,
    DST,
    SRC,
    WEIGHTS,
    Attributes,
    Desc,
    Primitive,
    PrimitiveDesc,
    aligned,
    dims,
    reorder,
    scratch,
)
from fluidlite.executor.run.team import pieces
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.values.tensor import rebinds

__all__ = [
    "FORWARD",
    "GRAD_FILTER",
    "GRAD_INPUT",
    "ChannelBands",
    "ConvKernel",
    "Direction",
    "Epilogue",
    "kernel_name",
    "supports",
]

_TRAINING, _DIRECT = 64, 1
_FEW_CHANNELS = 8  # of a data gradient, which channels-last kernels take 3 to 10 times longer for
# pixels of the results below which threads share channels: what does not depend on their number, laying out
# filters and adding up the threads' gradients of them, costs as much as the rest
_FEW_PIXELS = 512
_BAND = 64  # channels that a thread is given at least
_FLOAT = 4  # bytes


@dataclass(frozen=True)
class Direction:
    """The computed quantity, and the arguments that stand for x, w and d (the result, or its gradient)."""

    kind: str
    x: int
    w: int
    d: int


FORWARD = Direction("forward", SRC, WEIGHTS, DST)
GRAD_INPUT = Direction("backward_data", DIFF_SRC, WEIGHTS, DIFF_DST)
GRAD_FILTER = Direction("backward_weights", SRC, DIFF_WEIGHTS, DIFF_DST)


@dataclass(frozen=True)
class Epilogue:
    """The steps behind a forward pass in the same kernel: a bias, the sum with what the result held, relu."""

    bias: bool = False
    sum: bool = False
    relu: bool = False


@dataclass(frozen=True)
class _Share:
    """One thread's part: its geometry, and where its x and its result begin (image, row)."""

    geometry: Geometry
    x: tuple[int, int]
    d: tuple[int, int]


def supports(geometry: Geometry, dtype: np.dtype) -> bool:  # type: ignore[type-arg]
    """True if oneDNN has kernels for a convolution."""
    sizes = (*geometry.x, *geometry.w, *geometry.spatial)
    # without elements there is nothing to compute, and the library would not make a primitive
    is_sized = all(size > 0 for size in sizes)
    return dtype == np.float32 and is_sized and min(map(min, geometry.pads)) >= 0


_NOTHING_BEHIND = Epilogue()


class ConvKernel:
    """One direction of a convolution, for arrays of given strides: `run(x, w, d)` writes the one that is
    computed. The weights of a `fixed` one are laid out again only where persistable variables have changed.
    """

    def __init__(
        self,
        direction: Direction,
        geometry: Geometry,
        threads: int,
        strides: tuple[Sequence[int], Sequence[int], Sequence[int]],
        epilogue: Epilogue = _NOTHING_BEHIND,
        fixed: bool = False,
    ) -> None:
        self.direction = direction
        self._fixed = fixed
        self._kept: tuple[object, int, Array] | None = None
        self._own: Array | None = None
        x, w, d = (tuple(stride // _FLOAT for stride in each) for each in strides)
        self._parts = [
            _share_kernel(direction, share, (x, d), epilogue)
            for share in _shares(direction, geometry, threads)
        ]
        if any(part.weights != self._parts[0].weights for part in self._parts):
            # for sizes that differ by one the library may choose kernels with other layouts of the weights
            self._parts = [_share_kernel(direction, _whole(geometry), (x, d), epilogue)]
        self._shared = SharedCalls(len(self._parts))
        self._weights = _described_weights(geometry, w)
        inner = self._parts[0].weights
        self._inner_bytes = inner.nbytes
        self._convert: Primitive | None = None
        if self._weights != inner:
            pair = (inner, self._weights) if direction is GRAD_FILTER else (self._weights, inner)
            self._convert = reorder(*pair, f"weights {geometry.w}")
        self.name = self._parts[0].name

    def run(self, x: Array, w: Array, d: Array, bias: Array | None = None) -> None:
        """Compute on all threads of the team."""
        ends = address_of(x), address_of(d)
        if self.direction is GRAD_FILTER:
            self._run_to_filter(ends, w)
            return
        weights = address_of(w)
        if self._convert is not None:
            weights = self._laid_out(self._convert, weights)
        more = () if bias is None else (address_of(bias),)
        self._each([(weights, *more)] * len(self._parts), ends)

    def run_part(self, calls: MachineCalls, x: Array, w: Array, d: Array) -> None:
        """Compute as a part of a team's job, of a kernel for one thread."""
        ends, weights = (address_of(x), address_of(d)), address_of(w)
        place = weights if self._convert is None else calls.scratch("weights", self._inner_bytes)
        is_result = self.direction is GRAD_FILTER
        if self._convert is not None and not is_result:
            calls.primitive(self._convert, weights, place)
        self._parts[0].run(calls, *ends, place)
        if self._convert is not None and is_result:
            calls.primitive(self._convert, place, weights)

    def lay_out(self, w: Array) -> None:
        """Keep weights for `run_laid`, in the layout that the kernel works on alone."""
        if self._convert is None:
            self._own = w
            return
        if self._own is None:
            self._own = aligned(self._inner_bytes)
        self._convert.run(address_of(w), address_of(self._own))

    def run_laid(self, x: Array, d: Array, bias: Array) -> None:
        """Compute with the weights that were laid out last."""
        assert self._own is not None, "weights are laid out before they are used"
        ends = address_of(x), address_of(d)
        self._each([(address_of(self._own), address_of(bias))] * len(self._parts), ends)

    def _laid_out(self, convert: Primitive, weights: int) -> int:
        """The address of the weights in the layout that the kernel works on."""
        if not self._fixed:
            place = scratch("weights", self._inner_bytes)
            convert.run(weights, place)
            return place
        state = rebinds.state()
        if self._kept is None or self._kept[:2] != (state, weights):
            held = aligned(self._inner_bytes) if self._kept is None else self._kept[2]
            convert.run(weights, address_of(held))
            self._kept = state, weights, held
        return address_of(self._kept[2])

    def _run_to_filter(self, ends: tuple[int, int], w: Array) -> None:
        # each thread sums over its part of the batch into an array of its own, so none waits for another
        count = len(self._parts)
        piece = -(-self._inner_bytes // 64) * 64
        held = scratch("weights", piece * count)
        first = address_of(w) if self._convert is None else held
        places = [first, *(held + t * piece for t in range(1, count))]
        self._each([(place,) for place in places], ends)
        if count > 1:
            total = _floats(first, self._inner_bytes)
            for place in places[1:]:
                np.add(total, _floats(place, self._inner_bytes), out=total)
        if self._convert is not None:
            self._convert.run(first, address_of(w))

    def _each(self, weights: Sequence[tuple[int, ...]], ends: tuple[int, int]) -> None:
        if len(self._parts) == 1:
            self._parts[0].run(NOW, *ends, *weights[0])
            return

        def work(calls: MachineCalls, t: int) -> None:
            self._parts[t].run(calls, *ends, *weights[t])

        self._shared.run((ends, *weights), len(self._parts), work)


class ChannelBands:
    """One direction of a convolution of few pixels, for arrays of given strides: each thread computes some
    channels (or the filters of some) by a `ConvKernel` of its own, and lays out their filters alone.

    `run(x, w, d)` writes the one that is computed: x (N, C, *spatial), w (O, C, *kernel), d (N, O, *spatial).
    OneDnnError where the library has no kernel.
    """

    def __init__(
        self,
        direction: Direction,
        geometry: Geometry,
        threads: int,
        strides: tuple[Sequence[int], Sequence[int], Sequence[int]],
    ) -> None:
        self.is_input = direction is GRAD_INPUT
        self.parts = pieces(geometry.w[self.is_input], threads)
        self.kernels = [
            ConvKernel(direction, self._band(geometry, part.stop - part.start), 1, strides)
            for part in self.parts
        ]
        self.name = self.kernels[0].name
        self.shared = SharedCalls(threads)

    @staticmethod
    def fit(direction: Direction, geometry: Geometry, threads: int) -> bool:
        """True if the threads share a convolution so."""
        is_small = geometry.x[0] * math.prod(geometry.spatial) < _FEW_PIXELS
        channels = geometry.w[direction is GRAD_INPUT]
        return is_small and geometry.groups == 1 and 1 < threads <= channels // _BAND

    def _band(self, geometry: Geometry, channels: int) -> Geometry:
        """The convolution of some channels."""
        if self.is_input:
            x = (geometry.x[0], channels, *geometry.x[2:])
            return replace(geometry, x=x, w=(geometry.w[0], channels, *geometry.kernel))
        return replace(geometry, w=(channels, *geometry.w[1:]))

    def run(self, x: Array, w: Array, d: Array) -> None:
        """Compute on all threads of the team."""

        def work(calls: MachineCalls, t: int) -> None:
            part = self.parts[t]
            if self.is_input:
                self.kernels[t].run_part(calls, x[:, part], w[:, part], d)
            else:
                self.kernels[t].run_part(calls, x, w[part], d[:, part])

        self.shared.run(tuple(map(address_of, (x, w, d))), len(self.parts), work)


def _floats(address: int, nbytes: int) -> Array:
    """The memory at an address as an array."""
    interface = {"data": (address, False), "shape": (nbytes // _FLOAT,), "typestr": "<f4", "version": 3}
    return np.asarray(type("Memory", (), {"__array_interface__": interface})())


def _described_weights(geometry: Geometry, strides: Sequence[int]) -> Desc:
    shape = _grouped(geometry)
    if geometry.groups == 1:
        return Desc.strided(shape, strides)
    return Desc.strided(shape, (strides[0] * shape[1], *strides))


def _grouped(geometry: Geometry) -> tuple[int, ...]:
    """The shape of the weights, as the library has it."""
    if geometry.groups == 1:
        return geometry.w
    return (geometry.groups, geometry.w[0] // geometry.groups, *geometry.w[1:])


# ---------------------------------------------------------------------- who computes what
def _shares(direction: Direction, geometry: Geometry, threads: int) -> list[_Share]:
    """The parts of the threads: images; or, of a single image, rows of what is computed."""
    batch = geometry.x[0]
    if batch == 1 and threads > 1:
        return _shares_of_image(direction, geometry, threads) or [_whole(geometry)]
    parts = pieces(batch, max(1, min(threads, batch)))
    return [
        _Share(
            replace(geometry, x=(part.stop - part.start, *geometry.x[1:])), (part.start, 0), (part.start, 0)
        )
        for part in parts
    ]


def _whole(geometry: Geometry) -> _Share:
    return _Share(geometry, (0, 0), (0, 0))


def _shares_of_image(direction: Direction, geometry: Geometry, threads: int) -> list[_Share]:
    """Rows of a single image for each thread; none where it is not worth it, or cannot be."""
    if direction is GRAD_INPUT:
        parts = pieces(geometry.x[2], threads) if geometry.x[2] >= threads else []
        shares = [_rows_of_x(geometry, part) for part in parts]
        return [share for share in shares if share is not None] if all(shares) else []
    if geometry.spatial[0] < threads:
        return []
    # each thread has the whole gradient of the filters, and these are added up
    if direction is GRAD_FILTER and math.prod(geometry.spatial) < _FEW_PIXELS:
        return []
    return [_rows(geometry, part) for part in pieces(geometry.spatial[0], threads)]


def _rows_of_x(geometry: Geometry, part: slice) -> _Share | None:
    """The share of some rows of the gradient of x: the rows of the result that they reach. None where windows
    pass rows by, which no padding describes.
    """
    stride, pad = geometry.strides[0], geometry.pads[0][0]
    reach = geometry.dilations[0] * (geometry.kernel[0] - 1) + 1
    first = max(-(-(part.start + pad - reach + 1) // stride), 0)
    last = min((part.stop - 1 + pad) // stride, geometry.spatial[0] - 1)
    before = part.start + pad - first * stride
    behind = last * stride - pad + reach - part.stop
    if first > last or before < 0 or behind < 0:
        return None
    own = replace(
        geometry,
        x=(1, geometry.x[1], part.stop - part.start, *geometry.x[3:]),
        pads=((before, behind), *geometry.pads[1:]),
    )
    return _Share(own, (0, part.start), (0, first))


def _rows(geometry: Geometry, part: slice) -> _Share:
    """The share of some rows of the result: the rows of x that they are computed from."""
    size, stride, pad = geometry.x[2], geometry.strides[0], geometry.pads[0][0]
    reach = geometry.dilations[0] * (geometry.kernel[0] - 1) + 1
    first = part.start * stride - pad
    behind = (part.stop - 1) * stride - pad + reach
    # rows that lie in the padding alone are computed from the nearest row of x, with so much more padding
    begin = min(max(first, 0), size - 1)
    end = max(min(behind, size), begin + 1)
    own = replace(
        geometry,
        x=(1, geometry.x[1], end - begin, *geometry.x[3:]),
        pads=((begin - first, behind - end), *geometry.pads[1:]),
    )
    return _Share(own, (0, begin), (0, part.start))


class _ShareKernel:
    """The share of one thread: a primitive, and the copies into and out of the layout that it works in."""

    def __init__(
        self,
        direction: Direction,
        share: _Share,
        strides: tuple[tuple[int, ...], tuple[int, ...]],
        epilogue: Epilogue,
    ) -> None:
        geometry = share.geometry
        outer = [
            described(shape, own) for shape, own in zip((geometry.x, geometry.out), strides, strict=True)
        ]
        wanted = _wanted(direction, geometry)
        made = _primitive_desc(direction, geometry, epilogue)
        self.name = made.name
        self.weights = made.layout(direction.w)
        arguments = {direction.x: wanted[0], direction.d: wanted[1], direction.w: self.weights}
        if epilogue.bias:
            arguments[BIAS] = made.layout(BIAS)
        self._primitive = Primitive(made, arguments)
        self._offsets = [
            (image * own[0] + row * own[2]) * _FLOAT
            for (image, row), own in zip((share.x, share.d), strides, strict=True)
        ]
        self._bytes = [desc.nbytes for desc in wanted]
        writes = {FORWARD: (False, True), GRAD_INPUT: (True, False), GRAD_FILTER: (False, False)}[direction]
        what = f"activations of {made.what}"
        self._before: list[Primitive | None] = [None, None]
        self._after: list[Primitive | None] = [None, None]
        for index, (own, target) in enumerate(zip(outer, wanted, strict=True)):
            if own == target:
                continue
            if writes[index]:
                self._after[index] = reorder(target, own, what)
            if not writes[index] or epilogue.sum:
                self._before[index] = reorder(own, target, what)

    def run(self, calls: MachineCalls, x: int, d: int, *rest: int) -> None:
        """Compute, with the addresses of the whole x and d, and of the weights (and the bias)."""
        outer = [x + self._offsets[0], d + self._offsets[1]]
        inner = list(outer)
        for index, use in enumerate(("x", "d")):
            before = self._before[index]
            if before is not None or self._after[index] is not None:
                inner[index] = calls.scratch(use, self._bytes[index])
            if before is not None:
                calls.primitive(before, outer[index], inner[index])
        calls.primitive(self._primitive, *inner, *rest)
        for index in (0, 1):
            after = self._after[index]
            if after is not None:
                calls.primitive(after, inner[index], outer[index])


# the blocks of a network are alike, and what a new batch size makes is theirs together
@functools.lru_cache(1024)
def _share_kernel(
    direction: Direction, share: _Share, strides: tuple[tuple[int, ...], tuple[int, ...]], epilogue: Epilogue
) -> _ShareKernel:
    return _ShareKernel(direction, share, strides, epilogue)


def _wanted(direction: Direction, geometry: Geometry) -> list[Desc]:
    """The layouts that x and the result are computed in."""
    inner = channels_last
    if direction is GRAD_INPUT and geometry.w[1] < _FEW_CHANNELS and geometry.groups == 1:
        inner = channels_first
    return [Desc.strided(shape, inner(shape)) for shape in (geometry.x, geometry.out)]


def kernel_name(direction: Direction, geometry: Geometry) -> str:
    """The name that the library gives to its kernel for a convolution; OneDnnError where it has none."""
    return _primitive_desc(direction, geometry, Epilogue()).name


# the blocks of a network are alike: 395 descriptions of 70 kinds in one of 130 convolutions
@functools.lru_cache(1024)
def _primitive_desc(direction: Direction, geometry: Geometry, epilogue: Epilogue) -> PrimitiveDesc:
    g = geometry
    x, d = _wanted(direction, geometry)
    w = Desc.any(_grouped(g))
    what = f"convolution of {g.x} with {g.w} (strides {g.strides}, pads {g.pads}, dilations {g.dilations})"
    window = (
        dims(g.strides),
        dims([dilation - 1 for dilation in g.dilations]),
        dims([before for before, _ in g.pads]),
        dims([after for _, after in g.pads]),
    )
    bias = Desc.strided((g.w[0],), (1,)) if epilogue.bias else None
    attributes = Attributes(epilogue.sum, epilogue.relu)
    forward = PrimitiveDesc(
        "convolution_forward", what, engine(), _TRAINING, _DIRECT, x, w, bias, d, *window, attributes
    )
    if direction is FORWARD:
        return forward
    kind = f"convolution_{direction.kind}"
    none = () if direction is GRAD_INPUT else (None,)
    return PrimitiveDesc(kind, what, engine(), _DIRECT, x, w, *none, d, *window, forward, Attributes())
