"""Findings of the static check, the ops that they blame, and small questions about programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fluidlite.base.errors import did_you_mean
from fluidlite.base.records import dataclass
from fluidlite.base.registry import EMPTY_VAR
from fluidlite.ir.block import Block
from fluidlite.ir.operator import Operator
from fluidlite.ir.program import Program
from fluidlite.ir.variable import Variable
from fluidlite.transpiler.parts.roles import JobRole

__all__ = ["Finding", "Findings", "Site", "declared", "first_of", "pairs", "row_count", "writes"]

MOST_SUGGESTIONS = 20


class Site(NamedTuple):
    """One op of one role's program."""

    role: JobRole
    program: str  # "main" or "startup"
    block: int
    number: int  # position in the block
    op: Operator

    def __str__(self) -> str:
        block = f" of block {self.block}" if self.block else ""
        place = f"{self.program} op {self.number}{block}"
        return f"{self.role.name} {place}: {self.op.call_text()}\n      built at {self.op.where}"


@dataclass(frozen=True)
class Finding:
    """Something wrong: the rule (a key of `RULES`), the role, the op where one is to blame, and the values
    found.
    """

    rule: str
    role: JobRole
    message: str
    site: Site | None = None

    @property
    def op(self) -> Operator | None:
        """The op to blame; its `where` is the user's line."""
        return None if self.site is None else self.site.op

    def __str__(self) -> str:
        return f"{self.rule}: {self.role.name}: {self.message}" + (f"\n    {self.site}" if self.site else "")


class Findings:
    """Collects findings; the same one twice counts once."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str, str], Finding] = {}

    def add(self, rule: str, where: Site | JobRole, message: str) -> None:
        """Report a finding at an op, or of a role as a whole."""
        role, site = (where.role, where) if isinstance(where, Site) else (where, None)
        self.items.setdefault((rule, role.name, message), Finding(rule, role, message, site))

    def near(self, name: str, known: Iterable[str]) -> str:
        """The nearest name, for the first findings: looking for it costs more than all the rest of the
        check.
        """
        return did_you_mean(name, known) if len(self.items) < MOST_SUGGESTIONS else ""


def declared(block: Block, name: str) -> Variable | None:
    """The variable that an op of `block` means by `name`."""
    return block._find_var_recursive(name)


def first_of(slots: Mapping[str, list[str]], name: str) -> str:
    """The first variable of a slot; "" where there is none (programs that are checked may be broken)."""
    return (slots.get(name) or [""])[0]


def row_count(shape: Iterable[int] | None) -> int:
    """The first dimension; -1 where it is unknown."""
    return next(iter(shape or ()), -1)


def writes(program: Program) -> set[str]:
    """Names that any op of `program` writes."""
    return {
        name
        for block in program.blocks
        for op in block.ops
        for name in op.output_arg_names
        if name != EMPTY_VAR
    }


def pairs(entries: Iterable[str]) -> Iterator[tuple[str, str]]:
    """`"name:value"` entries of listen_and_serv's attributes as (name, value)."""
    for entry in entries:
        name, _, value = str(entry).rpartition(":")
        yield name, value
