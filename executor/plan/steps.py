"""Steps of a plan: an action, what it reads and writes, and the op that it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace

from fluidlite.base.records import dataclass
from fluidlite.executor.plan.actions import (
    Action,
    Bound,
    Call,
    Elementwise,
    Function,
    Show,
    as_read,
    as_written,
    replaced,
)
from fluidlite.executor.plan.values import Value
from fluidlite.ir.operator import Operator

__all__ = [
    "Product",
    "Step",
    "Total",
    "depth_of",
    "flat",
    "in_bodies",
    "is_limit",
    "least_of",
    "product_of",
    "shown",
    "substitute",
    "total_of",
]


@dataclass(eq=False)
class Step:
    """One action. `temps` live during the step only; loops and branches have a `body`."""

    op: Operator | None
    action: Action
    writes: tuple[Value, ...] = ()
    """What it writes; found from the action unless it is given."""
    reads: tuple[Value, ...] = ()
    """What it reads; found from the action unless it is given."""
    temps: tuple[Value, ...] = ()
    effect: bool = False
    """True if it does something beyond its outputs, so that it must not be dropped."""
    body: tuple[Step, ...] | None = None
    holds: tuple[Value, ...] = ()
    """Values that something else refers to from here on."""
    starts: Bound | None = None
    """The reduction that goes on until its result is needed."""
    fused: tuple[Operator, ...] = ()
    """The ops of the steps that were fused into this one."""
    is_view: bool = field(init=False)
    """True if the step only names another look at memory."""

    def __post_init__(self) -> None:
        # found once: passes ask for reads and writes far more often than they change an action
        # dicts keep the order; values hash by address, so sets would give another source in every process
        self.reads = _each_once(self.reads or as_read(self.action))
        self.writes = _each_once(self.writes or as_written(self.action))
        self.is_view = isinstance(self.action, Show)

    @property
    def elementwise(self) -> Elementwise | None:
        """The action, if it is one array function."""
        return self.action if isinstance(self.action, Elementwise) else None

    @property
    def ops(self) -> tuple[Operator, ...]:
        """The ops that the step computes, all or in part."""
        if self.fused:
            return self.fused
        return () if self.op is None else (self.op,)

    def all_reads(self) -> Sequence[Value]:
        """Reads of the step and of the steps of its body."""
        if self.body is None:
            return self.reads
        return [value for step in flat([self]) for value in step.reads]

    def all_writes(self) -> Sequence[Value]:
        """Writes of the step and of the steps of its body."""
        if self.body is None:
            return self.writes
        return [value for step in flat([self]) for value in step.writes]


def _each_once(values: Iterable[Value]) -> tuple[Value, ...]:
    """The values in order, without repetitions."""
    found = values if type(values) is tuple else tuple(values)
    # most steps read two arrays and write one
    if len(found) < 2 or (len(found) == 2 and found[0] is not found[1]):
        return found
    return tuple(dict.fromkeys(found))


def shown(op: Operator | None, value: Value) -> Step:
    """The step that names a view."""
    assert value.base is not None
    return Step(op, Show(), (value,), (value.base,))


@dataclass(frozen=True)
class Total:
    """The sum of all elements of an array."""

    source: Value
    out: Value


def is_limit(action: Elementwise) -> bool:
    """True for the larger or the smaller of an array's elements and a number."""
    is_bounded = action.function in ("maximum", "minimum")
    return is_bounded and not all(isinstance(item, Value) for item in action.operands)


def least_of(action: Elementwise) -> tuple[Value, float] | None:
    """The array and the number of which an action gives the larger, in whichever order; None for others."""
    if action.function != "maximum":
        return None
    for array, number in (action.operands, action.operands[::-1]):
        if isinstance(array, Value) and isinstance(number, (int, float)):
            return array, number
    return None


def total_of(step: Step) -> Total | None:
    """The sum that a step is; None for all others."""
    call = step.action
    if not isinstance(call, Call) or call.callee != Function("add.reduce"):
        return None
    (source,) = call.operands
    # over all axes, of elements in the order of the array that is shown
    is_whole = len(call.keywords) == 1 and source.shape is not None and len(source.shape) == 1
    if not is_whole or not source.contiguous or source.root.shape is None:
        return None
    return Total(source, step.writes[0]) if source.size == source.root.size else None


@dataclass(frozen=True)
class Product:
    """A matrix product: `function` is dot or matmul; with a `rate`, out -= rate * product."""

    function: str
    left: Value
    right: Value
    out: Value
    rate: Value | None = None

    @property
    def work(self) -> int:
        """Multiply-adds."""
        shape = self.left.shape
        return self.out.size * (shape[-1] if shape else 1)


def product_of(step: Step) -> Product | None:
    """The matrix product that a step is; None for all others."""
    call = step.action
    if not isinstance(call, Call) or not isinstance(call.callee, Function):
        return None
    # the two functions that lowering emits for products; both take (left, right) and a given output
    if call.callee.name not in ("dot", "matmul"):
        return None
    left, right = call.operands
    return Product(call.callee.name, left, right, step.writes[0])


def flat(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, each followed by those of its body."""
    for step in steps:
        yield step
        if step.body is not None:
            yield from flat(step.body)


def depth_of(steps: Iterable[Step]) -> int:
    """The most loops and branches that stand in each other."""
    depth = 0
    level = list(steps)
    while level := [inner for step in level if step.body is not None for inner in step.body]:
        depth += 1
    return depth


def in_bodies(
    steps: Sequence[Step],
    kept: Sequence[Value],
    change: Callable[[Sequence[Step], Sequence[Value]], Sequence[Step]],
) -> tuple[Step, ...]:
    """`change(steps, kept)`, after the same change in the body of each loop and branch, of which nothing
    is kept.
    """
    # bodies first: what a change does to a body decides what the loop around it reads
    inner = [
        step if step.body is None else replace(step, body=in_bodies(step.body, (), change)) for step in steps
    ]
    return tuple(change(inner, kept))


@dataclass
class _Substitution:
    """Some values replaced by others, and all views of them by views of those."""

    known: dict[Value, Value]
    make: Callable[[Value, Value], Value]
    seen: dict[Value, Value] = field(default_factory=dict)

    def __call__(self, value: Value) -> Value:
        if value in self.known:
            return self.known[value]
        if value.base is None:
            return value
        # one new view for each old one: steps that shared a view go on sharing it
        found = self.seen.get(value)
        if found is None:
            # a view of a replaced value must show the new one, however many views lie between
            base = self(value.base)
            found = self.seen[value] = value if base is value.base else self.make(value, base)
        return found

    def all(self, values: Iterable[Value]) -> tuple[Value, ...]:
        """Each value changed."""
        return tuple(map(self, values))

    def step(self, step: Step) -> Step:
        """A step with every value changed."""
        return replace(
            step,
            action=replaced(step.action, self),
            writes=self.all(step.writes),
            reads=self.all(step.reads),
            temps=self.all(step.temps),
            body=None if step.body is None else tuple(map(self.step, step.body)),
            holds=self.all(step.holds),
        )


def substitute(
    steps: Iterable[Step],
    kept: Iterable[Value],
    known: dict[Value, Value],
    make: Callable[[Value, Value], Value],
) -> tuple[tuple[Step, ...], tuple[Value, ...]]:
    """Steps and kept values with some values replaced; `make(view, base)` gives a view its new base."""
    change = _Substitution(known, make)
    return tuple(map(change.step, steps)), change.all(kept)
