"""Simulation of asynchronous servers: their updates, one by one, in the order in which their trainers'
messages came.

The order is all that is taken from the run. Gradients are those of the original program on each trainer's
share of the data, with the parameters that the trainer had fetched by then; updates are the original's
optimizer ops on a slice of the parameter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import TranspilerError
from fluidlite.base.place import CPUPlace
from fluidlite.base.records import dataclass
from fluidlite.distributed.references import Initial, part_of
from fluidlite.distributed.requests import TablesAsAsked, requests_of
from fluidlite.distributed.shares import Values, get, put
from fluidlite.distributed.simulated import SimulatedJob, SimulatedTrainer, keep
from fluidlite.executor.comm.local.network import JobEvent
from fluidlite.executor.comm.messages import Kind
from fluidlite.executor.executor import Executor
from fluidlite.ir.program import Program
from fluidlite.transpiler.modes import Job
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.transpiler.pserver.training import (
    ParameterUpdate,
    Training,
    is_scheduling,
    is_updating,
    read_training,
)
from fluidlite.values.scope import Scope
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = ["Merging", "Replay"]


class Replay(SimulatedJob):
    """The servers and trainers of an asynchronous job, brought to where it ended."""

    def __init__(
        self,
        job: Job,
        initial: Initial,
        shares: Sequence[Sequence[Values]],
        events: Sequence[JobEvent],
        merging: Merging,
    ) -> None:
        super().__init__(job)
        training = read_training(job.main)
        names = [piece.grad_name for piece in job.slices]
        self.remote = {piece.param for piece in job.slices if piece.sparse}
        self._trainers = [
            _AsynchronousTrainer(job, training, initial, share, merging, names, index)
            for index, share in enumerate(shares)
        ]
        self._servers = {endpoint: _SimulatedServer(job, training, initial) for endpoint in job.endpoints}
        self.held = {
            piece.param_name: _HeldSlice(piece, training, initial, self._servers[piece.endpoint])
            for piece in job.slices
        }
        placement = job.placement
        # of each trainer, the slices by the names under which it sends their gradients
        self._sent = [
            {placement.sent_name(piece, index): piece for piece in job.slices}
            for index in range(job.trainers)
        ]
        self.replay(self._trainers, events)
        self.servers = {
            param: np.concatenate([self.held[piece.param_name].value for piece in pieces])
            for param, pieces in placement.by_param.items()
        }

    def handle(self, event: JobEvent, index: int) -> None:
        """A gradient updates its slice; a fetch gives the trainer what the server holds then."""
        trainer = self._trainers[index]
        if event.kind is Kind.SEND:
            piece = self._sent[index].get(event.name)
            if piece is not None:
                gradient = trainer.gradient(piece.grad_name, piece)
                self.held[piece.param_name].update(index, _rows_of(gradient, piece))
            else:
                # the steps that it has counted, of which it tells each server
                self._servers[event.endpoint].count(index, trainer.take((event.name, event.endpoint))[1])
        elif event.kind in (Kind.GET, Kind.ROWS, Kind.WANT) and event.name in self.by_param:
            rows = event.rows if event.kind is Kind.ROWS else None
            piece = self.by_param[event.name]
            trainer.fetch(piece, self.held[event.name].fetched(index, rows), rows is None)


@dataclass(frozen=True)
class Merging:
    """How many gradients of a variable go out as one, at most, and whether as their mean."""

    most: int = 1
    mean: bool = False


class _AsynchronousTrainer(SimulatedTrainer):
    """One trainer: its gradients of every step, and which of them it has sent."""

    def __init__(
        self,
        job: Job,
        training: Training,
        initial: Initial,
        feeds: Sequence[Values],
        merging: Merging,
        names: Sequence[str],
        index: int,
    ) -> None:
        ops = job.main.global_block().ops
        computing = [op for op in ops if not is_updating(op) and not is_scheduling(op)]
        super().__init__(part_of(job.main, computing), initial, feeds, index)
        self.merging = merging
        self.names = names
        self.made: dict[str, list[Any]] = {update.grad: [] for update in training.updates}
        keep(self.program, self.made)
        self.sent: dict[Hashable, int] = defaultdict(int)
        asking = job.trainer(index).main.global_block().ops
        self.tables = TablesAsAsked(self.program, self.scope, requests_of(asking))

    def note(self) -> None:
        """Keep the gradients of a step."""
        for name, found in self.made.items():
            value = self.value(name)
            found.append(value.array.copy() if isinstance(value, LoDTensor) else value)

    def take(self, what: Hashable) -> tuple[int, int]:
        """The values of a variable that are sent now: the number of the first of them, and how many."""
        first = self.sent[what]
        # a trainer that waits for no answer may have begun its next step before a server takes what it sent
        if self.done - first < self.merging.most:
            self.compute()
        count = min(self.done - first, self.merging.most)
        if count < 1:
            raise TranspilerError(f"a trainer sends {what!r} one time more than it has steps")
        self.sent[what] += count
        return first, count

    def gradient(self, name: str, piece: Slice) -> Any:
        """The whole gradient that a slice which is sent now belongs to."""
        first, count = self.take(name)
        values = self.made[piece.grad][first : first + count]
        share = count if self.merging.mean else 1
        if isinstance(values[0], SelectedRows):
            rows = np.concatenate([value.array for value in values]) / np.float32(share)
            return SelectedRows(
                np.concatenate([value.ids for value in values]),
                values[0].height(),
                rows.astype(values[0].array.dtype),
            )
        return sum(values[1:], values[0]) / share if count > 1 else values[0]

    def fetch(self, piece: Slice, value: Any, whole: bool) -> None:
        """The rows of a slice are now as the server has them; single rows are for the step that has begun."""
        # a trainer that fetches whole parameters has ended its step; single rows are fetched within one
        if whole:
            self.compute()
        self.tables.write(piece, value, whole)

    def begin(self) -> None:
        """Begin the next step, whose requests are counted from the first again."""
        super().begin()
        self.tables.begin()

    def check_complete(self, index: int) -> None:
        """TranspilerError where a gradient was not sent in every step."""
        self.compute()
        for name in self.names:
            if self.sent[name] != len(self.feeds):
                raise TranspilerError(
                    f"trainer {index} sent {name!r} of {self.sent[name]} of its {len(self.feeds)} steps"
                )


def _rows_of(gradient: Any, piece: Slice) -> Any:
    """The part of a gradient that belongs to a slice."""
    first = piece.first_row
    last = piece.end_row
    if not isinstance(gradient, SelectedRows):
        return gradient[first:last]
    mine = (gradient.ids >= first) & (gradient.ids < last)
    return SelectedRows(gradient.ids[mine] - first, piece.shape[0], gradient.array[mine])


class _SimulatedServer:
    """State that the slices of one server share: learning rates, and the steps that trainers have counted."""

    def __init__(self, job: Job, training: Training, initial: Initial) -> None:
        self.scope = initial.scope()
        self.exe = Executor(CPUPlace())
        # op by op: the simulation should share as little as possible with what it is held against
        self.exe.naive = True
        counter = job.placement.counter
        self.counter = None if counter is None else counter.name
        self.trainers = range(job.trainers)
        self.counts = [0.0] if counter is None else job.placement.first_counts(job.startup)
        self.corrects = bool(job.config.enable_dc_asgd)
        self.schedule: Program | None = None
        if training.schedule:
            self.schedule = part_of(
                job.main, [op for op in training.schedule if self.counter not in op.output_arg_names]
            )
            keep(self.schedule, _rates(training))
            self.run_schedule()

    def count(self, trainer: int, steps: int) -> None:
        """A trainer has made steps."""
        self.counts[trainer] += steps
        self.run_schedule()

    def run_schedule(self) -> None:
        """The learning rates after all the steps that all trainers have counted."""
        assert self.schedule is not None
        if self.counter is not None:
            before = get(self.scope, self.counter)
            put(self.scope, {self.counter: np.full_like(before, sum(self.counts))})
        self.exe.run(self.schedule, scope=self.scope)


class _HeldSlice:
    """A slice of a parameter on its server, with the optimizer's state that belongs to it."""

    def __init__(self, piece: Slice, training: Training, initial: Initial, server: _SimulatedServer) -> None:
        update = next(update for update in training.updates if update.param == piece.param)
        self.piece = piece
        self.server = server
        self.grad = update.grad
        self.scope: Scope = server.scope.new_scope()
        position = update.ops.index(update.step)
        # a delay is corrected in what the step itself reads: clips and penalties come before it, as in 1.8.5
        self.read = (update.step.inputs.get("Grad") or [update.grad])[0]
        self.before = part_of(training.program, update.ops[:position])
        self.program = part_of(training.program, update.ops[position:])
        for program in (self.before, self.program):
            keep(program, {update.grad, self.read, *_rates(training)})
        whole = initial.values[piece.param].shape
        for name in {piece.param, *_written(update, training.program)}:
            value = initial.values[name]
            mine = value[piece.first_row : piece.end_row] if value.shape == whole else value
            self.scope.var(name).set(LoDTensor(mine.copy()))
        # as each trainer knows it, where delays are corrected
        self.known = {trainer: self.value.copy() for trainer in server.trainers}
        self.corrects = server.corrects

    @property
    def value(self) -> Any:
        """The slice."""
        return get(self.scope, self.piece.param)

    def fetched(self, trainer: int, rows: Any) -> Any:
        """The slice, as a trainer gets it now; it then knows it, or the rows that it has asked for."""
        value = self.value
        mine = ... if rows is None else list(rows)
        self.known[trainer][mine] = value[mine]
        return value

    def update(self, trainer: int, gradient: Any) -> None:
        """Apply one gradient."""
        self.put(self.grad, gradient)
        self.server.exe.run(self.before, scope=self.scope)
        if self.corrects:
            var = self.scope.find_var(self.read)
            assert var is not None
            self.put(self.read, _corrected(var.value, self.value - self.known[trainer]))
        self.server.exe.run(self.program, scope=self.scope)

    def put(self, name: str, gradient: Any) -> None:
        """Write a gradient, or the rows of one."""
        is_sparse = isinstance(gradient, SelectedRows)
        self.scope.var(name).set(gradient if is_sparse else LoDTensor(np.array(gradient)))


def _corrected(gradient: Any, moved: Any) -> Any:
    """A gradient as it would be had the parameter not moved since its trainer fetched it (DC-ASGD)."""
    if not isinstance(gradient, SelectedRows):
        dense = np.array(gradient)
        with np.errstate(all="ignore"):  # a job that diverges is told by the answer
            return dense + dense * dense * moved
    ids, places = np.unique(gradient.ids, return_inverse=True)
    rows = np.zeros((len(ids), *moved.shape[1:]), gradient.array.dtype)
    np.add.at(rows, places, gradient.array)
    return SelectedRows(ids, gradient.height(), rows + rows * rows * moved[ids])


def _rates(training: Training) -> set[str]:
    """The learning rates that the schedule computes."""
    return {
        name
        for op in training.schedule
        for name in op.output_arg_names
        if training.program.global_block().has_var(name)
    }


def _written(update: ParameterUpdate, program: Program) -> set[str]:
    """The variables that an update keeps."""
    block = program.global_block()
    return {
        name for op in update.ops for name in op.output_arg_names if block._var_recursive(name).persistable
    }
