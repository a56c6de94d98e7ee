"""Placement of a training program's parameters on servers: their slices, and the names of their gradients on
the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import TranspilerError, did_you_mean
from fluidlite.base.process import without_collector
from fluidlite.base.records import dataclass
from fluidlite.base.registry import get
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler import ps_dispatcher
from fluidlite.transpiler.config import DistributeTranspilerConfig
from fluidlite.transpiler.parts.op_kinds import is_lookup
from fluidlite.transpiler.parts.roles import Slice
from fluidlite.transpiler.pserver.slices import rows_of_pieces
from fluidlite.transpiler.pserver.training import ParameterUpdate, Training, is_scheduling, is_updating

__all__ = [
    "Placement",
    "SharedVariable",
    "distributed_tables",
    "in_step_at_run_time",
    "place",
    "remote_tables",
]


class SharedVariable(NamedTuple):
    """A variable that nobody updates and the startup program draws at random: all trainers begin with the
    numbers that one server has drawn.
    """

    name: str
    endpoint: str


@dataclass(frozen=True)
class Placement:
    """A training program, the servers, and which of them holds which rows."""

    training: Training
    slices: tuple[Slice, ...]  # in the order in which servers were given out
    endpoints: tuple[str, ...]
    trainers: int
    sync_mode: bool
    config: DistributeTranspilerConfig
    shared: tuple[SharedVariable, ...] = ()

    @cached_property
    def by_param(self) -> dict[str, tuple[Slice, ...]]:
        """Parameter -> its slices, in the order of the updates."""
        found: dict[str, list[Slice]] = {update.param: [] for update in self.training.updates}
        for piece in self.slices:
            found[piece.param].append(piece)
        return {param: tuple(pieces) for param, pieces in found.items()}

    @cached_property
    def placed(self) -> tuple[str, ...]:
        """The parameters in the order in which servers were given out."""
        return tuple(dict.fromkeys(piece.param for piece in self.slices))

    @cached_property
    def by_endpoint(self) -> dict[str, dict[str, Slice]]:
        """Endpoint -> parameter -> the slice that it holds there."""
        found: dict[str, dict[str, Slice]] = {endpoint: {} for endpoint in self.endpoints}
        for piece in self.slices:
            found[piece.endpoint][piece.param] = piece
        return found

    @cached_property
    def updates(self) -> dict[str, ParameterUpdate]:
        """Parameter -> its update."""
        return {update.param: update for update in self.training.updates}

    @property
    def suffixed(self) -> bool:
        """True if a gradient's name tells its trainer: the servers of a job in step keep them apart."""
        return self.in_step and self.trainers > 1

    @property
    def in_step(self) -> bool:
        """True if all trainers take each step together, by barriers in the program or of the trainers'
        communicators.
        """
        return self.sync_mode or in_step_at_run_time(self.config)

    def sent_name(self, piece: Slice, trainer: int) -> str:
        """The name of a slice's gradient when trainer number `trainer` sends it."""
        return of_trainer(piece.grad_name, trainer) if self.suffixed else piece.grad_name

    def local_name(self, piece: Slice, trainer: int) -> str:
        """The name of a slice's gradient in the program of trainer number `trainer`."""
        return self.sent_name(piece, trainer) if self.sync_mode else piece.grad_name

    def arriving_names(self, piece: Slice) -> list[str]:
        """The names of a slice's gradients at its server: one for each trainer, or one for all where they
        are not kept apart.
        """
        if not self.suffixed:
            return [piece.grad_name]
        return [of_trainer(piece.grad_name, trainer) for trainer in range(self.trainers)]

    def backup_names(self, piece: Slice) -> list[str]:
        """At the server, a slice as each trainer last knew it (where delayed gradients are corrected)."""
        return [f"{of_trainer(piece.param_name, trainer)}_bak" for trainer in range(self.trainers)]

    def counter_names(self) -> list[str]:
        """The steps that each trainer has counted, where they are added up; see `counter`."""
        counter = self.counter
        return [of_trainer(counter.name, trainer) for trainer in range(self.trainers)] if counter else []

    def first_counts(self, startup: Program) -> list[float]:
        """The counts that a server begins with: their sum is what one process counts in its first step, which
        no trainer has told yet.
        """
        counter = self.counter
        assert counter is not None
        filled = [
            float(op.attrs["value"])
            for op in startup.global_block().ops
            if op.type == "fill_constant" and counter.name in op.output_arg_names
        ]
        steps = [float(op.attrs["step"]) for op in self.training.schedule if op.type == "increment"]
        return [sum(filled) + steps[0], *[0.0] * (self.trainers - 1)]

    def rate_names(self, rate: str) -> list[str]:
        """The names under which the trainers send a learning rate that they set themselves."""
        if not self.suffixed:
            return [f"{rate}.new"]
        return [of_trainer(rate, trainer) for trainer in range(self.trainers)]

    def renames(self, trainer: int) -> dict[str, str]:
        """New names of the gradients that trainer number `trainer` sends in one piece."""
        # otherwise a communicator gives them their names when it sends them
        if not (self.suffixed and self.sync_mode):
            return {}
        return {piece.grad: self.local_name(piece, trainer) for piece in self.slices if piece.count == 1}

    @cached_property
    def counter(self) -> Variable | None:
        """The step counter of the learning-rate schedule that the trainers of an asynchronous job keep
        together; None in others.
        """
        block = self.training.program.global_block()
        # a server of trainers in step counts its own: theirs would add up to so many for each step
        steps = [] if self.in_step else [op for op in self.training.schedule if op.type == "increment"]
        return block.var(steps[0].output("Out")[0]) if steps else None


def of_trainer(name: str, trainer: int) -> str:
    """The name of one trainer's value of a variable that servers keep for each trainer."""
    return f"{name}.trainer_{trainer}"


def in_step_at_run_time(config: DistributeTranspilerConfig) -> bool:
    """True if the trainers' communicators keep the trainers in step, as Fleet's `SyncStrategy` asks for."""
    return config.completely_not_async and config.half_async and config.runtime_split_send_recv


@without_collector()
def place(
    training: Training,
    startup: Program,
    endpoints: Sequence[str],
    trainers: int,
    sync_mode: bool,
    config: DistributeTranspilerConfig,
) -> Placement:
    """Cut the parameters up and give the pieces to servers."""
    tables = remote_tables(training.program)
    fills = {name: op.definition for op in startup.global_block().ops for name in op.output_arg_names}
    pieces: dict[str, list[Slice]] = {}
    for update in training.updates:
        var = training.program.global_block()._var_recursive(update.param)
        fill = fills.get(update.param)
        whole = update.needs_whole or (fill is not None and not fill.cuttable)
        # at most one piece a server: two of one parameter there would need two names for its accumulators
        count = len(endpoints) if config.slice_var_up and not whole else 1
        pieces[update.param] = cut(var, update.grad, count, config.min_block_size, update.param in tables)
    order = list(pieces)
    # fluid's way to spread weights and biases; with a generator of its own, seeded as fluid seeds NumPy's,
    # so that every process of the job finds the same order
    if not config.slice_var_up:
        np.random.RandomState(training.program.random_seed).shuffle(order)
    dispatcher = make_dispatcher(config.split_method, endpoints)
    placed = [piece for param in order for piece in dispatch(dispatcher, pieces[param], endpoints)]
    # behind all others, which so have the servers that they have in 1.8.5
    shared = [
        SharedVariable(var.name, dispatch(dispatcher, [_whole(var)], endpoints)[0].endpoint)
        for var in _drawn_by_each(training, startup)
    ]
    return Placement(training, tuple(placed), tuple(endpoints), trainers, sync_mode, config, tuple(shared))


def _drawn_by_each(training: Training, startup: Program) -> list[Variable]:
    """Variables that trainers read and no update writes, where the startup program would draw other numbers
    in every process.
    """
    block = training.program.global_block()
    updated = {name for update in training.updates for name in (update.param, *update.written)}
    read = {
        name
        for inner in training.program.blocks
        for op in inner.ops
        if not is_updating(op) and not is_scheduling(op)
        for name in op.input_arg_names
    }
    return [
        block.vars[name]
        for op in startup.global_block().ops
        if get(op.type).random and not op.attrs.get("seed")
        for name in op.output_arg_names
        if name in block.vars and name in read and name not in updated and block.vars[name].persistable
    ]


def _whole(var: Variable, grad: str = "", sparse: bool = False) -> Slice:
    """A variable in one piece, without a server yet."""
    return Slice(var.name, grad, 0, 1, 0, tuple(var.shape), VarType(var.dtype), "", sparse)


def cut(var: Variable, grad: str, count: int, min_block_size: int, sparse: bool) -> list[Slice]:
    """A parameter's slices, without servers yet."""
    if any(dim < 0 for dim in var.shape):
        raise TranspilerError(
            f"parameter {var.name!r} has shape {list(var.shape)}: servers need to know all dimensions"
        )
    rows = rows_of_pieces(var.shape, count, min_block_size)
    if len(rows) == 1:
        return [_whole(var, grad, sparse)]
    return [
        Slice(
            var.name,
            grad,
            index,
            len(rows),
            sum(rows[:index]),
            (height, *var.shape[1:]),
            VarType(var.dtype),
            "",
            sparse,
        )
        for index, height in enumerate(rows)
    ]


def dispatch(dispatcher: Any, pieces: Sequence[Slice], endpoints: Sequence[str]) -> list[Slice]:
    """The same slices with their servers."""
    places = dispatcher.dispatch(
        [SimpleNamespace(name=piece.param_name, shape=piece.shape) for piece in pieces]
    )
    if len(places) != len(pieces) or any(place not in endpoints for place in places):
        raise TranspilerError(
            f"{type(dispatcher).__name__}.dispatch gave {places} for {len(pieces)} slices of "
            f"{pieces[0].param!r}; the servers are {list(endpoints)}"
        )
    # `by_endpoint` has one slice of a parameter at each server
    if len(set(places)) < len(places):
        raise TranspilerError(
            f"{type(dispatcher).__name__}.dispatch gave one server two slices of "
            f"{pieces[0].param!r}: {places}"
        )
    return [replace(piece, endpoint=place) for piece, place in zip(pieces, places, strict=True)]


def make_dispatcher(method: Any, endpoints: Sequence[str]) -> Any:
    """The dispatcher for a `split_method`: a class, its name, or None for RoundRobin."""
    if isinstance(method, str):
        known = {name: getattr(ps_dispatcher, name) for name in ("RoundRobin", "HashName")}
        if method not in known:
            raise TranspilerError(
                f"no split_method {method!r}{did_you_mean(method, known)} (there are {', '.join(known)})"
            )
        method = known[method]
    dispatcher = (method or ps_dispatcher.RoundRobin)(list(endpoints))
    if not callable(getattr(dispatcher, "dispatch", None)):
        raise TranspilerError(f"split_method {method!r} is not a dispatcher: use RoundRobin or HashName")
    return dispatcher


def remote_tables(program: Program) -> Mapping[str, list[Operator]]:
    """Table -> the lookups that fetch its rows from the servers as they need them.

    A table is remote where servers update it, and nothing reads it but such lookups. `nce` and
    `hierarchical_sigmoid` with `remote_prefetch` are none of them: they read whole parameters, as in 1.8.5.
    """
    found: dict[str, list[Operator]] = {}
    updated: set[str] = set()
    otherwise: set[str] = set()
    for op in (op for block in program.blocks for op in block.ops):
        if is_updating(op):
            updated.update(op.output_arg_names)
        elif is_lookup(op) and op.block.idx == 0 and _fetches_rows(op):
            found.setdefault(op.input("W")[0], []).append(op)
        else:
            # gradients of look-ups ask for the table's height alone
            otherwise.update(name for slot, names in op.inputs.items() if op.reads(slot) for name in names)
    return {name: ops for name, ops in found.items() if name in updated - otherwise}


def _fetches_rows(op: Operator) -> bool:
    return bool(op.attrs.get("remote_prefetch") or op.attrs.get("is_distributed"))


def distributed_tables(program: Program) -> list[str]:
    """The tables of `embedding(is_distributed=True)`: they live on the servers only, which also save them."""
    return [
        name
        for name, ops in remote_tables(program).items()
        if any(op.attrs.get("is_distributed") for op in ops)
    ]
