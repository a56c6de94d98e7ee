"""The buffers of a bound plan: places in one pool, which grows when larger ones are needed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fluidlite.executor.plan.plan import BufferLayout
from fluidlite.executor.plan.pool import laid_out
from fluidlite.executor.plan.sizes import plain, resolver
from fluidlite.executor.plan.values import Value

__all__ = ["Buffers"]

ALIGN = 64  # bytes: a line of the cache


class Buffers:
    """Arrays of the array module `xp` for the buffers of a layout."""

    def __init__(self, layout: BufferLayout, xp: Any) -> None:
        self.layout = layout
        self.xp = xp
        self.pool: Any = None
        self.start = 0
        self.offsets = layout.offsets
        # most buffers have one of a few shapes: only those are computed again for other sizes
        kinds: dict[Any, int] = {}
        self._kind = {
            value: kinds.setdefault((value.shape, value.dtype), len(kinds)) for value in layout.offsets
        }
        self._kinds = list(kinds)
        self._resolver = resolver([shape for shape, _ in kinds])
        self._shapes: list[tuple[int, ...]] = []
        self._room: list[int] = []
        """The bytes of a place for each kind of buffer."""

    @property
    def nbytes(self) -> int:
        """The bytes of the pool."""
        return 0 if self.pool is None else int(self.pool.nbytes)

    def largest(self) -> tuple[Value, int]:
        """The buffer that asked for the most bytes, and how many."""
        value = max(self._kind, key=lambda value: self._room[self._kind[value]])
        return value, self._room[self._kind[value]]

    @property
    def on_host(self) -> bool:
        """True if they are arrays of NumPy."""
        return self.xp is np

    def place_of(self, value: Value) -> tuple[int, int]:
        """The addresses of the first byte of a buffer's place and of the one behind its last, on the host."""
        start = int(self.pool.ctypes.data) + self.start + self.offsets[value]
        return start, start + self._room[self._kind[value]]

    def place(self, values: Sequence[Any] | None) -> bool:
        """Make room for the buffers with such values of the plan's sizes; False where they fit into the
        places that they have.
        """
        if values is not None and self._resolver is not None:
            self._shapes = self._resolver(values)
        else:
            self._shapes = [shape for shape, _ in self._kinds]
        needed = [
            math.prod(shape) * dtype.itemsize
            for shape, (_, dtype) in zip(self._shapes, self._kinds, strict=True)
        ]
        if self.pool is not None and all(map(int.__le__, needed, self._room)):
            return False
        if self.pool is None:
            self._room = needed
            # the first sizes are mostly those that the layout was made for
            if needed == [math.prod(plain(shape)) * dtype.itemsize for shape, dtype in self._kinds]:
                self._take(self.layout.pool_bytes)
                return True
        else:
            # an eighth more than asked for: where lengths grow from batch to batch, not each is a new layout
            self._room = [
                old if need <= old else need + need // 8 for need, old in zip(needed, self._room, strict=True)
            ]
        layout = self.layout
        if values is not None:
            layout = laid_out(layout.moves, lambda value: self._room[self._kind[value]])
        self.offsets = layout.offsets
        self._take(layout.pool_bytes)
        return True

    def _take(self, nbytes: int) -> None:
        """A pool of so many bytes; zeroed, so that a first in-place read is no NaN by chance."""
        # one line more than needed: NumPy promises no alignment of the first byte
        if self.pool is None or self.pool.nbytes < nbytes + ALIGN:
            self.pool = None  # before the new one: both at a time may be too much
            self.pool = self.xp.zeros(nbytes + ALIGN, dtype=np.uint8)
            self.start = (-self.pool.ctypes.data) % ALIGN if self.xp is np else 0

    def arrays(self, named: Iterable[tuple[str, Value]]) -> dict[str, Any]:
        """The arrays of buffers, each under its name."""
        shapes, kind, first, offsets = self._shapes, self._kind, self.start, self.offsets
        # one call where slice, cast and reshape are three
        if self.xp is np:
            made, pool = np.ndarray, self.pool
            return {
                name: made(shapes[kind[value]], value.dtype, pool, first + offsets[value])
                for name, value in named
            }
        return {
            name: self._piece(shapes[kind[value]], value.dtype, first + offsets[value])
            for name, value in named
        }

    def _piece(self, shape: Sequence[int], dtype: Any, start: int) -> Any:
        return self.pool[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)
