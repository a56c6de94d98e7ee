"""Saving and loading for jobs with parameter servers, which hold parts or newest values of variables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.errors import CommunicatorError, FormatError, MissingFileError
from fluidlite.executor.comm.messages import Kind, Message
from fluidlite.executor.comm.transports import existing_session, find_session
from fluidlite.ir.program import Program
from fluidlite.values.serialize import ValueReader, inside
from fluidlite.values.tensor import LoDTensor, host

__all__ = [
    "COUNTER",
    "LOOKUP_TABLES",
    "Servers",
    "held_by_server",
    "is_server",
    "kept_elsewhere",
    "only_tensor",
    "read_whole",
    "servers_of",
]

LOOKUP_TABLES = "__lookup_table__"  # the folder into which servers write their tables
COUNTER = "@LR_DECAY_COUNTER@"  # how many steps a schedule of the learning rate has done
_KINDS = ("RemotePrefetch", "Optimizer")  # what a trainer never has as a whole


def is_server(program: Program) -> bool:
    """True if a program is that of a parameter server."""
    return any(op.type == "listen_and_serv" for op in program.global_block().ops)


def servers_of(program: Program) -> Servers | None:
    """The servers of a trainer's program; None for all other programs."""
    if not program._is_distributed or program._parameters_on_pservers is None or is_server(program):
        return None
    return Servers(program)


def kept_elsewhere(names: Iterable[str]) -> dict[str, LoDTensor]:
    """Of these variables, those that servers keep for the program which this process has trained last."""
    session = existing_session()
    program = None if session is None or session.served is None else session.served()
    return {} if program is None else Servers(program).kept(names)


class Servers:
    """The variables that the servers of a trainer's program hold, and access to them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        # fluid's transpiler leaves it at 0 in some ops
        self.trainer = max(
            (int(op.attrs["trainer_id"]) for op in program.global_block().ops if "trainer_id" in op.attrs),
            default=0,
        )
        self.groups: dict[str, list[Any]] = {}
        for part in program._parameters_on_pservers.distributed_vars:
            self.groups.setdefault(part.origin.name, []).append(part)

    @property
    def table(self) -> str | None:
        """The parameter of `embedding(is_distributed=True)`, which servers save themselves."""
        return self.program._distributed_lookup_table

    def remote(self) -> list[str]:
        """The variables that trainers never have as a whole, apart from the distributed table."""
        return [
            name for name, parts in self.groups.items() if parts[0].vtype in _KINDS and name != self.table
        ]

    @property
    def servers_count(self) -> bool:
        """True if the trainer has a counter of steps, but no op that counts: then the servers do."""
        touched = {
            name
            for block in self.program.blocks
            for op in block.ops
            for name in (*op.input_arg_names, *op.output_arg_names)
        }
        return self.program.global_block().has_var(COUNTER) and COUNTER not in touched

    # ------------------------------------------------------------------ asking
    def value(self, name: str) -> LoDTensor:
        """A whole variable, put together from its parts; CommunicatorError where no server answers."""
        return self.joined(self.groups[name])

    def joined(self, group: Sequence[Any]) -> LoDTensor:
        """A whole variable, of all of its parts."""
        parts = sorted(group, key=lambda part: int(part.block_id))
        values = self.ask([(part.endpoint, part.slice.name) for part in parts])
        # RMSProp's MeanGrad is declared as cut, and is not, as in fluid
        cut = parts[0].is_slice and tuple(values[0].shape) == tuple(parts[0].slice.shape)
        return LoDTensor(np.concatenate(values) if cut else values[0])

    def kept(self, names: Iterable[str]) -> dict[str, LoDTensor]:
        """Of these variables, those that the servers keep for averages of their own."""
        held = self.program.distribution.kept
        groups = {} if held is None else held.get_distributed_vars_by_vtypes(["Kept"], groupby=True)
        return {name: self.joined(groups[name]) for name in names if name in groups}

    def newest(self, name: str) -> LoDTensor | None:
        """The value of a variable that is the same on all servers; None where they have none."""
        try:
            return LoDTensor(self.ask([(self.program._endpoints[0], name)])[0])
        except CommunicatorError as error:
            if "does not hold" not in str(error):
                raise
        return None

    def ask(self, wanted: Sequence[tuple[str, str]]) -> list[Any]:
        """The values of variables of servers, on the host."""
        session = self.session()
        for endpoint, name in wanted:
            session.post(endpoint, Message(Kind.GET, self.trainer, name))
        # all are asked before the first answer is awaited: the servers work side by side
        return [host(session.link.answer(endpoint)) for endpoint, _ in wanted]

    def save_table(self, folder: str) -> None:
        """Have the servers write their parts of the distributed table into a folder."""
        session = self.session()
        endpoints = list(dict.fromkeys(part.endpoint for part in self.groups.get(self.table or "", ())))
        for endpoint in endpoints:
            session.post(endpoint, Message(Kind.SAVE, self.trainer, folder))
        for endpoint in endpoints:
            session.link.answer(endpoint)

    @staticmethod
    def session() -> Any:
        """This process's connections; CommunicatorError where it can have none."""
        found = find_session(needs_servers=True)
        if found is None:
            raise CommunicatorError(
                "this process is not connected to a parameter server, so the variables on the "
                "servers cannot be saved"
            )
        return found

    def fresh(self, names: Iterable[str]) -> dict[str, LoDTensor]:
        """Of these variables, those whose newest value is on the servers: tables, accumulators, the
        counter of steps. The others are in the scope, as this trainer's own gradients have made them.
        """
        session = find_session(needs_servers=True)
        if session is not None and session.communicator is not None:
            session.communicator.flush()
        remote = {*self.remote(), *([self.table] if self.table else [])}
        found: dict[str, LoDTensor] = {}
        for name in names:
            if name in remote:
                found[name] = self.value(name)
            elif name == COUNTER and self.servers_count:
                newest = self.newest(name)
                if newest is not None:
                    found[name] = newest
        return found


# ------------------------------------------------------------------------------------------------ reading
def read_whole(folder: str, name: str, forms: bool = False) -> LoDTensor:
    """A variable of its file, or of what servers have written of it; MissingFileError where there is
    neither. See `ValueReader` for `forms`.
    """
    try:
        with ValueReader.open(inside(folder, name), forms) as source:
            return only_tensor(source)
    except FileNotFoundError as error:
        pieces = _pieces(os.path.join(folder, LOOKUP_TABLES), name)
        if not pieces:
            raise MissingFileError(
                f"cannot open {error.filename}: the model's files are incomplete, or are in another folder"
            ) from None
    arrays = []
    for path in pieces:
        with ValueReader.open(path, forms) as source:
            arrays.append(host(source.tensors(1)[0].array))
    if len({(array.shape[1:], array.dtype) for array in arrays}) > 1:
        raise FormatError(f"{pieces[0]} does not fit the other parts of {name!r}")
    return LoDTensor(np.concatenate(arrays))


def only_tensor(source: ValueReader) -> LoDTensor:
    """The tensor that a file of one variable holds.

    Of one number, such as Adam's powers of beta, fluid writes what every server has of it one after the
    other: the first counts.
    """
    tensor = source.tensor()
    number = host(tensor.array)
    if number.size != 1 or source.left % number.itemsize:
        source.end()
    return tensor


def _pieces(folder: str, name: str) -> list[str]:
    """Files of the parts of a table, in order: `name`, or `name.block0` and the following ones."""
    whole = inside(folder, name)
    if os.path.isfile(whole):
        return [whole]
    pattern = re.compile(re.escape(os.path.basename(whole)) + r"\.block(\d+)")
    try:
        entries = os.listdir(os.path.dirname(whole))
    except FileNotFoundError:
        return []
    found = sorted((int(match[1]), entry) for entry in entries if (match := pattern.fullmatch(entry)))
    if [number for number, _ in found] != list(range(len(found))):
        raise MissingFileError(
            f"{folder} holds only the parts {', '.join(entry for _, entry in found)} of {name!r}"
        )
    return [os.path.join(os.path.dirname(whole), entry) for _, entry in found]


def held_by_server(program: Program, read: Callable[[str], LoDTensor]) -> Iterator[tuple[str, LoDTensor]]:
    """Name and value of each variable that a server's program holds, cut out of whole ones; `read` gives
    these by name.

    ValueError where a whole variable has another shape than the program gives it.
    """
    parts: Mapping[str, Any] = {
        part.slice.name: part
        for part in program._parameters_on_pservers.get_distributed_vars_by_ep(program._ps_endpoint)
    }
    block = program.global_block()
    for name, part in parts.items():
        whole = host(read(part.origin.name).array)
        if tuple(whole.shape) != tuple(part.origin.shape):
            raise RuntimeError(
                f"Variable's shape does not match, the Program requires {part.origin.name!r} with the shape "
                f"of "
                f"{tuple(part.origin.shape)}, while the loaded one has a shape of {whole.shape}"
            )
        if part.is_slice and tuple(block.var(name).shape) == tuple(part.slice.shape):
            width = int(np.prod(part.slice.shape[1:], dtype=np.int64))
            first = part.offset // width
            whole = whole[first : first + part.slice.shape[0]].copy()
        yield name, LoDTensor(whole)
