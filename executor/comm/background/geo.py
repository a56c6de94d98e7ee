"""Geo-SGD: trainers train by themselves, and every so many steps tell the servers what has changed.

Of n trainers, one that holds x and last knew o sends (x - o) / n, and remembers o + (x - o) / n. When the
servers' value p comes back, it goes on with x + (p - o), so that what it learned in the meantime stays, and
remembers p. Of sparse tables only the rows that its lookups have named travel, and only rows that some
trainer has changed come back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, UninitializedError
from fluidlite.base.records import dataclass
from fluidlite.executor.comm.background.communicator import (
    CommunicatorSettings,
    TrainerCommunicator,
    where_lies,
)
from fluidlite.executor.comm.background.merging import Route, distinct
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows, host, rebinds

__all__ = ["GeoCommunicator", "Pushed", "is_geo_send"]

# fluid's names: of what the startup program's `send` gives, and of the changes of a slice at its server
INITIAL = "param_init"
_DELTA = ".delta"


def is_geo_send(op: Operator) -> bool:
    """True if a `send` is meant for the communicator and not for a server: fluid gives those of geo-SGD no
    other mark than their role, which is Forward (0), where all others have the role RPC.
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
        """The way of its changes to the servers of its slices."""
        pairs = zip(self.slices, self.endpoints, strict=True)
        targets = tuple((piece + _DELTA, endpoint) for piece, endpoint in pairs)
        return Route(self.name, targets, self.sections)


class GeoCommunicator(TrainerCommunicator):
    """Counts steps, sends this trainer's changes every so many, and takes over those of the others.

    Attributes
    ----------
    known: o of each parameter.
    touched: of each sparse table, the ids that lookups have had since the last exchange.
    steps: since the last exchange.
    changes: (x - o) / n of each parameter, for the thread to exchange; None while there is nothing to do.
    found: p of each parameter, or of rows of it, to be taken over.
    """

    def __init__(
        self,
        program: Program,
        settings: CommunicatorSettings,
        pushed: Sequence[Pushed],
        trainers: int,
        every: int,
    ) -> None:
        super().__init__(program, settings)
        if trainers < 1 or every < 1:
            raise ValueError(
                f"geo-SGD needs at least one trainer and one step between pushes, not {trainers} and {every}"
            )
        self.pushed = list(pushed)
        self.trainers = trainers
        self.every = every
        self.known: dict[str, Any] = {}
        self.touched: dict[str, list[Any]] = {item.name: [] for item in pushed if item.sparse}
        self.steps = 0
        self.scope: Scope | None = None  # of the last `send`
        self.changes: dict[str, Any] | None = None
        self.found: dict[str, Any] | None = None

    # ------------------------------------------------------------------ the trainer's thread
    def send(self, op: Operator, context: Any, values: Sequence[Any]) -> None:
        """Count a step, with the ids that its lookups had; in the startup program, take the first copies."""
        self.check()
        self.scope = context.scope
        if op.attrs["send_varnames"] == [INITIAL]:
            self.remember()
            return
        if not self.known:
            raise CommunicatorError(
                "geo-SGD's first copy of the parameters is missing: run the startup program, or start the "
                "communicator after it, before the first step"
            )
        for name, ids in zip(op.attrs["send_varnames"], values, strict=True):
            # a copy: the next step may write over what was fed
            self.touched[name].append(np.array(host(ids)).reshape(-1))
        self.steps += 1
        if self.steps >= self.every:
            self.push()
        self.take_in()

    def before_run(self, scope: Scope) -> None:
        """Take over what has come meanwhile; take the first copies, where the startup program has run
        already.
        """
        super().before_run(scope)
        if not self.known and all(_holds_array(scope, item.name) for item in self.pushed):
            self.scope = scope
            self.remember()
        self.take_in()

    def flush(self) -> None:
        """Do nothing: a trainer's parameters are its own, and changes leave every so many steps."""

    def restart_from_parameters(self) -> None:
        """The parameters were loaded: changes are differences from their values."""
        if self.known:
            self.remember()

    def remember(self) -> None:
        """Copy the parameters: o = x."""
        self.known = {item.name: self.array(item.name).copy() for item in self.pushed}

    def array(self, name: str) -> Any:
        """The array of a parameter, which is changed in place."""
        held = self.scope.find_var(name) if self.scope is not None else None
        if held is None or not isinstance(held.value, LoDTensor) or held.value.array is None:
            raise UninitializedError(f"geo-SGD's parameter {name!r} holds no value: run the startup program")
        if isinstance(held.value.array, np.ndarray) and not held.value.array.flags.writeable:
            held.value.array = held.value.array.copy()  # `fake_init` makes arrays without memory of their own
        rebinds.writes += 1
        return held.value.array

    def push(self) -> None:
        """Begin an exchange, once the one before is over; without threads, do it."""
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
        now = self.array(item.name)
        known = self.known[item.name]
        share = known.dtype.type(self.trainers)
        if not item.sparse:
            change = (now - known) / share
            known += change
            return change
        seen = self.touched[item.name]
        ids = distinct(seen, len(now))
        seen.clear()
        there = where_lies(now, ids)
        change = (now[there] - known[there]) / share
        known[there] += change
        return SelectedRows(ids.astype(np.int64, copy=False), len(known), host(change))

    def take_in(self) -> None:
        """Add p - o to the parameters whose p has come, and remember it."""
        with self.changed:
            found = self.found
            self.found = None
        # without the lock: parameters belong to the trainer's thread
        for name, value in (found or {}).items():
            now = self.array(name)
            known = self.known[name]
            if isinstance(value, SelectedRows):
                ids = where_lies(now, value.ids)
                rows = where_lies(now, value.array)
                now[ids] += rows - known[ids]
                known[ids] = rows
            else:
                value = where_lies(now, value)
                now += value - known
                known[...] = value

    # ------------------------------------------------------------------ servers
    def exchange(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Send the changes, and get p, which holds them and those of the others."""
        for item in self.pushed:
            self.post(item.route, changes[item.name])
        trainer = self.session.trainer(self.trainer)
        for item in self.pushed:
            kind = Kind.CHANGED if item.sparse else Kind.GET
            for piece, endpoint in zip(item.slices, item.endpoints, strict=True):
                self.session.post(endpoint, Message(kind, trainer, piece))
        link = self.session.link
        return {
            item.name: self.put_together(item, [link.answer(endpoint) for endpoint in item.endpoints])
            for item in self.pushed
        }

    @staticmethod
    def put_together(item: Pushed, parts: Sequence[Any]) -> Any:
        """A parameter, or rows of it, from its slices."""
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
        """Exchange whenever there are changes, until the communicator stops."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.changes is not None or not self.running)
                changes = self.changes
            if changes is None:
                return
            found = self.exchange(changes)
            with self.changed:
                self.found = found
                self.changes = None
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


def _holds_array(scope: Scope, name: str) -> bool:
    """True if a variable of the scope has been filled."""
    held = scope.find_var(name)
    return held is not None and isinstance(held.value, LoDTensor) and held.value.array is not None
