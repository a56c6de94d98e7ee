"""Products of some rows with a weight that stays as it is, which is laid out once in the blocks that oneDNN's
kernels read.

BLAS lays out a piece of the weight at each call: of 32 rows by 512 x 512 that is a third of the time, of 128
rows a seventh. The columns are cut for the team; a result does not depend on how busy its threads are.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.fast.onednn.library import available, engine
from fluidlite.executor.fast.onednn.primitive import (
    BIAS,
    DST,
    SRC,
    TERM,
    WEIGHTS,
    Attributes,
    Desc,
    Primitive,
    PrimitiveDesc,
    address_of,
    aligned,
    reorder,
)
from fluidlite.executor.run.team import on_team, pieces
from fluidlite.values.tensor import rebinds

__all__ = ["FixedProduct", "has_fixed_product"]

_LEAST_WORK = 1 << 20  # multiply-adds from which it pays: below, the call takes what the layout saves
_MOST_ROWS = 512  # above, BLAS is slower by a tenth at most, which is not worth a second copy of the weight
_SHARED = 1 << 22  # multiply-adds from which waking a second thread pays
_AT_ONCE = 64  # rows of one call: lengths that nobody has seen need few new primitives
_BLOCK = 16  # columns that the library's kernels take together
_FLOAT = 4  # bytes


def has_fixed_product(rows: int, depth: int, columns: int, dtype: Any) -> bool:
    """True if products of such sizes are faster with a weight that is laid out once."""
    is_sized = 1 < rows <= _MOST_ROWS and rows * depth * columns >= _LEAST_WORK
    return is_sized and dtype == np.float32 and available()


class _Kind(NamedTuple):
    """One call: its rows, the shape of its weight, the rows' lengths in memory, and the steps behind it."""

    rows: int
    depth: int
    columns: int
    x_stride: int
    out_stride: int
    bias: bool
    term: bool


@functools.lru_cache(1024)
def _described(kind: _Kind) -> tuple[PrimitiveDesc, dict[int, Desc]]:
    """The description of a call, and of its arguments."""
    shape = kind.rows, kind.columns
    out = Desc.strided(shape, (kind.out_stride, 1))
    arguments = {
        SRC: Desc.strided((kind.rows, kind.depth), (kind.x_stride, 1)),
        WEIGHTS: _layout(kind.depth, kind.columns),
    }
    bias = Desc.strided((1, kind.columns), (kind.columns, 1)) if kind.bias else None
    if bias is not None:
        arguments[BIAS] = bias
    arguments[DST] = out
    if kind.term:
        arguments[TERM] = out
    what = f"product of {kind.rows} x {kind.depth} with {kind.depth} x {kind.columns}"
    attributes = Attributes(add=out if kind.term else None)
    made = PrimitiveDesc("matmul", what, engine(), arguments[SRC], arguments[WEIGHTS], bias, out, attributes)
    return made, arguments


@functools.lru_cache(256)
def _layout(depth: int, columns: int) -> Desc:
    """The layout of a weight, the same for any number of rows."""
    x, out = Desc.strided((_AT_ONCE, depth), (depth, 1)), Desc.strided((_AT_ONCE, columns), (columns, 1))
    what = f"weight of {depth} x {columns}"
    ends = x, Desc.any((depth, columns)), None, out
    return PrimitiveDesc("matmul", what, engine(), *ends, Attributes()).layout(WEIGHTS)


class _Laid:
    """A weight in the library's layout, in a piece for each member of a team; plans share it."""

    def __init__(self, weight: Array, threads: int) -> None:
        depth, columns = weight.shape
        blocks = -(-columns // _BLOCK)
        cuts = pieces(blocks, min(threads, blocks))
        self.columns = [slice(cut.start * _BLOCK, min(cut.stop * _BLOCK, columns)) for cut in cuts]
        self.held: list[Array] = []
        for part in self.columns:
            piece = weight[:, part]
            layout = _layout(depth, part.stop - part.start)
            held = aligned(layout.nbytes)
            own = tuple(stride // _FLOAT for stride in weight.strides)
            convert = reorder(Desc.strided(piece.shape, own), layout, f"weight of {piece.shape}")
            convert.run(address_of(piece), address_of(held))
            self.held.append(held)
        self.addresses = [address_of(held) for held in self.held]


_laid: WeakValueDictionary[Any, _Laid] = WeakValueDictionary()


class FixedProduct:
    """`product(x, w, out[, bias[, term]])`: out = x @ w + bias + term, of a `w` and a `bias` that only `set`
    or another program changes.
    """

    def __init__(self, _xp: Any, threads: int) -> None:
        self.threads = threads
        self._state: Any = None
        self._weight: _Laid | None = None
        self._calls: dict[tuple[int, _Kind], Primitive] = {}
        """By the member of the team that makes the call: an object holds the addresses of one call."""

    def __call__(
        self, x: Array, w: Array, out: Array, bias: Array | None = None, term: Array | None = None
    ) -> None:
        """Compute on the team, if that pays."""
        laid = self._laid_out(w)
        x = _by_rows(x)
        ends = address_of(x), address_of(out), 0 if term is None else address_of(term)
        first = 0 if bias is None else address_of(bias)
        sizes = *x.shape, x.strides[0] // _FLOAT, w.shape[1]

        def work(t: int) -> None:
            part = laid.columns[t]
            start = part.start * _FLOAT
            rest = (laid.addresses[t], *(() if bias is None else (first + start,)))
            for row, rows in _row_blocks(sizes[0]):
                kind = _Kind(
                    rows, sizes[1], part.stop - part.start, *sizes[2:], bias is not None, term is not None
                )
                there = row * sizes[3] * _FLOAT + start
                more = () if term is None else (ends[2] + there,)
                self._call(t, kind).run(ends[0] + row * sizes[2] * _FLOAT, *rest, ends[1] + there, *more)

        count = len(laid.columns)
        if sizes[0] * w.size < _SHARED:
            for t in range(count):
                work(t)
        else:
            on_team(count, work)

    def _call(self, member: int, kind: _Kind) -> Primitive:
        found = self._calls.get((member, kind))
        if found is None:
            found = self._calls[member, kind] = Primitive(*_described(kind))
        return found

    def _laid_out(self, w: Array) -> _Laid:
        state = rebinds.state(), address_of(w)
        if self._weight is None or self._state != state:
            key = (*state, w.shape, w.strides, self.threads)
            found = _laid.get(key)
            if found is None:
                # the old one goes first, unless another plan still uses it
                self._weight = None
                found = _laid[key] = _Laid(w, self.threads)
            self._state, self._weight = state, found
        return self._weight


def _by_rows(x: Array) -> Array:
    """An array of rows whose elements lie side by side: itself, or a copy."""
    inner, outer = x.itemsize, x.itemsize * x.shape[1]
    return x if x.strides[1] == inner and x.strides[0] >= outer else np.ascontiguousarray(x)


def _row_blocks(rows: int) -> Iterator[tuple[int, int]]:
    """(first row, number of rows) of each call."""
    for row in range(0, rows, _AT_ONCE):
        yield row, min(_AT_ONCE, rows - row)
