"""A trainer of a parameter-server job: it sends gradients, and receives parameters instead of updating
them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from fluidlite.base.dtypes import VarType
from fluidlite.base.process import without_collector
from fluidlite.ir.block import Block
from fluidlite.ir.operator import ROLE_ATTR, ROLE_VAR_ATTR, Operator, OpRole
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.parts.edits import (
    declare_like,
    drop_ops,
    drop_variables,
    names_in_use,
    rename_variables,
)
from fluidlite.transpiler.parts.insertions import Insertions
from fluidlite.transpiler.parts.roles import Programs, Slice
from fluidlite.transpiler.pserver.placement import Placement, remote_tables
from fluidlite.transpiler.pserver.remote_tables import fake_tables, fetch_rows_remotely
from fluidlite.transpiler.pserver.training import is_clipping_alone, is_scheduling

__all__ = ["Controls", "make_trainer", "receive_at_start"]


@without_collector()
def make_trainer(placement: Placement, startup: Program, trainer: int) -> Programs:
    """The programs of trainer number `trainer`."""
    main = placement.training.program.clone()
    first = startup.clone()
    # first of all: the anchors of the edits are found by the new names of the gradients
    rename_variables(main, placement.renames(trainer))
    editor = _Trainer(placement, main, trainer)
    editor.send_and_receive()
    fetch_rows_remotely(main, placement, trainer)
    receive_at_start(placement, first, trainer)
    _count_steps_together(placement, main, first)
    _drop_updates(placement, main, first)
    fake_tables(first, remote_tables(placement.training.program))
    return Programs(main, first)


class Controls:
    """Variables that hold nothing: an op that reads one runs after the op that writes it."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.numbers = itertools.count()

    def make(self) -> Variable:
        """A new one."""
        name = next(
            name for name in map("__control_var@{}".format, self.numbers) if name not in self.block.vars
        )
        return self.block.create_var(name=name)


def _declare_slices(
    block: Block, pieces: Sequence[Slice], names: Iterable[str], like: Variable
) -> list[Variable]:
    # a parameter in one piece travels as it is, under its own name
    if len(pieces) == 1:
        return [like]
    return [
        declare_like(block, like, name, piece.shape, persistable=False)
        for piece, name in zip(pieces, names, strict=True)
    ]


class _Trainer:
    """Puts the messages of a step into a trainer's main program."""

    def __init__(self, placement: Placement, main: Program, trainer: int) -> None:
        self.placement = placement
        self.trainer = trainer
        self.block = main.global_block()
        self.edits = Insertions(self.block)
        self.controls = Controls(self.block)
        self.new_names = placement.renames(trainer)
        self.at_run_time = placement.config.runtime_split_send_recv

    def send_and_receive(self) -> None:
        """Each gradient leaves as soon as it is there; the parameters come back at the end."""
        sent = {param: self.controls.make() for param in self.placement.placed}
        writers = {name: op for op in self.block.ops for name in op.output_arg_names}
        # of gradients that one op makes, the last in order leaves first
        for param in reversed(self.placement.placed):
            self.send(param, sent[param], writers)
        waits = [*sent.values(), *(self.send_rate(rate) for rate in self.placement.training.rates)]
        if self.placement.counter is not None:
            waits.append(self.send_count(self.placement.counter))
        # a trainer of a half-asynchronous job waits for its own gradients alone, and so fetches without a
        # barrier
        half_async = self.at_run_time and self.placement.config.half_async and not self.placement.sync_mode
        if self.placement.sync_mode or half_async:
            barrier = self.controls.make()
            self.last(
                "send_barrier",
                {"X": waits},
                [barrier],
                endpoints=list(self.placement.endpoints),
                trainer_id=self.trainer,
                half_async=half_async,
            )
        if self.placement.sync_mode:
            # the parameters are there when every trainer's gradients are, not when this one's have left
            sent = dict.fromkeys(sent, barrier)
        # in the order of the updates, as 1.8.5 has them, where gradients go in the order of the servers
        received = [var for param in self.placement.by_param for var in self.receive(param, sent[param])]
        if self.placement.sync_mode:
            self.last(
                "fetch_barrier",
                {"X": [barrier]},
                received,
                endpoints=list(self.placement.endpoints),
                trainer_id=self.trainer,
            )
        self.join_slices()
        self.edits.apply()

    def last(
        self, type: str, inputs: dict[str, list[Variable]], outputs: list[Variable], **attrs: object
    ) -> None:
        self.edits.last(type, inputs, {"Out": outputs}, OpRole.RPC, **attrs)

    def grad_name(self, param: str) -> str:
        """The name of the whole gradient here."""
        whole = self.placement.by_param[param][0].grad
        return self.new_names.get(whole, whole)

    def send(self, param: str, done: Variable, writers: dict[str, Operator]) -> None:
        """Cut a gradient up, where it has slices, and send it, right after the op that makes it."""
        pieces = self.placement.by_param[param]
        name = self.grad_name(param)
        gradient = self.block.var(name)
        anchor = writers[name]
        names = [self.placement.sent_name(piece, self.trainer) for piece in pieces]
        parts = _declare_slices(
            self.block, pieces, [self.placement.local_name(piece, self.trainer) for piece in pieces], gradient
        )
        rows = [piece.shape[0] for piece in pieces]
        if len(pieces) > 1 and not self.at_run_time:
            cut: dict[str, Any] = {
                "inputs": {"X": [gradient]},
                "outputs": {"Out": parts},
                "role": OpRole.Dist,
            }
            if gradient.type == VarType.SELECTED_ROWS:
                self.edits.after(anchor, "split_selected_rows", **cut, height_sections=rows)
            else:
                self.edits.after(anchor, "split_byref", **cut, sections=rows)
        self.edits.after(
            anchor,
            "send",
            {"X": [gradient] if self.at_run_time else parts},
            {"Out": [done]},
            OpRole.RPC,
            **{
                "epmap": [piece.endpoint for piece in pieces],
                "sections": rows if self.at_run_time else [],
                "send_varnames": names if self.at_run_time else [],
                ROLE_VAR_ATTR: [param, name],
            },
        )

    def send_rate(self, rate: str) -> Variable:
        """Tell every server the learning rate of this step, before the first gradient of it leaves."""
        names = self.placement.rate_names(rate)
        mine = names[self.trainer if self.placement.suffixed else 0]
        done = self.controls.make()
        first = next(iter(self.block.ops))
        self.edits.before(
            first,
            "send",
            {"X": [self.block.var(rate)]},
            {"Out": [done]},
            OpRole.RPC,
            epmap=list(self.placement.endpoints),
            use_send_handler=False,
            send_varnames=[mine],
            **{ROLE_VAR_ATTR: [rate, rate]},
        )
        return done

    def send_count(self, counter: Variable) -> Variable:
        """Tell every server of a step: asynchronous servers add up the trainers' steps for the
        learning-rate schedule.
        """
        # an increment of one, which the servers add up: no trainer knows how many steps the others have taken
        mine = declare_like(self.block, counter, self.placement.counter_names()[self.trainer])
        done = self.controls.make()
        self.last(
            "send",
            {"X": [mine]},
            [done],
            epmap=list(self.placement.endpoints),
            merge_add=True,
            use_send_handler=False,
            send_varnames=[mine.name] if self.at_run_time else [],
            **{ROLE_VAR_ATTR: [mine.name, mine.name]},
        )
        return done

    def receive(self, param: str, after: Variable) -> list[Variable]:
        """Receive a parameter, in slices where it has some; a table whose rows are fetched one by one
        never comes as a whole.
        """
        pieces = self.placement.by_param[param]
        whole = self.block.var(param)
        names = [piece.param_name for piece in pieces]
        parts = _declare_slices(self.block, pieces, names, whole)
        # declared all the same: a lookup names the slices of the table
        if pieces[0].sparse:
            return []
        outputs = [whole] if self.at_run_time else parts
        self.last(
            "recv",
            {"X": [after]},
            outputs,
            epmap=[piece.endpoint for piece in pieces],
            trainer_id=self.trainer,
            recv_varnames=names if self.at_run_time else [],
            **{ROLE_VAR_ATTR: [param, self.grad_name(param)]},
        )
        return outputs

    def join_slices(self) -> None:
        """Put the slices of parameters together again."""
        if not self.at_run_time:
            for param, pieces in self.placement.by_param.items():
                if len(pieces) > 1 and not pieces[0].sparse:
                    parts = [self.block.var(piece.param_name) for piece in pieces]
                    self.edits.last(
                        "concat", {"X": parts}, {"Out": [self.block.var(param)]}, OpRole.Dist, axis=0
                    )


def receive_at_start(placement: Placement, startup: Program, trainer: int) -> None:
    """All trainers begin with the servers' parameters."""
    block = startup.global_block()
    # a table whose rows are fetched one by one may be larger than a trainer's memory
    received = {param: pieces for param, pieces in placement.by_param.items() if not pieces[0].sparse}
    variables = placement.training.program.global_block()
    for param, pieces in received.items():
        whole = declare_like(block, variables._var_recursive(param))
        parts = _declare_slices(block, pieces, [piece.param_name for piece in pieces], whole)
        _append_recv(block, parts, [piece.endpoint for piece in pieces], trainer)
    for name, endpoint in placement.shared:
        _append_recv(block, [declare_like(block, variables.vars[name])], [endpoint], trainer)
    block.append_op(
        "fetch_barrier",
        {},
        {"Out": Controls(block).make()},
        {"endpoints": list(placement.endpoints), "trainer_id": trainer, "op_role": int(OpRole.RPC)},
    )
    for param, pieces in received.items():
        if len(pieces) > 1:
            block.append_op(
                "concat",
                {"X": [block.var(piece.param_name) for piece in pieces]},
                {"Out": block.var(param)},
                {"axis": 0},
            )


def _append_recv(block: Block, parts: Sequence[Variable], endpoints: list[str], trainer: int) -> None:
    attrs = {"epmap": endpoints, "trainer_id": trainer, "op_role": int(OpRole.RPC)}
    block.append_op("recv", {}, {"Out": list(parts)}, attrs)


def _count_steps_together(placement: Placement, main: Program, startup: Program) -> None:
    if placement.counter is not None:
        count_at_start(placement, startup, [1.0] * placement.trainers)
        for name in placement.counter_names():
            declare_like(main.global_block(), placement.counter, name)


def count_at_start(placement: Placement, startup: Program, counts: Sequence[float]) -> None:
    """Declare and fill the trainers' counts of their steps; the counter of the whole job is their sum."""
    block = startup.global_block()
    counter = placement.counter
    assert counter is not None
    for op in block.ops:
        if counter.name in op.output_arg_names and op.type == "fill_constant":
            op._set_attr("value", -float(placement.trainers))
    for name, count in zip(placement.counter_names(), counts, strict=True):
        one = declare_like(block, counter, name)
        block._prepend_op(
            "fill_constant",
            {},
            {"Out": one},
            {"shape": list(counter.shape), "dtype": int(counter.dtype), "value": count},
        )


def _drop_updates(placement: Placement, main: Program, startup: Program) -> None:
    """Take the updates, their schedule, and the variables that only they need out of both programs."""
    block = main.global_block()
    first = startup.global_block()
    served = [op for op in block.ops if placement.training.is_served(op)]
    updating = [op for op in served if not is_scheduling(op)]
    # parameters and gradients stay: the messages name them
    spoken_of = {name for op in updating for name in op.role_vars}
    state = {name for op in updating for name in op.input_arg_names if name not in spoken_of}
    # clips of `set_gradient_clip` run here: as part of the backward pass nobody takes them for updates
    for op in filter(is_clipping_alone, block.ops):
        op.attrs[ROLE_ATTR] = int(OpRole.Backward)
    drop_ops(block, served)
    dead = state - names_in_use(block)
    drop_variables(block, dead)
    drop_ops(first, [op for op in first.ops if any(name in dead for name in op.output_arg_names)])
    drop_variables(first, dead)
