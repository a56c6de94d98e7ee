"""Python and NumPy asking a Variable for a value, which it has none of while a program is built."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fluidlite.base.errors import ArgumentError
from fluidlite.ir.warned import warn_user

if TYPE_CHECKING:
    from fluidlite.ir.variable import Variable

__all__ = ["array_of", "formatted", "function_on", "items_of", "number_of", "truth", "ufunc_on"]

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


def truth(var: Variable) -> bool:
    """True, as of every object; ArgumentError for the result of a comparison, which is computed only when
    the program runs.

    `x == y` of two Variables is what Python asks when it looks for one in a list: there it warns.
    """
    op = var.op
    if op is None or op.definition is None or not op.definition.condition:
        return True
    compared = [var.block._find_var_recursive(name) for name in op.input_arg_names]
    with_number = any(found is not None and _is_constant(found) for found in compared)
    if op.definition.condition == "equality" and not with_number:
        warn_user(
            f"{var.name!r}, made by op {op.type!r} of {' and '.join(op.input_arg_names)}, is always "
            "True as a Python condition, whatever its values will be, because `==` and `in` add ops "
            "to the program: compare with `is`, or by name"
        )
        return True
    raise ArgumentError(
        f"{var.name!r} has no truth value while the program is built: op {op.type!r} of "
        f"{' and '.join(op.input_arg_names)} is computed when the program runs; choose by layers.cond, "
        f"layers.while_loop or layers.where\n  {op.call_text()}\n  built at {op.where}"
    )


def _is_constant(var: Variable) -> bool:
    """True for what an op fills with a number."""
    op = var.op
    if op is None or op.definition is None or op.definition.random or op.definition.effect:
        return False
    return not any(map(op.reads, op.inputs))


def array_of(var: Variable, dtype: Any = None) -> Any:
    """An array of one object, the Variable: arithmetic on it builds ops. ArgumentError where numbers are
    asked for, which there are none of yet.
    """
    if dtype is None or np.dtype(dtype) == object:
        found = np.empty((), object)
        found[()] = var
        return found
    raise ArgumentError(
        f"variable {var.name!r} ({list(var.shape)}) is not an array: it has values only while the "
        "program runs; use functions of fluid.layers instead of NumPy's, or fetch it"
    )


def number_of(var: Variable) -> Any:
    """ArgumentError: `float(x)`, `int(x)` and `"%f" % x` want a number."""
    raise ArgumentError(
        f"variable {_described(var)} has no value while the program is built: fetch it with "
        f"exe.run(fetch_list=[...]), and convert the array that it returns{_where(var)}"
    )


def formatted(var: Variable, form: str) -> str:
    """The text of the declaration; ArgumentError for a format of numbers, such as `:.4f`."""
    return format(str(var), form) if not form or form[-1] == "s" else number_of(var)


def items_of(var: Variable) -> Any:
    """ArgumentError: the number of items may be unknown until the program runs."""
    raise ArgumentError(
        f"variable {_described(var)} cannot be iterated over or unpacked while the program is built: "
        "fetch it with exe.run(fetch_list=[...]) to iterate over its values; x[0], layers.split and "
        f"layers.unstack give parts of it as Variables{_where(var)}"
    )


def _described(var: Variable) -> str:
    return f"{var.name!r} ({list(var.shape)})"


def _where(var: Variable) -> str:
    """The line that made the variable, where that is known."""
    made = var.declared_at if var.op is None else var.op.where
    return "" if made is None else f"\n  built at {made}"


def function_on(function: Any) -> Any:
    """ArgumentError: NumPy's functions of arrays would take a Variable for an array of one object."""
    raise ArgumentError(
        f"np.{function.__name__} takes arrays, but its argument contains a variable of a program, "
        "which has values only while the program runs; use functions of fluid.layers"
    )


def ufunc_on(ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The op that `np.float32(2) * x` builds; ArgumentError for any other function of NumPy, and for arrays
    of several numbers.
    """
    build = _OPERATORS.get(ufunc.__name__)
    if method == "__call__" and build is not None and not options and all(map(_is_plain, inputs)):
        return build(
            *(item.item() if isinstance(item, (np.generic, np.ndarray)) else item for item in inputs)
        )
    names = [repr(item.name) for item in inputs if hasattr(item, "block")]
    raise ArgumentError(
        f"np.{ufunc.__name__} takes arrays, but {' and '.join(names)} is a variable of a program, "
        "which has values only while the program runs; use functions of fluid.layers, and "
        "layers.assign(array) to add an array to the program"
    )


def _is_plain(item: Any) -> bool:
    return not isinstance(item, np.ndarray) or item.size == 1


def _number(item: Any) -> Any:
    return item.item() if isinstance(item, (np.generic, np.ndarray)) else item
