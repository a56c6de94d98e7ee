"""The random numbers of PaddlePaddle 1.8.5's CPU kernels, which are those of libstdc++: its engine
`minstd_rand` and its distributions.

The engine is x -> 48271 x mod (2**31 - 1), so the k-th state is a power of the multiplier times the first
one, and many states are computed at once.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = [
    "MODULUS",
    "OLD_MULTIPLIER",
    "RANGE",
    "between",
    "first_state",
    "minstd_integers",
    "minstd_normal",
    "minstd_states",
    "minstd_uniform",
    "truncated_normal",
]

MODULUS = 2**31 - 1
_MULTIPLIER = 48271  # std::minstd_rand
OLD_MULTIPLIER = 16807  # std::minstd_rand0, which libstdc++ calls default_random_engine
RANGE = MODULUS - 2  # largest minus smallest state
_CACHED = 1 << 12  # states at a time: they stay in the cache with what is computed from them


# ---------------------------------------------------------------------- the engine and its distributions
@functools.cache
def _powers() -> Array:
    """The first powers of the multiplier."""
    found = itertools.accumulate(
        range(_CACHED - 1), lambda power, _: power * _MULTIPLIER % MODULUS, initial=_MULTIPLIER
    )
    return np.fromiter(found, np.uint64, _CACHED)


def minstd_states(seed: int, n: int) -> Array:
    """The first `n` states of `std::minstd_rand`, each in [1, 2**31 - 2], as uint64."""
    states, last, modulus = np.empty(n, np.uint64), first_state(seed), np.uint64(MODULUS)
    for start in range(0, n, _CACHED):
        part = states[start : start + _CACHED]
        np.multiply(_powers()[: len(part)], np.uint64(last), out=part)
        # by way of the quotient, three times as fast as NumPy's remainders
        part -= part // modulus * modulus
        last = int(part[-1])
    return states


def first_state(seed: int) -> int:
    """The generator's state for a seed attribute: an unsigned 32-bit number, and never 0."""
    return (int(seed) & 0xFFFFFFFF) % MODULUS or 1


def _canonical(seed: int, n: int, dtype: Any = np.float32) -> Array:
    """`std::generate_canonical`: one draw makes a float32 in [0, 1), two make a float64."""
    kind = np.dtype(dtype).type
    span = kind(RANGE + 1)
    draws = minstd_states(seed, n * (2 if kind is np.float64 else 1))
    draws -= np.uint64(1)
    if kind is np.float64:
        unit = (draws[0::2].astype(kind) + draws[1::2].astype(kind) * span) / (span * span)
    else:
        unit = draws.astype(kind)
        unit /= span
    # a third of the time of `minimum` with one number
    np.copyto(unit, np.nextafter(kind(1), kind(0)), where=unit >= 1)
    return unit


def minstd_uniform(seed: int, n: int, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> Array:
    """`n` draws of `std::uniform_real_distribution(low, high)` from an engine seeded with `seed`."""
    return between(_canonical(seed, n, dtype), low, high)


def between(unit: Array, low: float, high: float) -> Array:
    """[0, 1) moved to [low, high), rounded as C++ does with float attributes."""
    kind = unit.dtype.type
    bottom = kind(np.float32(low))
    top = kind(np.float32(high))
    moved = unit * (top - bottom)
    moved += bottom
    return moved


def minstd_normal(seed: int, n: int, mean: float = 0.0, std: float = 1.0, dtype: Any = np.float32) -> Array:
    """`n` draws of `std::normal_distribution`: Marsaglia's polar method, the second value of a pair comes
    first.
    """
    kind = np.dtype(dtype).type
    tries = int(0.7 * n) + 64  # a pair of draws passes with probability pi / 4
    while True:
        unit = _canonical(seed, 2 * tries, dtype)
        unit *= kind(2)
        unit -= kind(1)
        x, y = unit[0::2], unit[1::2]
        square = x * x + y * y
        places = np.flatnonzero((square <= 1) & (square != 0))
        if 2 * len(places) >= n:
            break
        tries *= 2
    # by their places: NumPy takes five times as long for what a mask chooses
    places = places[: (n + 1) // 2]
    square = square.take(places)
    factor = np.sqrt(kind(-2) * _c_log(square) / square)
    pairs = np.empty((len(places), 2), dtype)
    for column, coordinate in enumerate((y, x)):
        np.multiply(coordinate.take(places), factor, out=pairs[:, column])
    pairs *= kind(np.float32(std))
    pairs += kind(np.float32(mean))
    return pairs.reshape(-1)[:n]


def _c_log(x: Array) -> Array:
    """The C library's logarithm: NumPy's own differs from it in the last bit of every tenth number."""
    # imported when it is called: SciPy is slow to start, and few programs need it
    from scipy.special import xlogy  # type: ignore[import-untyped]

    result: Array = xlogy(x.dtype.type(1), x)
    return result


def minstd_integers(seed: int, n: int, low: int, high: int) -> Array:
    """`n` draws of `std::uniform_int_distribution(low, high)`, both ends included, as int64."""
    bins = high - low + 1
    width = RANGE // bins
    tries = n + 16
    while True:
        draws = minstd_states(seed, tries) - np.uint64(1)
        draws = draws[draws < bins * width]
        if len(draws) >= n:
            return (draws[:n] // np.uint64(width)).astype(np.int64) + low
        tries *= 2


# Central branch of Wichura's algorithm AS 241 (1988), which the kernel uses over its whole range.
_AS241_NUMERATOR = (
    2.5090809287301226727e3,
    3.3430575583588128105e4,
    6.7265770927008700853e4,
    4.5921953931549871457e4,
    1.3731693765509461125e4,
    1.9715909503065514427e3,
    1.3314166789178437745e2,
    3.3871328727963666080e0,
)
_AS241_DENOMINATOR = (
    5.2264952788528545610e3,
    2.8729085735721942674e4,
    3.9307895800092710610e4,
    2.1213794301586595867e4,
    5.3941960214247511077e3,
    6.8718700749205790830e2,
    4.2313330701600911252e1,
    1.0,
)


def _polynomial(coefficients: Sequence[float], x: Array, factor: float = 1.0) -> Array:
    total: Any = x.dtype.type(coefficients[0] * factor)
    for coefficient in coefficients[1:]:
        total = total * x + x.dtype.type(coefficient * factor)
    result: Array = total
    return result


def truncated_normal(unit: Array, mean: float, std: float) -> Array:
    """Normal numbers within two standard deviations from uniform ones, by the inverse of the distribution
    function.
    """
    kind = unit.dtype.type
    bottom = kind((1 - math.erf(math.sqrt(2))) / 2)
    top = kind((1 + math.erf(math.sqrt(2))) / 2)
    x = kind(2) * (unit * (top - bottom) + bottom) - kind(1)
    wide = x.astype(np.float64)
    r = (0.180625 - 0.25 * wide * wide).astype(kind)
    inverse = x * _polynomial(_AS241_NUMERATOR, r, 1 / math.sqrt(8)) / _polynomial(_AS241_DENOMINATOR, r)
    return (
        math.sqrt(2) * inverse.astype(np.float64) * float(np.float32(std)) + float(np.float32(mean))
    ).astype(kind)
