"""Ops on ids: unique, shard_index, hash, gather_tree."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array, VarType, to_numpy
from fluidlite.base.errors import KernelError, ShapeError
from fluidlite.base.registry import INTS, LONG, AttrType, Op, Spec, at_least, later, required

# ---------------------------------------------------------------------- distinct values
_FEW_NUMBERS = 16  # numbers in the range of an element, up to which they have a table of places


def _distinct(xp: Any, x: Array, dtype: int) -> tuple[Array, Array, Array]:
    """Distinct values as they first occur, for each element the place of its value among them, and their
    counts.
    """
    kind = to_numpy(VarType(dtype))
    firsts = _first_places(x) if xp is np and x.dtype.kind == "i" and len(x) else None
    if firsts is not None:
        fresh = np.flatnonzero(firsts == np.arange(len(x)))
        number = np.empty(len(x), np.int64)
        number[fresh] = np.arange(len(fresh))
        index = number[firsts]
        return x[fresh], index.astype(kind), np.bincount(index).astype(kind)
    # no nan is equal to another
    values, first, inverse, counts = xp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    order = xp.argsort(first)
    place = xp.empty_like(order)
    place[order] = xp.arange(len(order))
    return values[order], place[inverse.reshape(-1)].astype(kind), counts[order].astype(kind)


def _first_places(x: Array) -> Array | None:
    """For each integer the place of the first one that is equal; None where they are too far apart.

    20000 of 5000 ids take 0.2 ms, and NumPy's `unique` 1.3: it sorts places, which takes it eight times as
    long as numbers that hold their own places.
    """
    low, count = int(x.min()), len(x)
    high, bits = int(x.max()) - low, count.bit_length()
    if high >> (62 - bits):
        return None
    numbers = x.astype(np.int64) - low
    places = np.arange(count)
    firsts = np.empty(count, np.int64)
    if high < _FEW_NUMBERS * count:
        table = np.empty(high + 1, np.int64)
        # of equal ones the first is written last
        table[numbers[::-1]] = places[::-1]
        table.take(numbers, out=firsts)
        return firsts
    keys = (numbers << bits) | places
    keys.sort()
    values, places = keys >> bits, keys & ((1 << bits) - 1)
    starts = np.flatnonzero(values[1:] != values[:-1]) + 1
    starts = np.concatenate(([0], starts))
    firsts[places] = places[starts].repeat(np.diff(starts, append=count))
    return firsts


def _check_vector(type: str, X: Spec) -> None:
    if len(X.shape) != 1:
        raise ShapeError(f"op {type!r}: X must have one dimension, but has shape {list(X.shape)}")


unique = Op(
    "unique",
    "X -> Out Index Indices? Counts?",
    attrs={
        "dtype": required(AttrType.INT),
        "is_sorted": later(False),
        "return_index": later(False),
        "return_inverse": later(False),
        "return_counts": later(False),
        "axis": later(INTS()),
    },
    lod=None,
    later=("Indices", "Counts"),
    version=1,
)


@unique.shape
def _(
    X: Spec,
    dtype: int,
    is_sorted: bool,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    axis: list[int],
) -> tuple[Spec, ...]:
    kind = VarType(dtype)
    if not is_sorted:  # fluid's op
        _check_vector("unique", X)
        return X.with_shape((-1,)), Spec(X.shape, kind)
    if axis:
        at = axis[0] % len(X.shape)
        values = (*X.shape[:at], -1, *X.shape[at + 1 :])
        count = X.shape[at]
    else:
        values = (-1,)
        count = math.prod(X.shape)
    return (
        X.with_shape(values),
        Spec((count,) if return_inverse else (), kind),
        Spec((-1,) if return_index else (), kind),
        Spec((-1,) if return_counts else (), kind),
    )


@unique.kernel
def _(
    xp: Any,
    X: Array,
    dtype: int,
    is_sorted: bool,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    axis: list[int],
) -> tuple[Array, ...]:
    if not is_sorted:
        return _distinct(xp, X, dtype)[:2]
    values, first, inverse, counts = xp.unique(
        X, return_index=True, return_inverse=True, return_counts=True, axis=axis[0] if axis else None
    )
    kind = to_numpy(VarType(dtype))
    # what nobody asked for is declared as a number, and is one
    found = ((inverse.reshape(-1), return_inverse), (first, return_index), (counts, return_counts))
    return values, *(array.astype(kind) if asked else xp.zeros((), kind) for array, asked in found)


unique_with_counts = Op(
    "unique_with_counts", "X -> Out Index Count", attrs={"dtype": required(AttrType.INT)}, lod=None
)


@unique_with_counts.shape
def _(X: Spec, dtype: int) -> tuple[Spec, Spec, Spec]:
    _check_vector("unique_with_counts", X)
    return X.with_shape((-1,)), Spec(X.shape, VarType(dtype)), Spec((-1,), VarType(dtype))


@unique_with_counts.kernel
def _(xp: Any, X: Array, dtype: int) -> tuple[Array, Array, Array]:
    return _distinct(xp, X, dtype)


histogram = Op(
    "histogram",
    "X -> Out",
    attrs={"bins": LONG(100), "min": 0, "max": 0},
    version=1,
    newer={"density": False},
)


@histogram.shape
def _(X: Spec, bins: int, min: int, max: int) -> Spec:
    if min > max:
        raise ShapeError(f"op 'histogram': min must not be larger than max, but they are {min} and {max}")
    return Spec((bins,), VarType.INT64)


@histogram.kernel
def _(xp: Any, X: Array, bins: int, min: int, max: int) -> Array:
    x = X.reshape(-1)
    low = x.dtype.type(min)
    high = x.dtype.type(max)
    if low == high and x.size:
        low = x.min()
        high = x.max()
    if not (xp.isfinite(low) and xp.isfinite(high)):
        raise KernelError(f"op 'histogram': the range of bins is [{low}, {high}], and must be finite")
    if low == high:
        low = low - 1
        high = high + 1
    if low == high:
        raise KernelError(f"op 'histogram': all numbers are {low}, which leaves no room for bins around it")
    is_within = (x >= low) & (x <= high)
    within = x[is_within]
    # the bin of a number by its distance from the lower end, in the dtype of X: edges of bins are rounded
    shares = (within - low) * bins / (high - low)
    places = shares.astype("int64")
    places = xp.minimum(places, bins - 1)
    return xp.bincount(places, minlength=bins).astype("int64")


# ---------------------------------------------------------------------- shards
shard_index = Op(
    "shard_index",
    "X -> Out",
    attrs={
        "index_num": at_least(1, required(AttrType.INT)),
        "nshards": required(AttrType.INT),
        "shard_id": required(AttrType.INT),
        "ignore_value": -1,
    },
)


@shard_index.shape
def _(X: Spec) -> Spec:
    if len(X.shape) < 2:
        raise ShapeError(f"op 'shard_index': X has the shape {list(X.shape)}, wanted at least 2 dimensions")
    return Spec(X.shape, X.dtype)


@shard_index.kernel
def _(xp: Any, X: Array, index_num: int, nshards: int, shard_id: int, ignore_value: int) -> Array:
    size = (index_num + nshards - 1) // nshards
    # without a division, of which NumPy takes 2 ns each
    inside = X - X.dtype.type(shard_id * size)
    # without a sign those before the shard are large, too
    is_inside = inside.view(f"u{X.dtype.itemsize}") < size
    # as arithmetic: `where` takes five times as long, as nobody can tell which way each of its branches goes
    inside -= X.dtype.type(ignore_value)
    inside *= is_inside
    inside += X.dtype.type(ignore_value)
    return inside


# ---------------------------------------------------------------------- XXH64
_PRIMES = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)


def _turned(xp: Any, x: Array, bits: int) -> Array:
    return (x << xp.uint64(bits)) | (x >> xp.uint64(64 - bits))


def _round(xp: Any, lane: Array, word: Array) -> Array:
    first = xp.uint64(_PRIMES[0])
    second = xp.uint64(_PRIMES[1])
    return _turned(xp, lane + word * second, 31) * first


def xxh64(xp: Any, words: Array, tail: Array | None, count: int) -> Array:
    """[count, rows]: XXH64 of each row with each of the seeds 0, 1, ...: `words` [rows, n] uint64, then
    `tail` [rows] uint32 or none (little endian, as specified by Yann Collet).
    """
    seeds = xp.arange(count, dtype="uint64")[:, None]
    zero = xp.uint64(0)
    p1, p2, p3, p4 = (xp.uint64(prime) for prime in _PRIMES[:4])
    size = words.shape[1]
    blocks = size // 4
    if blocks:
        lanes = [seeds + p1 + p2, seeds + p2, seeds, seeds - p1]
        for block in range(blocks):
            lanes = [_round(xp, lane, words[:, 4 * block + i]) for i, lane in enumerate(lanes)]
        out = sum(
            (_turned(xp, lane, bits) for lane, bits in zip(lanes[1:], (7, 12, 18), strict=True)),
            _turned(xp, lanes[0], 1),
        )
        for lane in lanes:
            out = (out ^ _round(xp, zero, lane)) * p1 + p4
    else:
        out = seeds + xp.uint64(_PRIMES[4])
    out = out + xp.uint64(8 * size + (0 if tail is None else 4))
    for index in range(4 * blocks, size):
        out = _turned(xp, out ^ _round(xp, zero, words[:, index]), 27) * p1 + p4
    if tail is not None:
        out = _turned(xp, out ^ (tail.astype("uint64") * p1), 23) * p2 + p3
    out = (out ^ (out >> xp.uint64(33))) * p2
    out = (out ^ (out >> xp.uint64(29))) * p3
    result: Array = out ^ (out >> xp.uint64(32))
    return result


hash_op = Op(
    "hash",
    "X -> Out",
    attrs={"num_hash": 1, "mod_by": LONG(100000), "@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True},
)


@hash_op.shape
def _(X: Spec, num_hash: int) -> Spec:
    return X.with_shape((*X.shape[:-1], num_hash, 1))


_HASHED = 1 << 13  # hashes at a time: the arrays of their steps stay in the cache


@hash_op.kernel
def _(xp: Any, X: Array, num_hash: int, mod_by: int) -> Array:
    halves = xp.ascontiguousarray(X.reshape(-1, X.shape[-1])).view("uint32")
    even = halves.shape[1] // 2 * 2
    words = xp.ascontiguousarray(halves[:, :even]).view("uint64")
    out = xp.empty((len(words), num_hash), X.dtype)
    modulus = xp.uint64(mod_by)
    step = max(_HASHED // max(num_hash, 1), 1) if xp is np else max(len(words), 1)
    with np.errstate(over="ignore"):
        for start in range(0, len(words), step):
            some = slice(start, start + step)
            tail = halves[some, -1] if even < halves.shape[1] else None
            found = xxh64(xp, words[some], tail, num_hash)
            # by way of the quotient, ten times as fast as NumPy's remainders
            found -= found // modulus * modulus
            out[some] = found.T
    return out.reshape(*X.shape[:-1], num_hash, 1)


# ---------------------------------------------------------------------- beams
gather_tree = Op("gather_tree", "Ids Parents -> Out", lod=None)


@gather_tree.shape
def _(Ids: Spec, Parents: Spec) -> Spec:
    if len(Ids.shape) != len(Parents.shape):
        raise ShapeError(
            f"op 'gather_tree': Ids{list(Ids.shape)} and Parents{list(Parents.shape)} must have one shape"
        )
    return Ids.with_shape(Ids.shape)


@gather_tree.kernel
def _(xp: Any, Ids: Array, Parents: Array) -> Array:
    if Ids.ndim != 3 or Ids.shape != Parents.shape:
        raise ShapeError(
            f"op 'gather_tree': Ids{list(Ids.shape)} and Parents{list(Parents.shape)} must be [steps, batch, "
            f"beams]"
        )
    steps, batch, beams = Ids.shape
    if Parents.size and not 0 <= int(Parents.min()) <= int(Parents.max()) < beams:
        raise ShapeError(
            f"op 'gather_tree': Parents lie between {Parents.min()} and {Parents.max()}, but there are "
            f"{beams} beams"
        )
    # positions in a step, so that one look-up goes a step back
    flat = xp.arange(steps * batch * beams).reshape(steps, -1)
    before = Parents.reshape(steps, -1) + xp.arange(batch).repeat(beams) * beams
    places = list(flat[:1])
    for parents in before[:0:-1]:
        places.append(parents.take(places[-1]))
    chosen = xp.stack(places[::-1]) + flat[:, :1]
    return Ids.take(chosen).reshape(Ids.shape)
