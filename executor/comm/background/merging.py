"""Values that a trainer has to send and has not sent yet: those of one variable are merged as they come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.records import dataclass
from fluidlite.ir.operator import Operator
from fluidlite.values.tensor import SelectedRows, host, merge_rows

__all__ = ["MergedValues", "PendingValues", "Route", "cut_rows", "distinct", "routes_of"]


@dataclass(frozen=True)
class Route:
    """The way of a variable to its servers.

    targets: (name, endpoint) of each.
    sections: rows that each target gets; with fewer than two of them, each gets the whole variable.
    counts: True for a count of steps, of which merged values add up whatever gradients do.
    replaces: True for a learning rate, of which the last value counts.
    """

    key: str
    targets: tuple[tuple[str, str], ...]
    sections: tuple[int, ...] = ()
    counts: bool = False
    replaces: bool = False

    def pieces(self, value: Any) -> list[Any]:
        """The part of a value for each target."""
        if len(self.sections) < 2:
            return [value] * len(self.targets)
        if isinstance(value, SelectedRows):
            return cut_rows(value, self.sections)
        starts = np.cumsum([0, *self.sections]).tolist()
        return [value[start:stop] for start, stop in zip(starts, starts[1:], strict=False)]


def routes_of(op: Operator) -> list[Route]:
    """The routes of the inputs of a `send`."""
    inputs = op.input("X")
    places = op.attrs["epmap"]
    names = op.attrs["send_varnames"] or inputs
    if op.attrs["merge_add"] or not op.attrs["use_send_handler"]:
        to_all = tuple((names[0], place) for place in places)
        adds = op.attrs["merge_add"]
        return [Route(names[0], to_all, counts=adds, replaces=not adds)]
    if len(names) > len(inputs):
        return [Route(inputs[0], tuple(zip(names, places, strict=True)), tuple(op.attrs["sections"]))]
    return [Route(key, ((name, place),)) for key, name, place in zip(inputs, names, places, strict=True)]


def cut_rows(value: SelectedRows, sections: Sequence[int]) -> list[SelectedRows]:
    """The rows of a value by section, numbered from the section's first; those of merged values are views."""
    starts = np.cumsum([0, *sections])
    ids = host(value.ids)
    if len(ids) < 2 or bool((ids[1:] >= ids[:-1]).all()):
        cuts = np.searchsorted(ids, starts).tolist()
        return [
            SelectedRows(ids[low:high] - start, rows, value.array[low:high])
            for low, high, start, rows in zip(cuts, cuts[1:], starts.tolist(), sections, strict=False)
        ]
    spans = [(ids >= start) & (ids < stop) for start, stop in zip(starts, starts[1:], strict=False)]
    return [
        SelectedRows(ids[mine] - start, rows, value.array[mine])
        for mine, start, rows in zip(spans, starts.tolist(), sections, strict=False)
    ]


def distinct(parts: Sequence[Any], height: int) -> Any:
    """The row numbers in `parts` of a table of `height` rows, in ascending order, each once."""
    if not parts:
        return np.empty(0, np.int64)
    ids = np.concatenate(parts)
    if height <= 64 * len(ids):  # to mark rows is faster than to sort, where there are enough to mark
        is_named = np.zeros(height, bool)
        is_named[ids] = True
        return np.flatnonzero(is_named)
    ids.sort()
    is_first = np.concatenate(([True], ids[1:] != ids[:-1]))[: len(ids)]
    return ids[is_first]


class MergedValues:
    """Values of one variable that go out as one: dense ones are added up at once, rows are kept until they
    are sent.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total: Any = None
        self.rows: list[SelectedRows] = []

    def add(self, value: Any) -> None:
        """Take a value; the memory of a dense one may change afterwards."""
        self.count += 1
        if isinstance(value, SelectedRows):
            self.rows.append(value)  # each step makes another one
        elif self.total is None:
            self.total = np.array(host(value))
        else:
            self.total += host(value)

    def merged(self, mean: bool, once: bool = True) -> Any:
        """The sum, or the mean, of the values; each row number comes `once`, with the sum of its rows."""
        is_divided = mean and self.count > 1
        if not self.rows:
            return self.total / self.total.dtype.type(self.count) if is_divided else self.total
        ids = np.concatenate([host(value.ids) for value in self.rows])
        array = np.concatenate([host(value.array) for value in self.rows])
        if once or self.count > 1:
            ids, array = merge_rows(np, ids, array)
        if is_divided:
            array = array / array.dtype.type(self.count)
        return SelectedRows(ids, self.rows[0].height(), array)


class PendingValues:
    """The groups of values of one variable that are not sent yet, each of at most `most` values. Its owner
    has a lock.
    """

    def __init__(self, route: Route, most: int) -> None:
        self.route = route
        self.most = most
        self.groups: deque[MergedValues] = deque()
        self.last = 0.0  # when the last value came

    def add(self, value: Any) -> None:
        """Take a value."""
        if self.route.replaces:
            self.groups.clear()
        if not self.groups or self.groups[-1].count >= self.most:
            self.groups.append(MergedValues())
        self.groups[-1].add(value)
        self.last = time.monotonic()

    @property
    def count(self) -> int:
        """The number of values that wait."""
        return sum(group.count for group in self.groups)

    def take(self, take_all: bool) -> list[MergedValues]:
        """The groups that are full, or all."""
        taken = []
        while self.groups and (take_all or self.groups[0].count >= self.most):
            taken.append(self.groups.popleft())
        return taken
