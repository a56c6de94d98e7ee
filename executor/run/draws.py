"""Random masks, drawn by a team: the numbers are those that one thread would have drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.executor.run.team import pieces, team_of
from fluidlite.ops.kernels.minstd import minstd_uniform

__all__ = ["KeptMask"]

_BLOCK = 1 << 14  # numbers that are drawn before they are compared
_SHARED = 1 << 17  # numbers from which copies of the source, 10 us each, pay


class KeptMask:
    """mask(out): True where a number drawn from [0, 1) is not less than `probability`.

    With a `seed` the numbers are those of Paddle's CPU kernel, the same at each call, and drawn once.
    """

    def __init__(
        self, xp: Any, random: Any, count: int, probability: float, seed: int | None, threads: int
    ) -> None:
        self.random = random
        self.count = count
        self.probability = np.float32(probability)
        self.seed = seed
        self.threads = threads
        self.known: Array | None = None
        self.numbers = np.empty((threads, min(count, _BLOCK)), np.float32)

    def __call__(self, out: Array) -> None:
        out = out.reshape(-1)
        if self.seed is not None:
            if self.known is None:
                self.known = minstd_uniform(self.seed, self.count) >= self.probability
            out[...] = self.known
        elif self._is_shared():
            self._shared(out)
        else:
            self._draw(self.random, out, 0)

    def _draw(self, random: Any, out: Array, member: int) -> None:
        for start in range(0, len(out), _BLOCK):
            piece = out[start : start + _BLOCK]
            numbers = self.numbers[member, : len(piece)]
            random.random(dtype=np.float32, out=numbers)
            np.greater_equal(numbers, self.probability, out=piece)

    def _is_shared(self) -> bool:
        """True if the source can be moved ahead, and no half of a 64-bit number is left over in it."""
        source = self.random.bit_generator
        return bool(
            self.threads > 1
            and self.count >= _SHARED
            and isinstance(source, np.random.PCG64)
            and not source.state["has_uint32"]
        )

    def _shared(self, out: Array) -> None:
        """Each member draws from a copy of the source, moved ahead to where its part begins.

        One 64-bit number gives two floats, so parts are cut at even places.
        """
        pairs = self.count // 2
        source = self.random.bit_generator
        state = source.state

        def draw(member: int) -> None:
            part = pieces(pairs, self.threads)[member]
            copy = np.random.PCG64(0)
            copy.state = state
            copy.advance(part.start)
            self._draw(np.random.Generator(copy), out[2 * part.start : 2 * part.stop], member)

        team_of(self.threads)(draw)
        source.advance(pairs)
        self._draw(self.random, out[2 * pairs :], 0)
