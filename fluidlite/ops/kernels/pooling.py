"""Pools, computed one dimension after the other, each as a few operations on strided slices.

The largest element of a window is the largest of its rows' largest elements, and a sum is a sum of sums, so a
window of 3 x 3 takes 3 + 3 operations on whole arrays rather than 9, and adaptive windows of different sizes
are no harder.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.records import dataclass

_CACHED = 1 << 16  # elements of a part of an array that stays in the cache with what is computed from it

_PRODUCTS = (np.dtype("float32"), np.dtype("float64"))  # what BLAS multiplies

__all__ = ["PoolPlan", "Pooling", "Windows", "divisors", "out_size"]


def out_size(size: int, kernel: int, stride: int, pad: tuple[int, int], ceil_mode: bool) -> int:
    """The number of windows along one dimension; one that only begins inside is one where there is no
    other, as in Paddle.
    """
    room = size + sum(pad) - kernel
    if -stride < room < 0:
        return 1
    if ceil_mode:
        room += stride - 1
    return room // stride + 1


@dataclass(frozen=True)
class Windows:
    """`count` windows along one dimension of `size` elements: those from starts[i] to before ends[i].

    All that a plan has to know of them follows from these few numbers, which may be its sizes.
    """

    size: int
    count: int
    kernel: int  # 0 where the windows have different sizes
    stride: int = 0
    before: int = 0  # padding
    after: int = 0

    @classmethod
    def regular(cls, size: int, kernel: int, stride: int, pad: tuple[int, int], ceil_mode: bool) -> Windows:
        """Windows of `kernel` elements every `stride`."""
        return cls(size, out_size(size, kernel, stride, pad, ceil_mode), kernel, stride, *pad)

    @classmethod
    def adaptive(cls, size: int, count: int) -> Windows:
        """`count` windows that cover everything evenly, overlapping where they must."""
        if count and size and size % count == 0:
            return cls.regular(size, size // count, size // count, (0, 0), False)
        return cls(size, count, 0)

    @property
    def _begins(self) -> list[int]:
        """The first place of each regular window, in the padding or not."""
        return [i * self.stride - self.before for i in range(self.count)]

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """The first element of each window."""
        if not self.kernel:
            return tuple(i * self.size // self.count for i in range(self.count))
        return tuple(min(max(begin, 0), end) for begin, end in zip(self._begins, self.ends, strict=True))

    @functools.cached_property
    def ends(self) -> tuple[int, ...]:
        """The element behind the last one of each window."""
        if not self.kernel:
            # rounded up, where the starts are rounded down: so windows overlap rather than leave a gap
            return tuple(-(-(i + 1) * self.size // self.count) for i in range(self.count))
        return tuple(max(min(begin + self.kernel, self.size), 0) for begin in self._begins)

    @property
    def whole(self) -> bool:
        """True if no window lies in the padding alone."""
        if not self.kernel:
            return self.size > 0
        last = (self.count - 1) * self.stride - self.before
        return self.size > 0 and self.before < self.kernel and last < self.size

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of elements of each window that lie inside."""
        return tuple(end - start for start, end in zip(self.starts, self.ends, strict=True))

    @property
    def signed_lengths(self) -> tuple[int, ...]:
        """The same, below 0 for a window with a gap to the elements: 1.8.5 divides by it, so the mean of such
        a window is 0, and that of one that ends where the elements begin nan.
        """
        if not self.kernel:
            return self.lengths
        return tuple(min(begin + self.kernel, self.size) - max(begin, 0) for begin in self._begins)

    @property
    def padded_lengths(self) -> tuple[int, ...]:
        """The number of elements of each window of `kernel` that lie inside or in the padding."""
        return tuple(min(self.kernel, self.size + self.after - begin) for begin in self._begins)

    @functools.cached_property
    def steps(self) -> tuple[tuple[slice, slice], ...]:
        """(elements, windows) pairs that match up; a window meets its elements in ascending order."""
        return tuple(self._regular_steps() if self.kernel else self._single_steps())

    def _regular_steps(self) -> Iterator[tuple[slice, slice]]:
        """For each position in the window, all windows for which it lies inside."""
        for offset in range(self.kernel):
            shift = offset - self.before
            # the first window for which the position is not in the padding before, and the last for which
            # it is not beyond the end
            first = max(0, -(shift // self.stride))
            last = min((self.size - 1 - shift) // self.stride, self.count - 1)
            count = last - first + 1
            if count > 0:
                begin = first * self.stride + shift
                yield (
                    slice(begin, begin + (count - 1) * self.stride + 1, self.stride),
                    slice(first, first + count),
                )

    def _single_steps(self) -> Iterator[tuple[slice, slice]]:
        for i, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            for element in range(start, end):
                yield slice(element, element + 1), slice(i, i + 1)

    @property
    def uneven(self) -> bool:
        """True if the windows have different sizes, and none is empty: they are few, and taken one by one."""
        return not self.kernel and self.whole

    @property
    def slices(self) -> list[slice]:
        """The elements of each window."""
        return [slice(start, end) for start, end in zip(self.starts, self.ends, strict=True)]

    @property
    def single(self) -> slice | None:
        """The elements of the only window; None where there are several, or the only one is empty."""
        if self.count != 1 or self.starts[0] >= self.ends[0]:
            return None
        return slice(self.starts[0], self.ends[0])

    @functools.cached_property
    def matrix(self) -> Array:
        """One for each element of each window: [windows, elements]."""
        elements = np.arange(self.size)
        starts, ends = (np.array(places).reshape(-1, 1) for places in (self.starts, self.ends))
        return (elements >= starts) & (elements < ends)

    @functools.cached_property
    def complete(self) -> bool:
        """True if the first step meets every window."""
        return bool(self.steps) and self.steps[0][1] == slice(0, self.count)

    @functools.cached_property
    def disjoint(self) -> bool:
        """True if the steps meet every element exactly once."""
        return self.stride == self.kernel > 0 and self.before == 0 and self.size == self.kernel * self.count


@dataclass(frozen=True)
class Pooling:
    """The meaning of a pool for arrays of a dtype: `windows`, one for each spatial dimension, and `mode`,
    "max" or "avg".

    An average divides by the elements of the window that lie inside (`exclusive`), or by the size of the
    kernel, of which `clipped` leaves out what is beyond the padding.
    """

    windows: Sequence[Windows]
    mode: str
    exclusive: bool
    dtype: Any
    clipped: bool = False


def divisors(pooling: Pooling) -> list[tuple[int, ...]] | None:
    """By dimension, the sizes of the windows that the mean of each divides by; None where all have the size
    of the kernel.
    """
    windows = pooling.windows
    # windows of different sizes have no kernel size to divide by
    if pooling.exclusive or not all(w.kernel for w in windows):
        return [w.signed_lengths for w in windows]
    return [w.padded_lengths for w in windows] if pooling.clipped else None


class PoolPlan:
    """Pools arrays of one shape; the spatial dimensions are `axes`, by default those behind the first two.

    Of equal largest elements the first, in row-major order, gets the gradient, as in Paddle.
    """

    def __init__(self, xp: Any, shape: Sequence[int], pooling: Pooling, axes: Sequence[int] = ()) -> None:
        windows, dtype = pooling.windows, pooling.dtype
        self.xp = xp
        self.mode = pooling.mode
        self.dtype = dtype
        self.windows = tuple(windows)
        self.axes = tuple(axes) or tuple(range(2, 2 + len(self.windows)))
        # the last dimension goes first, so that rows come before columns
        self.shapes = [tuple(shape)]
        for axis, w in self._passes():
            before = self.shapes[-1]
            self.shapes.append((*before[:axis], w.count, *before[axis + 1 :]))
        self.out_shape = self.shapes[-1]
        sizes = divisors(pooling)
        self._factor = self._inverse(sizes) if sizes else dtype.type(1 / math.prod(w.kernel for w in windows))
        self._partial = [xp.empty(s, dtype) for s in self.shapes[1:-1]]
        self._holds_x = False  # since the last forward()
        self._row = _row_of(self)

    def _inverse(self, lengths: Sequence[Sequence[int]]) -> Array:
        factors = self.xp.ones((), "float64")
        for axis, numbers in zip(self.axes, lengths, strict=True):
            # the mean of nothing, of a window that lies in the padding, is no number
            inverse = [1 / n if n else math.nan for n in numbers]
            sizes = [-1 if each == axis else 1 for each in range(len(self.out_shape))]
            factors = factors * self.xp.asarray(inverse, dtype="float64").reshape(sizes)
        return factors.astype(self.dtype)

    def _passes(self) -> Iterator[tuple[int, Windows]]:
        """(dimension, windows) in the order of the forward pass."""
        for i in reversed(range(len(self.windows))):
            yield self.axes[i], self.windows[i]

    def forward(self, x: Array, out: Array) -> None:
        """Write the pooled x to `out`. The plan remembers the row-wise results for a `backward` of the
        same x.
        """
        if self._row is not None and x.flags.c_contiguous and out.flags.c_contiguous:
            self._row.forward(x.reshape(self._row.shapes[0]), out.reshape(self._row.out_shape))
            self._holds_x = False
            return
        source = x
        for (axis, windows), target in zip(self._passes(), [*self._partial, out], strict=True):
            self._reduce(source, target, axis, windows)
            source = target
        self._holds_x = True
        if self.mode == "avg":
            self.xp.multiply(out, self._factor, out=out)

    def _reduce(self, source: Array, target: Array, axis: int, windows: Windows) -> None:
        if windows.single is not None:
            reduce = self.xp.amax if self.mode == "max" else self.xp.sum
            reduce(_at(source, axis, windows.single), axis=axis, keepdims=True, out=target)
            return
        combine = self.xp.maximum if self.mode == "max" else self.xp.add
        if windows.uneven and self.mode == "avg" and self._multiply(source, target, axis, windows.matrix):
            return
        if windows.uneven:
            for i, inside in enumerate(windows.slices):
                reduce = self.xp.amax if self.mode == "max" else self.xp.sum
                reduce(
                    _at(source, axis, inside),
                    axis=axis,
                    keepdims=True,
                    out=_at(target, axis, slice(i, i + 1)),
                )
            return
        steps = windows.steps
        if len(steps) > 1 and windows.disjoint:
            # the first two steps at once: nothing has to be copied to begin with
            combine(_at(source, axis, steps[0][0]), _at(source, axis, steps[1][0]), out=target)
            steps = steps[2:]
        elif windows.complete:
            target[...] = _at(source, axis, steps[0][0])
            steps = steps[1:]
        else:
            # of no elements the largest is that of float32, whatever the dtype, as in Paddle
            target[...] = self.xp.finfo("float32").min if self.mode == "max" else 0
        for elements, places in steps:
            part = _at(target, axis, places)
            combine(part, _at(source, axis, elements), out=part)

    def _multiply(self, source: Array, target: Array, axis: int, matrix: Array) -> bool:
        """target = the source times a matrix of ones and zeros along a dimension; False where it may not be,
        as zeros times infinities are NaN. Sums of windows of 9 or 10 elements take 5 times as long.
        """
        is_plain = source.flags.c_contiguous and target.flags.c_contiguous
        if self.xp is not np or self.dtype not in _PRODUCTS or not is_plain or not target.size:
            return False
        shape = (math.prod(source.shape[:axis]), source.shape[axis], -1)
        x = source.reshape(shape)
        out = target.reshape(shape[0], len(matrix), -1)
        matrix = matrix.astype(self.dtype)
        with np.errstate(all="ignore"):
            if x.shape[2] == 1:
                np.matmul(x[:, :, 0], matrix.T, out=out[:, :, 0])
            else:
                np.matmul(matrix, x, out=out)
            return bool(np.isfinite(out.sum()))

    def backward(self, x: Array, pooled: Array, dout: Array, out: Array, reuse: bool = False) -> None:
        """Write the gradient of x to `out`; `pooled` is what forward(x) gave.

        `reuse`: the last forward() of this plan saw the same x.
        """
        if self.mode == "avg":
            self._spread(dout * self._factor, out)
            return
        if self._row is not None and all(array.flags.c_contiguous for array in (x, pooled, dout, out)):
            whole, each = self._row.shapes
            given = x.reshape(whole), pooled.reshape(each), dout.reshape(each), out.reshape(whole)
            self._row.backward(*given)
            return
        # a plan may have dropped the forward pass where nothing reads its result
        if not (reuse and self._holds_x):
            self._rows(x)
        self._holds_x = False
        values = [x, *self._partial, pooled]
        between = [self.xp.empty(shape, self.dtype) for shape in self.shapes[1:-1]]
        gradients = [out, *between, dout]
        for level, (axis, windows) in reversed(list(enumerate(self._passes()))):
            source, largest = values[level : level + 2]
            target, incoming = gradients[level : level + 2]
            self._route(source, largest, incoming, target, axis, windows)

    def _rows(self, x: Array) -> None:
        source = x
        for (axis, windows), target in zip(self._passes(), self._partial, strict=False):
            self._reduce(source, target, axis, windows)
            source = target

    def _spread(self, d: Array, out: Array) -> None:
        """The gradient of a sum: every element gets the gradients of its windows."""
        between = [self.xp.empty(shape, self.dtype) for shape in self.shapes[1:-1]]
        passes = list(zip([out, *between], self._passes(), strict=True))
        for target, (axis, windows) in reversed(passes):
            # disjoint windows write every element once, and nothing is added to what lay there
            if windows.uneven and self._multiply(d, target, axis, windows.matrix.T):
                d = target
                continue
            if not windows.disjoint:
                target[...] = 0
            if windows.single is not None:
                _at(target, axis, windows.single)[...] = d
            else:
                self._add_to_windows(d, target, axis, windows)
            d = target

    def _add_to_windows(self, d: Array, target: Array, axis: int, windows: Windows) -> None:
        if windows.uneven:
            for i, inside in enumerate(windows.slices):
                part = _at(target, axis, inside)
                self.xp.add(part, _at(d, axis, slice(i, i + 1)), out=part)
            return
        for elements, places in windows.steps:
            part = _at(target, axis, elements)
            if windows.disjoint:
                part[...] = d
            else:
                self.xp.add(part, _at(d, axis, places), out=part)

    def _route(
        self, source: Array, largest: Array, d: Array, out: Array, axis: int, windows: Windows
    ) -> None:
        """The gradient of a maximum along one dimension: all of it goes to the first element that is the
        largest.
        """
        xp = self.xp
        if windows.disjoint and windows.kernel == 2:
            (first, _), (second, _) = windows.steps
            one = _at(out, axis, first)
            other = _at(out, axis, second)
            # of a pair the second gets what the first does not take, ties included
            xp.multiply(d, _at(source, axis, first) == largest, out=one)
            xp.subtract(d, one, out=other)
            return
        if windows.single is not None and xp is np and math.prod(out.shape[axis + 1 :]) == 1:
            _take_largest(_at(source, axis, windows.single), largest, d, out, axis, windows.single)
            return
        for across, part in self._parts(out.shape, axis):
            pieces = [_at(array, across, part) for array in (source, largest, d, out)]
            self._take_first(pieces, axis, windows)

    def _take_first(self, arrays: Sequence[Array], axis: int, windows: Windows) -> None:
        """The gradients `d` of windows along one dimension to their first elements that are the largest."""
        xp = self.xp
        source, largest, d, out = arrays
        if xp is not np:
            self._choose_first(arrays, axis, windows)
            return
        # the bits of numbers times 0 or 1: a choice takes 4 ns an element, and 0 times an infinity is NaN
        bits = f"i{out.itemsize}"
        # what no earlier element of a window has taken: a window's gradient goes to one element only
        rest = d.copy().view(bits)
        out[...] = 0
        for elements, places in windows.steps:
            left = _at(rest, axis, places)
            part = _at(out, axis, elements)
            taken = left * (_at(source, axis, elements) == _at(largest, axis, places))
            xp.add(part, taken.view(out.dtype), out=part)
            xp.subtract(left, taken, out=left)

    def _choose_first(self, arrays: Sequence[Array], axis: int, windows: Windows) -> None:
        """The same by choices, which arrays of devices make as fast, and whose derivative is known."""
        xp = self.xp
        source, largest, d, out = arrays
        rest = d.copy()
        out[...] = 0
        for elements, places in windows.steps:
            left = _at(rest, axis, places)
            part = _at(out, axis, elements)
            is_largest = _at(source, axis, elements) == _at(largest, axis, places)
            xp.add(part, xp.where(is_largest, left, 0), out=part)
            left[...] = xp.where(is_largest, 0, left)

    def _parts(self, shape: Sequence[int], axis: int) -> Iterator[tuple[int, slice]]:
        """(dimension, some of its elements): parts that stay in the cache, along another dimension than
        `axis`.
        """
        others = [each for each in range(len(shape)) if each != axis]
        across = max(others[:-1] or others, key=lambda each: shape[each])
        size = shape[across]
        step = size
        if self.xp is np:
            step = max(1, _CACHED * size // max(math.prod(shape), 1))
        for start in range(0, size, max(step, 1)):
            yield across, slice(start, start + step)


def _row_of(plan: PoolPlan) -> PoolPlan | None:
    """The plan for the largest elements of whole images as rows of all their elements, where `plan` pools
    those dimension by dimension: 10 to 14 times as fast on arrays without gaps.
    """
    shape, dims = plan.shapes[0], len(plan.windows)
    first = len(shape) - dims
    is_whole = all(each.single == slice(0, each.size) for each in plan.windows)
    is_last = plan.axes == tuple(range(first, len(shape)))
    if plan.xp is not np or plan.mode != "max" or dims < 2 or not (is_whole and is_last):
        return None
    size = math.prod(shape[first:])
    windows = [Windows.regular(size, size, 1, (0, 0), False)]
    pooling = Pooling(windows, "max", True, plan.dtype)
    return PoolPlan(np, (*shape[:first], size), pooling, axes=(first,))


def _take_largest(source: Array, largest: Array, d: Array, out: Array, axis: int, inside: slice) -> None:
    """The gradients `d` of one window along the last dimension to its first largest elements: of 56 elements
    in half the time that a pass an element takes.
    """
    first = source.argmax(axis=axis, keepdims=True)
    # NaN is the largest, and equals nothing
    is_number = np.take_along_axis(source, first, axis) == largest
    out[...] = 0
    np.put_along_axis(_at(out, axis, inside), first, np.where(is_number, d, 0), axis)


def _at(array: Array, axis: int, where: slice) -> Array:
    return array[(slice(None),) * axis + (where,)]


def window_grid(windows: Sequence[Windows]) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """(elements, places) pairs over all dimensions, in row-major order of the elements of each window."""
    for pairs in itertools.product(*(w.steps for w in windows)):
        yield tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
