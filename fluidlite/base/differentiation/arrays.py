"""Arrays that record what NumPy computes with them, so that gradients are found backwards along the record.

A kernel is called with `Traced` arrays in place of its arrays, and with a `TracedModule` in place of NumPy or
CuPy. NumPy hands its functions of such arrays over to them (`__array_ufunc__`, `__array_function__`); each is
computed on the plain arrays and noted on a `GradientTape` with its derivative, which stands in `rules`. The
derivatives are written as functions of arrays themselves: when these are traced, too, on an outer tape, the
gradient of a gradient is recorded in turn, to any order.

What holds: an array that a kernel allocates by way of `xp` is traced; it may be written in place, whole or
through views, and every view shows the write. A step without a derivative, and a traced array that would
become a plain one, raise `NoDerivative`: a number that depends on the inputs never turns into a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fluidlite.base.errors import UnsupportedError

__all__ = [
    "COMPOSED",
    "NoDerivative",
    "Pull",
    "GradientTape",
    "Traced",
    "add_at",
    "call",
    "get_item",
    "is_basic",
    "is_traced",
    "no_gradient",
    "plain",
    "plain_inside",
    "pull",
    "record",
    "rule",
    "view_of",
]

Pull: TypeAlias = "Callable[[Any], Any]"
"""From the gradient of a step's result to that of one of its operands."""


class NoDerivative(UnsupportedError):
    """A step of a kernel whose derivative is not known."""


class _TapeStep(NamedTuple):
    """One step: the nodes that it was computed from, each with the way back to it."""

    parents: tuple[tuple[int, Pull], ...]


class GradientTape:
    """The steps of one computation, in order. `level` is 1, and one more in a computation that is traced."""

    def __init__(self, level: int) -> None:
        self.nodes: list[_TapeStep] = []
        self.level = level

    def variable(self, value: Any) -> Traced:
        """`value` as an array to which gradients are wanted."""
        return Traced(self, value, self.note(()))

    def note(self, parents: tuple[tuple[int, Pull], ...]) -> int:
        """The number of a new step."""
        self.nodes.append(_TapeStep(parents))
        return len(self.nodes) - 1


_RULES: dict[str, Callable[..., Any]] = {}
COMPOSED: dict[str, Callable[..., Any]] = {}
"""Functions without a derivative of their own: they are computed with those that have one."""
# functions whose results do not change with their arguments, almost everywhere
# fmt: off
_CONSTANT = frozenset((
    "sign", "floor", "ceil", "rint", "trunc", "isnan", "isinf", "isfinite", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_not",
    "logical_xor", "argmax", "argmin", "argsort", "nonzero", "flatnonzero", "searchsorted",
    "heaviside", "floor_divide", "shape", "ndim", "size", "any", "all", "count_nonzero",
    "result_type", "allclose", "array_equal", "isclose", "signbit", "isin", "lexsort",
    "argpartition", "zeros_like", "ones_like", "empty_like", "full_like", "iscomplexobj", "can_cast",
))
# fmt: on


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the derivative of the functions called `names`.

    It is called with the result and the arguments, and returns for each positional argument how a gradient
    goes back to it; a list of these for a list of arrays; `no_gradient` for one that the result does not
    change with; None for one that is not an array.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return declare


def no_gradient(_gradient: Any) -> None:
    """The way back to an operand that the result does not change with, such as a condition."""


def plain(value: Any) -> Any:
    """The array below all tapes."""
    while isinstance(value, Traced):
        value = value.value
    return value


def traced_among(args: Sequence[Any]) -> Iterator[Traced]:
    for arg in args:
        if isinstance(arg, Traced):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from traced_among(arg)


def is_traced(args: Sequence[Any]) -> bool:
    """True if one of `args` is a traced array, or a list with one."""
    return next(traced_among(args), None) is not None


def _below(arg: Any, tape: GradientTape) -> Any:
    """`arg` without the arrays of `tape`: as this tape's steps compute with it."""
    if isinstance(arg, Traced):
        return arg.value if arg.tape is tape else arg
    if isinstance(arg, (list, tuple)) and is_traced(arg):
        return type(arg)(_below(item, tape) for item in arg)
    return arg


def record(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)`, noted on the innermost tape among the arguments."""
    name = function.__name__
    traced = list(traced_among(args))
    if is_traced(list(kwargs.values())):
        raise NoDerivative(f"{name} has a keyword argument that depends on the inputs")
    if name in _CONSTANT:
        return function(*map(plain_inside, args), **kwargs)
    tape = max((item.tape for item in traced), key=lambda tape: tape.level)
    values = [_below(arg, tape) for arg in args]
    out = function(*values, **kwargs)
    if name not in _RULES:
        raise NoDerivative(f"{name} has no derivative rule")
    pulls = _RULES[name](out, *values, **kwargs)
    parents: list[tuple[int, Pull]] = []
    for arg, pull_back in zip(args, pulls, strict=False):
        _add_parents(parents, tape, arg, pull_back)
    result = Traced(tape, out, tape.note(tuple(parents)) if parents else None)
    # NumPy would write through it into the operand: only where `call` knows the way back, this may be done
    result.is_fixed = any(_shares_memory(out, item) for item in traced)
    return result


def _shares_memory(out: Any, operand: Traced) -> bool:
    first, second = plain(out), plain(operand)
    return (
        isinstance(first, np.ndarray)
        and isinstance(second, np.ndarray)
        and np.may_share_memory(first, second)
    )


def plain_inside(arg: Any) -> Any:
    """`arg`, with plain arrays for traced ones also in lists."""
    if isinstance(arg, (list, tuple)):
        return type(arg)(map(plain_inside, arg))
    return plain(arg)


def _add_parents(parents: list[tuple[int, Pull]], tape: GradientTape, arg: Any, pull_back: Any) -> None:
    if isinstance(arg, (list, tuple)) and pull_back is not None:
        for item, inner in zip(arg, pull_back, strict=True):
            _add_parents(parents, tape, item, inner)
    elif isinstance(arg, Traced) and arg.tape is tape and arg.node is not None:
        if pull_back is None:
            raise NoDerivative("an operand that depends on the inputs has no derivative rule")
        parents.append((arg.node, pull_back))


def pull(pairs: Sequence[tuple[Any, Any]], wanted: Sequence[Traced]) -> list[Any]:
    """Gradients of the sum of `result * incoming` over `pairs`, by each array of `wanted`; None for zero."""
    if not wanted:
        return []
    tape = wanted[0].tape
    found: dict[int, Any] = {}
    for result, incoming in pairs:
        if isinstance(result, Traced) and result.tape is tape and result.value is not None:
            _add(found, result.node, incoming)
    for index in range(len(tape.nodes) - 1, -1, -1):
        parents = tape.nodes[index].parents
        if index in found and parents:
            gradient = found.pop(index)
            for parent, pull_back in parents:
                _add(found, parent, pull_back(gradient))
    return [found.get(array.node) if array.node is not None else None for array in wanted]


def _add(found: dict[int, Any], node: int | None, gradient: Any) -> None:
    if node is not None and gradient is not None:
        found[node] = found[node] + gradient if node in found else gradient


# ---------------------------------------------------------------------- arrays
# fmt: off
_VIEWS = frozenset((
    "reshape", "ravel", "transpose", "moveaxis", "swapaxes", "squeeze", "expand_dims", "flip",
))
# fmt: on


class Traced(NDArrayOperatorsMixin):
    """An array of a tape. `node` is the step that computed its present value, None for a constant.

    A view knows the array `base` that it shows, and by `look` how to see it again once that was written.
    """

    def __init__(self, tape: GradientTape, value: Any, node: int | None = None) -> None:
        self.tape = tape
        self._value = value
        self._node = node
        self.base: Traced | None = None
        self.look: Callable[[Any], Any] | None = None
        self.put: Callable[[Any, Any], Any] | None = None
        self.version = 0
        self.seen = 0
        self.is_fixed = False

    def _refresh(self) -> None:
        if self.base is None or self.look is None:
            return
        self.base._refresh()
        if self.base.version != self.seen:
            now = self.look(self.base)
            self._value, self._node, self.seen = now._value, now._node, self.base.version
            self.version += 1

    @property
    def value(self) -> Any:
        """The array on the tape below."""
        self._refresh()
        return self._value

    @property
    def node(self) -> int | None:
        """The step that computed the present value."""
        self._refresh()
        return self._node

    def _write(self, new: Traced) -> None:
        """Take the value of `new`, here and in the array that this is a view of."""
        if self.is_fixed:
            raise NoDerivative("a view that depends on the inputs is written")
        self._refresh()
        self._value, self._node = new._value, new._node
        self.version += 1
        if self.base is not None and self.put is not None:
            self.base._write(self.put(self.base, new))
            self.seen = self.base.version

    def _view(self, result: Any, look: Callable[[Any], Any], put: Callable[[Any, Any], Any]) -> Any:
        if isinstance(result, Traced) and result.is_fixed:
            result.base, result.look, result.put, result.seen = self, look, put, self.version
            result.is_fixed = False
        return result

    # ------------------------------------------------------------------ what NumPy calls
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.node is not None:
            raise NoDerivative("an array that depends on the inputs would become a constant")
        found = np.array(self.value, dtype)
        # what is written into it would be lost
        found.flags.writeable = False
        return found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if method == "at":
            return self._at(ufunc, *inputs)
        function = _method_of(ufunc, method)
        if method == "reduce":
            kwargs.setdefault("axis", 0)
        result = call(function, inputs, {k: v for k, v in kwargs.items() if k != "casting"})
        if out is None:
            return result
        target = out[0]
        if not isinstance(target, Traced):
            raise NoDerivative("a result that depends on the inputs is written into a constant array")
        target[...] = result
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if function is np.copyto:
            return _copy_to(*args, **kwargs)
        result = call(function, args, kwargs)
        if out is None:
            return result
        out[...] = result
        return out

    def _at(self, ufunc: Any, target: Any, index: Any, values: Any) -> None:
        if ufunc is not np.add or not isinstance(target, Traced):
            raise NoDerivative(f"{ufunc.__name__}.at has no derivative rule")
        target._write(record(add_at, (target, index, values), {}))

    # ------------------------------------------------------------------ elements
    def __getitem__(self, index: Any) -> Any:
        index = plain_inside(index)
        result = record(get_item, (self, index), {})
        if not is_basic(index):
            return result
        return self._view(
            result,
            lambda base: record(get_item, (base, index), {}),
            lambda base, new: record(set_item, (base, index, new), {}),
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        index = plain_inside(index)
        self._write(_lifted(self.tape, record(set_item, (self, index, value), {})))

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        if self.node is not None:
            raise NoDerivative("an array that depends on the inputs would become a number")
        return float(self.value)

    def __int__(self) -> int:
        return int(float(self))

    def __bool__(self) -> bool:
        return bool(plain(self))

    # ------------------------------------------------------------------ attributes of arrays
    @property
    def shape(self) -> tuple[int, ...]:
        """As that of arrays, like all that follow."""
        shape: tuple[int, ...] = plain(self).shape
        return shape

    @property
    def dtype(self) -> Any:
        return plain(self).dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(plain(self).size)

    @property
    def itemsize(self) -> int:
        return int(plain(self).itemsize)

    @property
    def nbytes(self) -> int:
        return int(plain(self).nbytes)

    @property
    def strides(self) -> Any:
        return plain(self).strides

    @property
    def flags(self) -> Any:
        return plain(self).flags

    @property
    def T(self) -> Any:
        return np.transpose(self)  # type: ignore[arg-type]

    @property
    def real(self) -> Any:
        return self

    def conj(self) -> Any:
        return self

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        if np.dtype(dtype).kind not in "f":
            return plain(self).astype(dtype)
        return self if np.dtype(dtype) == self.dtype and not copy else record(cast, (self, dtype), {})

    def copy(self, order: str = "C") -> Any:
        return Traced(self.tape, self.value, self.node)

    def fill(self, value: Any) -> None:
        self[...] = value

    def reshape(self, *shape: Any) -> Any:
        return np.reshape(self, shape[0] if len(shape) == 1 else shape)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> Any:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return np.transpose(self, order)  # type: ignore[arg-type]

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        result = call(np.sum, (self,), {"axis": axis, "dtype": dtype, "keepdims": keepdims})
        if out is not None:
            out[...] = result
        return result if out is None else out

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _METHODS:
            raise AttributeError(name)
        function = getattr(np, name)
        return lambda *args, **kwargs: call(function, (self, *args), kwargs)


# fmt: off
_METHODS = frozenset((
    "mean", "prod", "max", "min", "cumsum", "cumprod", "swapaxes", "ravel", "squeeze", "repeat",
    "take", "dot", "clip", "any", "all", "argmax", "argmin", "argsort", "nonzero", "trace",
    "diagonal", "var", "std", "round",
))
# fmt: on


def call(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """`function` of traced arrays; of a view, with the array that it shows."""
    composed = COMPOSED.get(function.__name__)
    if composed is not None:
        return composed(*args, **kwargs)
    result = record(function, args, kwargs)
    if function.__name__ in _VIEWS and isinstance(args[0], Traced):
        rest = args[1:]
        return args[0]._view(
            result,
            lambda base: record(function, (base, *rest), kwargs),
            lambda base, new: put_at(base, function(_numbers(base), *rest, **kwargs), new),
        )
    return result


def _numbers(array: Any) -> Any:
    return np.arange(array.size).reshape(array.shape)


def elements(array: Any, numbers: Any) -> Any:
    """The elements with these numbers, in row-major order, and in the shape of `numbers`."""
    return record(get_item, (record(np.reshape, (array, (-1,)), {}), numbers), {})


def put_at(array: Any, numbers: Any, values: Any) -> Any:
    """A copy of `array` with `values` for the elements of these numbers."""
    flat = record(np.reshape, (array, (-1,)), {})
    return record(np.reshape, (record(set_item, (flat, numbers, values), {}), array.shape), {})


def view_of(array: Traced, look: Callable[[Any], Any]) -> Any:
    """`look(array)`, a choice of elements that may be written through, for a `look` that can be applied to
    the elements' numbers.
    """
    result = elements(array, look(_numbers(array)))
    result.is_fixed = True
    return array._view(
        result,
        lambda base: elements(base, look(_numbers(base))),
        lambda base, new: put_at(base, look(_numbers(base)), new),
    )


def _copy_to(target: Any, values: Any, casting: str = "", where: Any = None) -> None:
    if not isinstance(target, Traced):
        raise NoDerivative("a result that depends on the inputs is written into a constant array")
    target[...] = values if where is None else np.where(where, values, target)


def _method_of(ufunc: Any, method: str) -> Any:
    """The function that a method of a ufunc is."""
    if method == "__call__":
        return ufunc
    named = {
        ("add", "reduce"): np.sum,
        ("multiply", "reduce"): np.prod,
        ("maximum", "reduce"): np.max,
        ("minimum", "reduce"): np.min,
        ("add", "accumulate"): np.cumsum,
        ("multiply", "accumulate"): np.cumprod,
        ("add", "reduceat"): add_reduceat,
    }
    if (ufunc.__name__, method) not in named:
        raise NoDerivative(f"{ufunc.__name__}.{method} has no derivative rule")
    return named[ufunc.__name__, method]


def is_basic(index: Any) -> bool:
    """True for an index of numbers and slices, of which NumPy makes a view."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice)) for part in parts
    )


def _lifted(tape: GradientTape, value: Any) -> Any:
    return value if isinstance(value, Traced) and value.tape is tape else Traced(tape, value)


# ---------------------------------------------------------------------- steps that NumPy writes as statements
def _copied(array: Any, values: Any) -> Any:
    """A copy that `values` can be written into."""
    if isinstance(values, Traced) and not (
        isinstance(array, Traced) and array.tape.level >= values.tape.level
    ):
        return Traced(values.tape, array.copy() if not isinstance(array, Traced) else array)
    return array.copy()


def get_item(array: Any, index: Any) -> Any:
    """`array[index]`."""
    return array[index]


def set_item(array: Any, index: Any, values: Any) -> Any:
    """A copy of `array` in which `values` stand at `index`."""
    out = _copied(array, values)
    out[index] = values
    return out


def add_at(array: Any, index: Any, values: Any) -> Any:
    """A copy of `array` with `values` added at `index`, several times where that names a place again."""
    out = _copied(array, values)
    if isinstance(out, Traced):
        np.add.at(out, index, values)  # type: ignore[arg-type]
        return out
    if isinstance(out, np.ndarray):
        np.add.at(out, index, values)
    else:
        out.scatter_add(index, values)  # CuPy's
    return out


def cast(array: Any, dtype: Any) -> Any:
    """`array` in another floating dtype."""
    return array.astype(dtype)


def add_reduceat(array: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
    """`numpy.add.reduceat`."""
    return np.add.reduceat(array, indices, axis=axis, dtype=dtype)
