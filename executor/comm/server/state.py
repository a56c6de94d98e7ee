"""The state of one process of a job as bytes: variables in Paddle's format, and facts such as where its
random numbers are.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from fluidlite.base.errors import FormatError
from fluidlite.executor.comm.server.program import ServerProgram, listening_op
from fluidlite.executor.comm.server.rendezvous import pack, unpack
from fluidlite.ir.block import Block
from fluidlite.ir.prune import reads, writes
from fluidlite.values.scope import Scope
from fluidlite.values.serialize import ValueReader, value_bytes
from fluidlite.values.tensor import LoDTensor, SelectedRows

__all__ = [
    "Values",
    "decode_state",
    "encode_state",
    "random_state",
    "restore_random",
    "state_names",
    "state_of_server",
]

Values = dict[str, LoDTensor | SelectedRows]


def encode_state(values: Mapping[str, LoDTensor | SelectedRows], facts: Mapping[str, Any]) -> Any:
    """Variables and facts (of which JSON can be made) as an array of bytes."""
    head = {
        "facts": facts,
        "names": list(values),
        "sparse": [name for name, value in values.items() if isinstance(value, SelectedRows)],
    }
    return pack(
        [
            np.frombuffer(piece, np.uint8)
            for piece in (json.dumps(head).encode(), *map(value_bytes, values.values()))
        ]
    )


def decode_state(data: Any) -> tuple[Values, dict[str, Any]]:
    """What `encode_state` was given; FormatError for other bytes."""
    try:
        first, *parts = unpack(data)
        head = json.loads(first.tobytes())
        names, sparse, facts = list(head["names"]), set(head["sparse"]), dict(head["facts"])
        if len(names) != len(parts):
            raise ValueError(f"{len(names)} names for {len(parts)} variables")
    except (ValueError, KeyError, TypeError, RecursionError, struct.error) as error:
        raise FormatError(f"the state of a process cannot be read: {error}") from error
    return {
        name: decode_value(part.tobytes(), name, name in sparse)
        for name, part in zip(names, parts, strict=True)
    }, facts


def decode_value(data: bytes, name: str, sparse: bool) -> LoDTensor | SelectedRows:
    """One variable of Paddle's format; FormatError names it where it is none."""
    source = ValueReader.of_bytes(data, name)
    value = source.selected_rows() if sparse else source.tensor()
    source.end()
    return value


# ---------- random numbers
def random_state(random: np.random.Generator) -> dict[str, Any]:
    """Where a random source is, as JSON can say it."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value

    found: dict[str, Any] = plain(random.bit_generator.state)
    return found


def restore_random(random: np.random.Generator, state: Mapping[str, Any]) -> None:
    """Let a random source go on where another one was; FormatError where that was one of another kind."""
    try:
        random.bit_generator.state = dict(state)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise FormatError(f"this is not where random numbers can go on: {error}") from error


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


def state_of_server(block: Block, scope: Scope, random: np.random.Generator, steps: int) -> Any:
    """What a server holds besides parameters and accumulators: counters, learning rates, where its random
    numbers are.
    """
    known = block.program._parameters_on_pservers
    endpoint = listening_op(block).attrs["endpoint"]
    parts = (
        {part.slice.name for part in known.get_distributed_vars_by_ep(endpoint)}
        if known is not None
        else set()
    )
    held = {name: scope.find_var(name) for name in state_names(block) if name not in parts}
    values: Values = {
        name: var.value
        for name, var in held.items()
        if var is not None and var.is_initialized() and isinstance(var.value, (LoDTensor, SelectedRows))
    }
    return encode_state(
        values,
        {
            "random": random_state(random),
            "checkpoint": block.program.distribution.loaded_checkpoint,
            "steps": steps,
        },
    )
