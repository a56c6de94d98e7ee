"""Products of some rows with a weight that stays as it is, with a bias and another array added in the call.

Such a product takes about as long as reading the weight. Of few rows, and where the weight is transposed, it
is laid out once in the blocks that oneDNN's kernels read: 2 to 6 rows by 512 x 2,048 take 0.6 to 0.7 of the
time that they take where it lies. A team shares the rows then, for the library's kernels write whole rows
only. Of more rows the weight is read where it lies, and a team shares its columns, so that each member reads
its own: 32 rows take two members 0.8 to 0.9 of the time, and one 0.9 to 1.05.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from fluidlite.base.addresses import address_of
from fluidlite.base.dtypes import Array
from fluidlite.base.forks import child_lock
from fluidlite.executor.fast.machine import MachineCalls, SharedCalls
from fluidlite.executor.fast.onednn.library import OneDnnError, available, engine
from fluidlite.executor.fast.onednn.matmul import AnyGemm, gemm_of
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
    aligned,
    reorder,
)
from fluidlite.executor.run.team import pieces
from fluidlite.values.tensor import LoDTensor, rebinds

__all__ = ["FixedProduct", "LyingProducts", "PackedProduct", "has_fixed_product", "is_laid_out"]

_LEAST_WORK = 1 << 20  # multiply-adds from which it pays: below, the call takes what the layout saves
_MOST_ROWS = 512  # above, BLAS is slower by a tenth at most, which is not worth a second copy of the weight
_FEW_ROWS = 6  # up to which it pays to lay the weight out
_SHARED = 1 << 22  # multiply-adds from which waking a second thread pays
# and where each reads its own columns, which it begins by packing: 32 rows by 512 x 512 take one thread 90 us
# and two 93, three such products together 270 and 190
_SHARED_COLUMNS = 1 << 24
_LARGE_WEIGHT = 1 << 20  # numbers of a weight whose reading two threads share for any rows
_LEAST_COLUMNS = 64  # of a part
# of each member: who wakes up late does fewer (a tenth of twelve layers of 512 over 32 words)
_PARTS = 2
_AT_ONCE = 64  # rows of one call: lengths that nobody has seen need few new primitives
_LEAST_ROWS = 4  # of a member of the team: two rows take as long
_FLOAT = 4  # bytes


def has_fixed_product(rows: int, depth: int, columns: int, dtype: Any) -> bool:
    """True if products of such sizes with a weight that stays as it is are faster by these objects than by
    BLAS.
    """
    if not 1 < rows <= _MOST_ROWS or rows * depth * columns < _LEAST_WORK or dtype != np.float32:
        return False
    return available() and _has_blocks(min(rows, _AT_ONCE), depth, columns)


def is_laid_out(rows: int, is_turned: bool) -> bool:
    """True if a product of so many rows is faster with its weight, which may be transposed, in blocks."""
    return is_turned or rows <= _FEW_ROWS


def _has_blocks(rows: int, depth: int, columns: int) -> bool:
    """True if the library's kernel of blocks can run here; its others are no faster than BLAS."""
    try:
        made, _ = _described(_FixedShape(rows, depth, columns, depth, True, True))
    except OneDnnError:
        return False
    return made.name.startswith("brg")


class _FixedShape(NamedTuple):
    """One call: its rows, the shape of its weight, the stride of the rows of x, the steps behind it."""

    rows: int
    depth: int
    columns: int
    stride: int
    bias: bool
    term: bool


@functools.lru_cache(1024)
def _described(form: _FixedShape) -> tuple[PrimitiveDesc, dict[int, Desc]]:
    """The description of a call, and of its arguments."""
    out = _dense(form.rows, form.columns)
    arguments = {
        SRC: Desc.strided((form.rows, form.depth), (form.stride, 1)),
        WEIGHTS: _layout(form.depth, form.columns),
    }
    bias = _dense(1, form.columns) if form.bias else None
    if bias is not None:
        arguments[BIAS] = bias
    arguments[DST] = out
    if form.term:
        arguments[TERM] = out
    what = f"product of {form.rows} x {form.depth} with {form.depth} x {form.columns}"
    ends = arguments[SRC], arguments[WEIGHTS], bias, out
    made = PrimitiveDesc("matmul", what, engine(), *ends, Attributes(add=out if form.term else None))
    return made, arguments


def _dense(rows: int, columns: int) -> Desc:
    return Desc.strided((rows, columns), (columns, 1))


@functools.lru_cache(256)
def _layout(depth: int, columns: int) -> Desc:
    """The layout of a weight, the same for any number of rows."""
    what = f"weight of {depth} x {columns}"
    ends = _dense(_AT_ONCE, depth), Desc.any((depth, columns)), None, _dense(_AT_ONCE, columns)
    return PrimitiveDesc("matmul", what, engine(), *ends, Attributes()).layout(WEIGHTS)


class _LaidWeight:
    """A weight in the library's layout; plans share it. Values, as a tensor may hold them."""

    dtype = np.dtype("float32")

    def __init__(self, weight: Array) -> None:
        depth, columns = self.shape = weight.shape
        layout = _layout(depth, columns)
        self.held = aligned(layout.nbytes)
        self.address = address_of(self.held)
        own = Desc.strided(weight.shape, [stride // _FLOAT for stride in weight.strides])
        reorder(own, layout, f"weight of {weight.shape}").run(address_of(weight), self.address)

    def unpacked(self) -> Array:
        """The weight in rows."""
        found = np.empty(self.shape, self.dtype)
        back = reorder(_layout(*self.shape), _dense(*self.shape), f"weight of {self.shape}")
        back.run(self.address, address_of(found))
        return found


_laid: WeakValueDictionary[Any, _LaidWeight] = WeakValueDictionary()
_laying_out = child_lock()


class FixedProduct:
    """`product(x, w, out[, bias[, term]])`: out = x @ w + bias + term, of a `w` and a `bias` that only `set`
    or another program changes.
    """

    def __init__(self, _xp: Any, threads: int) -> None:
        self.threads = threads
        self._shared = SharedCalls(threads)
        self._state: Any = None
        self._weight: _LaidWeight | None = None
        self._calls: dict[_FixedShape, Primitive] = {}

    def __call__(
        self, x: Array, w: Any, out: Array, bias: Array | None = None, term: Array | None = None
    ) -> None:
        """Compute on the team, if that pays."""
        laid = self._laid_out(w)
        weight = laid.address
        x = _by_rows(x)
        begin_x, begin_out = address_of(x), address_of(out)
        begin_term = 0 if term is None else address_of(term)
        shared = () if bias is None else (address_of(bias),)
        stride = x.strides[0] // _FLOAT
        depth, columns = laid.shape
        facts = (depth, columns, stride, bias is not None, term is not None)

        def work(calls: MachineCalls, t: int) -> None:
            for row in range(parts[t].start, parts[t].stop, _AT_ONCE):
                form = _FixedShape(min(parts[t].stop - row, _AT_ONCE), *facts)
                there = row * columns * _FLOAT
                more = () if term is None else (begin_term + there,)
                begin = begin_x + row * stride * _FLOAT
                calls.primitive(self._call(form), begin, weight, *shared, begin_out + there, *more)

        parts = pieces(len(x), self._members(len(x), depth * columns))
        key = (len(x), facts, begin_x, weight, *shared, begin_out, begin_term)
        self._shared.run(key, len(parts), work)

    def _members(self, rows: int, size: int) -> int:
        if rows * size < _SHARED:
            return 1
        return max(1, min(self.threads, rows // _LEAST_ROWS))

    def _call(self, form: _FixedShape) -> Primitive:
        found = self._calls.get(form)
        if found is None:
            found = self._calls[form] = Primitive(*_described(form))
        return found

    def _laid_out(self, w: Any) -> _LaidWeight:
        state = rebinds.state(), address_of(w)
        if self._weight is None or self._state != state:
            key = (*state, w.shape, w.strides)
            # the old one goes first, unless another plan still uses it
            self._weight = None
            found = _laid.get(key)
            if found is None:
                found = _laid[key] = _LaidWeight(w)
            self._state, self._weight = state, found
        return self._weight


class PackedProduct(FixedProduct):
    """The same with the array of a tensor `w`: a frozen one holds its values in the library's layout alone
    from then on.
    """

    def _laid_out(self, w: LoDTensor) -> _LaidWeight:
        found = w.packed
        if found is None:
            # of clones that begin at once, one lays it out; another would ask for the array again
            with _laying_out:
                found = w.packed or super()._laid_out(w.array)
                w.pack(found)
        assert isinstance(found, _LaidWeight), "other kernels pack nothing"
        self._weight = found
        return found


class LyingProducts:
    """`products(x, w, out, bias, term, x, w, ...)`: out = x @ w + bias + term, of one or more `w` that lie in
    rows; bias and term may be None. No product reads what another one of the call writes.
    """

    def __init__(self, _xp: Any, threads: int) -> None:
        self.threads = threads
        self._shared = SharedCalls(threads)
        self._form: Any = None
        self._parts: list[_Part] = []

    def __call__(self, *arrays: Any) -> None:
        """Compute on the team, if that pays."""
        given = [_Given(*arrays[place : place + _EACH]) for place in range(0, len(arrays), _EACH)]
        given = [each._replace(x=_by_rows(each.x)) for each in given]
        form = [each.form for each in given]
        if form != self._form:
            self._form, self._parts = form, self._cut(given)
            self._shared.forget()
        places = [tuple(map(address_of, each[:3])) for each in given]

        def work(calls: MachineCalls, t: int) -> None:
            number, columns, gemm, there = self._parts[t]
            x, w, out = places[number]
            if given[number].adds:
                _, _, result, bias, term = given[number]
                own_term = None if term is None else term[:, columns]
                calls.begin(result[:, columns], None if bias is None else bias[columns], own_term)
            calls.product(gemm, x, w + there, out + there)

        key = tuple((*own, *map(_place, each[3:])) for own, each in zip(places, given, strict=True))
        self._shared.run(key, len(self._parts), work)

    def _cut(self, given: Sequence[_Given]) -> list[_Part]:
        """The columns that members of the team compute."""
        work = sum(each.x.size * each.w.shape[1] for each in given)
        is_shared = work >= _SHARED_COLUMNS or any(each.w.size >= _LARGE_WEIGHT for each in given)
        many = -(-self.threads * _PARTS // len(given)) if is_shared and self.threads > 1 else 1
        parts = []
        for number, each in enumerate(given):
            count = each.w.shape[1]
            for columns in pieces(count, max(1, min(many, count // _LEAST_COLUMNS))):
                gemm = gemm_of(each.x, each.w[:, columns], each.out[:, columns], adds=each.adds)
                assert gemm is not None, "a weight and a result of whole rows"
                parts.append(_Part(number, columns, gemm, columns.start * _FLOAT))
        return parts


class _Given(NamedTuple):
    """The arrays of one product."""

    x: Array
    w: Array
    out: Array
    bias: Array | None = None
    term: Array | None = None

    @property
    def adds(self) -> bool:
        """True if something is added to the product."""
        return self.bias is not None or self.term is not None

    @property
    def form(self) -> tuple[Any, ...]:
        """Shapes and strides."""
        term = None if self.term is None else self.term.strides
        return self.x.shape, self.x.strides, self.w.strides, self.bias is not None, term


_EACH = len(_Given._fields)


class _Part(NamedTuple):
    """Some columns of a product: what computes them, and the bytes in front of them in each row."""

    number: int
    columns: slice
    gemm: AnyGemm
    there: int


def _place(array: Array | None) -> int:
    return 0 if array is None else address_of(array)


def _by_rows(x: Array) -> Array:
    """An array of rows whose elements lie side by side: itself, or a copy."""
    inner, outer = x.itemsize, x.itemsize * x.shape[1]
    return x if x.strides[1] == inner and x.strides[0] >= outer else np.ascontiguousarray(x)
