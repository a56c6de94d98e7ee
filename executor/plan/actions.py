"""The actions of a plan's steps, as data: calls, assignments, element-wise functions, loops; no text.

An operand is a `Value`, a Python constant (number, string, None, a dtype name), a tuple, list or dict of
operands, or an `Expression` over operands. `Out` and `InOut` mark operands that a call writes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from fluidlite.base.records import dataclass
from fluidlite.executor.plan.objects import Fresh, PlanObject
from fluidlite.executor.plan.sizes import about, same_shape
from fluidlite.executor.plan.values import Value

__all__ = [
    "Action",
    "Append",
    "Assign",
    "At",
    "Bound",
    "BlockSum",
    "Branch",
    "Call",
    "ChainForm",
    "Chained",
    "CompiledRun",
    "Copy",
    "Elementwise",
    "Equals",
    "Expression",
    "Function",
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
    "Show",
    "Sum",
    "TiledLoop",
    "Walk",
    "When",
    "WhileLoop",
    "as_read",
    "as_written",
    "on_values",
    "recipe_of",
    "replaced",
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


# compared by identity: the renderer names each of them once, and what they hold need not be hashable
@dataclass(eq=False)
class Bound:
    """An object that the generated source refers to; `hint` says how its name begins."""

    hint: str
    thing: PlanObject


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
    """Integers added up, each with its sign (1 or -1)."""

    terms: tuple[tuple[int, Operand], ...]


# ---------------------------------------------------------------------- actions
class Action:
    """One thing that a step does. `inputs` are the operands that it works on, `outputs` the values that it
    gives, beside those that the operands mark with `Out`.
    """

    def inputs(self) -> Operand:
        """The operands."""
        return ()

    def outputs(self) -> tuple[Value | None, ...]:
        """The values that it gives."""
        return ()


@dataclass(frozen=True)
class Call(Expression, Action):
    """A call; as an action its result is dropped, as an operand it is used."""

    callee: Function | ScopeFunction | Bound | Method
    operands: tuple[Operand, ...] = ()
    keywords: tuple[tuple[str, Operand], ...] = ()

    def inputs(self) -> Operand:
        """All operands, by position and by keyword."""
        return (*self.operands, *(item for _, item in self.keywords))


@dataclass(frozen=True)
class Show(Action):
    """No computation: the step only names another look at memory."""


@dataclass(frozen=True)
class Elementwise(Action):
    """One array function over operands (values or numbers) into the step's only output."""

    function: str
    """A key of fluidlite.ops.kernels.scalar.FUNCTIONS."""
    operands: tuple[Any, ...]

    def inputs(self) -> Operand:
        """The operands."""
        return self.operands


@dataclass(frozen=True, eq=False)
class ChainForm:
    """Element-wise actions over arrays of one shape, which the updates of many parameters have in common:
    `run` is that of one of them, `arguments` are its arrays that others have arrays of their own for.
    """

    run: tuple[tuple[Elementwise, Value], ...]
    arguments: tuple[Value, ...]
    reads: tuple[int, ...]
    """The positions of the arguments that are read."""
    writes: tuple[int, ...]
    """And of those that are written."""

    @functools.cached_property
    def inner(self) -> tuple[Value, ...]:
        """The temporaries, which nothing else reads."""
        outs = dict.fromkeys(out for _, out in self.run)
        return tuple(out for out in outs if out not in self.arguments)


@dataclass(frozen=True)
class Chained(Action):
    """The actions of a form on other arrays: one step until `fuse_on_host` makes a loop of it."""

    form: ChainForm
    values: tuple[Value, ...]

    def inputs(self) -> Operand:
        """The arrays that are read."""
        return tuple(self.values[place] for place in self.form.reads)

    def outputs(self) -> tuple[Value | None, ...]:
        """The arrays that are written."""
        return tuple(self.values[place] for place in self.form.writes)

    def run(self, inner: Iterable[Value] | None = None) -> tuple[tuple[Elementwise, Value], ...]:
        """The actions and what they write, with such values for the form's temporaries."""
        form = self.form
        at = dict(zip(form.arguments, self.values, strict=True))
        at.update(zip(form.inner, form.inner if inner is None else inner, strict=True))
        return on_values(form.run, at)


def on_values(
    run: Iterable[tuple[Elementwise, Value]], at: Mapping[Value, Value]
) -> tuple[tuple[Elementwise, Value], ...]:
    """Element-wise actions and what they write, with other values for some."""
    return tuple(
        (Elementwise(action.function, tuple([at.get(item, item) for item in action.operands])), at[out])
        for action, out in run
    )


@dataclass(frozen=True)
class Assign(Action):
    """Symbols get new values, all at the same time. A target is a Value, a `LodOf` one, or None for what is
    dropped.

    With `unpack`, the only source is a sequence with an entry for each target.
    """

    targets: tuple[Value | LodOf | None, ...]
    sources: tuple[Operand, ...]
    unpack: bool = False

    def inputs(self) -> Operand:
        """The sources."""
        return self.sources

    def outputs(self) -> tuple[Value | None, ...]:
        """The targets that are values."""
        return tuple(target for target in self.targets if isinstance(target, Value))


@dataclass(frozen=True)
class SetItem(Action):
    """array[index] = source, or array[index] -= source."""

    array: Value
    index: Operand
    source: Operand
    subtract: bool = False

    def inputs(self) -> Operand:
        """The array too: what is not set stays."""
        return self.array, self.index, self.source

    def outputs(self) -> tuple[Value | None, ...]:
        """The array."""
        return (self.array,)


@dataclass(frozen=True)
class Append(Action):
    """A list gets one more entry."""

    into: Value
    item: Operand

    def inputs(self) -> Operand:
        """The list and the entry."""
        return self.into, self.item

    def outputs(self) -> tuple[Value | None, ...]:
        """The list."""
        return (self.into,)


@dataclass(frozen=True)
class When(Action):
    """An action that is taken only if a value is there (or, with `absent`, only if it is None)."""

    value: Value
    action: Call | SetItem
    absent: bool = False

    def inputs(self) -> Operand:
        """The value, and what the action works on."""
        return self.value, self.action.inputs()

    def outputs(self) -> tuple[Value | None, ...]:
        """The values that the action gives."""
        return self.action.outputs()


@dataclass(frozen=True)
class Walk:
    """The way of a loop over arrays: `extent` elements (where `flat`) or rows, `chunk` at a time."""

    flat: bool
    extent: int
    chunk: int
    shape: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True if there is one block, which is all of the arrays; several do for fewer elements, too."""
        return bool(about(self.chunk) >= about(self.extent))

    @property
    def block(self) -> tuple[int, ...]:
        """The shape of a block."""
        if self.is_whole:
            return self.shape
        return (self.chunk,) if self.flat else (self.chunk, *self.shape[1:])

    def takes_along(self, value: Value) -> bool:
        """True if the loop takes a block of this operand, not all of it at each block."""
        if same_shape(value.shape, self.shape):
            return True
        if self.flat or value.shape is None or len(value.shape) != len(self.shape):
            return False
        return value.shape[0] == self.shape[0]


@dataclass(frozen=True)
class BlockSum:
    """The sum of all elements of `source`: of each block into an entry of `partial`, then of those."""

    source: Value
    partial: Value
    total: Value


@dataclass(frozen=True, eq=False)
class TiledLoop(Action):
    """Element-wise steps run block by block, so that what one leaves for the next stays in the cache.

    `registers` are block-sized pieces of scratch, one for each thread; `held_in` says in which of them an
    inner value lies. With a `team`, its threads share the blocks.
    """

    run: tuple[tuple[Elementwise, Value], ...]
    sums: tuple[BlockSum, ...]
    walk: Walk
    registers: tuple[Value, ...]
    held_in: Mapping[Value, int]
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    threads: int
    team: Bound | None
    like: TiledLoop | None = None
    """A loop of the same text, but for its arrays, in the same order."""

    @property
    def temps(self) -> tuple[Value, ...]:
        """Its scratch."""
        return (*self.registers, *(item.partial for item in self.sums))

    def inputs(self) -> Operand:
        """The values that come from outside of the loop."""
        return self.reads

    def outputs(self) -> tuple[Value | None, ...]:
        """The values that leave it."""
        return self.writes


@dataclass(frozen=True)
class CompiledRun(Action):
    """Loops of one kind by a compiled kernel, as soon as that is `ready`; by array calls until then."""

    loops: tuple[TiledLoop, ...]
    kernel: Bound
    arrays: tuple[Value, ...]
    """Operands of the kernel."""
    numbers: tuple[Value, ...] = ()
    """Those operands that are numbers in the loops."""

    def inputs(self) -> Operand:
        """The values that come from outside of the loops."""
        return (*(value for loop in self.loops for value in loop.reads), *self.numbers)

    def outputs(self) -> tuple[Value | None, ...]:
        """The values that leave them."""
        return tuple(value for loop in self.loops for value in loop.writes)


@dataclass(frozen=True)
class WhileLoop(Action):
    """The body runs as long as the condition holds."""

    condition: Operand

    def inputs(self) -> Operand:
        """The condition."""
        return self.condition


@dataclass(frozen=True)
class Loop(Action):
    """The body runs for each position 0 ... count - 1, or from the last to the first."""

    position: Value
    count: Operand
    backwards: bool = False

    def inputs(self) -> Operand:
        """The count."""
        return self.count

    def outputs(self) -> tuple[Value | None, ...]:
        """The position."""
        return (self.position,)


@dataclass(frozen=True)
class Branch(Action):
    """The body runs once, if all conditions hold."""

    conditions: tuple[Operand, ...]

    def inputs(self) -> Operand:
        """The conditions."""
        return self.conditions


def recipe_of(action: Action, *factories: Any) -> Fresh | None:
    """The recipe of the object that an action calls; None unless it is one of these factories'."""
    if isinstance(action, Call) and isinstance(action.callee, Bound):
        thing = action.callee.thing
        if isinstance(thing, Fresh) and thing.factory in factories:
            return thing
    return None


# ---------------------------------------------------------------------- what an action touches
def as_read(operand: Operand) -> list[Value]:
    """The values that an action or operand reads."""
    if type(operand) is Elementwise:
        return [item for item in operand.operands if isinstance(item, Value)]
    found: list[Value] = []
    _collect_read(operand, found)
    return found


def _collect_read(operand: Operand, found: list[Value]) -> None:
    # one list handed down: generators inside generators took a fifth of lowering
    if type(operand) in _LEAVES:
        return
    if isinstance(operand, Value):
        found.append(operand)
    elif isinstance(operand, (tuple, list)):
        for item in operand:
            _collect_read(item, found)
    elif isinstance(operand, dict):
        _collect_read(tuple(operand.values()), found)
    elif isinstance(operand, Action):
        _collect_read(operand.inputs(), found)
    # what an `Out` held before is lost anyway, so an earlier write to it may be dropped
    elif isinstance(operand, Expression) and not isinstance(operand, Out):
        _collect_read(tuple(vars(operand).values()), found)


def as_written(operand: Operand) -> list[Value]:
    """The values that an action writes or assigns; those of `Elementwise` and `Show` are the step's own."""
    found: list[Value] = []
    _collect_written(operand, found)
    return found


def _collect_written(operand: Operand, found: list[Value]) -> None:
    if type(operand) in _LEAVES or isinstance(operand, Value):
        return
    if isinstance(operand, (Out, InOut)):
        found.append(operand.value)
    elif isinstance(operand, (tuple, list)):
        for item in operand:
            _collect_written(item, found)
    elif isinstance(operand, dict):
        _collect_written(tuple(operand.values()), found)
    elif isinstance(operand, Action):
        found.extend(value for value in operand.outputs() if value is not None)
        _collect_written(operand.inputs(), found)


_LEAVES = frozenset((int, float, bool, str, type(None)))


def replaced(item: Any, change: Callable[[Value], Value]) -> Any:
    """An action or operand with every value changed."""
    if isinstance(item, Value):
        return change(item)
    if isinstance(item, (tuple, list)):
        return type(item)(replaced(part, change) for part in item)
    if isinstance(item, dict):
        return {replaced(key, change): replaced(part, change) for key, part in item.items()}
    names = _FIELDS.get(type(item))
    if names is None:
        names = _FIELDS[type(item)] = _fields_of(type(item))
    if not names:
        return item
    return type(item)(*[replaced(getattr(item, name), change) for name in names])


# these hold no values, and what is bound may be a dataclass of another room
_WITHOUT_VALUES = (type, Bound, ChainForm, Method, Function, ScopeFunction, Walk)

_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type) -> tuple[str, ...]:
    """The names of the parts of an action or operand that may hold values."""
    if not dataclasses.is_dataclass(kind) or issubclass(kind, _WITHOUT_VALUES):
        return ()
    return tuple(field.name for field in dataclasses.fields(kind))
