"""The loop of a parameter server, the same over every transport: it reads messages, runs its blocks, and answers."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.errors import CommunicatorError, did_you_mean
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.session import Link
from fluidlite.executor.interpreter import Frame, Interpreter
from fluidlite.ir.block import Block
from fluidlite.serialize import replace_file, value_bytes
from fluidlite.tensor import LoDTensor, SelectedRows

__all__ = ["Server"]


class Server:
    """One `listen_and_serv` at work.

    A server is synchronous when its blocks merge what arrives: then a step is done when every trainer that is still there has
    said BARRIER. Otherwise each gradient is applied as it comes.
    """

    def __init__(self, context: Any, link: Link) -> None:
        self.link, self.op = link, context.op
        attrs = self.op.attrs
        self.block: Block = self.op.block
        self.interpreter = context.interpreter or Interpreter(context.place, context.scope, context.random)
        self.frame = context.frame or Frame(self.block, context.scope)
        self.trainers = int(attrs["Fanin"])
        self.here = set(range(self.trainers))
        self.blocks: list[Block] = list(attrs["optimize_blocks"])
        self.of_grad = dict(self._block_of(text) for text in attrs["grad_to_block_id"])
        self.schedule = next((block for block in self.blocks if block.idx == attrs["lr_decay_block_id"]), None)
        self.synchronous = any(block.ops and block.ops[0].type == "sum" and set(block.ops[0].input("X")) <= set(self.op.input("X"))
                               for block in self.of_grad.values())
        self.arrived: set[str] = set()
        self.at_barrier: dict[int, Any] = {}

    def _block_of(self, text: str) -> tuple[str, Block]:
        name, _, index = text.rpartition(":")
        return name, self.block.program.blocks[int(index)]

    def run(self) -> None:
        """Serve until all trainers have left."""
        if self.schedule is not None and not self.synchronous:
            self.run_block(self.schedule)
        answers = {Kind.GET: self.get, Kind.ROWS: self.rows, Kind.FETCHED: self.fetched, Kind.SAVE: self.save}
        while self.here:
            to, message = self.link.next_message()
            if message.kind is Kind.SEND:
                self.take(message)
            elif message.kind is Kind.COMPLETE:
                self.here.discard(message.trainer)
                self.at_barrier.pop(message.trainer, None)
                self.step_when_all_are_there()
            elif message.kind is Kind.BARRIER:
                self.at_barrier[message.trainer] = to
                self.step_when_all_are_there()
            else:
                self.link.reply(to, self.answered(answers[message.kind], message))

    # ------------------------------------------------------------------ gradients
    def take(self, message: Message) -> None:
        """A gradient, or a trainer's count of its steps."""
        name = message.name
        if name in self.of_grad and not self.synchronous:
            self.frame.set(name, message.value, ())
            self.run_block(self.of_grad[name])
        elif name in self.op.input("X"):
            self.frame.set(name, message.value, ())
            self.arrived.add(name)
        elif self.schedule is not None and name in {read for op in self.schedule.ops for read in op.input_arg_names}:
            self.frame.set(name, self.frame.find(name) + message.value, ())
            self.run_block(self.schedule)
        else:
            raise CommunicatorError(f"trainer {message.trainer} sends {name!r}, which this server does not expect"
                                    f"{did_you_mean(name, self.op.input('X'))} (it expects {', '.join(self.op.input('X'))})")

    def step_when_all_are_there(self) -> None:
        """Once every trainer that is still there has sent its gradients: update, and let them go on."""
        if not self.here or set(self.at_barrier) < self.here:
            return
        if self.schedule is not None:
            self.run_block(self.schedule)
        for block in self.of_grad.values():
            self.fill_gaps(block.ops[0].input("X"))
            self.run_block(block)
        self.arrived.clear()
        waiting, self.at_barrier = self.at_barrier, {}
        for to in waiting.values():
            self.link.reply(to, None)

    def fill_gaps(self, names: list[str]) -> None:
        """Trainers that have left, or had no gradient, do not pull the mean: they count as the mean of the others."""
        there = [name for name in names if name in self.arrived]
        if len(there) == len(names) or not there:
            if not there and names:
                raise CommunicatorError(f"no trainer has sent {names[0]!r} in this step")
            return
        values = [self.frame.find(name) for name in there]
        if isinstance(values[0], SelectedRows):
            rows = np.concatenate([value.ids for value in values])
            mean: Any = SelectedRows(rows, values[0].height(), np.concatenate([value.array for value in values]) / len(values))
        else:
            mean = sum(values[1:], values[0].copy()) / len(values)
        for name in names:
            if name not in self.arrived:
                self.frame.set(name, mean, ())

    def run_block(self, block: Block) -> None:
        """Run one of the server's blocks."""
        with np.errstate(all="ignore"):
            self.interpreter.run_block(block, self.frame.child(block))

    # ------------------------------------------------------------------ answers
    @staticmethod
    def answered(how: Callable[[Message], Any], message: Message) -> Any:
        """The answer to a question, or what is wrong with it: one trainer's mistake does not end the server."""
        try:
            return how(message)
        except (CommunicatorError, IndexError, OSError) as error:
            return Error(str(error))

    def held(self, message: Message) -> Any:
        """The value of a variable that a trainer asks for."""
        value = self.frame.find(message.name)
        if value is None:
            known = [name for name, var in self.block.vars.items() if var.persistable]
            raise CommunicatorError(f"trainer {message.trainer} asks for {message.name!r}, which this server does not hold"
                                    f"{did_you_mean(message.name, known)}")
        return value

    def get(self, message: Message) -> Any:
        """A whole variable."""
        return self.held(message)

    def rows(self, message: Message) -> Any:
        """Rows of a table."""
        return self.held(message)[message.value]

    def fetched(self, message: Message) -> None:
        """A trainer has its parameters: nothing to do, for it sends no gradient of the next step before."""

    def save(self, message: Message) -> None:
        """Write the tables of the saving block into a folder, one file each."""
        block = self.block.program.blocks[self.op.attrs["checkpint_block_id"]]
        os.makedirs(message.name, exist_ok=True)
        for op in block.ops:
            for name in op.input("X"):
                replace_file(os.path.join(message.name, name), [value_bytes(LoDTensor(self.frame.find(name)), None)])
