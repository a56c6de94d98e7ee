"""Another rounding of our own runs: each result of an op is moved by the last digit, in the interpreter.

What a gradient loses where its terms cancel, no change of the parameters shows: two rows whose slopes are
+0.7 and -0.7 add up to nothing, whatever the weights behind them are, but for what rounding leaves. An
optimizer that divides by the size of a gradient makes a step of that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from fluidlite.executor.run.interpreter import Frame

__all__ = ["rounded_otherwise"]


def moved(value: Any, random: np.random.RandomState) -> Any:
    """An array of floats with roundings more or less; whole numbers, which computers add exactly, stay."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    steps = random.randint(-1, 2, value.shape) * np.finfo(value.dtype).eps
    with np.errstate(all="ignore"):
        return np.where(value == np.round(value), value, value * (1 + steps)).astype(value.dtype)


@contextlib.contextmanager
def rounded_otherwise(exe: Any, seed: int) -> Iterator[None]:
    """Runs of the executor give what they might give with another order of sums."""
    random, write, naive = np.random.RandomState(seed), Frame.set, exe.naive

    def write_moved(frame: Frame, name: str, value: Any, lod: Any = None) -> None:
        write(frame, name, moved(value, random), lod)

    exe.naive = True
    try:
        with mock.patch.object(Frame, "set", write_moved):
            yield
    finally:
        exe.naive = naive
