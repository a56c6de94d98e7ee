"""Checkpoints of whole jobs: all that a job needs to go on as if it had never been stopped; see
docs/CHECKPOINTS.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fluidlite.base.errors import ArgumentError, CommunicatorError, FormatError
from fluidlite.base.records import dataclass
from fluidlite.distributed.checkpoint_files import (
    Checkpoint,
    CheckpointWriter,
    is_checkpoint,
    latest_checkpoint,
    prune,
    sha256,
)
from fluidlite.distributed.checkpoint_group import AtServer, CheckpointGroup, group_of
from fluidlite.executor.comm.server.state import (
    StateValues,
    decode_state,
    decode_value,
    encode_state,
    random_state,
    restore_random,
    state_names,
)
from fluidlite.executor.compiled import Compiled
from fluidlite.ir.program import Program
from fluidlite.saving.distributed import COUNTER, held_by_server, is_server
from fluidlite.saving.variables import check_shape, get_program_persistable_vars, put_values, valid_program
from fluidlite.values.scope import Scope, global_scope
from fluidlite.values.serialize import value_bytes
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = ["Resumed", "load_checkpoint", "save_checkpoint"]


@dataclass(frozen=True)
class Resumed:
    """The point from which a job goes on: so many steps are done, and the reader was at `reader_position`
    (None where none was given).
    """

    step: int
    reader_position: Any
    path: str


# ------------------------------------------------------------------------------------------------ saving
def save_checkpoint(
    executor: Any,
    folder: str | os.PathLike[str],
    main_program: Any = None,
    step: int = 0,
    max_num: int | None = 3,
    reader_position: Any = None,
    scope: Scope | None = None,
) -> str:
    """Save the state of the whole job after `step` steps into a new folder below `folder`; its path.

    All trainers call this after the same step; it returns when the checkpoint is complete, and raises on all
    of them where it cannot be. The first trainer writes; the folder has to be one that all processes see only
    when the job is to be resumed.

    Parameters
    ----------
    main_program: what this trainer runs.
    max_num: how many checkpoints to keep, this one among them; None keeps all. Those of later steps, which
        this job has gone back behind, are removed.
    reader_position: anything that JSON can say, for this trainer.
    """
    program = _program_of(main_program)
    if is_server(program):
        raise ArgumentError("only trainers save checkpoints: they fetch the variables of the servers")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 10**18:
        raise ArgumentError(f"step should be the number of completed steps, not {step!r}")
    if max_num is not None and (isinstance(max_num, bool) or not isinstance(max_num, int) or max_num < 1):
        raise ArgumentError(f"max_num should be the number of checkpoints to keep, not {max_num!r}")
    group = group_of(program, getattr(main_program, "_build_strategy", None))
    with group.at_rest():
        return _save(
            executor, folder, program, step, max_num, reader_position, scope or global_scope(), group
        )


def _save(
    executor: Any,
    folder: str | os.PathLike[str],
    program: Program,
    step: int,
    max_num: int | None,
    position: Any,
    scope: Scope,
    group: CheckpointGroup,
) -> str:
    mine, facts = _own_state(executor, program, group, scope, position)
    about = f"step {step}"
    # trainers mostly hold the same values, so only what differs from the first goes over the links
    different = {} if group.is_alone else _not_like_first(mine, group, about)
    brought = group.gather(encode_state(different, facts), about)
    if brought is None:
        return _written(group.share(_bytes_of({}), f"{about} is written"))
    try:
        path = _write(folder, step, mine, [decode_state(item) for item in brought], group)
        said = {"path": path}
        # only after the new one is complete
        prune(folder, path, max_num if max_num is not None else 10**9)
    except Exception as error:
        # the others wait to hear whether the checkpoint is there
        group.share(_bytes_of({"error": f"{type(error).__name__}: {error}"}), f"{about} is written")
        raise
    return _written(group.share(_bytes_of(said), f"{about} is written"))


def _not_like_first(mine: StateValues, group: CheckpointGroup, about: str) -> StateValues:
    """The variables that this trainer has otherwise than the first."""
    # digests instead of values: a parameter of any size takes 64 characters
    digests = {name: sha256(value_bytes(value)) for name, value in mine.items()}
    first = json.loads(bytes(group.share(_bytes_of(digests), about)))
    return {name: value for name, value in mine.items() if first.get(name) != digests[name]}


def _program_of(main_program: Any) -> Program:
    """The program that a trainer runs, be it compiled or not."""
    return valid_program(main_program._program if isinstance(main_program, Compiled) else main_program)


def _bytes_of(said: Mapping[str, Any]) -> Any:
    return np.frombuffer(json.dumps(said).encode(), np.uint8)


def _written(data: Any) -> str:
    """The path that the first trainer has written; CommunicatorError where it has not."""
    said = json.loads(bytes(data))
    if "path" not in said:
        raise CommunicatorError(f"the first trainer could not save the checkpoint: {said.get('error')}")
    return str(said["path"])


def _own_state(
    executor: Any, program: Program, group: CheckpointGroup, scope: Scope, position: Any
) -> tuple[StateValues, dict[str, Any]]:
    """A trainer's variables that are not on servers, and its facts."""
    elsewhere = set() if group.servers is None else set(group.servers.groups)
    found: StateValues = {}
    for var in get_program_persistable_vars(program):
        held = scope.find_var(var.name)
        if (
            var.name not in elsewhere
            and held is not None
            and held.is_initialized()
            and isinstance(held.value, (LoDTensor, SelectedRows))
        ):
            found[var.name] = held.value
    return found, {
        "number": group.number,
        "random": random_state(executor.random),
        "reader_position": position,
    }


def _write(
    folder: str | os.PathLike[str],
    step: int,
    first: StateValues,
    trainers: list[tuple[StateValues, dict[str, Any]]],
    group: CheckpointGroup,
) -> str:
    """Write what the first trainer, the others, and the servers have."""
    writer = CheckpointWriter(folder, step)
    try:
        job = _Contents(writer)
        servers: list[dict[str, Any]] = job.put_servers(group, first) if isinstance(group, AtServer) else []
        for name, value in first.items():
            if name not in job.variables:
                job.put("variables", name, value, "trainer")
        for values, facts in trainers:
            job.put_own(values, facts)
        return writer.finish(
            {
                "variables": job.variables,
                "of_servers": job.of_servers,
                "trainers": job.trainers,
                "servers": servers,
            }
        )
    # an interrupt, too, must not leave half a checkpoint behind
    except BaseException:
        writer.abandon()
        raise


class _Contents:
    """Contents of a checkpoint, as they are collected."""

    def __init__(self, writer: CheckpointWriter) -> None:
        self.writer = writer
        self.variables: dict[str, dict[str, Any]] = {}
        self.of_servers: dict[str, dict[str, Any]] = {}
        self.trainers: list[dict[str, Any]] = []

    def put(self, folder: str, name: str, value: LoDTensor | SelectedRows, owner: str) -> None:
        """Add a variable that all processes have alike."""
        self.variables[name] = self._write(folder, name, value) | {"of": owner}

    def _write(self, folder: str, name: str, value: LoDTensor | SelectedRows) -> dict[str, Any]:
        file = f"{folder}/{name}"
        self.writer.put(file, [value_bytes(value)])
        return {
            "file": file,
            "shape": [int(dim) for dim in value.array.shape],
            "dtype": str(value.array.dtype),
            "rows": isinstance(value, SelectedRows),
        }

    def put_own(self, values: StateValues, facts: dict[str, Any]) -> None:
        """Add what one trainer has that the first has not, or otherwise."""
        folder = f"trainer_{facts['number']}"
        self.trainers.append(
            {**facts, "variables": {name: self._write(folder, name, value) for name, value in values.items()}}
        )

    def put_servers(self, group: AtServer, trainer: StateValues) -> list[dict[str, Any]]:
        """Add what servers hold, put together; what is to be known of each server.

        What else they hold is theirs where trainers use the name for something of their own, as for the steps
        that each counts.
        """
        servers = group.servers
        apart = set(trainer) - {COUNTER}
        for name, parts in servers.groups.items():
            self.put("variables", name, servers.value(name), "servers")
            self.variables[name]["parts"] = [
                {
                    "server": part.endpoint,
                    "name": part.slice.name,
                    "rows": list(part.slice.shape)[:1],
                    "first_element": part.offset,
                }
                for part in parts
            ]
        facts = []
        for endpoint, (values, said) in zip(
            servers.program.distribution.servers, group.states(), strict=True
        ):
            for name, value in values.items():
                if name in self.of_servers or name in self.variables:
                    continue
                if name in apart:
                    self.of_servers[name] = self._write("servers", name, value)
                else:
                    self.put("variables", name, value, "servers")
            facts.append({"endpoint": endpoint, "random": said["random"], "steps": said["steps"]})
        self._check_steps(facts)
        return facts

    @staticmethod
    def _check_steps(servers: list[dict[str, Any]]) -> None:
        """CommunicatorError where servers are not of the same step: one has come back from somewhere else."""
        if len({entry["steps"] for entry in servers}) > 1:
            raise CommunicatorError(
                "the servers have not completed the same number of steps: "
                + ", ".join(f"{entry['endpoint']} has done {entry['steps']}" for entry in servers)
            )


# ------------------------------------------------------------------------------------------------ loading
def load_checkpoint(
    executor: Any, folder: str | os.PathLike[str], main_program: Any = None, scope: Scope | None = None
) -> Resumed | None:
    """Load the newest sound checkpoint in `folder`, or the one that `folder` is, into this process; None
    where there is none.

    Called by every process, after its startup program: by a server before it runs its program, which then
    holds its parts of all variables, and by trainers. The job may have another number of servers, or of
    trainers, than the one that was saved. Nothing is changed unless all of it fits: FormatError or
    MissingFileError for a damaged file, RuntimeError for a variable of another shape, CommunicatorError where
    a server has loaded something else than this trainer.
    """
    program = _program_of(main_program)
    scope = scope or global_scope()
    path = os.fspath(folder) if is_checkpoint(folder) else latest_checkpoint(folder)
    checkpoint = None if path is None else Checkpoint.open(path)
    if is_server(program):
        if checkpoint is None:
            return None
        return _into_server(executor, _CheckpointReader(checkpoint), program, scope)
    group = group_of(program, getattr(main_program, "_build_strategy", None))
    # also where there is nothing to load: a server may have found what this trainer cannot see
    if isinstance(group, AtServer):
        _check_servers(group, checkpoint)
    if checkpoint is None:
        return None
    return _into_trainer(executor, _CheckpointReader(checkpoint), program, scope, group)


class _CheckpointReader:
    """Reads variables of a checkpoint; FormatError where its manifest makes no sense."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        try:
            facts = checkpoint.facts
            self.variables = {str(name): dict(entry) for name, entry in facts["variables"].items()}
            self.of_servers = dict(facts["of_servers"])
            self.trainers = {
                int(entry["number"]): {**entry, "variables": dict(entry["variables"])}
                for entry in facts["trainers"]
            }
            self.servers = [dict(entry) for entry in facts["servers"]]
            self.steps = max((int(entry["steps"]) for entry in self.servers), default=0)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.bad(f"{type(error).__name__}: {error}") from error

    def bad(self, what: str) -> FormatError:
        """The error for this checkpoint's manifest."""
        return FormatError(f"{self.checkpoint.path}: this checkpoint does not fit this job: {what}")

    def value(self, name: str, entry: Mapping[str, Any] | None = None) -> LoDTensor | SelectedRows:
        """A variable, whole."""
        found = entry if entry is not None else self.variables.get(name)
        if found is None:
            raise self.bad(f"it holds no variable {name!r}")
        try:
            file = str(found["file"])
            sparse = bool(found["rows"])
        except (KeyError, TypeError) as error:
            raise self.bad(f"its entry for {name!r} is {found!r}, without 'file' or 'rows'") from error
        return decode_value(self.checkpoint.read(file), os.path.join(self.checkpoint.path, file), sparse)

    def random(self, entry: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """State of a process's random numbers; None where there was no such process."""
        if entry is None:
            return None
        try:
            state = dict(entry["random"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.bad(f"{type(error).__name__}: {error}") from error
        # tried on a generator of its own: a damaged state is found before anything is changed
        restore_random(np.random.default_rng(0), state)
        return state

    def whole(self, name: str) -> LoDTensor:
        """A variable that is not a SelectedRows."""
        value = self.value(name)
        if not isinstance(value, LoDTensor):
            raise self.bad(f"{name!r} holds selected rows, but the server needs a dense tensor")
        return value


def _into_server(executor: Any, reader: _CheckpointReader, program: Program, scope: Scope) -> Resumed:
    """Set the parts that a server holds, and whatever else it had."""
    if program.distribution.parts is None:
        raise ArgumentError(
            "this server's program does not list the variables that it holds: use a program of "
            "get_pserver_program or of make_job"
        )
    values: StateValues = dict(held_by_server(program, reader.whole))
    values |= {
        name: reader.value(name, reader.of_servers.get(name))
        for name in state_names(program.global_block())
        if name not in values
    }
    random = None
    endpoints = program.distribution.servers
    # this one goes on where the server of its number was
    if len(reader.servers) == len(endpoints):
        number = endpoints.index(program.distribution.endpoint or "")
        random = reader.random(reader.servers[number])
    put_values(values, executor, scope)
    restore_random(executor.random, random or random_state(executor.random))
    program.distribution = replace(
        program.distribution, loaded_checkpoint=reader.checkpoint.id, loaded_steps=reader.steps
    )
    return Resumed(reader.checkpoint.step, None, reader.checkpoint.path)


def _into_trainer(
    executor: Any, reader: _CheckpointReader, program: Program, scope: Scope, group: CheckpointGroup
) -> Resumed:
    """Set what a trainer holds: its own values where it had some, else those of the first."""
    own = reader.trainers.get(group.number)
    mine = own["variables"] if own is not None else {}
    values: StateValues = {}
    for var in _held(program, scope, group):
        value = reader.value(var.name, mine.get(var.name))
        check_shape(var, value)
        values[var.name] = value
    # read, and so checked, before the first value is put in its place
    random = reader.random(own)
    put_values(values, executor, scope)
    group.begin_anew()
    restore_random(executor.random, random or random_state(executor.random))
    return Resumed(
        reader.checkpoint.step, None if own is None else own.get("reader_position"), reader.checkpoint.path
    )


def _held(program: Program, scope: Scope, group: CheckpointGroup) -> Iterator[Any]:
    """The persistable variables of a trainer that have a value after its startup program; no tables, which
    only servers have.
    """
    remote = {*group.servers.remote(), group.servers.table} if group.servers is not None else set()
    for var in get_program_persistable_vars(program):
        held = scope.find_var(var.name)
        if (
            var.name not in remote
            and held is not None
            and held.is_initialized()
            and isinstance(held.value, (LoDTensor, SelectedRows))
        ):
            yield var


def _check_servers(group: AtServer, checkpoint: Checkpoint | None) -> None:
    """CommunicatorError unless all servers have loaded what this trainer is about to load."""
    wanted = "" if checkpoint is None else checkpoint.id
    for endpoint, (_, facts) in zip(group.servers.program.distribution.servers, group.states(), strict=True):
        if facts.get("checkpoint", "") != wanted:
            raise CommunicatorError(
                f"the server at {endpoint} has loaded "
                f"{'another' if facts.get('checkpoint') else 'no'} checkpoint, but this trainer "
                f"should continue from {checkpoint.path if checkpoint else 'the beginning'}: "
                "call load_checkpoint with the same folder in all processes"
            )
