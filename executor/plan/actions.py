"""What a step of a plan does, as data: calls, assignments, element-wise functions, loops; no text.

An operand is a `Value`, a Python constant (number, string, None, a dtype name), a tuple, list or dict of
operands, or an `Expression` over operands. `Out` and `InOut` mark operands that a call writes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from fluidlite.executor.plan.values import Value

__all__ = [
    "Action",
    "Append",
    "Assign",
    "At",
    "Bound",
    "Branch",
    "Call",
    "Copy",
    "Elementwise",
    "Equals",
    "Expression",
    "Fresh",
    "Function",
    "HostCheck",
    "InOut",
    "Item",
    "Length",
    "LodOf",
    "Loop",
    "Method",
    "New",
    "Operand",
    "OrElse",
    "Out",
    "ScopeFunction",
    "SetItem",
    "Shared",
    "Show",
    "Sum",
    "TiledLoop",
    "Walk",
    "When",
    "WhileLoop",
    "as_read",
    "as_written",
    "replaced",
    "values_in",
]

Operand: TypeAlias = Any


# ---------------------------------------------------------------------- what is called
@dataclass(frozen=True)
class Function:
    """A function of the array module, such as `dot` or `add.reduce`."""

    name: str


@dataclass(frozen=True)
class ScopeFunction:
    """`load(name)` or `store(name, value[, level of detail])` on the scope that a plan is bound to."""

    name: str


@dataclass(frozen=True)
class Fresh:
    """A recipe for an object with scratch state: each binding of a plan makes its own, for its array
    module.
    """

    factory: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def make(self, xp: Any) -> Any:
        """The object, working with the array module `xp`."""
        return self.factory(xp, *self.arguments)


class HostCheck:
    """A check of values that needs them on the host: plans on a device leave it out, since it would stop the
    stream.
    """


@dataclass(eq=False)
class Bound:
    """A Python object that the generated source refers to; `hint` says how its name begins."""

    hint: str
    thing: Any


@dataclass(frozen=True)
class Method:
    """A method of a bound object."""

    owner: Bound
    name: str


# ---------------------------------------------------------------------- operands
class Expression:
    """An operand that is computed where it stands."""


@dataclass(frozen=True)
class Out(Expression):
    """An array that the call fills without reading it."""

    value: Value


@dataclass(frozen=True)
class InOut(Expression):
    """An array that the call reads and writes."""

    value: Value


@dataclass(frozen=True)
class LodOf(Expression):
    """The level of detail that goes with a value; () where it has none."""

    value: Value


@dataclass(frozen=True)
class Item(Expression):
    """The only element of an array, as a Python number."""

    value: Value


@dataclass(frozen=True)
class Copy(Expression):
    """An array of its own with the same elements."""

    value: Value


@dataclass(frozen=True)
class At(Expression):
    """An entry of a list, or a row of an array."""

    value: Value
    index: Operand


@dataclass(frozen=True)
class Equals(Expression):
    """The mask of the elements that are a number."""

    value: Value
    number: int


@dataclass(frozen=True)
class Length(Expression):
    """The number of rows of an array."""

    value: Value


@dataclass(frozen=True)
class New(Expression):
    """A new array, made by `empty` or `zeros`."""

    function: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class OrElse(Expression):
    """`kept` (the value, or a copy of it), or a default where the value is None."""

    value: Value
    kept: Operand
    default: Operand


@dataclass(frozen=True)
class Sum(Expression):
    """Whole numbers added up, each with its sign (1 or -1)."""

    terms: tuple[tuple[int, Operand], ...]


@dataclass(frozen=True)
class Call(Expression):
    """A call; as an action its result is dropped, as an operand it is used."""

    callee: Function | ScopeFunction | Bound | Method
    operands: tuple[Operand, ...] = ()
    keywords: tuple[tuple[str, Operand], ...] = ()

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that the call writes."""
        return tuple(as_written(self))


# ---------------------------------------------------------------------- actions
@dataclass(frozen=True)
class Show:
    """Nothing is computed: the step only names another look at memory."""


@dataclass(frozen=True)
class Elementwise:
    """One array function over operands (values or numbers) into the step's only output."""

    function: str
    """A key of fluidlite.ops.kernels.scalar.FUNCTIONS."""
    operands: tuple[Any, ...]


@dataclass(frozen=True)
class Assign:
    """Symbols get new values, all at the same time. A target is a Value, a `LodOf` one, or None for what is
    dropped.

    With `unpack`, the only source is a sequence with an entry for each target.
    """

    targets: tuple[Value | LodOf | None, ...]
    sources: tuple[Operand, ...]
    unpack: bool = False


@dataclass(frozen=True)
class SetItem:
    """array[index] = source, or array[index] -= source."""

    array: Value
    index: Operand
    source: Operand
    subtract: bool = False


@dataclass(frozen=True)
class Append:
    """A list gets one more entry."""

    into: Value
    item: Operand


@dataclass(frozen=True)
class When:
    """An action that is taken only if a value is there (or, with `absent`, only if it is None)."""

    value: Value
    action: Call | SetItem
    absent: bool = False


@dataclass(frozen=True)
class Shared:
    """A call whose first operand and output (and second operand, where `batched`) are cut into rows for a
    team.
    """

    call: Call
    rows: int
    threads: int
    batched: bool
    team: Bound


@dataclass(frozen=True)
class Walk:
    """The way of a loop over arrays: `extent` elements (where `flat`) or rows, `chunk` at a time."""

    flat: bool
    extent: int
    chunk: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TiledLoop:
    """Element-wise steps run block by block, so that what one leaves for the next stays in the cache.

    `registers` are block-sized pieces of scratch, one for each thread; `held_in` says in which of them an
    inner value lies. With a `team`, its threads share the blocks.
    """

    run: tuple[tuple[Elementwise, Value], ...]
    walk: Walk
    registers: tuple[Value, ...]
    held_in: Mapping[Value, int]
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    threads: int
    team: Bound | None


@dataclass(frozen=True)
class WhileLoop:
    """The body runs as long as the condition holds."""

    condition: Operand


@dataclass(frozen=True)
class Loop:
    """The body runs for each position 0 ... count - 1, or from the last to the first."""

    position: Value
    count: Operand
    backwards: bool = False


@dataclass(frozen=True)
class Branch:
    """The body runs once, if all conditions hold."""

    conditions: tuple[Operand, ...]


Action: TypeAlias = "Show | Elementwise | Call | Assign | SetItem | Append | When | Shared | TiledLoop | WhileLoop | Loop | Branch"


# ---------------------------------------------------------------------- what an action touches
def values_in(operand: Operand) -> Iterator[Value]:
    """All values that an operand mentions, read or written."""
    if isinstance(operand, Value):
        yield operand
    elif isinstance(operand, Call):
        for item in operand.operands:
            yield from values_in(item)
        for _, item in operand.keywords:
            yield from values_in(item)
    elif isinstance(operand, (tuple, list)):
        for item in operand:
            yield from values_in(item)
    elif isinstance(operand, dict):
        for item in operand.values():
            yield from values_in(item)
    elif isinstance(operand, Expression):
        for field in dataclasses.fields(operand):  # type: ignore[arg-type]
            yield from values_in(getattr(operand, field.name))


def as_read(action: Any) -> Iterator[Value]:
    """The values that an action or operand reads."""
    if isinstance(action, Value):
        yield action
    elif isinstance(action, Elementwise):
        yield from (item for item in action.operands if isinstance(item, Value))
    elif isinstance(action, Call):
        for item in action.operands:
            yield from as_read(item)
        for _, item in action.keywords:
            yield from as_read(item)
    elif isinstance(action, Out):
        return
    elif isinstance(action, (tuple, list)):
        for item in action:
            yield from as_read(item)
    elif isinstance(action, dict):
        yield from as_read(tuple(action.values()))
    elif isinstance(action, Assign):
        yield from as_read(action.sources)
    elif isinstance(action, SetItem):
        yield action.array
        yield from as_read((action.index, action.source))
    elif isinstance(action, Append):
        yield action.into
        yield from as_read(action.item)
    elif isinstance(action, When):
        yield action.value
        yield from as_read(action.action)
    elif isinstance(action, Shared):
        yield from as_read(action.call)
    elif isinstance(action, TiledLoop):
        yield from action.reads
    elif isinstance(action, WhileLoop):
        yield from as_read(action.condition)
    elif isinstance(action, Loop):
        yield from as_read(action.count)
    elif isinstance(action, Branch):
        yield from as_read(action.conditions)
    else:
        yield from values_in(action)


def as_written(action: Any) -> Iterator[Value]:
    """The values that an action writes or assigns; those of `Elementwise` and `Show` are the step's own."""
    if isinstance(action, (Out, InOut)):
        yield action.value
    elif isinstance(action, Call):
        for item in action.operands:
            yield from as_written(item)
        for _, item in action.keywords:
            yield from as_written(item)
    elif isinstance(action, Assign):
        yield from (target for target in action.targets if isinstance(target, Value))
        yield from as_written(action.sources)
    elif isinstance(action, SetItem):
        yield action.array
    elif isinstance(action, Append):
        yield action.into
    elif isinstance(action, (When, Shared)):
        yield from as_written(action.action if isinstance(action, When) else action.call)
    elif isinstance(action, TiledLoop):
        yield from action.writes
    elif isinstance(action, Loop):
        yield action.position
    elif isinstance(action, (tuple, list)):
        for item in action:
            yield from as_written(item)
    elif isinstance(action, dict):
        yield from as_written(tuple(action.values()))


def replaced(item: Any, change: Callable[[Value], Value]) -> Any:
    """An action or operand with every value changed."""
    if isinstance(item, Value):
        return change(item)
    if isinstance(item, (tuple, list)):
        return type(item)(replaced(part, change) for part in item)
    if isinstance(item, (dict, Mapping)):
        return {replaced(key, change): replaced(part, change) for key, part in item.items()}
    if dataclasses.is_dataclass(item) and not isinstance(
        item, (type, Bound, Method, Function, ScopeFunction, Fresh)
    ):
        parts = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        return dataclasses.replace(item, **{name: replaced(part, change) for name, part in parts.items()})
    return item
