"""Hashes of many short keys of 32-bit words at once: XXH32 (Yann Collet) and MurmurHash3 x64 128 (Austin
Appleby), on the host.
"""

from __future__ import annotations

import numpy as np

from fluidlite.base.dtypes import Array

__all__ = ["in_bloom_filter", "murmur3_128", "xxh32"]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
BLOOM_MAGIC = 17070416  # the first number of PaddlePaddle's filters
BLOOM_HEADER = 4  # 64-bit numbers in front of the bits: magic, bits, rounds, entries


def _turned(x: Array, bits: int) -> Array:
    width = 8 * x.dtype.itemsize
    kind = x.dtype.type
    turned: Array = (x << kind(bits)) | (x >> kind(width - bits))
    return turned


def xxh32(words: Array, seed: int) -> Array:
    """XXH32 of each row of `words` [keys, n], uint32 as bytes in little endian."""
    keys, count = words.shape
    start = np.full(keys, seed, np.uint32)
    with np.errstate(over="ignore"):
        if count >= 4:
            lanes = [start + _P1 + _P2, start + _P2, start, start - _P1]
            for first in range(0, count - count % 4, 4):
                lanes = [_turned(lane + words[:, first + i] * _P2, 13) * _P1 for i, lane in enumerate(lanes)]
            out = sum(map(_turned, lanes, (1, 7, 12, 18)), np.zeros(keys, np.uint32))
        else:
            out = start + _P5
        out = out + np.uint32(4 * count)
        for index in range(count - count % 4, count):
            out = _turned(out + words[:, index] * _P3, 17) * _P4
        out = (out ^ (out >> np.uint32(15))) * _P2
        out = (out ^ (out >> np.uint32(13))) * _P3
        return out ^ (out >> np.uint32(16))


def _mixed(x: Array) -> Array:
    """The last step of MurmurHash3, by which each bit of the input changes half of the output."""
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


def murmur3_128(words: Array, seed: int) -> tuple[Array, Array]:
    """Both halves of MurmurHash3 x64 128 of each row of `words` [keys, n], uint32."""
    keys, count = words.shape
    padded = np.zeros((keys, -(-count // 4) * 4), np.uint32)
    padded[:, :count] = words
    pairs = np.ascontiguousarray(padded).view(np.uint64)
    low = np.full(keys, seed, np.uint64)
    high = np.full(keys, seed, np.uint64)
    with np.errstate(over="ignore"):
        for block in range(pairs.shape[1] // 2):
            first = pairs[:, 2 * block]
            second = pairs[:, 2 * block + 1]
            low = low ^ (_turned(first * _C1, 31) * _C2)
            if 4 * block + 4 > count:  # what is left over is not mixed any more
                high = high ^ (_turned(second * _C2, 33) * _C1)
                break
            low = (_turned(low, 27) + high) * np.uint64(5) + np.uint64(0x52DCE729)
            high = high ^ (_turned(second * _C2, 33) * _C1)
            high = (_turned(high, 31) + low) * np.uint64(5) + np.uint64(0x38495AB5)
        low = low ^ np.uint64(4 * count)
        high = high ^ np.uint64(4 * count)
        low = low + high
        high = high + low
        low = _mixed(low)
        high = _mixed(high)
        low = low + high
        return low, high + low


def in_bloom_filter(table: Array, words: Array) -> Array:
    """True for each row of `words` that a filter knows; ValueError where `table` is none.

    A filter is the bytes of a float32 array: BLOOM_HEADER numbers, then the bits. A key sets two bits each
    round, at both halves of its hash with the round as seed; bytes begin with their highest bit.
    """
    raw = np.ascontiguousarray(table, np.float32).view(np.uint8).ravel()
    size = 8 * BLOOM_HEADER
    if len(raw) > size:
        header = raw[:size].view(np.uint64)
    else:
        header = np.zeros(1, np.uint64)
    if header[0] != BLOOM_MAGIC:
        raise ValueError(
            f"the list is not a Bloom filter: it begins with {header[0]}, not with {BLOOM_MAGIC}"
        )
    bits = header[1]
    rounds = int(header[2])
    content = raw[size:]
    known = np.ones(len(words), bool)
    for seed in range(rounds):
        for half in murmur3_128(words, seed):
            place = (half % bits).astype(np.int64)
            known &= (content[place >> 3] >> (7 - (place & 7)).astype(np.uint8)) & 1 == 1
    return known
