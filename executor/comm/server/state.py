"""The state of one process of a job as bytes: variables in Paddle's format, and facts such as the state of
its random numbers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.executor.comm.server.program import ServerProgram, listening_op
from fluidlite.executor.comm.wire import pack, unpack
from fluidlite.ir.block import Block
from fluidlite.ir.prune import reads, writes
from fluidlite.values.scope import Scope
from fluidlite.values.serialize import ValueReader, value_bytes
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = [
    "StateValues",
    "decode_state",
    "encode_state",
    "random_state",
    "restore_random",
    "state_names",
    "state_of_server",
]

StateValues = dict[str, LoDTensor | SelectedRows]


def encode_state(values: Mapping[str, LoDTensor | SelectedRows], facts: Mapping[str, Any]) -> Any:
    """Variables and facts (of which JSON can be made) as an array of bytes."""
    # JSON and Paddle's format, both of which are checked when they are read: no pickle from another process
    head = {
        "facts": facts,
        "names": list(values),
        "sparse": [name for name, value in values.items() if isinstance(value, SelectedRows)],
    }
    pieces = [json.dumps(head).encode(), *map(value_bytes, values.values())]
    return pack([np.frombuffer(piece, np.uint8) for piece in pieces])


def decode_state(data: Any) -> tuple[StateValues, dict[str, Any]]:
    """The inverse of `encode_state`; FormatError for other bytes."""
    try:
        first, *parts = unpack(data)
        head = json.loads(first.tobytes())
        names = list(head["names"])
        sparse = set(head["sparse"])
        facts = dict(head["facts"])
        if len(names) != len(parts):
            raise ValueError(f"{len(names)} names for {len(parts)} variables")
    except (ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        raise FormatError(f"the state of a process cannot be read: {error}") from error
    return {
        name: decode_value(part.tobytes(), name, name in sparse)
        for name, part in zip(names, parts, strict=True)
    }, facts


def decode_value(data: bytes, name: str, sparse: bool) -> LoDTensor | SelectedRows:
    """A variable from its bytes in Paddle's format; FormatError, which names it, for other bytes."""
    source = ValueReader.of_bytes(data, name)
    value = source.selected_rows() if sparse else source.tensor()
    source.end()
    return value


# ---------- random numbers
def random_state(random: np.random.Generator) -> dict[str, Any]:
    """The state of a random source, as values that JSON has."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    found: dict[str, Any] = plain(random.bit_generator.state)
    return found


def restore_random(random: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Let a random source go on from the state of another one; FormatError where that was of another kind."""
    try:
        random.bit_generator.state = dict(state)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise FormatError(f"this is not a valid state of a random generator: {error}") from error


# ------------------------------------------------------------------------------------------------ servers
def state_names(block: Block) -> list[str]:
    """Persistable variables that a server's blocks read before they write them, apart from gradients that
    arrive.
    """
    arriving = set(ServerProgram.read(listening_op(block)).arriving)
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in (op for inner in block.program.blocks if inner is not block for op in inner.ops):
        found.update(dict.fromkeys(name for name in reads(op) if name not in written))
        written.update(writes(op))
    declared = {name: block.vars.get(name) for name in found if name not in arriving}
    return [name for name, var in declared.items() if var is not None and var.persistable]


def state_of_server(program: ServerProgram, scope: Scope, random: np.random.Generator, steps: int) -> Any:
    """The state of a server besides parameters and accumulators, as bytes: counters, learning rates and the
    state of its random numbers.
    """
    whole = program.block.program
    known = whole.distribution.parts
    parts = known.get_distributed_vars_by_ep(program.endpoint) if known is not None else ()
    names = {part.slice.name for part in parts}
    held = {name: scope.find_var(name) for name in state_names(program.block) if name not in names}
    values: StateValues = {
        name: var.value
        for name, var in held.items()
        if var is not None and var.is_initialized() and isinstance(var.value, (LoDTensor, SelectedRows))
    }
    facts = {
        "random": random_state(random),
        "checkpoint": whole.distribution.loaded_checkpoint,
        "steps": steps,
    }
    return encode_state(values, facts)
