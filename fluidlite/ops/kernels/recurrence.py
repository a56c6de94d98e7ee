"""Parts of recurrent ops: sequences cut into time steps, and activations with their slopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.ops.kernels.sequence_rows import take_rows

__all__ = ["ACTIVATIONS", "Activation", "TimeStep", "TimeSteps", "activation", "single_step"]


# ---------------------------------------------------------------------- activations
class Activation(NamedTuple):
    """`apply(xp, x)` overwrites x; `slope(y)` is the derivative where the result is y."""

    apply: Callable[[Any, Array], None]
    slope: Callable[[Array], Any]


def _sigmoid(xp: Any, x: Array) -> None:
    """As a tanh, which vectorises better than exp and a division, and cannot overflow."""
    x *= 0.5
    xp.tanh(x, out=x)
    x *= 0.5
    x += 0.5


def _clamped_sigmoid(xp: Any, x: Array) -> None:
    """Of arguments up to 13, as in Paddle's ops over sequences: an open gate stays a little short of 1.

    Below -40, its other limit, float32 has 0 in either case.
    """
    xp.minimum(x, 13, out=x)
    _sigmoid(xp, x)


def _tanh(xp: Any, x: Array) -> None:
    xp.tanh(x, out=x)


def _relu(xp: Any, x: Array) -> None:
    xp.maximum(x, 0, out=x)


def _identity(xp: Any, x: Array) -> None:
    """Leaves x as it is."""


ACTIVATIONS = {
    "identity": Activation(_identity, lambda y: 1),
    "sigmoid": Activation(_sigmoid, lambda y: y * (1 - y)),
    "tanh": Activation(_tanh, lambda y: 1 - y * y),
    "relu": Activation(_relu, lambda y: (y > 0).astype(y.dtype)),
}


_IN_SEQUENCES = {**ACTIVATIONS, "sigmoid": ACTIVATIONS["sigmoid"]._replace(apply=_clamped_sigmoid)}


def activation(op: str, name: str, unit: bool = False) -> Activation:
    """The activation called `name`, of a `unit` or of an op over sequences; ShapeError, naming the op, where
    there is none.
    """
    if name not in ACTIVATIONS:
        raise ShapeError(f"op {op!r}: activation {name!r} is none of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name] if unit else _IN_SEQUENCES[name]


# ---------------------------------------------------------------------- time steps
class TimeStep(NamedTuple):
    """Rows [start, end) of what is stored step by step; `before` is where the step before starts, None for
    the first.
    """

    start: int
    end: int
    before: int | None

    @property
    def rows(self) -> slice:
        """The rows of this step."""
        return slice(self.start, self.end)

    @property
    def width(self) -> int:
        """Number of sequences that still run."""
        return self.end - self.start


class TimeSteps:
    """Sequences stored step by step, the longest first, so that those that still run are the first rows of
    every step.
    """

    def __init__(self, xp: Any, offsets: Array, reverse: bool = False) -> None:
        self.xp = xp
        lengths = np.diff(offsets)
        # stable: sequences of the same length stay in their order
        self.order = np.argsort(-lengths, kind="stable")
        ordered = lengths[self.order]
        # for each step the number of sequences that are longer
        counts = np.searchsorted(-ordered, -np.arange(ordered.max(initial=0)))
        self.starts = np.concatenate(([0], np.cumsum(counts)))
        # row by row of what is stored step by step: its step, and its sequence's place among those still
        # running
        step = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(len(step)) - np.repeat(self.starts[:-1], counts)
        first = (offsets[1:] - 1 if reverse else offsets[:-1])[self.order][rank]
        self.rows = first - step if reverse else first + step
        self.running = int(counts[0]) if len(counts) else 0
        # a sequence has the same rank in every step, so its row one step before is found by that
        self.sources = rank
        if len(counts):
            self.sources = np.repeat(self.starts[:-2], counts[1:]) + rank[self.running :]

    def __iter__(self) -> Iterator[TimeStep]:
        starts = self.starts.tolist()
        for t, (start, end) in enumerate(zip(starts, starts[1:], strict=False)):
            yield TimeStep(start, end, starts[t - 1] if t else None)

    def by_step(self, X: Array) -> Array:
        """The rows of X, step by step; a new array."""
        return take_rows(self.xp, X, self.rows)

    def by_sequence(self, X: Array) -> Array:
        """The inverse of `by_step`."""
        back = np.empty_like(self.rows)
        back[self.rows] = np.arange(len(back))
        return take_rows(self.xp, X, back)

    def initial(self, state: Array | None) -> Array | None:
        """The rows of an initial state [sequences, ...], longest sequence first."""
        if state is not None and len(state) != len(self.order):
            raise ShapeError(f"the initial state has {len(state)} rows for {len(self.order)} sequences")
        return None if state is None else take_rows(self.xp, state, self.order)

    def initial_gradient(self, d: Array, state: Array) -> Array:
        """The gradient of an initial state, from that of its first rows in the order of `initial`."""
        out = self.xp.zeros_like(state)
        out[self.xp.asarray(self.order[: len(d)])] = d
        return out

    def earlier(self, X: Array, initial: Array | None) -> Array:
        """For each row of X, stored step by step, the row of its sequence one step before; at the first
        step `initial`, or zeros.
        """
        if initial is None:
            first = self.xp.zeros((self.running, *X.shape[1:]), X.dtype)
        else:
            first = initial[: self.running]
        return self.xp.concatenate((first, take_rows(self.xp, X, self.sources)))


def single_step(xp: Any, rows: int) -> TimeSteps:
    """One step of as many sequences as there are rows."""
    return TimeSteps(xp, np.arange(rows + 1))
