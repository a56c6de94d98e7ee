"""The choice between cuDNN and the kernels here, for each geometry and direction of a convolution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base import flags
from fluidlite.base.choice import chosen, fastest
from fluidlite.base.dtypes import Array
from fluidlite.executor.cuda.cudnn import (
    BACKWARD_DATA,
    BACKWARD_FILTER,
    FORWARD,
    CudnnDirection,
    CudnnLibrary,
)
from fluidlite.executor.cuda.cudnn_conv import Algorithm, CudnnConv
from fluidlite.executor.cuda.libraries import LibraryError
from fluidlite.executor.cuda.products import TF32
from fluidlite.ops.kernels.convolution import ConvPlan, Geometry

__all__ = ["ChosenConv", "ConvOptions", "explained_choices"]

_OURS = "kernels here"
_VECTOR = 16  # bytes
_TIMES = 3  # calls in a row, so that waiting for the device counts little
# of the largest number of a result: what rounding alone may make of two ways to add up the same products. A
# wrong stride, padding or filter is off by all of it
_CLOSE = {"float16": 0.05, "float32": 1e-3, "float64": 1e-9}
_CLOSE_IN_TF32 = 0.02


class ConvOptions(NamedTuple):
    """The wishes of an op and of the switches."""

    is_last: bool = False
    """The channels lie last in memory."""
    use_cudnn: bool = True
    limit: int = 512
    """Megabytes of scratch memory for a call of cuDNN."""
    exhaustive: bool = False
    """All algorithms are measured, not only the one that cuDNN proposes first."""


# what has been found out in this process, by geometry and direction: the reason where cuDNN is not used
_refused: dict[str, str] = {}
_held: set[str] = set()
"""Keys whose results by cuDNN have been held against those of the kernels here."""


class ChosenConv(ConvPlan):
    """A convolution, each direction by cuDNN or by the kernels here.

    The first run of a direction holds one result against the other, and then measures both; the choice serves
    all convolutions of that geometry, and later processes. Whatever cuDNN refuses, and what it computes
    otherwise than rounding explains, is left to the kernels here.
    """

    def __init__(
        self,
        xp: Any,
        library: CudnnLibrary,
        geometry: Geometry,
        dtype: Any,
        options: ConvOptions,
        portable: Callable[[], ConvPlan],
    ) -> None:
        super().__init__(xp, geometry, np.dtype(dtype))
        self.options = options
        self._make = portable
        self._portable: ConvPlan | None = None
        self.cudnn = CudnnConv(xp, library, geometry, dtype, options.is_last, options.limit)
        self._chosen: dict[CudnnDirection, ConvPlan] = {}

    @property
    def portable(self) -> ConvPlan:
        """The kernels here, whose scratch memory is made when it is first needed."""
        if self._portable is None:
            self._portable = self._make()
        return self._portable

    def forward(self, x: Array, w: Array, out: Array) -> None:
        self._run(FORWARD, x, w, out)

    def grad_input(self, dout: Array, w: Array, out: Array) -> None:
        self._run(BACKWARD_DATA, dout, w, out)

    def grad_filter(self, x: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        self._run(BACKWARD_FILTER, x, dout, out)

    def _run(self, direction: CudnnDirection, left: Array, right: Array, out: Array) -> None:
        if direction not in self._chosen and _are_aligned(left, right, out):
            self._chosen[direction] = self._choose(direction, left, right, out)
        try:
            kernel = self._chosen.get(direction) or self.portable
            getattr(kernel, direction.method)(left, right, out)
        except LibraryError as error:
            self._chosen[direction] = self._without(direction, error)
            getattr(self.portable, direction.method)(left, right, out)

    def _without(self, direction: CudnnDirection, error: Exception) -> ConvPlan:
        """The kernels here, now that cuDNN has failed."""
        _refused[_key(direction, self.geometry, self.dtype, self.options)] = str(error)
        return self.portable

    def _choose(self, direction: CudnnDirection, left: Array, right: Array, out: Array) -> ConvPlan:
        key = _key(direction, self.geometry, self.dtype, self.options)
        if key in _refused:
            return self.portable
        try:
            # memory that no pool keeps: the step needs none of it later
            with self.xp.cuda.using_allocator():
                found = self.cudnn.algorithms(direction)
                if key not in _held and not self._agrees(direction, found[0], left, right, out):
                    return self.portable
                _held.add(key)
                name = self._fastest(key, direction, found, left, right, out)
        except (LibraryError, MemoryError) as error:
            return self._without(direction, error)
        algorithm = next((each for each in found if _named(each) == name), None)
        if algorithm is None:
            return self.portable
        self.cudnn.take(direction, algorithm)
        if self._portable is not None and not self._is_needed(direction):
            self._portable = None
        return self.cudnn

    def _is_needed(self, direction: CudnnDirection) -> bool:
        return any(kind is self._portable for each, kind in self._chosen.items() if each != direction)

    def _agrees(
        self, direction: CudnnDirection, algorithm: Algorithm, left: Array, right: Array, out: Array
    ) -> bool:
        """True if cuDNN's result is that of the kernels here but for rounding."""
        xp = self.xp
        wanted = xp.empty(out.shape, out.dtype)
        getattr(self.portable, direction.method)(left, right, wanted)
        most = float(xp.abs(wanted).max())
        if not math.isfinite(most):
            # nothing can be said about such numbers: this object keeps to what is known
            return False
        self.cudnn.take(direction, algorithm)
        getattr(self.cudnn, direction.method)(left, right, out)
        away = float(xp.abs(out - wanted).max())
        in_tf32 = self.cudnn.in_tf32 and self.dtype == np.float32
        if away <= (_CLOSE_IN_TF32 if in_tf32 else _CLOSE[self.dtype.name]) * most:
            return True
        self._warn(direction, algorithm, away, most)
        return False

    def _warn(self, direction: CudnnDirection, algorithm: Algorithm, away: float, most: float) -> None:
        key = _key(direction, self.geometry, self.dtype, self.options)
        _refused[key] = f"its {_named(algorithm)} is off by {away:.3g} of {most:.3g}"
        warnings.warn(
            f"cuDNN {self.cudnn.library.version} is not used for {key}: {_refused[key]}",
            RuntimeWarning,
            stacklevel=2,
        )

    def _fastest(
        self,
        key: str,
        direction: CudnnDirection,
        found: list[Algorithm],
        left: Array,
        right: Array,
        out: Array,
    ) -> str:
        """The name of the fastest algorithm, or that of the kernels here."""
        if flags.device_by_rule():
            return _named(found[0])
        offered = found if self.options.exhaustive else found[:1]

        def run_by(kernel: ConvPlan, algorithm: Algorithm | None = None) -> Callable[[], None]:
            def run() -> None:
                if algorithm is not None:
                    self.cudnn.take(direction, algorithm)
                for _ in range(_TIMES):
                    getattr(kernel, direction.method)(left, right, out)
                self.xp.cuda.get_current_stream().synchronize()

            return run

        candidates = {_named(algorithm): run_by(self.cudnn, algorithm) for algorithm in offered}
        candidates[_OURS] = run_by(self.portable)
        return fastest(key, _libraries(self.xp, self.cudnn.library), candidates)


def _are_aligned(*arrays: Any) -> bool:
    """True if arrays begin where vectors of tensor cores may."""
    return not any(array.data.ptr % _VECTOR for array in arrays)


def _named(algorithm: Algorithm) -> str:
    return f"algorithm {algorithm.number}"


def _libraries(xp: Any, library: CudnnLibrary) -> str:
    """A text for all that a choice depends on beside the geometry."""
    device = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)
    return f"cuDNN {library.version} on {device['name']!r}"


def _key(direction: CudnnDirection, g: Geometry, dtype: np.dtype[Any], options: ConvOptions) -> str:
    form = f"{g.x} {g.w} {g.strides} {g.pads} {g.dilations} {g.groups} {dtype}"
    in_tf32 = bool(flags.get_flags(TF32)[TF32])
    wishes = f"{options.limit} MB{', any' if options.exhaustive else ''}{', TF32' if in_tf32 else ''}"
    return f"{direction.method} {form} {'last' if options.is_last else 'second'} {wishes}"


def explained_choices(geometry: Geometry, dtype: Any, options: ConvOptions) -> dict[str, str]:
    """The kernel of each method, as far as this process has chosen it."""
    return {
        direction.method: _explained(_key(direction, geometry, np.dtype(dtype), options))
        for direction in (FORWARD, BACKWARD_DATA, BACKWARD_FILTER)
    }


def _explained(key: str) -> str:
    if key in _refused:
        return f"not used ({_refused[key]})"
    name = chosen(key)
    if name is None:
        return "by rule" if key in _held else "not yet run"
    return f"{'slower' if name == _OURS else name} (measured)"
