"""Convolutions of a plan by the fastest kernel that there is: oneDNN's, or NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.choice import chosen, fastest
from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.first_runs import FirstRuns
from fluidlite.executor.fast.onednn.conv import (
    FORWARD,
    GRAD_FILTER,
    GRAD_INPUT,
    ChannelBands,
    ConvKernel,
    Direction,
    Epilogue,
    kernel_name,
    supports,
)
from fluidlite.executor.fast.onednn.layouts import is_channels_last
from fluidlite.executor.fast.onednn.library import OneDnnError, available, version
from fluidlite.executor.plan.objects import OwnObject
from fluidlite.executor.run.image_kernels import ImageConv, TailSteps
from fluidlite.ops.kernels.convolution import Geometry
from fluidlite.values.tensor import rebinds

__all__ = ["FastConv", "has_fast_conv"]

_LARGE = 1e7  # multiplications from which oneDNN is taken without a measurement, about 0.2 ms
_LARGE_AT_ONCE = 3e7  # and from which its kernel pays at the first run
_ONEDNN = "oneDNN"
_REFERENCE = "ref"  # in the names of oneDNN's kernels that only define a result


_DIRECTIONS = (FORWARD, GRAD_INPUT, GRAD_FILTER)
_DIRECTION_OF = {"grad_input": GRAD_INPUT, "grad_filter": GRAD_FILTER}

_Kernel: TypeAlias = "ConvKernel | ChannelBands"


def has_fast_conv(geometry: Geometry, dtype: Any) -> bool:
    """True if another kernel than NumPy's can compute a convolution here."""
    return available() and supports(geometry, dtype)


class FastConv(ImageConv, OwnObject):
    """A convolution of one geometry, each direction by the kernel chosen for the layouts that it meets.

    `portable` makes the kernel in NumPy, which has the same methods; `fixed` weights are those of a plan that
    does not write them, which are laid out once. Kernels are made at the `asked`th run (see `FirstRuns`).
    """

    def __init__(
        self,
        xp: Any,
        geometry: Geometry,
        dtype: Any,
        threads: int,
        portable: Callable[..., Any],
        fixed: bool = False,
        asked: int = 1,
    ) -> None:
        self.geometry = geometry
        self.fixed = fixed
        self.threads = threads
        self._make = partial(portable, xp, geometry, dtype, threads, *((True,) if fixed else ()))
        self._portable: Any = None
        self._runs = FirstRuns(asked, _work(geometry) > _LARGE_AT_ONCE)
        self._chosen: dict[tuple[Any, ...], _Kernel | None] = {}
        self._tails: dict[Any, tuple[object, ConvKernel, Array]] = {}
        """By strides: the state in which filters and bias were made, with the steps behind them; the kernel
        that has these filters; the bias.
        """
        self._unfolded = False  # the last forward pass left its x in NumPy's scratch buffers

    @staticmethod
    def explained(geometry: Geometry, dtype: Any, threads: int, _: Any, fixed: bool = False, *__: int) -> str:
        """The kernel of each direction."""
        shown = (_explained(direction, geometry, threads, fixed) for direction in _DIRECTIONS)
        return ", ".join(
            f"{direction.kind} {text}" for direction, text in zip(_DIRECTIONS, shown, strict=True)
        )

    @classmethod
    def kernel_of(
        cls, method: str, geometry: Geometry, dtype: Any, threads: int, _: Any, fixed: bool = False, *__: int
    ) -> str:
        """The kernel of the direction that a method computes."""
        return _explained(_DIRECTION_OF.get(method, FORWARD), geometry, threads, fixed)

    @property
    def portable(self) -> Any:
        """NumPy's kernel, whose scratch buffers are made when it is first needed."""
        if self._portable is None:
            self._portable = self._make()
        return self._portable

    def forward(self, x: Array, w: Array, out: Array) -> None:
        """out = x convolved with w."""
        kernel = self._kernel(FORWARD, x, w, out, lambda: self.portable.forward(x, w, out))
        self._unfolded = kernel is None
        if kernel is None:
            self.portable.forward(x, w, out)
        else:
            kernel.run(x, w, out)

    def forward_to_tail(self, x: Array, w: Array, steps: TailSteps, out: Array) -> None:
        """out = x convolved with fixed filters, and the steps behind, which are put into the filters."""
        steps = TailSteps(*steps)
        assert not steps.relu, "relu of the library turns NaN into 0"
        kernel = self._kernel(FORWARD, x, w, out, lambda: self.portable.forward(x, w, out))
        if kernel is None:
            self.portable.forward_to_tail(x, w, steps, out)
            return
        state = rebinds.state(), address_of(w)
        key = (x.strides, out.strides)
        found = self._tails.get(key)
        if found is None or found[0] != state:
            # filters with the steps in them are kept as the kernel reads them: twice would be a model's size
            factor, shift = steps.factors(w)
            filters = np.multiply(w, factor.reshape(-1, *(1,) * (w.ndim - 1)), order="C")
            strides = (x.strides, filters.strides, out.strides)
            made = found[1] if found is not None else self._kernel_of_tail(strides)
            made.lay_out(filters)
            found = self._tails[key] = state, made, shift
        _, made, shift = found
        made.run_laid(x, out, shift)

    def _kernel_of_tail(self, strides: tuple[Any, Any, Any]) -> ConvKernel:
        return ConvKernel(FORWARD, self.geometry, self.threads, strides, Epilogue(bias=True), self.fixed)

    def grad_input(self, d: Array, w: Array, out: Array) -> None:
        """out = the gradient of x."""
        kernel = self._kernel(GRAD_INPUT, out, w, d, lambda: self.portable.grad_input(d, w, out))
        if kernel is None:
            self.portable.grad_input(d, w, out)
        else:
            kernel.run(out, w, d)

    def grad_filter(self, x: Array, d: Array, out: Array, reuse: bool) -> None:
        """out = the gradient of w."""
        kernel = self._kernel(GRAD_FILTER, x, out, d, lambda: self.portable.grad_filter(x, d, out, False))
        if kernel is None:
            self.portable.grad_filter(x, d, out, reuse and self._unfolded)
        else:
            kernel.run(x, out, d)

    def _kernel(
        self, direction: Direction, x: Array, w: Array, d: Array, portable: Callable[[], object]
    ) -> _Kernel | None:
        """oneDNN's kernel for a direction and arrays of these strides; None where NumPy's is taken."""
        strides = (x.strides, w.strides, d.strides)
        key = (direction, *strides)
        if key not in self._chosen:
            if self._runs.is_early(key):
                return None
            self._chosen[key] = self._choose(direction, strides, (x, w, d), portable)
            if self._chosen[key] is not None:
                # its scratch buffers are no longer needed, or made once more
                self._portable = None
                self._unfolded = False
        return self._chosen[key]

    def _made(self, direction: Direction, strides: tuple[Any, Any, Any]) -> _Kernel:
        # filters that are laid out once are shared by all
        if not self.fixed and ChannelBands.fit(direction, self.geometry, self.threads):
            return ChannelBands(direction, self.geometry, self.threads, strides)
        return ConvKernel(direction, self.geometry, self.threads, strides, fixed=self.fixed)

    def _choose(
        self,
        direction: Direction,
        strides: tuple[Any, Any, Any],
        arrays: tuple[Array, Array, Array],
        portable: Callable[[], object],
    ) -> _Kernel | None:
        try:
            kernel = self._made(direction, strides)
        except OneDnnError:
            return None
        if kernel.name.startswith(_REFERENCE):
            return None
        g = self.geometry
        if _work(g) > _LARGE and not _is_doubtful(kernel.name, g):
            return kernel
        layouts = "".join("L" if is_channels_last(array) else "F" for array in (arrays[0], arrays[2]))
        candidates = {_ONEDNN: lambda: kernel.run(*arrays), "NumPy": portable}
        found = fastest(_key(direction, g, self.threads, layouts), version(), candidates)
        return kernel if found == _ONEDNN else None


def _work(g: Geometry) -> int:
    """The multiplications of a convolution."""
    return math.prod(g.out) * math.prod(g.w[1:])


def _is_doubtful(name: str, g: Geometry) -> bool:
    """True where oneDNN may be the slower one at any size: by its general kernels, and for windows as long as
    the image (4.3 ms against 2.1 for 100 filters over whole words), which are one product.
    """
    return "gemm" in name or min(g.spatial) == 1


def _key(direction: Direction, g: Geometry, threads: int, layouts: str) -> str:
    # batches of up to the next power of two share a choice: a measurement takes as long as some steps
    batch = 1 << (g.x[0] - 1).bit_length()
    form = f"{(batch, *g.x[1:])} {g.w} {g.strides} {g.pads} {g.dilations} {g.groups} {threads}"
    return f"convolution {direction.kind} {form} {layouts}"


def _explained(direction: Direction, geometry: Geometry, threads: int, fixed: bool) -> str:
    """The kernel of a direction: the measured one where this process has run it, and whether threads share
    the channels.
    """
    measured = [chosen(_key(direction, geometry, threads, layouts)) for layouts in ("LL", "FF", "LF", "FL")]
    if any(found not in (None, _ONEDNN) for found in measured):
        return "NumPy (measured)"
    try:
        name = kernel_name(direction, geometry)
    except OneDnnError:
        return "NumPy"
    if name.startswith(_REFERENCE):
        return "NumPy"
    is_shared = not fixed and ChannelBands.fit(direction, geometry, threads)
    return f"{_ONEDNN} {name}{' (threads share the channels)' if is_shared else ''}"
