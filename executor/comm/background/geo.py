"""Geo-SGD: trainers train by themselves, and every so many steps tell the servers what has changed.

With n trainers, a trainer that holds x and last knew o sends (x - o) / n, and remembers o + (x - o) / n; when
the servers' value p comes back, it goes on with x + (p - o), so that what it learned in the meantime stays,
and remembers p. Of sparse tables only the rows that its lookups have named travel, and come back only rows
that somebody has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, UninitializedError
from fluidlite.executor.comm.background.communicator import Communicator, Settings, beside
from fluidlite.executor.comm.background.merging import Route, distinct
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, host

__all__ = ["GeoCommunicator", "Pushed", "is_geo_send"]

INITIAL = "param_init"
_DELTA = ".delta"


def is_geo_send(op: Operator) -> bool:
    """Whether a `send` speaks to the communicator and not to a server: geo-SGD's say so by their role,
    which is Forward.
    """
    return not op.role


@dataclass(frozen=True)
class Pushed:
    """A parameter as the transpiler's `vars_info` describes it: its slices, and whether only some rows
    change in a step.
    """

    name: str
    slices: tuple[str, ...]
    sections: tuple[int, ...]
    endpoints: tuple[str, ...]
    sparse: bool

    @classmethod
    def read(cls, name: str, facts: Mapping[str, Sequence[Any]]) -> Pushed:
        """From the lists of text that `vars_info` holds."""
        return cls(
            name,
            tuple(map(str, facts["var_names"])),
            tuple(int(rows) for rows in facts["sections"]),
            tuple(map(str, facts["epmap"])),
            [str(flag) for flag in facts["is_sparse"]] == ["True"],
        )

    @property
    def route(self) -> Route:
        """Where its changes go."""
        return Route(
            self.name,
            tuple((piece + _DELTA, place) for piece, place in zip(self.slices, self.endpoints, strict=True)),
            self.sections,
        )


class GeoCommunicator(Communicator):
    """Counts steps, pushes changes, takes in what others have changed."""

    def __init__(
        self, program: Program, settings: Settings, pushed: Sequence[Pushed], trainers: int, every: int
    ) -> None:
        super().__init__(program, settings)
        if trainers < 1 or every < 1:
            raise ValueError(
                f"geo-SGD needs at least one trainer and one step between pushes, not {trainers} and {every}"
            )
        self.pushed, self.trainers, self.every = list(pushed), trainers, every
        self.known: dict[str, Any] = {}  # o, by parameter
        self.touched: dict[str, list[Any]] = {item.name: [] for item in pushed if item.sparse}
        self.steps = 0  # since the last push
        self.scope: Scope | None = None
        self.changes: dict[str, Any] | None = None  # to be sent by the thread
        self.found: dict[str, Any] | None = None  # what has come back

    # ------------------------------------------------------------------ the trainer's thread
    def send(self, op: Operator, context: Any, values: Sequence[Any]) -> None:
        """The end of a step, with the ids that its lookups had; or, in the startup program, the begin of
        the training.
        """
        self.check()
        self.scope = context.scope
        if op.attrs["send_varnames"] == [INITIAL]:
            self.remember()
            return
        if not self.known:
            raise CommunicatorError(
                "geo-SGD's first copy of the parameters is missing: run the startup program, or start the "
                "communicator "
                "after it, before the first step"
            )
        for name, ids in zip(op.attrs["send_varnames"], values, strict=True):
            self.touched[name].append(np.array(host(ids)).reshape(-1))
        self.steps += 1
        if self.steps >= self.every:
            self.push()
        self.take_in()

    def before_run(self) -> None:
        """Take in what has come meanwhile."""
        super().before_run()
        self.take_in()

    def remember(self) -> None:
        """Take the first copies."""
        self.known = {item.name: self.array(item.name).copy() for item in self.pushed}

    def array(self, name: str) -> Any:
        """The array of a parameter, which is changed in place."""
        held = self.scope.find_var(name) if self.scope is not None else None
        if held is None or not isinstance(held.value, LoDTensor) or held.value.array is None:
            raise UninitializedError(f"geo-SGD's parameter {name!r} holds no value: run the startup program")
        if isinstance(held.value.array, np.ndarray) and not held.value.array.flags.writeable:
            held.value.array = held.value.array.copy()
        return held.value.array

    def push(self) -> None:
        """Send what has changed; the exchange before has to be over."""
        if self.threads:
            with self.changed:
                self.wait(lambda: self.changes is None, "to exchange parameters")
            self.take_in()
        changes = {item.name: self.change_of(item) for item in self.pushed}
        self.steps = 0
        if not self.threads:
            self.found = self.exchange(changes)
            return
        with self.changed:
            self.changes = changes
            self.changed.notify_all()

    def change_of(self, item: Pushed) -> Any:
        """(x - o) / n of a parameter, or of the rows of a table that were looked up; o is moved by it."""
        now, known = self.array(item.name), self.known[item.name]
        share = known.dtype.type(self.trainers)
        if not item.sparse:
            change = (now - known) / share
            known += change
            return change
        seen = self.touched[item.name]
        ids = distinct(seen, len(now))
        seen.clear()
        there = beside(now, ids)
        change = (now[there] - known[there]) / share
        known[there] += change
        return SelectedRows(ids.astype(np.int64, copy=False), len(known), host(change))

    def take_in(self) -> None:
        """Go on from what the servers hold, where it has come."""
        with self.changed:
            found, self.found = self.found, None
        for name, value in (found or {}).items():
            now, known = self.array(name), self.known[name]
            if isinstance(value, SelectedRows):
                ids, rows = beside(now, value.ids), beside(now, value.array)
                now[ids] += rows - known[ids]
                known[ids] = rows
            else:
                value = beside(now, value)
                now += value - known
                known[...] = value

    # ------------------------------------------------------------------ servers
    def exchange(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Send the changes, and ask for what they and the others' have led to."""
        for item in self.pushed:
            self.post(item.route, changes[item.name])
        trainer = max(self.trainer, *self.session.contacted.values(), 0)
        for item in self.pushed:
            for piece, endpoint in zip(item.slices, item.endpoints, strict=True):
                self.session.post(
                    endpoint, Message(Kind.CHANGED if item.sparse else Kind.GET, trainer, piece)
                )
        return {
            item.name: self.put_together(
                item, [self.session.link.answer(endpoint) for endpoint in item.endpoints]
            )
            for item in self.pushed
        }

    @staticmethod
    def put_together(item: Pushed, parts: Sequence[Any]) -> Any:
        """A parameter, or rows of it, from what the servers of its slices hold."""
        if not item.sparse:
            return parts[0] if len(parts) == 1 else np.concatenate(parts)
        starts = np.cumsum([0, *item.sections])
        return SelectedRows(
            np.concatenate([part.ids + start for part, start in zip(parts, starts, strict=False)]),
            int(starts[-1]),
            np.concatenate([part.array for part in parts]),
        )

    def loops(self) -> Sequence[Callable[[], None]]:
        """One thread that exchanges."""
        return (self.exchanging,)

    def exchanging(self) -> None:
        """Exchange whenever there are changes."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.changes is not None or not self.running)
                changes = self.changes
            if changes is None:
                return
            found = self.exchange(changes)
            with self.changed:
                self.found, self.changes = found, None
                self.changed.notify_all()

    def finish(self) -> None:
        """Send the changes of the last steps."""
        if self.known:
            self.take_in()
            if self.steps:
                self.changes = None
                self.found = self.exchange({item.name: self.change_of(item) for item in self.pushed})
                self.steps = 0
            self.take_in()
