"""The names and operands of a plan as text: the parts that statements are put together from."""

from __future__ import annotations

import builtins
import functools
import keyword
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fluidlite.base.plain_text import identifier
from fluidlite.executor.plan.actions import (
    At,
    Bound,
    Call,
    Copy,
    Elementwise,
    Equals,
    Function,
    InOut,
    Item,
    Length,
    LodOf,
    Method,
    New,
    Operand,
    OrElse,
    Out,
    ScopeFunction,
    Sum,
)
from fluidlite.executor.plan.objects import Fresh
from fluidlite.executor.plan.sizes import Made, Size, about, plain, sizes_in
from fluidlite.executor.plan.steps import is_limit
from fluidlite.executor.plan.values import Reshape, Same, Slices, Storage, Transpose, Value
from fluidlite.executor.run.functions import Erf
from fluidlite.ops.kernels.scalar import FUNCTIONS

__all__ = ["Names", "Operands", "literal"]

FEW = 1 << 10  # elements from which the operand of a `maximum` had better be an array than a number
MANY = 1 << 15  # and up to which such an array stays in the cache


# names that the source itself uses: arguments, built-in functions, the variables of its loops
_OWN_NAMES: tuple[str, ...] = (
    "np",
    "buffers",
    "params",
    "constants",
    "bound",
    "load",
    "store",
    "check_buffers",
    "make",
    "step",
    "tick",
)
_OWN_NAMES += ("range", "len", "float", "t", "i", "row", "_")
# functions that rules call by name, beside those of scalar expressions
_ARRAY_FUNCTIONS: tuple[str, ...] = (
    "add",
    "array",
    "concatenate",
    "copyto",
    "dot",
    "empty",
    "matmul",
    "maximum",
    "minimum",
)
_ARRAY_FUNCTIONS += ("multiply", "putmask", "reciprocal", "subtract", "take", "zeros")


# a variable that is named like a function must not hide it in the step
_RESERVED = frozenset((*_OWN_NAMES, *_ARRAY_FUNCTIONS, *keyword.kwlist, *dir(builtins), *dir(np)))


class Names:
    """An identifier for each value, bound object and number, close to the name that it has in the program."""

    def __init__(self) -> None:
        self.taken = set(_RESERVED)
        self.numbers: dict[str, int] = {}
        """The next number to try behind each base: plans of thousands of temporaries are common."""
        self.values: dict[Value, str] = {}
        self.params: dict[str, str] = {}
        self.lods: dict[str, str] = {}
        """Identifier of a value -> that of its level of detail."""
        self.bound: dict[Bound, str] = {}

    def unique(self, wanted: str) -> str:
        """`wanted` as an identifier that nothing else has."""
        # Paddle's names hold dots and at signs; that of a gradient stays recognisable
        base = identifier(wanted.replace("@GRAD", "__grad"))
        name = base
        number = self.numbers.get(base, 2)
        while name in self.taken:
            name = f"{base}_{number}"
            number = number + 1
        self.numbers[base] = number
        self.taken.add(name)
        return name

    def of(self, value: Value) -> str:
        """The identifier of a value; versions of a persistable variable share their array, and its name."""
        found = self.values.get(value)
        if found is not None:
            return found
        if value.storage is Storage.PARAM:
            # one array, one name, however many versions the passes tell apart
            found = self.params.get(value.name) or self.unique(value.name)
            self.params[value.name] = found
        # no line makes such a view: it is the array of its base, under the name of that
        elif isinstance(value.view, Same) and value.base is not None:
            found = self.of(value.base)
        else:
            found = self.unique(value.name or self._described(value))
        self.values[value] = found
        return found

    def lod(self, value: Value) -> str:
        """The identifier of a value's level of detail."""
        name = self.of(value)
        found = self.lods.get(name)
        if found is None:
            found = self.lods[name] = self.unique(f"{name}__lod")
        return found

    def _described(self, value: Value) -> str:
        """A name for a temporary."""
        if value.base is None:
            return _described_constant(value) if value.storage is Storage.CONST else "temp"
        base = self.of(value.base)
        if isinstance(value.view, Transpose):
            return f"{base}__T"
        if isinstance(value.view, Slices):
            pieces = ["_".join(map(_shown, bounds)) for bounds in value.view.ranges if bounds]
            return f"{base}__{'_'.join(pieces)}"
        return f"{base}__{'x'.join(map(_shown, value.shape or ())) or 'scalar'}"

    def bound_to(self, thing: Bound) -> str:
        """The identifier of a bound object."""
        found = self.bound.get(thing)
        if found is None:
            found = self.bound[thing] = self.unique(f"{thing.hint}_{len(self.bound)}")
        return found


def _shown(size: int) -> str:
    """A size in a name."""
    return "n" if isinstance(size, Size) else str(size)


def _described_constant(value: Value) -> str:
    """A name for a constant: vectors of ones are what sums are multiplied with."""
    if isinstance(value.constant, Made):
        return value.constant.function.__name__
    is_ones = bool(value.constant.size > 1 and (value.constant == 1).all())
    return "ones" if is_ones else "constant"


class Operands:
    """The text of operands; remembers which functions, numbers and bound objects they refer to."""

    def __init__(self, on_host: bool) -> None:
        self.on_host = on_host
        self.names = Names()
        self.functions: dict[str, None] = {}
        self.sizes: dict[Size, str] = {}
        self.numbers: dict[tuple[str, str, tuple[int, ...]], tuple[str, Any, str, tuple[int, ...]]] = {}
        """By text, dtype and shape: the name, the number, its dtype and shape."""
        self.groups: dict[str, Sequence[Any]] = {}
        """Name -> the arrays, or the rows of arrays, that it stands for."""
        self.erf: Bound | None = None
        self.patterns: Mapping[int, Hashable] = {}
        """By the `id` of a loop the pattern for which there is one function."""
        self.functions_of: dict[Hashable, str] = {}
        """Pattern -> its function."""
        self.common: list[str] = []
        """The lines of these functions."""

    def function(self, name: str) -> str:
        """A function of the array module; the error function comes from elsewhere."""
        if name == "erf":
            self.erf = self.erf or Bound("erf", Fresh(Erf))
            return self.names.bound_to(self.erf)
        self.functions[name.partition(".")[0]] = None
        return name

    def number(self, number: Any, dtype: Any, shape: tuple[int, ...] = ()) -> str:
        """A number as an array (of no dimensions), made once: a Python number costs a conversion at each
        call.
        """
        kind = _name_of(dtype)
        known = plain(number)
        if isinstance(known, bool):
            kind = "bool"
        # what follows from sizes may be a fraction in another run
        elif isinstance(number, Size) and isinstance(known, float) and kind[:3] in ("int", "uin", "boo"):
            kind = "float64"
        elif isinstance(number, float) and kind[:3] in ("int", "uin", "boo") and number != int(number):
            # a fraction beside integers makes them floating point, as in NumPy
            kind = "float64"
        key = (self.text(number), kind, shape)
        if key not in self.numbers:
            self.numbers[key] = (self.names.unique(f"s{len(self.numbers)}"), number, kind, shape)
        return self.numbers[key][0]

    def text(self, operand: Operand) -> str:
        """An operand where it stands."""
        if isinstance(operand, Value):
            return self.names.of(operand)
        if isinstance(operand, Bound):
            return self.names.bound_to(operand)
        if isinstance(operand, tuple):
            # a comma behind each entry, as a tuple of one needs it
            return f"({''.join(f'{self.text(item)}, ' for item in operand).rstrip()})"
        if isinstance(operand, list):
            return f"[{', '.join(map(self.text, operand))}]"
        if isinstance(operand, dict):
            return f"{{{', '.join(f'{key!a}: {self.text(item)}' for key, item in operand.items())}}}"
        if isinstance(operand, Size):
            return self.size(operand)
        write = _WRITERS.get(type(operand))
        return literal(operand) if write is None else write(self, operand)

    def size(self, size: Size) -> str:
        """The name of a number that follows from the sizes of the feeds."""
        if size not in self.sizes:
            self.sizes[size] = self.names.unique(f"n{len(self.sizes)}")
        return self.sizes[size]

    def group(self, wanted: str, items: Sequence[Any]) -> str:
        """The name of many arrays, or of rows of them, that are the same at every step."""
        name = self.names.unique(wanted)
        self.groups[name] = items
        return name

    def shape(self, shape: tuple[int, ...]) -> str:
        """A shape."""
        return self.text(shape) if sizes_in(shape) else str(shape)

    def call(self, call: Call) -> str:
        """A call."""
        arguments = [self.text(item) for item in call.operands]
        arguments += [f"{key}={self.text(item)}" for key, item in call.keywords]
        return f"{self.callee(call.callee)}({', '.join(arguments)})"

    def callee(self, callee: Function | ScopeFunction | Bound | Method) -> str:
        """The function that a call names."""
        if isinstance(callee, Function):
            return self.function(callee.name)
        if isinstance(callee, Method):
            return f"{self.names.bound_to(callee.owner)}.{callee.name}"
        return callee.name if isinstance(callee, ScopeFunction) else self.names.bound_to(callee)

    def lod(self, value: Value) -> str:
        """The level of detail of a value."""
        return self.names.lod(value) if value.has_lod else "()"

    def or_else(self, item: OrElse) -> str:
        """A value or its default."""
        return f"{self.text(item.kept)} if {self.text(item.value)} is not None else {self.text(item.default)}"

    def sum(self, item: Sum) -> str:
        """Integers added up."""
        (_, first), *rest = item.terms
        return self.text(first) + "".join(
            f" {'+' if sign > 0 else '-'} {self.text(term)}" for sign, term in rest
        )

    def view(self, value: Value) -> str:
        """The expression of a view."""
        assert value.base is not None
        base = self.text(value.base)
        view = value.view
        if isinstance(view, Reshape):
            return f"{base}.reshape({self.shape(view.shape)})"
        if isinstance(view, Transpose):
            reversed_axes = tuple(reversed(range(len(view.axes))))
            return f"{base}.T" if view.axes == reversed_axes else f"{base}.transpose({view.axes})"
        if isinstance(view, Slices):
            pieces = (":".join(map(self.text, bounds)) if bounds else ":" for bounds in view.ranges)
            return f"{base}[{', '.join(pieces)}]"
        return base

    def elementwise(
        self,
        action: Elementwise,
        out: Value,
        names: Mapping[Value, str],
        shape: tuple[int, ...] | None,
        cut: str = "",
    ) -> list[str]:
        """The array calls of an element-wise action; `names` stand for some values, `shape` is that of the
        arrays at hand, of which the last may be cut.
        """
        target = names.get(out) or self.text(out)
        dtype = _operand_dtype(action.operands, out)
        has_limit = is_limit(action) and dtype == out.dtype
        filled = shape if has_limit and shape and FEW <= about(math.prod(shape)) <= MANY else None
        items = []
        for item in action.operands:
            if isinstance(item, Value):
                items.append(names.get(item) or self.text(item))
            elif filled is not None and np.dtype(dtype).kind == "f":
                # 12.5 us beside a number, 4.2 beside an array, for 32,768 elements
                items.append(f"{self.number(item, dtype, filled)}{cut}")
            else:
                items.append(self.number(item, dtype))
        if action.function == "copy":
            (source,) = action.operands
            text = items[0] if isinstance(source, Value) else self.number(source, out.dtype)
            return [f"{self.function('copyto')}({target}, {text})"]
        if action.function == "where":
            # the last operand goes first: the target may lie in its memory, but not in that of the others
            copyto = self.function("copyto")
            first = f"{copyto}({target}, {items[2]})"
            if _is_mask_of(out, action.operands):
                return [first, f"{self.function('putmask')}({target}, {items[0]}, {items[1]})"]
            return [first, f"{copyto}({target}, {items[1]}, where={items[0]})"]
        function = self.function(FUNCTIONS[action.function][0])
        if self.on_host and _takes_out(function, len(items)):
            # 45 ns less than by keyword, of 250 for a call on a few elements
            return [f"{function}({', '.join(items)}, {target})"]
        return [f"{function}({', '.join(items)}, out={target})"]


@functools.cache
def _takes_out(function: str, operands: int) -> bool:
    """True if a function of NumPy takes its output behind so many operands."""
    found = getattr(np, function, None)
    # NumPy frowns on it for these two
    return isinstance(found, np.ufunc) and found.nin == operands and function not in ("maximum", "minimum")


def _is_mask_of(out: Value, operands: Sequence[Any]) -> bool:
    """True if a choice is made for each element of the output, from as many: `putmask` takes 0.8 ns an
    element then, `copyto` with a condition 2.0.
    """
    condition, chosen = operands[:2]
    if not isinstance(condition, Value) or not isinstance(chosen, Value):
        return False
    return (
        condition.shape == chosen.shape == out.shape and condition.dtype == bool and chosen.dtype == out.dtype
    )


@functools.lru_cache(64)
def _name_of(dtype: Any) -> str:
    return str(dtype)


_WRITERS: Mapping[type, Any] = {
    Out: lambda self, item: self.text(item.value),
    InOut: lambda self, item: self.text(item.value),
    LodOf: lambda self, item: self.lod(item.value),
    Item: lambda self, item: f"{self.text(item.value)}.item()",
    Copy: lambda self, item: f"{self.text(item.value)}.copy()",
    At: lambda self, item: f"{self.text(item.value)}[{self.text(item.index)}]",
    Equals: lambda self, item: f"{self.text(item.value)} == {self.text(item.number)}",
    Length: lambda self, item: f"len({self.text(item.value)})",
    New: lambda self, item: f"{self.function(item.function)}({self.shape(item.shape)}, {item.dtype!r})",
    OrElse: Operands.or_else,
    Sum: Operands.sum,
    Call: Operands.call,
}


def literal(item: Any) -> str:
    """A Python constant, in ASCII; infinities and NaN have no literal."""
    if isinstance(item, float) and not math.isfinite(item):
        return f"float({str(item)!r})"
    return ascii(item)


def _operand_dtype(operands: Iterable[Any], out: Value) -> Any:
    """The dtype that a number takes on beside array operands: theirs, as NumPy's weak scalars do."""
    dtypes = [item.dtype for item in operands if isinstance(item, Value)]
    numeric = [dtype for dtype in dtypes if dtype is not None and dtype.kind in "fiu"]
    return max(numeric, key=lambda dtype: (dtype.kind == "f", dtype.itemsize)) if numeric else out.dtype
