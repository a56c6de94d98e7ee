"""Progress of a training on the terminal: a line a step, or a bar that moves."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

import numpy as np

from fluidlite.base.notebooks import ReplacedLine, in_notebook

__all__ = ["ProgressBar"]


class ProgressBar:
    """Steps of an epoch with figures and the time that a step takes.

    num: the number of steps, None where nobody knows. width: columns of the bar. verbose: 1 for a bar that is
    drawn over itself, 2 for a line at each update, 0 for silence.
    """

    def __init__(
        self, num: int | None = None, width: int = 30, verbose: int = 1, file: TextIO | None = None
    ) -> None:
        if num is not None and num <= 0:
            raise TypeError(f"num should be None or a positive integer, but got {num!r}")
        self._num, self._width, self._verbose = num, width, verbose
        self._file = sys.stdout if file is None else file
        self._started = time.monotonic()
        self._drawn = 0
        # a notebook keeps all that a stream moves back over
        self._line = ReplacedLine() if verbose == 1 and file is None and in_notebook() else None

    def start(self) -> None:
        """Begin an epoch."""
        self._started = time.monotonic()
        self._drawn = 0
        self._line = self._line and ReplacedLine()

    def update(self, current_num: int, values: Iterable[tuple[str, Any]]) -> None:
        """Show that `current_num` steps are done, with figures by name."""
        if self._verbose not in (1, 2):
            return
        seconds = time.monotonic() - self._started
        step = seconds / current_num if current_num else seconds
        whole = self._num is not None and current_num >= self._num
        parts = [self._position(current_num), *(f"{name}:{_figures(value)}" for name, value in values)]
        if self._verbose == 1 and self._num is not None and not whole:
            parts.append(f"ETA: {_clock(step * (self._num - current_num))}")
        parts.append(_pace(step))
        self._write(" - ".join(parts), whole)

    def _position(self, current: int) -> str:
        """Steps done of how many, with the bar."""
        if self._num is None:
            return f"step {current:3d}"
        text = f"step {current:{len(str(self._num))}d}/{self._num}"
        if self._verbose == 2:
            return text
        done = self._width * min(current, self._num) // self._num
        arrow = "=" * self._width if current >= self._num else "=" * (done - 1) + ">" * (done > 0)
        return f"{text} [{arrow:.<{self._width}}]"

    def _write(self, text: str, whole: bool) -> None:
        if self._line is not None:
            self._line.show(text)
        elif self._verbose == 2:
            self._file.write(text + "\n")
        else:
            # back over the line before, and spaces over what it had more
            start = "\b" * self._drawn + "\r"
            self._file.write(start + text.ljust(self._drawn) + "\n" * whole)
            self._drawn = 0 if whole else len(text)
        self._file.flush()


def _figures(value: Any) -> str:
    """Numbers with four digits, in powers of ten where they are small."""
    found = np.asarray(value)
    if found.dtype.kind not in "biuf":
        return f" {value}"
    small = [abs(number) <= 1e-3 for number in found.reshape(-1)]
    numbers = zip(found.reshape(-1), small, strict=True)
    return "".join(f" {number:.4e}" if tiny else f" {number:.4f}" for number, tiny in numbers)


def _pace(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.0f}s/step"
    return f"{seconds * 1e3:.0f}ms/step" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us/step"


def _clock(seconds: float) -> str:
    """A time to wait: 45s, 3:05, 2:00:07."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
