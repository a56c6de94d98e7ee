"""What a server expects of its trainers, and how a trainer's program differs from that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import FormatError, did_you_mean
from fluidlite.ir.block import Block
from fluidlite.ir.program import Program

__all__ = ["Terms", "differences"]

Form = tuple[str, tuple[int, ...]]  # dtype and shape; no shape where it is not known before


@dataclass(frozen=True)
class Terms:
    """What a server takes and gives, by name, and whether its trainers end their steps together.

    resumed, steps: whether it goes on from a checkpoint, and how many steps had been done then.
    """

    trainers: int = 0
    synchronous: bool = False
    takes: Mapping[str, Form] = field(default_factory=dict)
    gives: Mapping[str, Form] = field(default_factory=dict)
    resumed: bool = False
    steps: int = 0

    def spelled(self) -> bytes:
        """For the welcome of a trainer."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def parse(text: bytes) -> Terms | None:
        """What `spelled` gave; None where a server has said nothing."""
        try:
            found = json.loads(text or b"null")
            if not found:
                return None
            takes, gives = (
                {
                    str(name): (str(dtype), tuple(map(int, shape)))
                    for name, (dtype, shape) in found[key].items()
                }
                for key in ("takes", "gives")
            )
            return Terms(
                int(found["trainers"]),
                bool(found["synchronous"]),
                takes,
                gives,
                bool(found["resumed"]),
                int(found["steps"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError("the terms of a server cannot be read") from error


def form_of(block: Block, name: str) -> Form:
    """How a variable is declared."""
    var = block._find_var_recursive(name)
    if var is None or var.type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS) or var._dtype is None:
        return "", ()
    return to_numpy(var.dtype).name, tuple(int(dim) for dim in var.shape)


def differences(program: Program, endpoint: str, terms: Terms | None) -> list[str]:
    """What keeps `program` from being a trainer of the server at `endpoint`, in words; nothing where they
    fit.
    """
    if terms is None:
        return []
    found = []
    for name, form in _sent(program, endpoint):
        if name not in terms.takes:
            expected = ", ".join(sorted(terms.takes)) or "nothing"
            found.append(
                f"it sends {name!r}, which the server does not expect{did_you_mean(name, list(terms.takes))} "
                f"(it expects {expected})"
            )
        else:
            found += _unlike("sends", name, form, terms.takes[name])
    for name, form in _fetched(program, endpoint):
        if name not in terms.gives:
            found.append(
                f"it asks for {name!r}, which the server does not hold{did_you_mean(name, list(terms.gives))}"
            )
        else:
            found += _unlike("asks for", name, form, terms.gives[name])
    barriers = [
        bool(op.attrs["half_async"])
        for op in program.global_block().ops
        if op.type == "send_barrier" and endpoint in op.attrs["endpoints"]
    ]
    ends, sends = bool(barriers), any(True for _ in _sent(program, endpoint))
    if (
        sends and terms.takes and ends != terms.synchronous and not any(barriers)
    ):  # a communicator's barrier may be of either kind
        kinds = {True: "synchronous", False: "asynchronous"}
        found.append(
            f"it is {kinds[ends]}, and the server {kinds[terms.synchronous]}: give `transpile` the same "
            f"sync_mode everywhere"
        )
    return found


def _unlike(does: str, name: str, mine: Form, theirs: Form) -> list[str]:
    """Whether two declarations contradict each other; dimensions that are not known fit all."""
    same_shape = (
        not mine[1]
        or not theirs[1]
        or (
            len(mine[1]) == len(theirs[1])
            and all(a == b or a < 0 or b < 0 for a, b in zip(mine[1], theirs[1], strict=True))
        )
    )
    if same_shape and (not mine[0] or not theirs[0] or mine[0] == theirs[0]):
        return []
    return [
        f"it {does} {name!r} as {mine[0]}{list(mine[1])}, and the server has {theirs[0]}{list(theirs[1])}"
    ]


def _sent(program: Program, endpoint: str) -> Iterator[tuple[str, Form]]:
    """What goes to a server, as (name, form)."""
    for op in program.global_block().ops:
        if op.type == "send" and not op.attrs["merge_add"]:
            names = op.attrs["send_varnames"] or op.input("X")
            whole = len(names) == len(op.input("X"))
            for index, (name, place) in enumerate(zip(names, op.attrs["epmap"], strict=False)):
                if place == endpoint:
                    yield name, form_of(op.block, op.input("X")[index] if whole else name)


def _fetched(program: Program, endpoint: str) -> Iterator[tuple[str, Form]]:
    """What comes from a server, as (name, form)."""
    for op in program.global_block().ops:
        if op.type == "recv":
            names = op.attrs["recv_varnames"] or op.output("Out")
            whole = len(names) == len(op.output("Out"))
            for index, (name, place) in enumerate(zip(names, op.attrs["epmap"], strict=False)):
                if place == endpoint:
                    yield name, form_of(op.block, op.output("Out")[index] if whole else name)


def fits(form: Form, dtype: Any, shape: tuple[int, ...]) -> bool:
    """Whether a value that comes is like its declaration."""
    return not _unlike("", "", form, (dtype.name, shape))
