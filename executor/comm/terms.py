"""The terms of a parameter server, and how a trainer's program differs from them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from typing import Any

from fluidlite.base.dtypes import VarType, to_numpy
from fluidlite.base.errors import FormatError, did_you_mean
from fluidlite.base.records import dataclass
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program

__all__ = ["Form", "Terms", "differences", "fits", "form_of", "servers_named"]

Form = tuple[str, tuple[int, ...]]  # dtype and shape; empty where they are not known before


@dataclass(frozen=True)
class Terms:
    """The forms of what a server takes and gives, by name, and whether its trainers end their steps together.

    resumed, steps: True if it goes on from a checkpoint, and how many steps had been done then.
    """

    trainers: int = 0
    synchronous: bool = False
    takes: Mapping[str, Form] = field(default_factory=dict)
    gives: Mapping[str, Form] = field(default_factory=dict)
    resumed: bool = False
    steps: int = 0

    def to_json(self) -> bytes:
        """As a server's welcome carries them."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Terms | None:
        """From a welcome; None where that is empty, FormatError where it holds something else."""
        try:
            found = json.loads(text or b"null")
            if not found:
                return None
            return cls(
                int(found["trainers"]),
                bool(found["synchronous"]),
                _forms(found["takes"]),
                _forms(found["gives"]),
                bool(found["resumed"]),
                int(found["steps"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError("the terms of a server cannot be read") from error


def _forms(found: Mapping[str, Any]) -> dict[str, Form]:
    return {str(name): (str(dtype), tuple(map(int, shape))) for name, (dtype, shape) in found.items()}


def form_of(block: Block, name: str) -> Form:
    """The declared dtype and shape of a variable."""
    var = block._find_var_recursive(name)
    if var is None or var.type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS) or var._dtype is None:
        return "", ()
    return to_numpy(var.dtype).name, tuple(int(dim) for dim in var.shape)


def fits(form: Form, dtype: Any, shape: tuple[int, ...]) -> bool:
    """True if a value is of the declared form."""
    return _agree(form, (dtype.name, shape))


def _agree(mine: Form, theirs: Form) -> bool:
    """True if two declarations do not contradict each other; what is not known agrees with everything."""
    same_dtype = not mine[0] or not theirs[0] or mine[0] == theirs[0]
    return same_dtype and (not mine[1] or not theirs[1] or _same_shape(mine[1], theirs[1]))


def _same_shape(mine: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    return len(mine) == len(theirs) and all(
        a == b or min(a, b) < 0 for a, b in zip(mine, theirs, strict=True)
    )


# ---------------------------------------------------------------------- a trainer's program
def servers_named(program: Program) -> list[str]:
    """The servers of the job that a trainer's program belongs to, as far as it names them."""
    ops = program.global_block().ops
    # other ops may have fluid's default, an endpoint of nobody
    named = (place for op in ops if op.type == "fetch_barrier" for place in op.attrs["endpoints"])
    return list(dict.fromkeys([*program.distribution.servers, *named]))


def differences(program: Program, endpoint: str, terms: Terms | None) -> list[str]:
    """The reasons, in words, why `program` is no trainer of the server at `endpoint`; none where it fits, or
    where there are no terms.
    """
    if terms is None:
        return []
    sent = list(_sent(program, endpoint))
    fetched = list(_fetched(program, endpoint))
    found = [text for name, form in sent for text in _wrong_send(name, form, terms)]
    found += [text for name, form in fetched for text in _wrong_fetch(name, form, terms)]
    if sent and terms.takes:
        found += _wrong_mode(program, endpoint, terms)
    return found


def _wrong_send(name: str, form: Form, terms: Terms) -> Iterator[str]:
    if name not in terms.takes:
        expected = ", ".join(sorted(terms.takes)) or "nothing"
        hint = did_you_mean(name, list(terms.takes))
        yield f"it sends {name!r}, which the server does not expect{hint} (it expects {expected})"
    elif not _agree(form, terms.takes[name]):
        yield _contradiction("sends", name, form, terms.takes[name])


def _wrong_fetch(name: str, form: Form, terms: Terms) -> Iterator[str]:
    if name not in terms.gives:
        hint = did_you_mean(name, list(terms.gives))
        yield f"it asks for {name!r}, which the server does not hold{hint}"
    elif not _agree(form, terms.gives[name]):
        yield _contradiction("asks for", name, form, terms.gives[name])


def _contradiction(verb: str, name: str, mine: Form, theirs: Form) -> str:
    return f"it {verb} {name!r} as {mine[0]}{list(mine[1])}, but the server has {theirs[0]}{list(theirs[1])}"


def _wrong_mode(program: Program, endpoint: str, terms: Terms) -> Iterator[str]:
    """A trainer that ends its steps at a server which does not wait, or the other way round."""
    barriers = [
        bool(op.attrs["half_async"])
        for op in program.global_block().ops
        if op.type == "send_barrier" and endpoint in op.attrs["endpoints"]
    ]
    if any(barriers):
        return  # a communicator's barrier may be of either kind
    ends_steps = bool(barriers)
    if ends_steps != terms.synchronous:
        kinds = {True: "synchronous", False: "asynchronous"}
        yield (
            f"it is {kinds[ends_steps]}, but the server is {kinds[terms.synchronous]}: give "
            "`transpile` the same sync_mode everywhere"
        )


def _sent(program: Program, endpoint: str) -> Iterator[tuple[str, Form]]:
    """Name and form of what goes to a server."""
    for op in program.global_block().ops:
        if op.type == "send" and not op.attrs["merge_add"]:  # which marks counts of steps, of no fixed form
            yield from _forms_at(op, endpoint, op.attrs["send_varnames"], op.input("X"))


def _fetched(program: Program, endpoint: str) -> Iterator[tuple[str, Form]]:
    """Name and form of what comes from a server."""
    for op in program.global_block().ops:
        if op.type == "recv":
            yield from _forms_at(op, endpoint, op.attrs["recv_varnames"], op.output("Out"))


def _forms_at(
    op: Operator, endpoint: str, names: list[str], variables: list[str]
) -> Iterator[tuple[str, Form]]:
    """Of the variables of an op, under the `names` that servers have for them, those of one server. Where
    there are more names than variables, they are slices, and declared by themselves if at all.
    """
    names = names or variables
    declared = variables if len(names) == len(variables) else names
    for name, variable, place in zip(names, declared, op.attrs["epmap"], strict=False):
        if place == endpoint:
            yield name, form_of(op.block, variable)
