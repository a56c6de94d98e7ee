"""Parts of recurrent ops: sequences cut into time steps."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from fluidlite.base.dtypes import Array
from fluidlite.base.errors import ShapeError
from fluidlite.base.open_sizes import fits
from fluidlite.base.registry import KernelContext, Lod
from fluidlite.ops.kernels.products import product, shared_product
from fluidlite.ops.kernels.sequence_rows import offsets_of_level, take_rows

__all__ = [
    "Chunk",
    "TimeStep",
    "TimeSteps",
    "check_first_states",
    "chunks",
    "even_steps",
    "ordered_steps",
    "planes",
    "single_step",
    "steps_of",
    "time_steps",
]


def check_first_states(op: str, wanted: tuple[int, int, int], **states: Any) -> None:
    """ShapeError for a first state, by its slot, of another shape than [layers x directions, batch, size].

    More rows would go unnoticed: the steps would take the first ones.
    """
    for slot, state in states.items():
        if not fits(tuple(state.shape), wanted):
            raise ShapeError(
                f"op {op!r}: {slot} has shape {list(state.shape)}, wanted {list(wanted)}: "
                f"[layers x directions, batch, hidden size]"
            )


# ---------------------------------------------------------------------- time steps
class TimeStep(NamedTuple):
    """Step `number`: rows [start, end) of what is stored step by step; `before` is where the step before
    starts, None for the first.
    """

    number: int
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

    `is_ordered`: the rows of what is given already lie step by step.
    """

    def __init__(self, xp: Any, offsets: Array, reverse: bool = False, is_ordered: bool = False) -> None:
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
        if is_ordered:
            self.rows = self.starts[ordered[rank] - 1 - step] + rank if reverse else np.arange(len(step))
        self.back = np.empty_like(self.rows)
        self.back[self.rows] = np.arange(len(self.back))
        self.running = int(counts[0]) if len(counts) else 0
        self.last = self.rows[self.starts[ordered[: self.running] - 1] + np.arange(self.running)]
        """The row of each sequence's last step, longest sequence first, without empty ones."""
        self.is_steady = bool((counts == self.running).all())
        # a sequence has the same rank in every step, so its row one step before is found by that
        self.sources = rank
        if len(counts):
            self.sources = np.repeat(self.starts[:-2], counts[1:]) + rank[self.running :]
        self.steps = self._steps()
        self.places = [_place(self.rows[step.rows]) for step in self.steps]
        """For each step where its rows are in what is given: a slice where they are evenly apart."""

    def _steps(self) -> list[TimeStep]:
        starts = self.starts.tolist()
        return [
            TimeStep(t, start, end, starts[t - 1] if t else None)
            for t, (start, end) in enumerate(itertools.pairwise(starts))
        ]

    def __iter__(self) -> Iterator[TimeStep]:
        return iter(self.steps)

    def shares(self, parts: int) -> list[int]:
        """Bounds that part the sequences, longest first, into runs of about as many rows each."""
        if parts == 1 or self.running < 2 * parts:
            return [0, self.running]
        counts = np.diff(self.starts)
        # of each sequence the number of steps, which fall as their places rise
        lengths = np.searchsorted(-counts, -np.arange(self.running), side="left")
        ends = np.cumsum(lengths)
        wanted = ends[-1] * np.arange(1, parts) / parts
        inner = np.searchsorted(ends - lengths / 2, wanted).tolist()
        return sorted({0, *inner, self.running})

    def backwards(self, rows: int) -> Iterator[list[TimeStep]]:
        """The steps from the last to the first, in groups of at least so many rows."""
        group: list[TimeStep] = []
        for step in reversed(self.steps):
            group.append(step)
            if group[0].end - step.start >= rows:
                yield group
                group = []
        if group:
            yield group

    def taken(self, X: Array, step: TimeStep, scratch: Array) -> Array:
        """The rows of X of one step; those that are not evenly apart are copied to `scratch`."""
        place = self.places[step.number]
        if isinstance(place, slice):
            return X[place]
        if self.xp is np:
            # without mode="clip" NumPy writes to a buffer of its own first
            return np.take(X, place, axis=0, out=scratch[: step.width], mode="clip")
        return take_rows(self.xp, X, place)

    def by_step(self, X: Array) -> Array:
        """The rows of X, step by step; a new array."""
        return take_rows(self.xp, X, self.rows)

    def by_sequence(self, X: Array) -> Array:
        """The inverse of `by_step`."""
        return take_rows(self.xp, X, self.back)

    def initial(self, state: Array | None) -> Array | None:
        """The rows of an initial state [sequences, ...], longest sequence first."""
        if state is not None and len(state) != len(self.order):
            raise ShapeError(f"the initial state has {len(state)} rows for {len(self.order)} sequences")
        return None if state is None else take_rows(self.xp, state, self.order)

    def initial_gradient(self, d: Array | None, state: Array | None) -> Array | None:
        """The gradient of an initial state, where there is one, from that of its first rows in the order of
        `initial`.
        """
        if d is None or state is None:
            return None
        out = self.xp.zeros_like(state)
        out[self.xp.asarray(self.order[: len(d)])] = d
        return out

    def earlier(self, X: Array, initial: Array | None, start: int = 0, end: int | None = None) -> Array:
        """For each row of X from `start` to `end`, stored step by step, the row of its sequence one step
        before; at the first step `initial`, or zeros.
        """
        end = len(X) if end is None else end
        before = self._before(X, max(start - self.running, 0), max(end - self.running, 0))
        if start >= self.running:
            return before
        count = min(end, self.running) - start
        if initial is None:
            first = self.xp.zeros((count, *X.shape[1:]), X.dtype)
        else:
            first = initial[start : start + count]
        return self.xp.concatenate((first, before))

    def one_before(self, step: TimeStep, X: Array, initial: Array | None) -> Array | None:
        """The rows of X one step before, stored step by step; at the first step the initial ones."""
        if step.before is None:
            return None if initial is None else initial[: step.width]
        return X[step.before : step.before + step.width]

    def _before(self, X: Array, start: int, end: int) -> Array:
        """The rows one step before of the rows behind the first step, counted from there."""
        if self.is_steady:
            return X[start:end]
        return take_rows(self.xp, X, self.sources[start:end])

    def weight_gradient(self, ctx: KernelContext, X: Array, initial: Array | None, d: Array) -> Array:
        """The product of `earlier`, transposed, and `d`, of which the first step's zeros are left out."""
        first = None if initial is None else product(self.xp, initial[: self.running].T, d[: self.running])
        if first is not None and not len(self.sources):
            return first
        before = self._before(X, 0, len(self.sources))
        out = shared_product(ctx, self.xp, before.T, d[self.running :])
        return out if first is None else out + first


def _place(rows: Array) -> slice | Array:
    """Row numbers as a slice, where they are evenly apart and rise."""
    if len(rows) == 1:
        return slice(int(rows[0]), int(rows[0]) + 1)
    apart = np.diff(rows)
    if apart[0] > 0 and (apart == apart[0]).all():
        return slice(int(rows[0]), int(rows[-1]) + 1, int(apart[0]))
    return rows


Make = TypeVar("Make", bound=Callable[..., Any])


def _kept(make: Make) -> Make:
    """`make(xp, ...)` with its last results kept, but for modules that record what is computed: each of those
    is of one call, and holds all its arrays.
    """
    known = functools.lru_cache(maxsize=32)(make)

    @functools.wraps(make)
    def find(xp: Any, *args: Any, **kwargs: Any) -> Any:
        # to ask NumPy for a name that it has not takes microseconds
        is_plain = xp is np or not hasattr(xp, "level")
        return known(xp, *args, **kwargs) if is_plain else make(xp, *args, **kwargs)

    return cast(Make, find)


@_kept
def time_steps(xp: Any, offsets: tuple[int, ...], reverse: bool = False) -> TimeSteps:
    """The steps of sequences with these offsets; kept, because the layers of a network and their gradients
    ask for the same ones.
    """
    return TimeSteps(xp, np.asarray(offsets, np.int64), reverse)


def steps_of(op: str, slot: str, xp: Any, lod: Lod, rows: int, reverse: bool) -> TimeSteps:
    """The steps of the outermost sequences of an input of `rows` rows; ShapeError where it has none."""
    offsets = offsets_of_level(op, slot, lod, 0, rows)
    return time_steps(xp, tuple(offsets.tolist()), reverse)


@_kept
def single_step(xp: Any, rows: int) -> TimeSteps:
    """One step of as many sequences as there are rows."""
    return TimeSteps(xp, np.arange(rows + 1))


@_kept
def even_steps(xp: Any, steps: int, sequences: int, reverse: bool = False) -> TimeSteps:
    """The steps of sequences of the same length, whose rows already lie step by step."""
    return TimeSteps(xp, np.arange(sequences + 1) * steps, reverse, is_ordered=True)


@_kept
def ordered_steps(xp: Any, lengths: tuple[int, ...], reverse: bool = False) -> TimeSteps:
    """The steps of sequences of these lengths, whose rows already lie step by step, longest first."""
    return TimeSteps(xp, np.cumsum([0, *lengths]), reverse, is_ordered=True)


# ---------------------------------------------------------------------- gates in planes
CHUNK = 1 << 15  # numbers in a plane of factors: they are still in the cache when they are used


def planes(rows: Array, count: int) -> Array:
    """[n, count x size] as [count, n, size], a view."""
    return rows.reshape(len(rows), count, rows.shape[1] // count).swapaxes(0, 1)


class Chunk(NamedTuple):
    """Some steps on the way back, the last one first: their rows, gates in planes, the states before, and
    places for factors of the gradients.
    """

    steps: list[TimeStep]
    rows: slice
    gates: Array
    earlier: Array
    factors: Array
    share: Array

    def inner(self, step: TimeStep) -> slice:
        """The rows of a step among those of the chunk."""
        return slice(step.start - self.rows.start, step.end - self.rows.start)


def chunks(
    steps: TimeSteps, gates: Array, count: int, states: Array, initial: Array | None
) -> Iterator[Chunk]:
    """The steps back, of a unit of `count` gates with these states."""
    xp = steps.xp
    for group in steps.backwards(CHUNK * count // gates.shape[1]):
        rows = slice(group[-1].start, group[0].end)
        split = xp.ascontiguousarray(planes(gates[rows], count))
        earlier = steps.earlier(states, initial, rows.start, rows.stop)
        yield Chunk(group, rows, split, earlier, xp.empty_like(split), xp.empty_like(split[0]))
