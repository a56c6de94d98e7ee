"""The runs of an image's or a matrix's size before kernels are made for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

__all__ = ["FirstRuns"]

_MOST = 256  # kinds that are counted: where each batch has another size, there is no end of them


class FirstRuns:
    """Counts the runs up to the one at which kernels are `asked` for: a size may never come again, and a
    kernel takes 0.2 to 0.6 ms to make. Where a run `is_long`, it pays at the first.
    """

    def __init__(self, asked: int, is_long: bool = False) -> None:
        self.asked = 1 if is_long else asked
        self.runs: Counter[Hashable] = Counter()

    def is_early(self, kind: Hashable = None, enough: int = 0) -> bool:
        """True if this is a run, of those of a kind, for which no kernel is made yet; unless it pays at the
        first, it takes `enough` runs, too.
        """
        if len(self.runs) > _MOST:
            self.runs.clear()
        self.runs[kind] += 1
        return self.runs[kind] < self.asked or (self.asked > 1 and self.runs[kind] < enough)
