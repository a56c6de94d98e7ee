"""Sizes that differ from run to run, so that one plan serves them all.

While a plan is made, the size of a batch is a `Size`: a number that remembers how it was computed.
Arithmetic gives further ones, which `SizeTable` lists in the order in which they arose; for other sizes of
the feeds the list is computed again (`SizeTable.values_for`). A question about a size (is it 1? is the array
large?) is answered for the run at hand, and question and answer become a condition: the plan serves the runs
that answer alike. So does a size that is used as a plain number (`int`, `range`, the shape of a NumPy array):
it may then be no other. A rule that knows nothing of all this is therefore never wrong, and at worst its plan
serves one size. Questions of speed alone are asked about `about(size)`, and let the plan serve sizes that are
not too far away.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["Made", "Resolver", "Size", "SizeTable", "about", "plain", "resolver", "same_shape", "sizes_in"]

SMALLEST = (
    2  # 0 and 1 rows are special to many rules (nothing to do, broadcast): they have plans of their own
)
# how far sizes may be from those that questions of speed were answered for: a small batch loses little by
# a plan for large ones, and a large one all that threads would win
SMALLER = 16
LARGER = 4


@dataclasses.dataclass(frozen=True)
class Made:
    """A constant that is made when a plan is bound: `function(*arguments)`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


Product = tuple[int, tuple[int, ...]]
"""A whole number of times the product of some inputs."""


class Size:
    """A number that follows from the sizes of the feeds; made by `SizeTable` alone, one object for each way
    to compute it.
    """

    __slots__ = ("index", "low", "product", "sizes", "value")

    def __init__(
        self, sizes: SizeTable, index: int, value: Any, low: float | None, product: Product | None = None
    ) -> None:
        self.sizes = sizes
        self.index = index
        self.value = value
        self.low = low
        """A number that it is at least for all runs, where one is known."""
        self.product = product
        """How often it is which inputs, where it is such a product."""

    # ------------------------------------------------------------------ arithmetic
    def __add__(self, other: Any) -> Any:
        return self.sizes.apply(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self.sizes.apply(operator.add, self, other)

    def __mul__(self, other: Any) -> Any:
        return self.sizes.apply(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.sizes.apply(operator.mul, self, other)

    def __sub__(self, other: Any) -> Any:
        return self.sizes.apply(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.sizes.apply(operator.sub, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self.sizes.apply(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.sizes.apply(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return self.sizes.apply(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self.sizes.apply(operator.mod, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.sizes.apply(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.sizes.apply(operator.truediv, other, self)

    def __neg__(self) -> Any:
        return self.sizes.apply(operator.sub, 0, self)

    def __pos__(self) -> Any:
        return self

    # ------------------------------------------------------------------ questions
    def __eq__(self, other: object) -> Any:
        return self.sizes.ask(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return self.sizes.ask(operator.ne, self, other)

    def __lt__(self, other: Any) -> Any:
        return self.sizes.ask(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return self.sizes.ask(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return self.sizes.ask(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return self.sizes.ask(operator.ge, self, other)

    def __bool__(self) -> bool:
        return bool(self.sizes.ask(operator.ne, self, 0))

    def __hash__(self) -> int:
        # by origin, not by value: what is remembered by shape is found by who computes the same
        return hash((Size, self.index))

    # ------------------------------------------------------------------ as a plain number
    def __index__(self) -> int:
        return operator.index(self.sizes.fix(self))

    def __int__(self) -> int:
        return int(self.sizes.fix(self))

    def __float__(self) -> float:
        return float(self.sizes.fix(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.sizes.fix(self), dtype)

    def __repr__(self) -> str:
        return repr(self.sizes.fix(self))

    def __format__(self, spec: str) -> str:
        return format(self.sizes.fix(self), spec)


# questions that have the same answer about everything above a number
_ABOVE = {
    operator.eq: False,
    operator.ne: True,
    operator.lt: False,
    operator.le: False,
    operator.gt: True,
    operator.ge: True,
}
_NUMBERS = (int, float, bool)


class SizeTable:
    """The sizes of one plan: how each is computed, and the conditions under which the plan serves."""

    def __init__(self, inputs: Sequence[int], is_exact: bool = False) -> None:
        self.is_exact = is_exact
        """True if questions of speed become conditions, too: sums are then added up in an order that follows
        from the sizes alone, and not from those that came before.
        """
        self._estimated: set[int] = set()
        """The inputs that answers about speed were given for."""
        self._entries: list[tuple[Callable[..., Any] | None, tuple[Any, ...]]] = []
        self._values: list[Any] = []
        self._places: dict[Any, int] = {}
        self._known: dict[Any, Size] = {}
        self._conditions: dict[tuple[Callable[..., Any], int, int], bool] = {}
        self._is_recording = True
        self._is_sealed = False
        self.resolvers: dict[Any, Resolver] = {}
        """Of what holds these sizes, by what tells it apart."""
        self.inputs: list[Size] = []
        for number, value in enumerate(inputs):
            product = (1, (number,))
            size = self._known[product] = self._new((None, (number,)), value, SMALLEST, product)
            self.inputs.append(size)

    def _new(
        self,
        entry: tuple[Any, tuple[Any, ...]],
        value: Any,
        low: float | None,
        product: Product | None = None,
    ) -> Size:
        self._entries.append(entry)
        self._values.append(value)
        return Size(self, len(self._entries) - 1, value, low, product)

    def _place(self, operand: Any) -> int:
        """The place in the list of a size, or of a plain number, which gets one."""
        if isinstance(operand, Size):
            return operand.index
        key = (type(operand), operand)
        if key not in self._places:
            # a function of nothing
            self._entries.append((lambda: operand, ()))
            self._values.append(operand)
            self._places[key] = len(self._entries) - 1
        return self._places[key]

    def _takes(self, operand: Any) -> bool:
        if isinstance(operand, Size):
            return operand.sizes is self
        return type(operand) in _NUMBERS

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """A number computed from sizes and plain numbers."""
        if not all(map(self._takes, operands)):
            return NotImplemented
        self._check()
        # sums begin with 0: the same size stays the same object
        if function in (operator.add, operator.sub) and type(operands[1]) is int and operands[1] == 0:
            return operands[0]
        if function in (operator.mul, operator.floordiv, operator.mod):
            product = _product(function, *map(_as_product, operands))
            if product is not None:
                return self._of_product(product)
        places = tuple(map(self._place, operands))
        if function in (operator.add, operator.mul):
            places = tuple(sorted(places))
        key = (function, places)
        found = self._known.get(key)
        if found is None:
            value = function(*(self._values[place] for place in places))
            found = self._known[key] = self._new(key, value, _low(function, operands))
        return found

    def _of_product(self, product: Product) -> Any:
        """The size that is a product of inputs; a plain number where it is of none."""
        factor, inputs = product
        if not inputs or not factor:
            return factor
        found = self._known.get(product)
        if found is None:
            places = (self._place(factor), *inputs)
            value = math.prod(self._values[place] for place in places)
            low = factor * SMALLEST ** len(inputs) if factor > 0 else None
            found = self._known[product] = self._new((_times, places), value, low, product)
        return found

    def ask(self, question: Callable[[Any, Any], bool], size: Size, other: Any) -> Any:
        """The answer for the run at hand, which becomes a condition."""
        if not self._takes(other):
            return NotImplemented
        if size is other:
            return question(0, 0)
        if size.low is not None and not isinstance(other, Size) and other < size.low:
            return _ABOVE[question]
        answer = question(size.value, plain(other))
        if self._is_recording:
            self._check()
            self._conditions[question, size.index, self._place(other)] = answer
        return answer

    def fix(self, size: Size) -> Any:
        """The size as a plain number, which from then on it has to be."""
        if self._is_recording:
            self._check()
            self._conditions[operator.eq, size.index, self._place(size.value)] = True
        return size.value

    def estimate(self, size: Size) -> Any:
        """The size in the run at hand, for a question of speed alone: the plan goes on serving feeds that
        are up to 16 times as small and 4 times as large.
        """
        if self.is_exact:
            return size
        if self._is_recording:
            self._check()
            for number in self._inputs_of(size.index, every=True):
                self._estimated.add(number)
        return size.value

    def _check(self) -> None:
        # what has been written into the plan by now would be wrong for all other sizes
        assert not self._is_sealed, "a size is used after its plan was made"

    def seal(self) -> None:
        """Allow no further question: the plan is made."""
        self._is_sealed = True

    def record(self, is_recording: bool) -> None:
        """Stop (or go on) taking answers for conditions, as for checks that change nothing."""
        self._is_recording = is_recording

    def values_for(self, inputs: Sequence[int]) -> list[Any] | None:
        """The value of each size for other inputs; None where the plan does not serve them."""
        if any(value < SMALLEST for value in inputs):
            return None
        for number in self._estimated:
            at_hand = self._values[self.inputs[number].index]
            if not at_hand <= inputs[number] * SMALLER or not inputs[number] <= at_hand * LARGER:
                return None
        # numbers stay as they are
        found = self._values.copy()
        found[: len(inputs)] = inputs
        try:
            for place, (function, places) in enumerate(self._entries):
                if function is not None and places:
                    found[place] = function(*[found[operand] for operand in places])
            for (question, size, other), answer in self._conditions.items():
                if question(found[size], found[other]) is not answer:
                    return None
        except ArithmeticError:
            return None
        return found

    def fixed(self) -> set[int]:
        """The inputs that the conditions let have one value only, as far as that is plain to see."""
        places = set()
        for (question, size, other), answer in self._conditions.items():
            is_number = not self._entries[other][1]
            if is_number and question in _EQUALITIES and answer is _EQUALITIES[question]:
                places.add(size)
        return {number for place in places for number in self._inputs_of(place)}

    def _inputs_of(self, place: int, every: bool = False) -> set[int]:
        """The inputs that a size follows from, or (not `every`) that are fixed where it is."""
        function, operands = self._entries[place]
        if function is None:
            return set(operands)
        # 0 == n % 4 fixes nothing
        if not every and function in (operator.mod, operator.floordiv):
            return set()
        return {number for operand in operands for number in self._inputs_of(operand, every)}


_EQUALITIES = {operator.eq: True, operator.ne: False}


def _times(*numbers: Any) -> Any:
    return math.prod(numbers)


def _as_product(operand: Any) -> Product | None:
    if isinstance(operand, Size):
        return operand.product
    return (operand, ()) if type(operand) is int else None


def _product(function: Any, left: Product | None, right: Product | None) -> Product | None:
    """The product, quotient or remainder of two products, where that is one whatever the inputs are: so a
    shape that is divided by what it was multiplied with is found again.
    """
    if left is None or right is None:
        return None
    if function is operator.mul:
        return left[0] * right[0], tuple(sorted(left[1] + right[1]))
    if not right[0]:
        return None
    rest = list(left[1])
    for number in right[1]:
        if number not in rest:
            return None
        rest.remove(number)
    # a n // b n is a // b, and a n % b n is n times a % b
    if rest and left[0] % right[0]:
        return None
    if function is operator.mod:
        remainder = left[0] % right[0]
        return remainder, right[1] if remainder else ()
    return left[0] // right[0], tuple(rest)


def _low(function: Callable[..., Any], operands: Sequence[Any]) -> float | None:
    """A lower bound of a sum or product of numbers that have one."""
    if function not in (operator.add, operator.mul):
        return None
    lows = [item.low if isinstance(item, Size) else item for item in operands]
    if any(low is None or low < 0 for low in lows):
        return None
    low: float = function(*lows)
    return low


def about(size: Any) -> Any:
    """A size (or a plain number) for a question of speed, whose answer may be another for other feeds."""
    return size.sizes.estimate(size) if isinstance(size, Size) else size


def same_shape(one: Sequence[int] | None, other: Sequence[int] | None) -> bool:
    """True if two shapes are equal; of shapes of different rank no size is asked.

    Python compares tuples from the front: [batch, 8] with [8] would ask if the batch is 8.
    """
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and one == other


def plain(item: Any) -> Any:
    """The value for the run at hand, for what says nothing about other runs: a comment, a dtype."""
    if isinstance(item, Size):
        return item.value
    if isinstance(item, (tuple, list)):
        return type(item)(map(plain, item))
    return item


class Resolver:
    """Gives something that holds sizes, with the values of these.

    It remembers the last list of values: layers that are alike have most shapes in common.
    """

    __slots__ = ("_last", "make", "sizes")

    def __init__(self, sizes: SizeTable, make: Callable[[Sequence[Any]], Any]) -> None:
        self.sizes = sizes
        self.make = make
        self._last: tuple[Any, Any] = (None, None)

    def __call__(self, values: Sequence[Any]) -> Any:
        # one assignment: threads that have other values may call, too
        known, found = self._last
        if known is not values:
            found = self.make(values)
            self._last = values, found
        return found


def resolver(item: Any) -> Resolver | None:
    """The resolver of `item`, a number or something that holds some: tuples, lists, dataclasses; None where
    there is no size in it. What it gives is shared and not to be changed.
    """
    kind = type(item)
    if kind is Size:
        return _kept(item.sizes, item.index, operator.itemgetter(item.index))
    if kind in _PLAIN_TYPES:
        return None
    if kind is tuple or kind is list:
        return _of_sequence(kind, item)
    if kind is dict:
        entries = resolver(list(item.values()))
        return entries and Resolver(
            entries.sizes, lambda values: dict(zip(item, entries(values), strict=True))
        )
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(item) if field.init]
        fields = resolver(tuple([getattr(item, name) for name in names]))
        return fields and _kept(
            fields.sizes, (kind, fields), lambda values: kind(**dict(zip(names, fields(values), strict=True)))
        )
    return None


def _of_sequence(kind: type, items: Sequence[Any]) -> Resolver | None:
    """The resolver of a tuple or list."""
    makers = [(place, maker) for place, maker in enumerate(map(resolver, items)) if maker is not None]
    if not makers:
        return None
    plain_items = list(items)
    for place, maker in makers:
        # what stands for the item in the key
        plain_items[place] = maker

    def make(values: Sequence[Any]) -> Any:
        found = plain_items.copy()
        for place, maker in makers:
            found[place] = maker(values)
        return kind(found)

    return _kept(makers[0][1].sizes, (kind, *map(_told_apart, plain_items)), make)


def _told_apart(item: Any) -> Any:
    """A key that only an equal item of the same types has: 1 and True are equal, 0.0 and -0.0 too."""
    kind = type(item)
    if kind is tuple:
        return (kind, *map(_told_apart, item))
    if kind is float:
        return item.hex()
    # by identity: who remembers the key keeps the item
    return (kind, item) if kind in _NAMED_TYPES else id(item)


def _kept(sizes: SizeTable, key: Any, make: Callable[[Sequence[Any]], Any]) -> Resolver:
    """The resolver with a key, which a plan has once for all things that are alike."""
    found = sizes.resolvers.get(key)
    if found is None:
        found = sizes.resolvers[key] = Resolver(sizes, make)
    return found


def sizes_in(items: Iterable[Any]) -> bool:
    """True if one of some numbers is a `Size`."""
    return any(isinstance(item, Size) for item in items)


_NAMED_TYPES = frozenset((int, bool, str, type(None)))
_PLAIN_TYPES = frozenset((int, float, bool, str, bytes, type(None), np.ndarray))
