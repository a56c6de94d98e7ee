"""What a plan is made of before it is text: values with a storage, and steps that read and write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fluidlite.ir.operator import Operator

__all__ = ["Elementwise", "Step", "Storage", "Value", "ValueFactory", "flat", "in_bodies"]


class Storage:
    """Where a value's array comes from."""

    BUFFER = "buffer"  # a piece of the plan's pool, found by liveness
    PARAM = "param"  # the array of a persistable variable, bound from the scope
    FEED = "feed"  # an argument of the step function
    CONST = "const"  # an array made once
    VIEW = "view"  # an expression over another value, without a copy
    LOCAL = "local"  # whatever a statement assigned this time
    FRESH = "fresh"  # an array of its own each time: it outlives the step of a loop that makes it


@dataclass(eq=False)
class Value:
    """One version of a variable, or a temporary. `shape` is None where it is known only when the step
    runs.
    """

    number: int
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    storage: str
    name: str = ""  # the program's variable
    base: Value | None = None  # of a view
    expression: str = ""  # of a view, with {} for the base
    uniform: float | int | bool | None = None  # every element is this number
    constant: Any = None  # the array of a CONST
    optional: bool = False  # a name that a statement may leave without an array
    lod: str | None = None  # the symbol that holds the level of detail, None where there is none
    entry: Value | None = None  # of a list with an entry for each step of a loop: what those look like
    maybe: bool = False  # may be None: written in a branch, or in a loop that may run no step

    @property
    def symbol(self) -> str:
        """The identifier in the generated source."""
        return f"v{self.number}"

    def __str__(self) -> str:
        return self.symbol

    __repr__ = __str__

    @property
    def root(self) -> Value:
        """The value whose memory this one shows."""
        value = self
        while value.base is not None:
            value = value.base
        return value

    @property
    def known(self) -> bool:
        """Whether shape and dtype are known before the step runs, and that there is an array."""
        return self.shape is not None and self.dtype is not None and not self.maybe

    @property
    def size(self) -> int:
        """The number of elements."""
        assert self.shape is not None
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        assert self.dtype is not None
        return self.size * self.dtype.itemsize

    @property
    def fixed(self) -> bool:
        """Whether the array is the same object at every step, so that views of it are made once."""
        return self.root.storage in (Storage.BUFFER, Storage.PARAM, Storage.CONST)


@dataclass(frozen=True)
class Elementwise:
    """One array function over operands (Values or numbers) into the step's only output."""

    function: str  # a key of fluidlite.ops.scalar.FUNCTIONS
    operands: tuple[Any, ...]


@dataclass(eq=False)
class Step:
    """One statement or a few, with what they read and write. `temps` live during the step only.

    A loop or branch has a `body`: its lines are the head (`while v7.item():`), its reads what the head reads.
    """

    op: Operator | None
    reads: list[Value]
    writes: list[Value]
    lines: list[str] = field(default_factory=list)
    temps: list[Value] = field(default_factory=list)
    elementwise: Elementwise | None = None
    effect: bool = False
    note: str = ""
    products: int = 0  # multiply-adds of the matrix product that it is
    product: tuple[str, Value, Value, Value] | None = None  # that product: function, operands, result
    body: list[Step] | None = None
    holds: list[Value] = field(default_factory=list)  # values that something else refers to from here on
    starts: str = ""  # the reduction that goes on until its result is needed

    @property
    def is_view(self) -> bool:
        """Whether a step only names another look at memory."""
        return not self.lines and self.elementwise is None and self.body is None

    def all_reads(self) -> list[Value]:
        """What the step and the steps of its body read."""
        return [value for step in flat([self]) for value in step.reads]

    def all_writes(self) -> list[Value]:
        """What the step and the steps of its body write."""
        return [value for step in flat([self]) for value in step.writes]


def flat(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each followed by those of its body."""
    for step in steps:
        yield step
        yield from flat(step.body or ())


def in_bodies(
    steps: Sequence[Step],
    kept: Sequence[Value],
    change: Callable[[Sequence[Step], Sequence[Value]], list[Step]],
) -> list[Step]:
    """`change(steps, kept)`, with the body of each loop and branch changed in the same way before; nothing
    is kept of those.
    """
    inner = [
        step if step.body is None else replace(step, body=in_bodies(step.body, (), change)) for step in steps
    ]
    return change(inner, kept)


class ValueFactory:
    """Makes values with fresh numbers."""

    def __init__(self) -> None:
        self._made: list[Value] = []

    def mentioned(self, text: str) -> list[Value]:
        """The values whose symbols stand in a statement."""
        return [self._made[int(number)] for number in dict.fromkeys(re.findall(r"\bv(\d+)\b", text))]

    def make(self, shape: Sequence[int] | None, dtype: Any, storage: str, **fields: Any) -> Value:
        """A new value."""
        value = Value(
            len(self._made),
            None if shape is None else tuple(shape),
            None if dtype is None else np.dtype(dtype),
            storage,
            **fields,
        )
        self._made.append(value)
        return value
