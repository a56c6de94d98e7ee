"""A server's answers to the questions of trainers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, FluidError, did_you_mean
from fluidlite.executor.comm.messages import Error, Kind, Message
from fluidlite.executor.comm.server.blocks import BlockRunner
from fluidlite.executor.comm.server.program import ServerProgram
from fluidlite.executor.comm.server.state import state_of_server
from fluidlite.executor.comm.server.tables import ChangedRows
from fluidlite.values.serialize import replace_file, value_bytes
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = ["Answers"]


class Answers:
    """Values, rows of tables and state of one server; `steps` gives the number of steps that are done."""

    def __init__(
        self, program: ServerProgram, blocks: BlockRunner, changed: ChangedRows, steps: Callable[[], int]
    ) -> None:
        self.program = program
        self.blocks = blocks
        self.changed = changed
        self.steps = steps
        self._by_kind: dict[Kind, Callable[[Message], Any]] = {
            Kind.GET: self._get,
            Kind.WANT: self._value,
            Kind.ROWS: self._rows,
            Kind.SAVE: self._save,
            Kind.STATE: self._state,
            Kind.CHANGED: self._changed_rows,
        }

    def to(self, message: Message) -> Any:
        """The answer to a question, or an Error: one trainer's mistake does not end the server."""
        try:
            return self._by_kind[message.kind](message)
        except (FluidError, ValueError, TypeError, IndexError, OSError) as error:
            return Error(str(error))

    def _value(self, message: Message) -> Any:
        """The value of a variable."""
        value = self.blocks.find(message.name)
        if value is None:
            known = [name for name, var in self.program.block.vars.items() if var.persistable]
            why = f"this server does not hold{did_you_mean(message.name, known)}"
            if message.name in known:
                why = "no op has written on this server"
            raise CommunicatorError(f"trainer {message.trainer} asks for {message.name!r}, which {why}")
        return value

    def _get(self, message: Message) -> Any:
        """The value of a variable; where delays are corrected, noted as what this trainer computes with."""
        value = self._value(message)
        self._note_known(message, ..., value)
        return value

    def _note_known(self, message: Message, rows: Any, value: Any) -> None:
        copies = self.program.copies.get(message.name, ())
        if 0 <= message.trainer < len(copies):
            self.blocks.find(copies[message.trainer])[rows] = value

    def _rows(self, message: Message) -> Any:
        """Rows of a table, or the result of a block that looks ids up."""
        # fluid's `prefetch` asks under the name of the ids, other lookups under that of the table
        lookup = self.program.prefetches.get(message.name)
        if lookup is not None:
            return self.blocks.evaluate(lookup, message.name, message.value)
        table = self._value(message)
        ids = message.value
        if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise CommunicatorError(
                f"trainer {message.trainer} asks for rows of {message.name!r} without naming the rows"
            )
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < len(table):
            raise CommunicatorError(
                f"trainer {message.trainer} asks for rows {ids.min()} to {ids.max()} of "
                f"{message.name!r}, which has {len(table)} rows on this server"
            )
        rows = table[ids]
        self._note_known(message, ids, rows)
        return rows

    def _changed_rows(self, message: Message) -> SelectedRows:
        """The rows of a table that have changed since this trainer asked last."""
        table = self._value(message)
        if message.name not in self.changed:
            raise CommunicatorError(
                f"trainer {message.trainer} asks for the changes of {message.name!r}, which is not "
                "a sparse table on this server"
            )
        ids = self.changed.take(message.name, message.trainer, len(table))
        return SelectedRows(ids, len(table), table[ids])

    def _state(self, message: Message) -> Any:
        """The state of this server besides parameters and accumulators."""
        return state_of_server(self.program, self.blocks.scope, self.blocks.random, self.steps())

    def _save(self, message: Message) -> None:
        """Write the tables of the saving block into a folder, one file each."""
        if self.program.saving is None:
            raise CommunicatorError(
                f"trainer {message.trainer} asks for tables, and this server holds no table that is saved on "
                f"demand"
            )
        os.makedirs(message.name, exist_ok=True)
        for name in (name for op in self.program.saving.ops for name in op.input("X")):
            # a reader of the folder sees the old file or the new one, never a part
            data = value_bytes(LoDTensor(self.blocks.find(name)), None)
            replace_file(os.path.join(message.name, name), [data])
