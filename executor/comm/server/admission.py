"""Checks of what trainers send, by its header: before there is memory for a value, and before the server
changes anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fluidlite.base.dtypes import VarType
from fluidlite.base.errors import FormatError, did_you_mean
from fluidlite.executor.comm.messages import Kind
from fluidlite.executor.comm.server.program import ServerProgram
from fluidlite.executor.comm.terms import Form, fits
from fluidlite.executor.comm.wire import Incoming

__all__ = ["Admission"]

_RENDEZVOUS = (Kind.GATHER, Kind.SHARE)
_MOST_IDS = 1 << 24  # rows that one question asks for, where its table does not have more


class Admission:
    """The messages that a server takes.

    takes: form of each value that trainers may send.
    rows: names of values that are rows of a table; the others are whole tensors.
    owners: name -> the one trainer that may send it, where each trainer has a name of its own.
    """

    def __init__(self, program: ServerProgram, takes: Mapping[str, Form]) -> None:
        self.program = program
        self.takes = takes
        declared = {name: program.block._find_var_recursive(name) for name in takes}
        self.rows = {
            name
            for name, var in declared.items()
            if name in program.table_of_rows or (var is not None and var.type == VarType.SELECTED_ROWS)
        }
        self.owners = {
            name: trainer
            for gradient in program.of_gradient
            for trainer, name in enumerate(program.terms_of(gradient))
            if len(program.terms_of(gradient)) == program.trainers
        }

    def check(self, coming: Incoming) -> None:
        """FormatError, with the reason, for a message that is not to be read."""
        trainer = coming.trainer
        if not coming.is_request:
            raise FormatError("a peer sent an answer, but the server has asked nothing")
        if not 0 <= trainer < self.program.trainers:
            raise FormatError(
                f"a message of trainer {trainer}, but this job has {self.program.trainers} "
                "trainers, numbered from 0 (PADDLE_TRAINER_ID, PADDLE_TRAINERS_NUM)"
            )
        if coming.kind == Kind.SEND:
            self._check_sent(coming)
        elif coming.kind == Kind.ROWS:
            self._check_ids(coming)
        elif coming.kind in _RENDEZVOUS:
            if not coming.is_dense or coming.dtype != np.uint8 or len(coming.shape) != 1:
                raise FormatError(
                    f"trainer {trainer} sends {coming.text()} to {coming.name!r}, but it should be uint8[-1]"
                )
        elif coming.frames > 1:
            raise FormatError(f"trainer {trainer} sends a value with a request that takes none")

    def _check_sent(self, coming: Incoming) -> None:
        name = coming.name
        trainer = coming.trainer
        form = self.takes.get(name)
        if form is None:
            raise FormatError(self.unexpected(trainer, name))
        owner = self.owners.get(name, trainer)
        if owner != trainer:
            raise FormatError(f"trainer {trainer} sends {name!r}, which only trainer {owner} may send")
        is_right_kind = coming.is_rows if name in self.rows else coming.is_dense
        is_right = is_right_kind and coming.fits_declared(form[1])
        if not is_right or not fits(form, coming.dtype, coming.declared_shape()):
            kind = f", rows of {form[1][0]}" if name in self.rows and form[1] else ""
            raise FormatError(
                f"trainer {trainer} sends {name!r} as {coming.text()}, but it is declared as "
                f"{form[0]}{list(form[1])}{kind}"
            )

    def _check_ids(self, coming: Incoming) -> None:
        """FormatError for more ids than a question can have; its answer says what else is wrong with them."""
        var = self.program.block._find_var_recursive(coming.name)
        height = int(var.shape[0]) if var is not None and var.shape else 0
        most = 8 * max(_MOST_IDS, height)
        if coming.nbytes + coming.ids_bytes > most:
            raise FormatError(
                f"trainer {coming.trainer} asks for rows of {coming.name!r} with {coming.text()}, "
                f"which is more than {most} bytes"
            )

    def unexpected(self, trainer: int, name: str) -> str:
        """The reason for which a value of this name is not taken."""
        hint = did_you_mean(name, list(self.takes))
        expected = ", ".join(sorted(self.takes)) or "nothing"
        return (
            f"trainer {trainer} sends {name!r}, which this server does not expect{hint} "
            f"(it expects {expected})"
        )
