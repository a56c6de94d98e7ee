"""Simulation of geo-SGD: trainers that train by themselves, and exchange changes in the order in which their
messages came.

With n trainers, one that has x and last knew o sends (x - o) / n and then knows o + (x - o) / n; servers add
what comes. When a server's value p comes back, it goes on with x + (p - o) and knows p. Of sparse tables only
rows that it has looked up go out, and only rows that have changed since it last asked come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import TranspilerError
from fluidlite.distributed.references import Initial
from fluidlite.distributed.shares import Values, get, put
from fluidlite.distributed.simulated import SimulatedJob, SimulatedTrainer, keep
from fluidlite.executor.comm.local.network import JobEvent
from fluidlite.executor.comm.messages import Kind
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.transpiler.pserver.geo_sgd import change_name, is_sparse
from fluidlite.values.tensor import SelectedRows

__all__ = ["GeoReplay"]


class GeoReplay(SimulatedJob):
    """The servers and trainers of a geo-SGD job, brought to where it ended."""

    def __init__(
        self, job: Job, initial: Initial, shares: Sequence[Sequence[Values]], events: Sequence[JobEvent]
    ) -> None:
        super().__init__(job)
        placement = job.placement
        self.remote = set()
        self.sparse = {param for param in placement.by_param if is_sparse(placement, param)}
        grads = {param: placement.updates[param].grad for param in self.sparse}
        self.servers = {name: initial.values[name].copy() for name in placement.by_param}
        self._changed = [
            {name: np.zeros(len(value), bool) for name, value in self.servers.items()} for _ in shares
        ]
        self._trainers = [
            _GeoTrainer(job, initial, share, list(self.servers), grads, index)
            for index, share in enumerate(shares)
        ]
        self._changes = {change_name(piece.param_name): piece for piece in job.slices}
        self.replay(self._trainers, events)

    def handle(self, event: JobEvent, index: int) -> None:
        """A change is added to its slice; a fetch gives the trainer what has changed."""
        trainer = self._trainers[index]
        if event.kind is Kind.SEND and event.name in self._changes:
            piece = self._changes[event.name]
            rows, change = trainer.change(piece)
            self.servers[piece.param][rows] += change
            # of all trainers, the sender among them: what comes back also has the changes of the others
            for seen in self._changed:
                seen[piece.param][rows] = True
        elif event.name in self.by_param and event.kind is not Kind.SEND:
            piece = self.by_param[event.name]
            rows = np.arange(piece.first_row, piece.end_row)
            # at the start every trainer receives whole tables
            if piece.param in self.sparse and trainer.done:
                changed = self._changed[index][piece.param]
                rows = rows[changed[rows]]
                changed[rows] = False
            trainer.take_in(piece.param, rows, self.servers[piece.param][rows])


class _GeoTrainer(SimulatedTrainer):
    """One trainer, with what it last knew of the servers."""

    def __init__(
        self,
        job: Job,
        initial: Initial,
        feeds: Sequence[Values],
        names: Sequence[str],
        grads: dict[str, str],
        index: int,
    ) -> None:
        super().__init__(job.main.clone(), initial, feeds, index)
        keep(self.program, grads.values())
        self.every = job.mode.steps_between_exchanges(job)
        self.trainers = job.trainers
        self.grads = grads
        self.known = {name: initial.values[name].copy() for name in names}
        self.looked_up: dict[str, set[int]] = {name: set() for name in grads}
        self.outgoing: dict[str, Any] = {}  # rows and changes of the push that goes on
        self.pushed = 0

    def note(self) -> None:
        """Remember the rows that a step has looked up."""
        for name, grad in self.grads.items():
            value = self.value(grad)
            assert isinstance(value, SelectedRows)
            self.looked_up[name].update(value.ids.tolist())

    def change(self, piece: Slice) -> tuple[Any, Any]:
        """The rows that change of a slice, and by how much; the first slice of a push works out all
        changes.
        """
        self.compute()
        if self.pushed != self.done:
            if self.done - self.pushed != self.every and self.done != len(self.feeds):
                raise TranspilerError(
                    f"a trainer sends its changes after {self.done - self.pushed} steps, not after "
                    f"{self.every}"
                )
            self.pushed = self.done
            self.outgoing = {name: self._change(name) for name in self.known}
        rows, change = self.outgoing[piece.param]
        mine = (rows >= piece.first_row) & (rows < piece.end_row)
        return rows[mine], change[mine]

    def _change(self, name: str) -> tuple[Any, Any]:
        rows = np.arange(len(self.known[name]))
        if name in self.grads:
            rows = np.array(sorted(self.looked_up[name]), np.int64)
            self.looked_up[name].clear()
        change = (get(self.scope, name)[rows] - self.known[name][rows]) / np.float32(self.trainers)
        self.known[name][rows] += change
        return rows, change

    def take_in(self, name: str, rows: Any, value: Any) -> None:
        """Go on from what a server holds."""
        self.compute()
        mine = get(self.scope, name)
        mine[rows] += value - self.known[name][rows]
        self.known[name][rows] = value
        put(self.scope, {name: mine})

    def check_complete(self, index: int) -> None:
        """TranspilerError where the changes of the last steps were not sent."""
        self.compute()
        if self.pushed != len(self.feeds):
            raise TranspilerError(
                f"trainer {index} has sent the changes of {self.pushed} of its {len(self.feeds)} steps"
            )
