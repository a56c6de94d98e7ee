"""Convolutions of three dimensions on NumPy, as convolutions of two.

x (N, C, D, H, W) becomes N * OD images (H, W) with KD * C channels: those of the slices that a slice of the
result is computed from, unfolded along the depth only. So KD times as much is copied as x has, where all
dimensions unfolded are KD * KH * KW times as much; what remains is done by the convolutions of images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.convolutions import SharedConv
from fluidlite.executor.run.image_kernels import ImageConv, TailSteps
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.ops.kernels.scratch import take
from fluidlite.ops.kernels.taps import taps_along

__all__ = ["SharedVolumes"]

_UNFOLDED = 1 << 22  # elements at a time
_ROWS = (3, 0, 2, 4, 1)  # (N, C, D, H, W) as (H, N, D, W, C)


class SharedVolumes(ImageConv):
    """Convolutions of arrays (N, C, D, H, W), whatever their strides; no copies are needed of results of
    which all slices of all volumes lie at one distance. `fixed` says nothing: filters are laid out anew.
    """

    def __init__(self, xp: Any, geometry: Geometry, dtype: Any, threads: int, fixed: bool = False) -> None:
        self.geometry = g = geometry
        self.taps = taps_along(g, 0)
        self.width = (g.groups, g.kernel[0], g.w[1])
        batch, channels, _, *sizes = g.x
        per_volume = g.spatial[0] * channels * g.kernel[0] * int(np.prod(sizes))
        step = max(1, _UNFOLDED // per_volume)
        self.parts = [slice(first, min(first + step, batch)) for first in range(0, batch, step)]
        self._images: dict[int, SharedConv] = {}
        for part in self.parts:
            count = part.stop - part.start
            if count not in self._images:
                self._images[count] = SharedConv(xp, self._flat(count), dtype, threads)

    def _flat(self, volumes: int) -> Geometry:
        """The convolution of the unfolded slices of some volumes."""
        g = self.geometry
        depth, *kernel = g.kernel
        return replace(
            g,
            x=(volumes * g.spatial[0], g.x[1] * depth, *g.x[3:]),
            w=(g.w[0], g.w[1] * depth, *kernel),
            strides=g.strides[1:],
            pads=g.pads[1:],
            dilations=g.dilations[1:],
        )

    def _each(self) -> Iterator[tuple[slice, SharedConv]]:
        """Some volumes, and the convolution of their slices."""
        for part in self.parts:
            yield part, self._images[part.stop - part.start]

    # ------------------------------------------------------------------ between volumes and slices
    def _unfolded_like(self, volumes: int, dtype: Any) -> Array:
        """Scratch memory for slices: (H, volumes, OD, W, groups, KD, C / groups)."""
        high, wide = self.geometry.x[3:]
        return take("volumes unfolded", (high, volumes, self.geometry.spatial[0], wide, *self.width), dtype)

    def _shown(self, x: Array) -> Array:
        """Some volumes as (H, N, D, W, groups, C / groups)."""
        rows = x.transpose(_ROWS)
        groups, _, channels = self.width
        per_channel = rows.strides[-1]
        return np.lib.stride_tricks.as_strided(
            rows,
            (*rows.shape[:4], groups, channels),
            (*rows.strides[:4], channels * per_channel, per_channel),
        )

    def _reached(self) -> Iterator[tuple[int, slice, slice]]:
        """Positions in the kernel's depth, with the slices of the result and those of x that they join."""
        for k, offset in enumerate(self.taps.offsets):
            yield k, *self.taps.reached(offset)

    def _unfold(self, x: Array) -> Array:
        """The slices of some volumes: (volumes * OD, KD * C, H, W)."""
        slices = self._unfolded_like(len(x), x.dtype)
        source = self._shown(x)
        for k, results, inputs in self._reached():
            slices[:, :, : results.start, ..., k, :] = 0
            slices[:, :, results.stop :, ..., k, :] = 0
            slices[:, :, results, ..., k, :] = source[:, :, inputs]
        return _as_images(slices)

    def _filters(self, w: Array) -> Array:
        """(O, KD * C / groups, KH, KW)"""
        o, c, depth, *kernel = w.shape
        laid = take("volumes filters", (o, depth, c, *kernel), w.dtype)
        laid[...] = w.swapaxes(1, 2)
        return laid.reshape(o, depth * c, *kernel)

    # ------------------------------------------------------------------ the convolution
    def forward(self, x: Array, w: Array, out: Array) -> None:
        """out = x convolved with w."""
        filters = self._filters(w)
        for part, images in self._each():
            target = out[part]
            found = _slices(target) if _lie_evenly(target) else _slices(_evenly("volumes product", target))
            images.forward(self._unfold(x[part]), filters, found)
            if not _lie_evenly(target):
                target[...] = _volumes(found, target)

    def forward_to_tail(self, x: Array, w: Array, steps: TailSteps, out: Array) -> None:
        """out = x convolved with fixed filters, and the steps behind."""
        steps = TailSteps(*steps)
        factor, shift = steps.factors(w)
        self.forward(x, w * factor.reshape(-1, 1, 1, 1, 1), out)
        np.add(out, shift.reshape(-1, 1, 1, 1), out=out)
        if steps.relu:
            np.maximum(out, 0, out=out)

    def grad_input(self, d: Array, w: Array, out: Array) -> None:
        """out = the gradient of x."""
        filters = self._filters(w)
        out[...] = 0
        for part, images in self._each():
            slices = self._unfolded_like(part.stop - part.start, d.dtype)
            images.grad_input(_slices(d[part]), filters, _as_images(slices))
            target = self._shown(out[part])
            for k, results, inputs in self._reached():
                reached = target[:, :, inputs]
                np.add(reached, slices[:, :, results, ..., k, :], out=reached)

    def grad_filter(self, x: Array, d: Array, out: Array, reuse: bool = False) -> None:
        """out = the gradient of w; `reuse` says nothing, as nothing that was unfolded is kept."""
        o, c, depth, *kernel = out.shape
        total = out.swapaxes(1, 2)
        found = take("volumes filters", (o, depth * c, *kernel), out.dtype)
        for number, (part, images) in enumerate(self._each()):
            images.grad_filter(self._unfold(x[part]), _slices(d[part]), found)
            if number:
                np.add(total, found.reshape(total.shape), out=total)
            else:
                total[...] = found.reshape(total.shape)


def _as_images(slices: Array) -> Array:
    """Unfolded slices (H, volumes, OD, W, ...) as (volumes * OD, channels, H, W)."""
    high, volumes, depth, wide, *_ = slices.shape
    return slices.reshape(high, volumes * depth, wide, -1).transpose(1, 3, 0, 2)


def _lie_evenly(array: Array) -> bool:
    """True if the slices of all volumes lie at one distance."""
    return len(array) == 1 or array.strides[0] == array.shape[2] * array.strides[2]


def _evenly(purpose: str, like: Array) -> Array:
    """Scratch memory in the shape of an array, whose slices lie at one distance."""
    n, c, *spatial = like.shape
    return np.moveaxis(take(purpose, (n, *spatial, c), like.dtype), -1, 1)


def _slices(array: Array) -> Array:
    """(N, C, D, H, W) as (N * D, C, H, W), copied where slices do not lie at one distance."""
    n, c, depth, *sizes = array.shape
    return array.swapaxes(1, 2).reshape(n * depth, c, *sizes)


def _volumes(slices: Array, like: Array) -> Array:
    """The same back."""
    n, c, depth, *sizes = like.shape
    return slices.reshape(n, depth, c, *sizes).swapaxes(1, 2)
